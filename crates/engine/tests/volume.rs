//! The engine against a naive reference: every byte of a volume, all levels, 1 to 4 shards, with members
//! failing under load, rebuilt and scrubbed.

mod memory;

use engine::control::message::{Command, Refused};
use engine::control::record::{MemberState, SyncKind};
use engine::event::Event;
use engine::layout::Level;
use engine::request::{Failure, Operation};
use engine::shard::Options;
use engine::units::{MemberId, Nanos, Slot, VolumeId};
use memory::client::Client;
use memory::{Array, MIB, Random, geometry, record};

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

fn shapes() -> Vec<engine::layout::Geometry> {
    vec![
        geometry(Level::Raid0, 1, 64 << 10, 6),
        geometry(Level::Raid0, 3, 16 << 10, 20),
        geometry(Level::Raid1, 2, 64 << 10, 37),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid10, 6, 8 << 10, 30),
        geometry(Level::Raid5, 3, 4 << 10, 60),
        geometry(Level::Raid5, 4, 64 << 10, 12),
        geometry(Level::Raid5, 5, 16 << 10, 25),
        geometry(Level::Raid5, 3, 256 << 10, 4),
        geometry(Level::Raid5, 3, 1 << 20, 2),
    ]
}

#[test]
fn healthy_volumes_of_every_level_keep_every_byte() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in 1..=4 {
            let mut array = Array::new(record(shape, 0, None), shards, 7 + at as u64, quick());
            let mut client = Client::new(shape.size_bytes, 1000 + at as u64);
            for _ in 0..400 {
                client.step(&mut array, 12);
            }
            client.verify(&mut array);
            if shape.redundant() {
                assert_eq!(array.scrub(false), 0, "{shape:?} {shards} shards");
            }
        }
    }
}

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
            // The new drive alone can stand in for another loss.
            let other = (victim + 1) % shape.members as usize;
            array.shared.borrow_mut().disks[other].gone = true;
            client.verify(&mut array);
        }
    }
}

#[test]
fn initial_sync_runs_under_load_and_makes_parity_valid() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 3] {
            let seed = u64::from(shape.members) * 100 + u64::from(shards);
            let mut array = Array::new(
                record(shape, 0, Some(SyncKind::Initial)),
                shards,
                seed,
                quick(),
            );
            {
                // Drives come with whatever their last owner left.
                let mut shared = array.shared.borrow_mut();
                let mut random = Random(seed);
                for disk in &mut shared.disks {
                    disk.bytes
                        .iter_mut()
                        .for_each(|byte| *byte = random.next() as u8);
                }
            }
            let zeros = vec![0; MIB as usize / 2];
            let mut client = Client::new(shape.size_bytes, seed);
            let mut offset = 0;
            while offset < shape.size_bytes {
                let length = (shape.size_bytes - offset).min(zeros.len() as u64) as usize;
                array.write(0, offset, &zeros[..length]).unwrap();
                offset += length as u64;
            }
            for _ in 0..300 {
                client.step(&mut array, 12);
            }
            client.drain(&mut array);
            array.wait_for_job();
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

#[test]
fn unreadable_blocks_are_reconstructed_and_written_back() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 2] {
            let mut array = Array::new(record(shape, 0, None), shards, 5, quick());
            let mut client = Client::new(shape.size_bytes, 6);
            for _ in 0..200 {
                client.step(&mut array, 8);
            }
            client.drain(&mut array);
            {
                let mut shared = array.shared.borrow_mut();
                for (at, disk) in shared.disks.iter_mut().enumerate() {
                    // One bad block per drive, each in a row of its own.
                    let row = at as u64 % shape.rows();
                    let chunk = u64::from(shape.row_height_bytes(row));
                    let from = shape.member_offset_bytes(row, 0) + (at as u64 * 4096) % chunk;
                    disk.bad.push((from, from + 512));
                }
            }
            client.verify(&mut array);
            for _ in 0..200 {
                client.step(&mut array, 8);
            }
            client.verify(&mut array);
            // What no client read, the scrub finds.
            array.scrub(false);
            let shared = array.shared.borrow();
            assert!(
                shared.disks.iter().all(|disk| disk.bad.is_empty()),
                "{shape:?} {shards}"
            );
            assert!(
                !shared
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::MemberFailed { .. }))
            );
        }
    }
}

#[test]
fn scrub_finds_and_repairs_what_does_not_match() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        let mut array = Array::new(record(shape, 0, None), 2, 5, quick());
        let mut client = Client::new(shape.size_bytes, 6);
        for _ in 0..200 {
            client.step(&mut array, 8);
        }
        client.verify(&mut array);
        let row = shape.rows() / 2;
        let offset = shape.member_offset_bytes(row, 512) as usize;
        // Damage what holds no data of its own: parity, or the second half of a mirror.
        let slot = shape.parity_slot(row).unwrap_or(Slot(1));
        array.shared.borrow_mut().disks[slot.0 as usize].bytes[offset] ^= 0x40;
        assert_eq!(array.scrub(false), 1, "{shape:?}");
        assert_eq!(array.scrub(true), 1);
        assert_eq!(array.scrub(false), 0);
        client.verify(&mut array);
    }
}

#[test]
fn a_drive_is_replaced_while_it_serves() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 3] {
            let mut array = Array::new(record(shape, 1, None), shards, 5, quick());
            let mut client = Client::new(shape.size_bytes, 6);
            for _ in 0..100 {
                client.step(&mut array, 8);
            }
            let to = MemberId(shape.members);
            let order = Command::Replace {
                volume: VolumeId(0),
                slot: Slot(1),
                to,
            };
            assert_eq!(array.command(order), Ok(()));
            for _ in 0..300 {
                client.step(&mut array, 8);
            }
            client.drain(&mut array);
            array.wait_for_job();
            array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

#[test]
fn stop_flushes_marks_clean_and_refuses_what_comes_after() {
    for shape in shapes() {
        let mut array = Array::new(record(shape, 0, None), 2, 5, Options::default());
        let mut client = Client::new(shape.size_bytes, 6);
        for _ in 0..100 {
            client.step(&mut array, 8);
        }
        let dirty = |array: &Array| {
            array
                .shared
                .borrow()
                .disks
                .iter()
                .all(|disk| disk.record.as_ref().is_some_and(|r| r.volumes[0].dirty))
        };
        assert_eq!(dirty(&array), shape.redundant(), "{shape:?}");
        client.drain(&mut array);
        assert_eq!(array.command(Command::Stop), Ok(()));
        array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        if shape.redundant() {
            let shared = array.shared.borrow();
            for disk in &shared.disks {
                assert!(!disk.record.as_ref().unwrap().volumes[0].dirty);
                assert!(disk.unflushed.is_empty());
            }
        }
        assert_eq!(array.write(1, 0, &[0; 512]), Err(Failure::Stopping));
    }
}

#[test]
fn an_idle_volume_becomes_clean_and_dirty_again_before_the_next_write() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 2, 5, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.wait_ms(1000);
    assert!(
        array
            .shared
            .borrow()
            .disks
            .iter()
            .all(|disk| !disk.record.as_ref().unwrap().volumes[0].dirty)
    );
    // Metadata does not become durable: the write must not reach any member.
    array.shared.borrow_mut().hold_persists = true;
    let before: Vec<Vec<u8>> = array
        .shared
        .borrow()
        .disks
        .iter()
        .map(|disk| disk.bytes.clone())
        .collect();
    let buffer = array.allocate(4096);
    array.fill(buffer, &[9; 4096]);
    let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
    array.wait_ms(500);
    assert!(array.take_completion(tag).is_none());
    assert!(
        array
            .shared
            .borrow()
            .disks
            .iter()
            .zip(&before)
            .all(|(disk, before)| disk.bytes == *before)
    );
    array.release_persists();
    assert_eq!(array.finish(tag), Ok(()));
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
        // Half of the survivors have it: not enough.
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

#[test]
fn a_read_only_array_leaves_no_trace() {
    let redundant = shapes().into_iter().filter(|shape| shape.redundant());
    for (shape, crashed) in redundant.flat_map(|shape| [(shape, true), (shape, false)]) {
        let mut record = record(shape, 1, crashed.then_some(SyncKind::Resync));
        record.volumes[0].read_only = true;
        record.volumes[0].dirty = crashed;
        let mut array = Array::new(record, 2, 5, quick());
        let bad = shape.member_offset_bytes(0, 0);
        if !crashed {
            array.shared.borrow_mut().disks[0]
                .bad
                .push((bad, bad + 512));
        }
        let all = shape.size_bytes as u32;
        assert_eq!(array.read(0, 0, all), Ok(vec![0; all as usize]));
        assert_eq!(array.write(1, 0, &[1; 512]), Err(Failure::ReadOnly));
        let scrub = Command::Scrub {
            volume: VolumeId(0),
            repair: false,
        };
        assert_eq!(array.command(scrub), Err(Refused::Busy));
        array.shared.borrow_mut().disks[1].gone = true;
        if !crashed {
            array.shared.borrow_mut().disks[0].bad.clear();
            assert_eq!(array.read(1, 0, all), Ok(vec![0; all as usize]));
        }
        array.wait_ms(200);
        assert_eq!(array.command(Command::Stop), Ok(()));
        array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        for disk in &array.shared.borrow().disks {
            assert!(disk.record.is_none(), "{shape:?}: metadata was written");
            assert!(disk.unflushed.is_empty(), "{shape:?}: data was written");
        }
    }
}

#[test]
fn what_would_lose_data_is_refused() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    assert_eq!(
        array.command(Command::Remove(MemberId(0))),
        Err(Refused::WouldLoseData)
    );
    assert_eq!(
        array.command(Command::Fail(MemberId(9))),
        Err(Refused::NoSuch)
    );
    assert_eq!(array.command(Command::Fail(MemberId(0))), Ok(()));
    assert_eq!(
        array.command(Command::Fail(MemberId(1))),
        Err(Refused::WouldLoseData)
    );
    let scrub = Command::Scrub {
        volume: VolumeId(0),
        repair: false,
    };
    assert_eq!(array.command(scrub), Err(Refused::Busy));
}

#[test]
fn misuse_is_answered_and_touches_nothing() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let buffer = array.allocate(65536);
    for (offset, length) in [
        (0, 0),
        (1, 512),
        (0, 511),
        (shape.size_bytes, 512),
        (u64::MAX - 511, 512),
    ] {
        let tag = array.submit(0, Operation::Read, offset, length, buffer);
        assert_eq!(array.finish(tag), Err(Failure::Misuse), "{offset}+{length}");
    }
    let tag = array.submit_to(0, VolumeId(3), Operation::Read, 0, 512, buffer, false);
    assert_eq!(array.finish(tag), Err(Failure::Misuse));
}

#[test]
fn a_request_counts_once_however_many_shards_work_on_it() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 4, 5, quick());
    let length = shape.row_bytes() as usize;
    for request in 0..8 {
        let offset = 4096 + request as u64 * 16384;
        array.write(request % 4, offset, &vec![1; length]).unwrap();
        array.read(request % 4, offset, length as u32).unwrap();
    }
    let sum = |of: fn(&engine::stats::Stats) -> u64| {
        array
            .shards
            .iter()
            .map(|shard| of(shard.engine.stats()))
            .sum::<u64>()
    };
    assert!(sum(|stats| stats.forwards) > 0);
    assert_eq!(
        (sum(|stats| stats.writes), sum(|stats| stats.reads)),
        (8, 8)
    );
    assert_eq!(sum(|stats| stats.write_bytes), 8 * length as u64);
    assert_eq!(sum(|stats| stats.read_bytes), 8 * length as u64);
}

#[test]
fn sequential_small_writes_become_full_stripes() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 40);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    array.write(0, 0, &[0; 512]).unwrap();
    let before = *array.shards[0].engine.stats();
    let mut random = Random(3);
    let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
    let (mut next, mut flying) = (0u64, Vec::new());
    while next < shape.size_bytes || !flying.is_empty() {
        while flying.len() < 64 && next < shape.size_bytes {
            let buffer = array.allocate(4096);
            array.fill(buffer, &content[next as usize..next as usize + 4096]);
            flying.push(array.submit(0, Operation::Write, next, 4096, buffer));
            next += 4096;
        }
        array.turn();
        flying.retain(|&tag| array.take_completion(tag).is_none());
    }
    let stats = *array.shards[0].engine.stats();
    let ratio =
        (stats.member_write_bytes - before.member_write_bytes) as f64 / shape.size_bytes as f64;
    println!("member bytes written per client byte: {ratio:.3}");
    assert!(ratio < 2.0, "{ratio}");
    assert_eq!(array.read(0, 0, shape.size_bytes as u32).unwrap(), content);
}

#[test]
fn a_failed_volume_can_be_stopped() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 2] {
            for seed in 0..6 {
                let mut array =
                    Array::new(record(shape, 0, None), shards, seed, Options::default());
                let mut flying = Vec::new();
                let buffer = array.allocate(64 << 10);
                for step in 0..120u64 {
                    let offset = (step * 7 * 4096) % (shape.size_bytes - (64 << 10)) / 4096 * 4096;
                    let operation = if step % 3 == 0 {
                        Operation::Read
                    } else {
                        Operation::Write
                    };
                    flying.push(array.submit(
                        step as usize % shards as usize,
                        operation,
                        offset,
                        40 << 10,
                        buffer,
                    ));
                    match step {
                        30 => array.shared.borrow_mut().disks[0].gone = true,
                        60 => array.shared.borrow_mut().disks[1].gone = true,
                        _ => {}
                    }
                    array.turn();
                }
                array.run_until(|array| {
                    flying.retain(|&tag| array.take_completion(tag).is_none());
                    flying.is_empty()
                });
                assert_eq!(array.command(Command::Stop), Ok(()));
                array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
            }
        }
    }
}

#[test]
fn what_is_written_with_fua_is_durable_when_it_is_acknowledged() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let shape = geometry(level, members, 16 << 10, 24);
        // What one command per drive carries out, a piece of a row, and several rows.
        for length in [4096, 40 << 10, 200 << 10] {
            let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
            let buffer = array.allocate(length);
            let operation = Operation::Write;
            let tag = array.submit_to(0, VolumeId(0), operation, 0, length as u32, buffer, true);
            assert_eq!(array.finish(tag), Ok(()));
            for (drive, disk) in array.shared.borrow().disks.iter().enumerate() {
                let unflushed = &disk.unflushed;
                assert!(unflushed.is_empty(), "{level}, {length}, drive {drive}");
            }
        }
    }
}
