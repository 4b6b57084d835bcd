//! What a volume does between start and stop, and what it refuses.

use super::{quick, shapes};
use crate::memory::client::Client;
use crate::memory::{Array, geometry, record};
use engine::control::Controller;
use engine::control::message::{Command, Refused};
use engine::control::record::{MemberState, Record, SyncKind};
use engine::event::{Event, VolumeEnd};
use engine::layout::Level;
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, VolumeId};

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
        for disk in &array.shared.borrow().disks {
            let dirty = |record: &Record| record.volumes[0].dirty;
            assert!(!disk.record.as_ref().is_some_and(dirty));
            assert!(disk.unflushed.is_empty(), "{shape:?}");
        }
        let end = match shape.redundant() {
            true => VolumeEnd::Clean,
            false => VolumeEnd::Flushed,
        };
        assert_eq!(ends(&array), [end]);
        assert_eq!(array.write(1, 0, &[0; 512]), Err(Failure::Stopping));
    }
}

/// How volumes ended, as reported.
fn ends(array: &Array) -> Vec<VolumeEnd> {
    let shared = array.shared.borrow();
    let events = shared.events.iter();
    let ends = events.filter_map(|event| match *event {
        Event::VolumeStopped { end, .. } => Some(end),
        _ => None,
    });
    ends.collect()
}

#[test]
fn the_end_says_of_each_volume_how_it_was_left() {
    let redundant = shapes().into_iter().filter(|shape| shape.redundant());
    for shape in redundant {
        let stop = |mut array: Array| {
            assert_eq!(array.command(Command::Stop), Ok(()));
            array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
            ends(&array)
        };
        let mut failed = Array::new(record(shape, 0, None), 2, 5, quick());
        failed.write(0, 0, &[1; 4096]).unwrap();
        for disk in &mut failed.shared.borrow_mut().disks {
            disk.gone = true;
        }
        assert!(failed.write(0, 0, &[2; 4096]).is_err());
        assert_eq!(stop(failed), [VolumeEnd::Failed], "{shape:?}");

        let mut only_read = record(shape, 0, None);
        only_read.volumes[0].read_only = true;
        let only_read = Array::new(only_read, 2, 5, quick());
        assert_eq!(stop(only_read), [VolumeEnd::OnlyRead], "{shape:?}");

        if shape.level != Level::Raid10 {
            continue;
        }
        // The array crashed while a drive was missing.
        let mut doubtful = record(shape, 0, None);
        (
            doubtful.volumes[0].dirty,
            doubtful.volumes[0].then_resync,
            doubtful.volumes[0].slots[0].current,
            doubtful.members[0].state,
        ) = (true, true, false, MemberState::Failed);
        let mut doubtful = Array::new(doubtful, 2, 5, quick());
        doubtful.write(0, 0, &[1; 4096]).unwrap();
        let shared = doubtful.shared.clone();
        assert_eq!(stop(doubtful), [VolumeEnd::StaysDirty], "{shape:?}");
        for disk in &shared.borrow().disks[1..] {
            assert!(disk.unflushed.is_empty(), "{shape:?}");
        }
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
fn a_member_is_failed_with_its_volume_only_by_an_order_that_says_so() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    // A volume that survives the loss of the drive needs no special order.
    assert_eq!(array.command(Command::FailWithVolumes(MemberId(0))), Ok(()));
    fn controller(array: &Array) -> &Controller {
        array.shards[0].engine.controller().unwrap()
    }
    let state = |array: &Array, id: usize| controller(array).wanted().members[id].state;
    assert_eq!(state(&array, 0), MemberState::Failed);
    assert!(!controller(&array).is_failed(VolumeId(0)));
    assert_eq!(array.command(Command::FailWithVolumes(MemberId(2))), Ok(()));
    assert!(controller(&array).is_failed(VolumeId(0)));
    assert!(controller(&array).has_failed(MemberId(2)));
    assert_eq!(
        state(&array, 2),
        MemberState::Active,
        "it starts again with that drive"
    );
    // The volume would survive, but its parity does not match: the lost data could not be computed.
    let unsynced = record(shape, 0, Some(SyncKind::Resync));
    let mut array = Array::new(unsynced, 1, 5, Options::default());
    assert_eq!(
        array.command(Command::FailWithVolumes(MemberId(0))),
        Err(Refused::WouldLoseData)
    );
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
        // A write of one command per drive, one of a part of a row, and one of several rows.
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
