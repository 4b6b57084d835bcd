//! Two volumes, checkpoints, restarts, rates, and arrays that may not be written to.

use super::shared::{by_hand, check, fill, two_volumes};
use crate::memory::{Array, geometry, record};
use engine::control::message::{Command, Refused};
use engine::control::record::{MemberState, SlotRecord, SyncKind, SyncRecord};
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::options::Options;
use engine::policy::MemberKind;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Slot, VolumeId};

#[test]
fn two_volumes_lose_a_member_together_and_are_rebuilt_one_after_the_other() {
    for shards in 1..=3 {
        for (first, second) in [(Level::Raid5, Level::Raid10), (Level::Raid10, Level::Raid5)] {
            let mut array = Array::new(two_volumes(first, second), shards, 3, Options::default());
            let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
            array.shared.borrow_mut().disks[2].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
            array.run_until(|array| {
                let ended = |volume| {
                    array.has_event(|event| {
                        matches!(event, Event::JobEnded { volume: of, job: JobName::Rebuild, complete: true, .. } if *of == VolumeId(volume))
                    })
                };
                ended(0) && ended(1)
            });
            let shared = array.shared.clone();
            for (_, record) in &shared.borrow().persists {
                let syncs = record
                    .volumes
                    .iter()
                    .filter(|volume| volume.sync.is_some())
                    .count();
                assert!(syncs <= 1, "{syncs} volumes are synchronised at once");
            }
            shared.borrow_mut().disks[3].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
        }
    }
}

#[test]
fn a_raid_0_beside_a_raid_5_fails_alone() {
    let mut array = Array::new(
        two_volumes(Level::Raid0, Level::Raid5),
        2,
        3,
        Options::default(),
    );
    let (_, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.shared.borrow_mut().disks[0].gone = true;
    assert!(matches!(
        array.read(0, 0, 16 << 10),
        Err(Failure::Unrecoverable { .. })
    ));
    check(&mut array, 1, &two);
    assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
    assert!(!array.has_event(|event| *event == Event::VolumeFailed(VolumeId(1))));
}

/// What was in the drive's strips is nowhere else: a write there is answered with an error, whether or not the operator
/// has removed the drive from the container.
#[test]
fn a_failed_raid_0_acknowledges_nothing_for_a_drive_that_was_removed() {
    for shards in [1, 3] {
        let record = two_volumes(Level::Raid0, Level::Raid5);
        let mut array = Array::new(record, shards, 3, by_hand());
        let two = fill(&mut array, 1, 2);
        array.shared.borrow_mut().disks[0].gone = true;
        let write = |array: &mut Array, offset_bytes: u64, length_bytes: u32| {
            let buffer = array.allocate(u64::from(length_bytes));
            let tag = array.submit(0, Operation::Write, offset_bytes, length_bytes, buffer);
            array.finish(tag)
        };
        let is_lost = |result| matches!(result, Err(Failure::Unrecoverable { .. }));
        assert!(is_lost(write(&mut array, 0, 4096)));
        check(&mut array, 1, &two);
        array.run_until(|array| {
            array.has_event(|event| *event == Event::FailureRecorded(MemberId(0)))
        });
        array.command(Command::Remove(MemberId(0))).unwrap();
        array.wait_ms(100);
        assert!(is_lost(write(&mut array, 0, 4096)));
        assert!(is_lost(write(&mut array, 8192, 64 << 10)));
        assert!(is_lost(write(&mut array, 3 * (16 << 10), 32 << 10)));
        check(&mut array, 1, &two);
        let controller = array.shards[0].engine.controller().unwrap();
        let slots: Vec<Option<MemberId>> = controller
            .wanted()
            .volumes
            .iter()
            .map(|volume| volume.slots[0].member)
            .collect();
        assert_eq!(
            slots,
            [Some(MemberId(0)), None],
            "the drive that volume 0 needs"
        );
    }
}

/// In a volume that cannot serve without the drive, the drive stays current while it is away. In a volume whose other
/// copies are written to meanwhile, it is outdated.
#[test]
fn a_loss_is_recorded_where_something_is_written_without_the_drive() {
    for (first, second) in [(Level::Raid1, Level::Raid10), (Level::Raid10, Level::Raid1)] {
        let options = by_hand();
        let mut array = Array::new(two_volumes(first, second), 2, 3, options);
        let pairs = u8::from(second == Level::Raid10);
        let (_, mirror) = (fill(&mut array, pairs, 1), fill(&mut array, 1 - pairs, 2));
        for drive in 0..3 {
            array.shared.borrow_mut().disks[drive].gone = true;
            check(&mut array, 1 - pairs, &mirror);
            let recorded = Event::FailureRecorded(MemberId(drive as u8));
            let size = mirror.len() as u32;
            let buffer = array.allocate(u64::from(size));
            array.fill(buffer, &mirror);
            let volume = VolumeId(1 - pairs);
            let tag = array.submit_to(0, volume, Operation::Write, 0, size, buffer, false);
            assert_eq!(array.finish(tag), Ok(()));
            array.run_until(|array| array.has_event(|event| *event == recorded));
        }
        let shared = array.shared.borrow();
        let record = shared.disks[3].record.as_ref().unwrap();
        let current = |volume: u8| {
            record.volumes[usize::from(volume)]
                .slots
                .iter()
                .map(|slot| slot.current)
        };
        assert_eq!(
            current(1 - pairs).collect::<Vec<_>>(),
            [false, false, false, true]
        );
        assert_eq!(
            current(pairs).collect::<Vec<_>>(),
            [false, true, false, true]
        );
    }
}

/// A volume that is not started, beside one that is: nothing is written to it, nothing waits for it, and it does not
/// change on record.
#[test]
fn a_volume_that_is_not_started_is_left_alone() {
    for (level, slots) in [(Level::Raid0, 3), (Level::Raid5, 4), (Level::Raid10, 4)] {
        let mut record = two_volumes(level, Level::Raid5);
        record.volumes[0].not_started = true;
        record.volumes[0].dirty = level != Level::Raid0;
        if slots == 3 {
            record.volumes[0].slots[3] = SlotRecord {
                member: None,
                current: false,
            };
            record.volumes[1].slots[3] = record.volumes[0].slots[3];
        }
        let before = record.volumes[0].clone();
        let mut array = Array::new(record, 2, 3, Options::default());
        let extent = before.geometry.start_bytes as usize
            ..(before.geometry.start_bytes + before.geometry.component_bytes) as usize;
        let two = fill(&mut array, 1, 2);
        if slots == 4 {
            array.shared.borrow_mut().disks[1].gone = true;
        }
        check(&mut array, 1, &two);
        let filled = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    volume: VolumeId(1),
                    complete: true,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(filled));
        check(&mut array, 1, &two);
        for operation in [Operation::Read, Operation::Write] {
            let buffer = array.allocate(4096);
            let tag = array.submit_to(1, VolumeId(0), operation, 0, 4096, buffer, false);
            assert!(array.finish(tag).is_err(), "{level:?}: {operation:?}");
        }
        assert_eq!(array.command(Command::Stop), Ok(()));
        array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        let shared = array.shared.borrow();
        for disk in shared.disks.iter().filter(|disk| !disk.gone) {
            assert!(disk.bytes[extent.clone()].iter().all(|&byte| byte == 0));
            let record = disk.record.as_ref().unwrap();
            assert_eq!(record.volumes[0], before, "{level:?}");
            assert!(!record.volumes[1].dirty);
        }
    }
}

#[test]
fn a_rebuild_goes_on_at_its_checkpoint_after_a_restart() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 200);
    let options = Options {
        rate_bytes_per_s: 300 << 10,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, options);
    let content = fill(&mut array, 0, 9);
    array.command(Command::Fail(MemberId(1))).unwrap();
    // At this rate the rebuild takes over ten seconds; a checkpoint is due every five.
    let checkpoint = |array: &Array| {
        let shared = array.shared.borrow();
        shared.disks[0]
            .record
            .as_ref()
            .and_then(|record| record.volumes[0].sync)
    };
    for _ in 0..400 {
        array.wait_ms(20);
        if checkpoint(&array).is_some_and(|sync| sync.done_bytes > 0) {
            break;
        }
    }
    let sync = checkpoint(&array).expect("a rebuild is on record");
    assert!(
        sync.done_bytes > 0 && sync.done_bytes < shape.component_bytes,
        "{sync:?}"
    );
    assert_eq!(sync.kind, SyncKind::Rebuild(Slot(1)));
    let mut shared = array.shared.borrow_mut();
    let saved = shared.disks[0].record.clone().unwrap();
    let mut disks = std::mem::take(&mut shared.disks);
    drop(shared);
    // Behind the recorded checkpoint the new drive may hold anything.
    let from = (shape.start_bytes + sync.done_bytes) as usize;
    disks[4].bytes[from..].fill(0xAA);
    let mut again = Array::over(saved, disks, 1, 6, Options::default(), shape);
    check(&mut again, 0, &content);
    again.wait_for_job();
    again.shared.borrow_mut().disks[3].gone = true;
    check(&mut again, 0, &content);
}

#[test]
fn progress_is_recorded_only_after_the_new_drive_is_flushed() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 40);
    let options = Options {
        rate_bytes_per_s: 4 << 20,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 1, None), 1, 5, options);
    array.command(Command::Fail(MemberId(0))).unwrap();
    let mut seen = 0;
    for _ in 0..800 {
        array.wait_ms(20);
        let shared = array.shared.borrow();
        let recorded = shared
            .persists
            .last()
            .and_then(|(_, record)| record.volumes[0].sync);
        if let Some(SyncRecord { done_bytes, .. }) = recorded.filter(|sync| sync.done_bytes > seen)
        {
            seen = done_bytes;
        }
    }
    assert!(seen > 0, "checkpoints were recorded");
    assert_eq!(array.shared.borrow().early_checkpoints, 0);
    let state = array.shards[0]
        .engine
        .controller()
        .unwrap()
        .wanted()
        .clone();
    assert_eq!(state.members[2].state, MemberState::Active);
}

#[test]
fn a_drive_added_later_becomes_a_spare_and_is_used() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 40);
    let mut array = Array::new(record(shape, 0, None), 2, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    array.command(Command::Fail(MemberId(3))).unwrap();
    let size_bytes = array.shared.borrow().disks[0].bytes.len() as u64;
    let too_small = Command::AddSpare {
        member: MemberId(4),
        size_bytes: 4096,
        volatile_cache: false,
        kind: MemberKind::Device,
        discards: true,
        returns: None,
    };
    assert_eq!(array.command(too_small), Err(Refused::TooSmall));
    let ask = |member, size_bytes| Command::MayAddSpare {
        member: MemberId(member),
        size_bytes,
        returns: None,
    };
    assert_eq!(array.command(ask(4, 4096)), Err(Refused::TooSmall));
    assert_eq!(array.command(ask(3, size_bytes)), Err(Refused::NoSuch));
    assert_eq!(array.command(ask(4, size_bytes)), Ok(()));
    let members = |array: &Array| {
        let controller = array.shards[0].engine.controller().unwrap();
        controller.wanted().members.len()
    };
    assert_eq!(members(&array), 4, "asking changes nothing");
    array
        .shared
        .borrow_mut()
        .disks
        .push(crate::memory::Disk::empty(size_bytes));
    let add = Command::AddSpare {
        member: MemberId(4),
        size_bytes,
        volatile_cache: false,
        kind: MemberKind::Device,
        discards: true,
        returns: None,
    };
    assert_eq!(array.command(add), Ok(()));
    array.wait_for_job();
    assert_eq!(array.command(Command::Remove(MemberId(3))), Ok(()));
    array.shared.borrow_mut().disks[2].gone = true;
    check(&mut array, 0, &content);
    array.command(Command::Stop).unwrap();
    for order in [ask(5, size_bytes), add] {
        assert_eq!(array.command(order), Err(Refused::Stopping));
    }
}

#[test]
fn background_work_keeps_to_its_rate_and_can_be_paused() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 32);
    let options = Options {
        rate_bytes_per_s: 8 << 20,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 0, None), 1, 5, options);
    array
        .command(Command::Scrub {
            volume: VolumeId(0),
            repair: false,
        })
        .unwrap();
    array.wait_ms(1000);
    let done = |array: &Array| {
        array.shards[0]
            .engine
            .controller()
            .unwrap()
            .job(VolumeId(0))
            .map(|job| job.done_bytes)
    };
    let after_one = done(&array).expect("still running");
    assert!((5 << 20..=10 << 20).contains(&after_one), "{after_one}");
    array
        .command(Command::Pause {
            volume: VolumeId(0),
            paused: true,
        })
        .unwrap();
    array.wait_ms(500);
    let paused = done(&array).unwrap();
    array.wait_ms(1000);
    assert_eq!(done(&array), Some(paused));
    // The pause does not count as time in which the work was slow.
    let job = |array: &Array| {
        array.shards[0]
            .engine
            .controller()
            .unwrap()
            .job(VolumeId(0))
    };
    let (was, now) = (job(&array).unwrap(), array.shared.borrow().now);
    assert_eq!((was.slot, was.copied_to), (None, None));
    let limit = Command::Rate(4 << 20);
    assert_eq!(array.command(limit), Ok(()));
    array
        .command(Command::Pause {
            volume: VolumeId(0),
            paused: false,
        })
        .unwrap();
    let resumed = job(&array).unwrap();
    assert!(resumed.paced_since.0 >= now && resumed.paced_from_bytes == paused);
    array.wait_ms(1000);
    let at_the_limit = done(&array).unwrap() - paused;
    assert!(
        (2 << 20..=6 << 20).contains(&at_the_limit),
        "{at_the_limit}"
    );
    array.command(Command::Rate(0)).unwrap();
    array.wait_ms(500);
    assert_eq!(done(&array), None, "unlimited, the rest takes no time");
}

#[test]
fn four_kilobyte_sectors_are_kept_to() {
    let mut shape = geometry(Level::Raid5, 3, 16 << 10, 20);
    shape.block_bytes = 4096;
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    assert_eq!(array.read(0, 512, 4096), Err(Failure::Misuse));
    assert_eq!(array.write(0, 4096, &[1; 512]), Err(Failure::Misuse));
    check(&mut array, 0, &content);
}

#[test]
fn a_read_only_array_is_not_written_to_whatever_happens() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 40);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
    let mut crashed = record(shape, 1, Some(SyncKind::Resync));
    crashed.volumes[0].read_only = true;
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let mut disks: Vec<_> = disks.into_iter().collect();
    disks.push(crate::memory::Disk::empty(disks[0].bytes.len() as u64));
    let before: Vec<Vec<u8>> = disks.iter().map(|disk| disk.bytes.clone()).collect();
    let mut again = Array::over(crashed, disks, 2, 6, options, shape);
    again.shared.borrow_mut().persists.clear();
    check(&mut again, 0, &content);
    assert_eq!(again.write(0, 0, &[1; 4096]), Err(Failure::ReadOnly));
    // When a block cannot be read or a member is lost, reads are answered or refused, but nothing is written.
    let bad = shape.start_bytes + (16 << 10);
    again.shared.borrow_mut().disks[0]
        .bad
        .push((bad, bad + 512));
    let _ = again.read(0, 0, 512 << 10);
    again.shared.borrow_mut().disks[1].gone = true;
    let _ = again.read(1, 0, 512 << 10);
    again.wait_ms(2000);
    let shared = again.shared.borrow();
    assert!(shared.persists.is_empty(), "metadata was written");
    for (disk, before) in shared.disks.iter().zip(&before) {
        assert!(disk.bytes == *before, "a member was written to");
    }
}

/// A drive fails that one volume cannot do without. The failure is recorded because of the other volume, while the rest
/// of a write to the first is under way. That record does not make the write a success.
#[test]
fn a_write_that_a_lost_volumes_drive_missed_is_an_error_also_when_that_is_on_record() {
    for seed in 0..12 {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, 1, seed, by_hand());
        let two = (fill(&mut array, 0, 1), fill(&mut array, 1, 2)).1;
        array.command(Command::Fail(MemberId(0))).unwrap();
        array.wait_ms(20);
        let length = array.shape.row_bytes() as u32;
        let buffer = array.allocate(u64::from(length));
        array.shared.borrow_mut().disks[2].gone = true;
        array.shared.borrow_mut().latency_ns = 4_000_000_000;
        let tag = array.submit(0, Operation::Write, 0, length, buffer);
        array.turn_alone(0);
        array.shared.borrow_mut().latency_ns = 50_000;
        let written = array.finish(tag);
        assert!(
            matches!(written, Err(Failure::Unrecoverable { .. })),
            "seed {seed}: {written:?}"
        );
        check(&mut array, 1, &two);
        let recorded = Event::FailureRecorded(MemberId(2));
        array.run_until(|array| array.has_event(|event| *event == recorded));
    }
}
