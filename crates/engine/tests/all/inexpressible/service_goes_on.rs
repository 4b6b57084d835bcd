//! Changes of the record that the array can do without: service continues when they cannot be expressed.

use super::*;
use engine::event::JobName;
use engine::units::Slot;

fn rebuilt(array: &Array) -> bool {
    array.has_event(|event| {
        let job = JobName::Rebuild;
        matches!(event, Event::JobEnded { job: of, complete: true, .. } if *of == job)
    })
}

#[test]
fn a_clean_mark_that_cannot_be_recorded_leaves_the_volume_dirty_and_writes_go_on() {
    for shape in shapes() {
        for shards in 1..=3 {
            let mut array = Array::new(record(shape, 0, None), shards, 3, quick());
            refuse(&array, cleans);
            let content = fill(&mut array);
            array.run_until(|array| was_not_recorded(array, NotRecorded::Clean));
            for round in 0..3 {
                array
                    .write(shards as usize - 1, 0, &content[..4096])
                    .unwrap();
                array.wait_ms(200 * round);
            }
            check(&mut array, &content);
            assert!(!stopped_writes(&array));
            assert_quiet(&mut array);
            stop(&mut array);
            assert!(on_drive(&array, 0).dirty, "the record says clean");
        }
    }
}

/// A record that cannot be expressed as a whole is tried without the changes that the array can do without.
#[test]
fn a_failure_beside_a_clean_mark_that_cannot_be_recorded_is_recorded() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 2, 3, quick());
    let mut content = fill(&mut array);
    refuse(&array, cleans);
    array.shared.borrow_mut().hold_persists = true;
    array.run_until(|array| refused(array) > 0);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.release_persists();
    array.write(1, 0, &[0x77; 8192]).unwrap();
    content[..8192].fill(0x77);
    assert!(!on_drive(&array, 0).slots[1].current);
    assert!(!stopped_writes(&array));
    check(&mut array, &content);
    stop(&mut array);
}

fn slow() -> Options {
    Options {
        rate_bytes_per_s: 300 << 10,
        ..quick()
    }
}

/// A rebuild of more than ten seconds; a checkpoint is due every five.
fn long_rebuild() -> (Array, Vec<u8>) {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 250);
    let mut array = Array::new(record(shape, 1, None), 2, 5, slow());
    let content = fill(&mut array);
    refuse(&array, checkpoints);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.run_until(|array| {
        array.shared.borrow_mut().now += 1_000_000;
        was_not_recorded(array, NotRecorded::Checkpoint)
    });
    let sync = on_drive(&array, 0).sync.unwrap();
    assert_eq!(sync.done_bytes, 0, "the record has moved on");
    (array, content)
}

#[test]
fn a_rebuild_whose_checkpoints_cannot_be_recorded_gets_to_its_end() {
    let (mut array, content) = long_rebuild();
    array.write(1, 0, &content[..4096]).unwrap();
    array.command(Command::Rate(0)).unwrap();
    array.run_until(|array| rebuilt(array));
    assert!(!stopped_writes(&array));
    array.run_until(|array| on_drive(array, 0).slots[1].current);
    array.shared.borrow_mut().disks[2].gone = true;
    check(&mut array, &content);
    stop(&mut array);
}

#[test]
fn a_stop_ends_whose_last_checkpoint_cannot_be_recorded() {
    let (mut array, content) = long_rebuild();
    check(&mut array, &content);
    array.wait_ms(1000);
    stop(&mut array);
    let sync = on_drive(&array, 0).sync.unwrap();
    assert_eq!(sync.done_bytes, 0);
    assert!(refused(&array) < 20, "{} tries", refused(&array));
}

#[test]
fn a_sync_whose_end_cannot_be_recorded_is_done_again_by_an_order() {
    for shape in shapes() {
        let start = record(shape, 0, Some(SyncKind::Initial));
        let mut array = Array::new(start, 2, 5, quick());
        refuse(&array, ends_sync);
        array.run_until(|array| was_not_recorded(array, NotRecorded::SyncEnd));
        let content = fill(&mut array);
        assert_quiet(&mut array);
        assert!(on_drive(&array, 0).dirty, "clean before the sync's end");
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        assert!(job.is_some_and(|job| job.paused && !job.running));
        refuse(&array, |_, _| false);
        let resume = Command::Pause {
            volume: VOLUME,
            paused: false,
        };
        array.command(resume).unwrap();
        array.run_until(|array| {
            let own = on_drive(array, 0);
            own.sync.is_none() && !own.dirty
        });
        check(&mut array, &content);
        assert_eq!(array.scrub(false), 0);
        stop(&mut array);
    }
}

#[test]
fn a_stop_ends_after_a_sync_whose_end_cannot_be_recorded() {
    let start = record(shapes()[2], 0, Some(SyncKind::Resync));
    let mut array = Array::new(start, 2, 5, quick());
    refuse(&array, ends_sync);
    array.write(1, 0, &[7; 4096]).unwrap();
    array.run_until(|array| was_not_recorded(array, NotRecorded::SyncEnd));
    stop(&mut array);
    assert!(on_drive(&array, 0).sync.is_some());
}

#[test]
fn a_rebuild_that_cannot_be_recorded_does_not_begin_before_it_is_ordered() {
    for shape in shapes() {
        let mut array = Array::new(record(shape, 1, None), 2, 5, quick());
        let content = fill(&mut array);
        refuse(&array, begins_rebuild);
        array.command(Command::Fail(MemberId(1))).unwrap();
        array.run_until(|array| was_not_recorded(array, NotRecorded::RebuildBegin));
        array.write(1, 0, &content[..4096]).unwrap();
        check(&mut array, &content);
        assert_quiet(&mut array);
        assert!(!stopped_writes(&array));
        let wanted = array.shards[0].engine.controller().unwrap().wanted();
        let spare = usize::from(shape.members);
        assert_eq!(wanted.members[spare].state, MemberState::Spare);
        refuse(&array, |_, _| false);
        array.command(Command::Rebuild(VOLUME)).unwrap();
        array.run_until(|array| rebuilt(array));
        array.run_until(|array| on_drive(array, 0).slots[1].current);
        array.shared.borrow_mut().disks[2].gone = true;
        check(&mut array, &content);
        stop(&mut array);
    }
}

/// The two changes are in one record. A drive that missed writes must not stay current on record because the rebuild of
/// another slot cannot begin.
#[test]
fn a_failure_beside_a_rebuild_that_cannot_be_recorded_is_recorded() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 1, None), 1, 5, quick());
    let mut content = fill(&mut array);
    refuse(&array, begins_rebuild);
    array.command(Command::Fail(MemberId(0))).unwrap();
    // The record with the begin of the rebuild has been refused, and the controller does not know it yet.
    array.run_until(|array| {
        array.release_persists();
        array.shared.borrow_mut().hold_persists = true;
        array.turn();
        refused(array) > 0
    });
    array.command(Command::Fail(MemberId(2))).unwrap();
    array.release_persists();
    array.write(0, 0, &[0x77; 32 << 10]).unwrap();
    content[..32 << 10].fill(0x77);
    array.run_until(|array| was_not_recorded(array, NotRecorded::RebuildBegin));
    array.wait_ms(1000);
    let current = |slot: &SlotRecord| slot.current;
    for drive in [1, 3] {
        let slots = on_drive(&array, drive).slots;
        let slots: Vec<bool> = slots.iter().map(current).collect();
        assert_eq!(slots, [false, true, false, true], "drive {drive}");
    }
    assert!(!stopped_writes(&array));
    check(&mut array, &content);
}

/// No write depends on the record of a spare's failure.
#[test]
fn a_spare_that_cannot_be_recorded_stops_nothing() {
    let shape = shapes()[2];
    let mut array = Array::new(record(shape, 1, None), 2, 5, quick());
    let content = fill(&mut array);
    refuse(&array, |before, now| {
        let state = |record: &Record| record.members[4].state;
        state(before) == MemberState::Spare && state(now) == MemberState::Failed
    });
    array.command(Command::Fail(MemberId(4))).unwrap();
    array.run_until(|array| refused(array) > 0);
    assert_quiet(&mut array);
    array.write(1, 0, &content[..4096]).unwrap();
    check(&mut array, &content);
    let job = Command::Replace {
        volume: VOLUME,
        slot: Slot(0),
        to: MemberId(4),
    };
    assert!(array.command(job).is_err());
    stop(&mut array);
}

/// The failure cannot be recorded. A volume that is only read has no writes that depend on its record, so its flush
/// does not wait for it.
#[test]
fn a_flush_of_a_volume_that_is_only_read_waits_for_no_record() {
    let mut start = record(geometry(Level::Raid5, 4, 16 << 10, 24), 0, None);
    let first = &start.volumes[0];
    let mut shape = first.geometry;
    shape.start_bytes += shape.component_bytes + (1 << 20);
    let only_read = VolumeRecord {
        geometry: shape,
        read_only: true,
        ..first.clone()
    };
    start.volumes.push(only_read);
    for shards in 1..=2 {
        let mut array = Array::new(start.clone(), shards, 3, quick());
        refuse(&array, fails);
        array.shared.borrow_mut().disks[1].flushes_fail = true;
        let shard = usize::from(shards) - 1;
        let flush = |array: &mut Array| {
            let (volume, nothing) = (VolumeId(1), array.allocate(512));
            let tag = array.submit_to(shard, volume, Operation::Flush, 0, 0, nothing, false);
            array.finish(tag)
        };
        for _ in 0..2 {
            assert_eq!(flush(&mut array), Ok(()));
            array.wait_ms(1000);
        }
        assert!(stopped_writes(&array), "of the volume that is written to");
        stop(&mut array);
    }
}
