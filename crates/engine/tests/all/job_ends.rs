//! The last flush of a background job: it fails on a drive, or its answer comes after another job has begun. And what
//! is reported and recorded of a job that ends incomplete.

use crate::memory::client::Client;
use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::{Command, Message};
use engine::control::record::{MemberState, SyncKind};
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::limits::BAD_BLOCK_ENTRIES_MAX;
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, ShardId, Slot, VolumeId};

const VOLUME: VolumeId = VolumeId(0);

fn options() -> Options {
    Options {
        auto_rebuild: true,
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

fn has_ended(array: &Array, wanted: JobName) -> bool {
    array.has_event(
        |event| matches!(event, Event::JobEnded { job, complete: true, .. } if *job == wanted),
    )
}

/// The other drives have everything: the sync ends without the drive, and a spare takes its place.
#[test]
fn a_sync_whose_last_flush_a_drive_fails_ends_and_a_rebuild_follows() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        for (kind, name) in [
            (SyncKind::Initial, JobName::InitialSync),
            (SyncKind::Resync, JobName::Resync),
        ] {
            for member in 0..members {
                let shape = geometry(level, members, 16 << 10, 24);
                let mut array = Array::new(record(shape, 1, Some(kind)), 1, 7, options());
                array.shared.borrow_mut().disks[usize::from(member)].flushes_fail = true;
                array.run_until(|array| has_ended(array, JobName::Rebuild));
                assert!(has_ended(&array, name), "{level} {name:?} member {member}");
                let mut client = Client::new(shape.size_bytes, 11);
                (0..40).for_each(|_| client.step(&mut array, 8));
                client.drain(&mut array);
                client.verify(&mut array);
                assert_eq!(array.scrub(false), 0);
            }
        }
    }
}

/// A scrub is cancelled while it waits for its last flush, and a replacement begins. The flush's answer must not count
/// for the replacement.
#[test]
fn a_flush_for_a_job_that_is_over_does_not_end_the_next_one() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 48);
    let mut array = Array::new(record(shape, 1, None), 1, 9, options());
    let mut client = Client::new(shape.size_bytes, 12);
    (0..200).for_each(|_| client.step(&mut array, 16));
    client.drain(&mut array);
    let repair = true;
    array
        .command(Command::Scrub {
            volume: VOLUME,
            repair,
        })
        .unwrap();
    array.run_until(|array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes == job.total_bytes)
    });
    array.hang(0);
    array.command(Command::CancelJob(VOLUME)).unwrap();
    array.command(Command::Rate(4 << 20)).unwrap();
    array
        .command(Command::Replace {
            volume: VOLUME,
            slot: Slot(1),
            to: MemberId(4),
        })
        .unwrap();
    array.run_until(|array| array.has_event(|event| *event == copying()));
    array.unhang(0);
    array.run_until(|array| has_ended(array, JobName::Replace));
    array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
    client.verify(&mut array);
    assert_eq!(array.scrub(false), 0);
}

/// Another shard has seen the new drive fail, and its message about that is delayed: the job waits for the message and
/// does not repeat the flush over and over.
#[test]
fn a_flush_that_fails_by_what_another_shard_has_seen_waits_for_the_message() {
    let shape = geometry(Level::Raid1, 2, 16 << 10, 256);
    let mut array = Array::new(record(shape, 1, None), 2, 5, options());
    let of_second = |row: &u64| shape.owner(*row, 2) == ShardId(1);
    let row = (0..shape.rows()).find(of_second).unwrap();
    let offset = row * u64::from(shape.chunk_bytes);
    array.command(Command::Fail(MemberId(0))).unwrap();
    array.write(1, offset, &[7; 4096]).unwrap();
    array.run_until(|array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes == job.total_bytes)
    });
    array.shared.borrow_mut().disks[2].gone = true;
    let buffer = array.allocate(4096);
    array.fill(buffer, &[8; 4096]);
    let tag = array.submit(1, Operation::Write, offset, 4096, buffer);
    let says_so = |message: &Message| matches!(message, Message::MemberFailed { .. });
    while !array.shared.borrow().mail[0].iter().any(says_so) {
        array.turn_alone(1);
    }
    for _ in 0..100 {
        array.turn_without_mail(0);
    }
    assert_eq!(array.finish(tag), Ok(()));
    assert!(!has_ended(&array, JobName::Rebuild));
    assert_eq!(array.read(0, offset, 4096).unwrap(), [8; 4096]);
}

/// What the last flush made durable is no longer redundant, and the record stays as it was when the volume was lost.
#[test]
fn a_sync_whose_volume_is_lost_under_its_last_flush_is_not_complete() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let shelf = record(shape, 0, Some(SyncKind::Initial));
    let mut array = Array::new(shelf, 1, 7, options());
    array.write(0, 0, &[7; 48 << 10]).unwrap();
    array.run_until(|array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes == job.total_bytes)
    });
    array.shared.borrow_mut().disks[2].hung = true;
    (0..50).for_each(|_| array.turn_alone(0));
    for drive in 0..2 {
        array.shared.borrow_mut().disks[drive].gone = true;
    }
    for row in 0..4 {
        let buffer = array.allocate(48 << 10);
        let offset = row * shape.row_bytes();
        array.submit(0, Operation::Read, offset, 48 << 10, buffer);
    }
    array.run_until(|array| array.has_event(|event| *event == Event::VolumeFailed(VOLUME)));
    let ended = |event: &Event| matches!(event, Event::JobEnded { .. });
    assert!(!array.has_event(ended), "the flush is not under way");
    array.shared.borrow_mut().disks[2].hung = false;
    array.run_until(|array| array.has_event(ended));
    array.wait_ms(1000);
    assert!(!has_ended(&array, JobName::InitialSync));
    let shared = array.shared.borrow();
    let kept = shared.disks[3].record.as_ref().unwrap();
    assert!(kept.volumes[0].sync.is_some(), "on record it is complete");
}

fn copying() -> Event {
    Event::JobStarted {
        volume: VOLUME,
        job: JobName::Replace,
        slot: Some(Slot(1)),
        member: Some(MemberId(4)),
    }
}

/// A slow rebuild that has done some rows.
fn slow_rebuild(shape: Geometry) -> Array {
    let slow = Options {
        rate_bytes_per_s: 512 << 10,
        ..options()
    };
    let mut array = Array::new(record(shape, 1, None), 1, 7, slow);
    array.write(0, 0, &[7; 48 << 10]).unwrap();
    array.command(Command::Fail(MemberId(0))).unwrap();
    array.run_until(|array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes >= 64 << 10)
    });
    array
}

/// The next row cannot even be planned.
#[test]
fn a_rebuild_whose_volume_is_lost_ends_and_tells_of_a_failure() {
    let mut array = slow_rebuild(geometry(Level::Raid5, 4, 16 << 10, 64));
    array.shared.borrow_mut().disks[1].gone = true;
    let buffer = array.allocate(48 << 10);
    let tag = array.submit(0, Operation::Read, 0, 48 << 10, buffer);
    array.run_until(|array| array.has_event(|event| *event == Event::VolumeFailed(VOLUME)));
    let _ = array.finish(tag);
    let ended = |array: &Array| {
        let shared = array.shared.borrow();
        shared.events.iter().find_map(|event| match event {
            Event::JobEnded {
                complete, failures, ..
            } => Some((*complete, *failures)),
            _ => None,
        })
    };
    assert_eq!(ended(&array), None);
    array.run_until(|array| ended(array).is_some());
    assert_eq!(ended(&array), Some((false, 1)));
}

/// The rows before the first one that cannot be synchronised need not be synchronised again after a restart.
#[test]
fn a_sync_that_does_not_get_to_its_end_has_its_last_checkpoint_on_record() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let shelf = record(shape, 0, Some(SyncKind::Initial));
    let mut array = Array::new(shelf, 2, 7, options());
    let row = 5;
    let data = shape.data_slots(row, 0).iter().next().unwrap();
    let from = shape.member_offset_bytes(row, 0);
    array.shared.borrow_mut().disks[usize::from(data.0)]
        .bad
        .push((from, from + 512));
    let ended = |event: &Event| matches!(event, Event::JobEnded { .. });
    array.run_until(|array| array.has_event(ended));
    assert!(!has_ended(&array, JobName::InitialSync));
    array.wait_ms(100);
    let shared = array.shared.borrow();
    for disk in &shared.disks {
        let own = &disk.record.as_ref().unwrap().volumes[0];
        assert_eq!(own.sync.unwrap().done_bytes, row * (16 << 10));
    }
}

/// A block of the source cannot be read, and the bad-block log has no room for it.
#[test]
fn a_drive_whose_filling_was_given_up_is_out_of_its_slot_and_failed_on_record() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let mut shelf = record(shape, 1, None);
    shelf.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize);
    let mut array = Array::new(shelf, 1, 7, options());
    array.write(0, 0, &[7; 48 << 10]).unwrap();
    let from = shape.member_offset_bytes(4, 0);
    array.shared.borrow_mut().disks[2]
        .bad
        .push((from, from + 512));
    array.command(Command::Fail(MemberId(0))).unwrap();
    let ended = |event: &Event| matches!(event, Event::JobEnded { .. });
    array.run_until(|array| array.has_event(ended));
    assert!(!has_ended(&array, JobName::Rebuild));
    let recorded = |event: &Event| matches!(event, Event::BadBlocksRecorded(_));
    assert!(!array.has_event(recorded), "there was no room");
    array.wait_ms(100);
    let shared = array.shared.borrow();
    for drive in 1..4 {
        let own = shared.disks[drive].record.as_ref().unwrap();
        assert_eq!(own.volumes[0].slots[0].member, None);
        assert_eq!(own.members[4].state, MemberState::Failed);
    }
}

/// Another shard has seen the new drive fail, and its message about that is delayed. What the drive has been given may
/// be lost with its cache, and the drive may come back after a crash.
#[test]
fn no_checkpoint_is_recorded_whose_flush_the_new_drive_has_missed() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 256);
    let slow = Options {
        rate_bytes_per_s: 512 << 10,
        clean_after: Nanos(600 * Nanos::SECOND.0),
        ..options()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, slow);
    array.write(1, 0, &[7; 4096]).unwrap();
    array.command(Command::Fail(MemberId(0))).unwrap();
    array.run_until(|array| {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes >= 512 << 10)
    });
    let pause = Command::Pause {
        volume: VOLUME,
        paused: true,
    };
    array.command(pause).unwrap();
    array.shared.borrow_mut().disks[4].gone = true;
    let of_second = |row: &u64| shape.owner(*row, 2) == ShardId(1);
    let row = (0..32).find(of_second).unwrap();
    let buffer = array.allocate(4096);
    let offset = row * shape.row_bytes();
    array.submit(1, Operation::Write, offset, 4096, buffer);
    let says_so = |message: &Message| matches!(message, Message::MemberFailed { .. });
    while !array.shared.borrow().mail[0].iter().any(says_so) {
        array.turn_alone(1);
    }
    let flushes = |array: &Array| array.shards[0].engine.stats().plan_steps;
    let before = flushes(&array);
    for _ in 0..400 {
        array.shared.borrow_mut().now += 20 * Nanos::MILLISECOND.0;
        array.turn_without_mail(0);
    }
    assert!(flushes(&array) > before, "no checkpoint was due");
    let shared = array.shared.borrow();
    for (_, record) in &shared.persists {
        let done_bytes = record.volumes[0].sync.map_or(0, |sync| sync.done_bytes);
        assert_eq!(done_bytes, 0);
    }
}

/// The volume was degraded when it crashed: its other mirrors may differ, too.
#[test]
fn after_the_rebuild_what_a_crash_has_put_in_doubt_is_resynced() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut crashed = record(shape, 1, None);
    crashed.members[1].state = MemberState::Absent;
    let volume = &mut crashed.volumes[0];
    (volume.slots[1].member, volume.slots[1].current) = (None, false);
    (volume.dirty, volume.then_resync) = (true, true);
    let mut array = Array::new(crashed, 1, 7, options());
    for (drive, disk) in (0u8..).zip(&mut array.shared.borrow_mut().disks) {
        disk.bytes.fill(0xA0 + drive);
    }
    array.run_until(|array| has_ended(array, JobName::Rebuild));
    array.run_until(|array| has_ended(array, JobName::Resync));
    array.wait_ms(100);
    let extent = shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
    let shared = array.shared.borrow();
    let of = |drive: usize| &shared.disks[drive].bytes[extent.clone()];
    assert!(of(2) == of(3) && of(0) == of(4));
    let own = &shared.disks[2].record.as_ref().unwrap().volumes[0];
    assert!(own.sync.is_none() && !own.then_resync);
}
