//! Changes of the record on which the durability of writes depends: writes stop when they cannot be expressed.

use super::*;
use crate::memory::Disk;
use crate::memory::marks::with_bitmap;
use engine::control::bad_blocks::BadRange;
use engine::event::VolumeEnd;
use engine::units::Slot;

/// Checks that writes are refused and nothing of them reaches a drive, and that reads return `content`.
fn assert_read_only(array: &mut Array, content: &[u8]) {
    let written = |array: &Array| -> Vec<Vec<u8>> {
        let shared = array.shared.borrow();
        shared.disks.iter().map(|disk| disk.bytes.clone()).collect()
    };
    let before = written(array);
    for shard in 0..array.shards.len() {
        let refused = array.write(shard, 16 * KIB, &[0xAA; 4096]);
        assert_eq!(refused, Err(Failure::ReadOnly));
    }
    assert!(written(array) == before);
    check(array, content);
}

#[test]
fn a_failure_that_cannot_be_recorded_acknowledges_no_write_that_the_member_missed() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in 1..=3 {
            for is_logged in [false, shape.level == Level::Raid5] {
                let start = record(shape, 1, None);
                let start = if is_logged { with_log(start) } else { start };
                let mut array = Array::new(start, shards, at as u64, quick());
                let mut content = fill(&mut array);
                refuse(&array, fails);
                array.shared.borrow_mut().disks[0].writes_fail = true;
                let offset = shape.row_bytes();
                let new = vec![0x77; shape.row_bytes() as usize];
                let missed = array.write(0, offset, &new);
                assert!(
                    missed.is_err(),
                    "{shape:?} with {shards} shards: {missed:?}"
                );
                array.run_until(|array| stopped_writes(array));
                until_followed(&mut array);
                // The write may be there or not: it was not acknowledged.
                let range = offset as usize..offset as usize + new.len();
                let got = array.read(0, offset, new.len() as u32).unwrap();
                content[range].copy_from_slice(&got);
                assert_read_only(&mut array, &content);
                assert!(flush(&mut array).is_err(), "the member missed a write");
                assert_quiet(&mut array);
                stop(&mut array);
                let (volume, end) = (VOLUME, VolumeEnd::WritesStopped);
                let told = Event::VolumeStopped { volume, end };
                assert!(array.has_event(|event| *event == told));
                for drive in 0..usize::from(shape.members) {
                    let own = on_drive(&array, drive);
                    assert!(own.dirty && own.slots[0].current, "{shape:?}");
                }
            }
        }
    }
}

#[test]
fn a_dirty_mark_that_cannot_be_recorded_lets_no_write_begin() {
    for shape in shapes() {
        for shards in 1..=2 {
            let mut array = Array::new(record(shape, 0, None), shards, 3, quick());
            let content = fill(&mut array);
            array.run_until(|array| !on_drive(array, 0).dirty);
            refuse(&array, dirties);
            assert_read_only(&mut array, &content);
            assert!(stopped_writes(&array));
            assert_eq!(flush(&mut array), Ok(()), "all drives have everything");
            assert_quiet(&mut array);
            refuse(&array, |_, _| false);
            assert_read_only(&mut array, &content);
            stop(&mut array);
            assert!(!on_drive(&array, 0).dirty, "nothing was written");
        }
    }
}

#[test]
fn a_volume_beside_one_that_cannot_be_marked_dirty_goes_on() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut two = record(shape, 0, None);
    let mut other = two.volumes[0].clone();
    other.geometry.start_bytes += shape.component_bytes + (1 << 20);
    two.volumes.push(other);
    for member in &mut two.members {
        member.size_bytes += shape.component_bytes + (1 << 20);
    }
    let mut array = Array::new(two, 2, 3, quick());
    refuse(&array, |before, now| {
        !before.volumes[1].dirty && now.volumes[1].dirty
    });
    let write_to = |array: &mut Array, volume: u8| {
        let buffer = array.allocate(4096);
        let volume = VolumeId(volume);
        let tag = array.submit_to(1, volume, Operation::Write, 0, 4096, buffer, false);
        array.finish(tag)
    };
    for _ in 0..2 {
        assert_eq!(write_to(&mut array, 1), Err(Failure::ReadOnly));
        assert_eq!(write_to(&mut array, 0), Ok(()));
        array.run_until(|array| !on_drive(array, 0).dirty);
    }
    assert!(array.has_event(|event| *event == Event::WritesStopped(VolumeId(1))));
    assert!(!stopped_writes(&array));
    array.shared.borrow_mut().disks[2].gone = true;
    assert_eq!(write_to(&mut array, 0), Ok(()));
    stop(&mut array);
}

/// A spare is filled, or a drive is copied to it, and the end of that cannot be recorded.
fn at_its_end(
    shape: Geometry,
    with_bits: bool,
    refuses: fn(&Record, &Record) -> bool,
    order: Command,
) {
    let start = record(shape, 1, None);
    let start = if with_bits {
        with_bitmap(start, 64 << 10, &[])
    } else {
        start
    };
    let mut array = Array::new(start, 2, 5, quick());
    let content = fill(&mut array);
    refuse(&array, refuses);
    array.command(order).unwrap();
    array.run_until(|array| stopped_writes(array));
    until_followed(&mut array);
    assert_read_only(&mut array, &content);
    assert_quiet(&mut array);
    stop(&mut array);
    let new = MemberId(shape.members);
    for drive in 0..usize::from(shape.members) {
        let own = on_drive(&array, drive);
        let is_in = |slot: &SlotRecord| slot.member == Some(new) && slot.current;
        assert!(!own.slots.iter().any(is_in), "{shape:?}");
    }
}

#[test]
fn the_end_of_a_rebuild_that_cannot_be_recorded_stops_writes() {
    for shape in shapes() {
        at_its_end(shape, false, ends_rebuild, Command::Fail(MemberId(1)));
    }
}

#[test]
fn a_generation_of_the_bitmap_that_cannot_be_recorded_stops_writes() {
    for shape in shapes() {
        at_its_end(shape, true, clears_bits, Command::Fail(MemberId(1)));
    }
}

#[test]
fn a_replacement_that_cannot_be_recorded_stops_writes_and_the_old_drive_stays() {
    let stripes = geometry(Level::Raid0, 3, 16 << 10, 24);
    for shape in shapes().into_iter().chain([stripes]) {
        let to = MemberId(shape.members);
        let replace = Command::Replace {
            volume: VOLUME,
            slot: Slot(1),
            to,
        };
        at_its_end(shape, false, replaces, replace);
    }
}

/// An array, its content, and a bad range that is on record for one drive, which holds wrong bytes there.
fn with_bad_range(shape: Geometry) -> (Array, Vec<u8>, BadRange) {
    let mut array = Array::new(record(shape, 0, None), 1, 1, quick());
    let content = fill(&mut array);
    let mut disks: Vec<Disk> = std::mem::take(&mut array.shared.borrow_mut().disks);
    let slot = shape.data_slots(1, 0).iter().next().unwrap();
    let bad = BadRange {
        member: MemberId(slot.0),
        offset_bytes: shape.member_offset_bytes(1, 4096),
        length_bytes: 4096,
    };
    let mut record = record(shape, 0, None);
    record.bad_blocks.add(bad).unwrap();
    let disk = &mut disks[usize::from(slot.0)];
    disk.bytes[bad.offset_bytes as usize..bad.end_bytes() as usize].fill(0xEE);
    for disk in &mut disks {
        disk.record = Some(record.clone());
    }
    (
        Array::over(record, disks, 2, 1, quick(), shape),
        content,
        bad,
    )
}

#[test]
fn a_bad_block_that_cannot_be_cleared_is_no_write_done_and_costs_no_drive() {
    for shape in shapes() {
        let (mut array, mut content, bad) = with_bad_range(shape);
        refuse(&array, records_blocks);
        let offset = (shape.row_bytes() + 4096) as usize;
        let new = [0x55; 4096];
        assert!(array.write(1, offset as u64, &new).is_err(), "{shape:?}");
        array.run_until(|array| stopped_writes(array));
        let got = array.read(1, offset as u64, 4096).unwrap();
        content[offset..offset + 4096].copy_from_slice(&got);
        assert_read_only(&mut array, &content);
        assert!(!array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
        assert_quiet(&mut array);
        stop(&mut array);
        let shared = array.shared.borrow();
        let own = shared.disks[0].record.as_ref().unwrap();
        assert!(own.bad_blocks.cover(bad), "{shape:?}");
    }
}

/// The read repairs the block, and that cannot be recorded: the read is answered all the same.
#[test]
fn a_read_is_answered_whose_repair_cannot_be_recorded() {
    let (mut array, content, _) = with_bad_range(shapes()[2]);
    refuse(&array, records_blocks);
    check(&mut array, &content);
    array.run_until(|array| stopped_writes(array));
    until_followed(&mut array);
    assert_read_only(&mut array, &content);
    assert!(!array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
    stop(&mut array);
}

/// A rebuild meets a block that it cannot reconstruct, and the loss cannot be recorded: the new drive does not become
/// current.
#[test]
fn a_loss_that_cannot_be_recorded_ends_no_rebuild() {
    for shape in [shapes()[0], shapes()[2]] {
        let mut array = Array::new(record(shape, 1, None), 2, 5, quick());
        let content = fill(&mut array);
        let slot = shape.data_slots(1, 0).iter().next().unwrap();
        let from = shape.member_offset_bytes(1, 8192);
        let other = (slot.0 + 1) % shape.members;
        refuse(&array, records_blocks);
        let bad = |array: &Array, ranges: Vec<(u64, u64)>| {
            array.shared.borrow_mut().disks[usize::from(slot.0)].bad = ranges;
        };
        bad(&array, vec![(from, from + 4096)]);
        array.command(Command::Fail(MemberId(other))).unwrap();
        array.run_until(|array| stopped_writes(array));
        bad(&array, Vec::new());
        until_followed(&mut array);
        assert_read_only(&mut array, &content);
        assert_quiet(&mut array);
        stop(&mut array);
        let own = on_drive(&array, usize::from(slot.0));
        assert!(!own.slots[usize::from(other)].current);
    }
}

/// Also at a level without a dirty mark: the record has to move on before the first write of a session.
#[test]
fn a_record_that_cannot_move_on_lets_no_session_write() {
    let raid0 = geometry(Level::Raid0, 3, 16 << 10, 24);
    for shape in shapes().into_iter().chain([raid0]) {
        let mut array = Array::new(record(shape, 0, None), 2, 5, quick());
        refuse(&array, |_, _| true);
        let written = |array: &Array| -> Vec<Vec<u8>> {
            let shared = array.shared.borrow();
            shared.disks.iter().map(|disk| disk.bytes.clone()).collect()
        };
        let before = written(&array);
        let refused = array.write(0, 16 * KIB, &[0xAA; 4096]);
        assert_eq!(refused, Err(Failure::ReadOnly), "{shape:?}");
        assert!(stopped_writes(&array), "{shape:?}");
        assert!(array.read(1, 16 * KIB, 4096).is_ok());
        assert!(written(&array) == before);
        assert_quiet(&mut array);
        stop(&mut array);
    }
}

/// Otherwise the rebuild would continue on a volume that may not be written to.
#[test]
fn a_rebuild_under_way_stops_with_the_writes() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 48);
    let slow = Options {
        rate_bytes_per_s: 512 << 10,
        ..quick()
    };
    let mut array = Array::new(record(shape, 1, None), 1, 5, slow);
    let content = fill(&mut array);
    array.command(Command::Fail(MemberId(1))).unwrap();
    let done = |array: &Array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.map_or(0, |job| job.done_bytes)
    };
    array.run_until(|array| done(array) >= 64 << 10);
    refuse(&array, fails);
    array.shared.borrow_mut().disks[2].writes_fail = true;
    assert!(array.write(0, 16 * KIB, &content[..4096]).is_err());
    array.run_until(|array| stopped_writes(array));
    until_followed(&mut array);
    // Work that was under way then is still counted.
    array.wait_ms(300);
    let reached = done(&array);
    assert!(reached < shape.component_bytes);
    array.command(Command::Rate(0)).unwrap();
    array.wait_ms(2000);
    assert_eq!(done(&array), reached, "the rebuild continued");
    stop(&mut array);
}

/// Another volume is only read, and a third one was never started: they take no writes anyway.
#[test]
fn writes_stop_once_and_only_where_there_were_any() {
    let mut start = record(shapes()[1], 0, None);
    let extent = start.volumes[0].geometry.component_bytes + (1 << 20);
    for at in 1..3 {
        let mut other = start.volumes[0].clone();
        other.geometry.start_bytes += at * extent;
        other.read_only = at == 1;
        other.not_started = at == 2;
        start.volumes.push(other);
    }
    let members = start.members.iter_mut();
    members.for_each(|member| member.size_bytes += 2 * extent);
    let mut array = Array::new(start, 1, 5, quick());
    refuse(&array, |_, _| true);
    assert_eq!(array.write(0, 0, &[1; 4096]), Err(Failure::ReadOnly));
    // A failure that cannot be recorded is one more reason.
    array.shared.borrow_mut().disks[0].gone = true;
    assert!(array.read(0, 0, 64 << 10).is_ok());
    assert_quiet(&mut array);
    let shared = array.shared.borrow();
    let stopped: Vec<VolumeId> = shared
        .events
        .iter()
        .filter_map(|event| match event {
            Event::WritesStopped(volume) => Some(*volume),
            _ => None,
        })
        .collect();
    assert_eq!(stopped, [VOLUME]);
}
