//! Members are lost.

use super::{quick, shapes};
use crate::memory::client::Client;
use crate::memory::{Array, geometry, record};
use engine::control::record::MemberState;
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Nanos, VolumeId};

#[test]
fn a_member_dies_under_load_and_a_spare_takes_its_place() {
    for (at, shape) in shapes()
        .into_iter()
        .enumerate()
        .filter(|(_, shape)| shape.redundant())
    {
        for shards in 1..=4 {
            let seed = 31 * at as u64 + u64::from(shards);
            let mut array = Array::new(record(shape, 1, None), shards, seed, quick());
            let mut client = Client::new(shape.size_bytes, seed);
            for _ in 0..150 {
                client.step(&mut array, 12);
            }
            let victim = client.random.below(u64::from(shape.members)) as usize;
            array.shared.borrow_mut().disks[victim].gone = true;
            for _ in 0..600 {
                client.step(&mut array, 12);
            }
            client.drain(&mut array);
            array.wait_for_job();
            client.verify(&mut array);
            assert!(array.has_event(
                |event| matches!(event, Event::FailureRecorded(m) if m.0 as usize == victim)
            ));
            let state = array.shards[0]
                .engine
                .controller()
                .unwrap()
                .wanted()
                .clone();
            assert_eq!(state.members[victim].state, MemberState::Failed);
            assert_eq!(
                state.volumes[0].slots[victim].member,
                Some(MemberId(shape.members))
            );
            assert!(state.volumes[0].slots[victim].current && state.volumes[0].sync.is_none());
            assert_eq!(array.scrub(false), 0, "{shape:?} {shards} shards");
            // With the new drive the volume survives another loss.
            let other = (victim + 1) % shape.members as usize;
            array.shared.borrow_mut().disks[other].gone = true;
            client.verify(&mut array);
        }
    }
}

#[test]
fn a_write_that_a_member_missed_waits_for_the_failed_mark() {
    for shards in 1..=3 {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
        let mut array = Array::new(record(shape, 0, None), shards, 5, Options::default());
        array.write(0, 0, &[1; 65536]).unwrap();
        array.shared.borrow_mut().disks[2].gone = true;
        array.shared.borrow_mut().hold_persists = true;
        let shard = shards as usize - 1;
        let buffer = array.allocate(192 << 10);
        array.fill(buffer, &[7; 192 << 10]);
        let first = array.submit(shard, Operation::Write, 0, 192 << 10, buffer);
        array.wait_ms(300);
        // Planned when the failure was already known: it misses the member too.
        let second = array.submit(0, Operation::Write, 192 << 10, 192 << 10, buffer);
        array.wait_ms(300);
        assert!(
            array.take_completion(first).is_none(),
            "acknowledged before the failed mark is durable"
        );
        assert!(
            array.take_completion(second).is_none(),
            "acknowledged before the failed mark is durable"
        );
        // The data are on the other drives, although the write is not acknowledged.
        assert!(
            array
                .read(0, 0, 4096)
                .unwrap()
                .iter()
                .all(|&byte| byte == 7),
            "readable meanwhile"
        );
        array.release_persists();
        assert_eq!(array.finish(first), Ok(()));
        assert_eq!(array.finish(second), Ok(()));
        let shared = array.shared.borrow();
        for at in [0, 1, 3] {
            let record = shared.disks[at].record.as_ref().unwrap();
            assert_eq!(record.members[2].state, MemberState::Failed);
        }
    }
}

#[test]
fn two_lost_members_give_errors_and_never_wrong_bytes() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let content: Vec<u8> = (0..shape.size_bytes).map(|at| (at / 512) as u8).collect();
    array.write(0, 0, &content).unwrap();
    array.shared.borrow_mut().disks[0].gone = true;
    assert_eq!(array.read(0, 0, 65536).unwrap(), content[..65536]);
    array.shared.borrow_mut().disks[1].gone = true;
    for offset in (0..shape.size_bytes).step_by(16 << 10) {
        match array.read(0, offset, 16 << 10) {
            Ok(bytes) => assert_eq!(
                bytes,
                content[offset as usize..offset as usize + (16 << 10)]
            ),
            Err(failure) => assert!(matches!(failure, Failure::Unrecoverable { .. })),
        }
    }
    assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
    assert!(matches!(
        array.write(0, 0, &[3; 4096]),
        Err(Failure::Unrecoverable { .. })
    ));
    // The second loss is not recorded: when the cable is back, the array can be started again.
    assert_eq!(
        array.shards[0]
            .engine
            .controller()
            .unwrap()
            .wanted()
            .members[1]
            .state,
        MemberState::Active
    );
}

#[test]
fn writes_in_flight_are_answered_when_the_last_member_fails() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    for seed in 0..40 {
        let mut array = Array::new(record(shape, 0, None), 1, seed, Options::default());
        array.write(0, 0, &[1; 512]).unwrap();
        let buffer = array.allocate(4096);
        let submit =
            |array: &mut Array, at: u64| array.submit(0, Operation::Write, at * 4096, 4096, buffer);
        let mut tags: Vec<u64> = (0..16).map(|at| submit(&mut array, at)).collect();
        array.shared.borrow_mut().disks[0].gone = true;
        (0..seed).for_each(|_| _ = array.turn());
        tags.extend((16..32).map(|at| submit(&mut array, at)));
        (0..seed / 2).for_each(|_| _ = array.turn());
        array.shared.borrow_mut().disks[1].gone = true;
        for tag in tags {
            let answer = array.finish(tag);
            assert!(matches!(
                answer,
                Ok(()) | Err(Failure::Unrecoverable { .. })
            ));
        }
    }
}

#[test]
fn a_hung_member_is_failed_at_its_deadline() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let options = Options {
        member_deadline: Nanos(Nanos::SECOND.0),
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 0, None), 1, 5, options);
    array.write(0, 0, &[5; 8192]).unwrap();
    array.shared.borrow_mut().disks[1].hung = true;
    let buffer = array.allocate(8192);
    array.fill(buffer, &[6; 8192]);
    let tag = array.submit(0, Operation::Write, 0, 8192, buffer);
    array.wait_ms(500);
    assert!(array.take_completion(tag).is_none());
    array.wait_ms(1500);
    assert_eq!(array.finish(tag), Ok(()));
    assert!(array.has_event(|event| *event == Event::MemberOverdue(MemberId(1))));
    assert_eq!(array.read(0, 0, 8192).unwrap(), [6; 8192]);
}
