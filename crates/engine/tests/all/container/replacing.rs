//! Drives that are replaced while they serve: one update of the record switches both volumes, or neither.

use super::shared::{by_hand, check, fill, two_volumes};
use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::{Command, Refused};
use engine::control::record::{MemberState, VolumeRecord};
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::limits::BAD_BLOCK_ENTRIES_MAX;
use engine::request::Operation;
use engine::units::{MemberId, ShardId, Slot, VolumeId};

const OLD: MemberId = MemberId(1);

const NEW: MemberId = MemberId(4);

fn replace() -> Command {
    Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: NEW,
    }
}

/// The drives that slot 1 of each volume names in a record.
fn in_slot(record: &engine::control::record::Record) -> Vec<Option<MemberId>> {
    let slot = |volume: &VolumeRecord| volume.slots[1].member;
    record.volumes.iter().map(slot).collect()
}

fn wanted(array: &Array) -> engine::control::record::Record {
    array.shards[0]
        .engine
        .controller()
        .unwrap()
        .wanted()
        .clone()
}

/// How replacements have ended, by volume.
fn replaced(array: &Array) -> Vec<(u8, bool)> {
    let shared = array.shared.borrow();
    let ended = shared.events.iter().filter_map(|event| match event {
        Event::JobEnded {
            volume,
            job: JobName::Replace,
            complete,
            ..
        } => Some((volume.0, *complete)),
        _ => None,
    });
    ended.collect()
}

fn copied(array: &Array, volume: u8) -> bool {
    let controller = array.shards[0].engine.controller().unwrap();
    let job = controller.job(VolumeId(volume));
    job.is_some_and(|job| job.done_bytes == job.total_bytes)
}

/// Two volumes whose drive in slot 1 is being replaced, and what the volumes hold. The update that names the new drive
/// is on its way, and the drives' answers to it are held back.
fn at_the_switch(shards: u8, seed: u64) -> (Array, Vec<u8>, Vec<u8>) {
    let record = two_volumes(Level::Raid5, Level::Raid10);
    let mut array = Array::new(record, shards, seed, by_hand());
    let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.command(replace()).unwrap();
    array.shared.borrow_mut().hold_persists = true;
    array.run_until(|array| {
        let shared = array.shared.borrow();
        let last = shared.persists.last();
        last.is_some_and(|(_, record)| in_slot(record) == [Some(NEW); 2])
    });
    (array, one, two)
}

/// Fills the start of a volume, and of its expected `content`, with `byte`.
fn overwrite(array: &mut Array, volume: u8, content: &mut [u8], byte: u8) {
    let length = 24 << 10;
    content[..length].fill(byte);
    let buffer = array.allocate(length as u64);
    array.fill(buffer, &content[..length]);
    let id = VolumeId(volume);
    let tag = array.submit_to(0, id, Operation::Write, 0, length as u32, buffer, false);
    assert_eq!(array.finish(tag), Ok(()));
}

/// Checks what an array reads that is started over the same drives with `record`.
fn check_after_crash(
    array: &Array,
    record: engine::control::record::Record,
    one: &[u8],
    two: &[u8],
) {
    let shared = array.shared.borrow();
    let copy = |disk: &crate::memory::Disk| crate::memory::Disk {
        bytes: disk.bytes.clone(),
        ..crate::memory::Disk::empty(0)
    };
    let disks = shared.disks.iter().map(copy).collect();
    let mut again = Array::over(record, disks, 1, 9, by_hand(), array.shape);
    check(&mut again, 0, one);
    check(&mut again, 1, two);
}

#[test]
fn two_volumes_change_drives_in_one_update() {
    for shards in 1..=3 {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, shards, 3, by_hand());
        let (mut one, mut two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        array.command(replace()).unwrap();
        array.run_until(|array| copied(array, 0));
        // Volume 0 is copied, but its writes go to both drives until volume 1 is copied too.
        overwrite(&mut array, 0, &mut one, 0x5A);
        assert_eq!(replaced(&array), []);
        array.run_until(|array| replaced(array).len() == 2);
        assert_eq!(replaced(&array), [(0, true), (1, true)]);
        overwrite(&mut array, 1, &mut two, 0xA5);
        for (_, record) in &array.shared.borrow().persists {
            let drives = in_slot(record);
            assert_eq!(drives[0], drives[1], "on different drives");
        }
        assert_eq!(wanted(&array).members[1].state, MemberState::Absent);
        assert_eq!(wanted(&array).members[4].state, MemberState::Active);
        // The old drive is not needed, and the new one carries its part of the redundancy.
        array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
        array.shared.borrow_mut().disks[2].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// While the update is on its way, a crash leaves the old record or the new one. With either, everything that has been
/// acknowledged by then can be read.
#[test]
fn whichever_record_a_crash_leaves_names_a_drive_that_has_everything() {
    for shards in [1, 2] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 5);
        overwrite(&mut array, 0, &mut one, 0x11);
        overwrite(&mut array, 1, &mut two, 0x22);
        let after = array.shared.borrow().persists.last().unwrap().1.clone();
        assert_eq!(in_slot(&after), [Some(NEW); 2]);
        let before = array.shared.borrow().disks[1].record.clone().unwrap();
        assert_eq!(in_slot(&before), [Some(OLD); 2]);
        check_after_crash(&array, before, &one, &two);
        check_after_crash(&array, after, &one, &two);
        // The new drive has the new record already.
        assert!(array.shared.borrow().disks[4].record.is_some());
        array.release_persists();
        array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
        check(&mut array, 0, &one);
    }
}

/// A shard that has not received the new view reads from the old drive.
#[test]
fn the_old_drive_gets_every_write_until_nobody_reads_from_it() {
    let (mut array, mut one, two) = at_the_switch(2, 9);
    array.release_persists();
    for _ in 0..500 {
        array.turn_alone(0);
    }
    // A row that the first shard writes without asking the other.
    let shape = array.shape;
    assert_eq!(shape.owner(1, 2), ShardId(0));
    let range = shape.row_bytes() as usize..2 * shape.row_bytes() as usize;
    one[range.clone()].fill(0x88);
    let (offset, length) = (range.start as u64, range.len() as u32);
    let buffer = array.allocate(u64::from(length));
    array.fill(buffer, &one[range]);
    let tag = array.submit(0, Operation::Write, offset, length, buffer);
    for _ in 0..500 {
        array.turn_alone(0);
    }
    assert_eq!(array.take_completion(tag), Some(Ok(())));
    for found in array.read_without_mail(1, offset, length) {
        assert!(found.iter().all(|&byte| byte == 0x88), "old content");
    }
    array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
}

#[test]
fn a_flush_reaches_the_drive_that_is_being_filled() {
    let (mut array, mut one, _) = at_the_switch(1, 6);
    overwrite(&mut array, 0, &mut one, 0x33);
    assert!(!array.shared.borrow().disks[4].unflushed.is_empty());
    let buffer = array.allocate(512);
    let tag = array.submit(0, Operation::Flush, 0, 0, buffer);
    assert_eq!(array.finish(tag), Ok(()));
    let shared = array.shared.borrow();
    for member in 0..5 {
        assert!(shared.disks[member].unflushed.is_empty(), "drive {member}");
    }
}

#[test]
fn a_replacement_that_fails_in_one_volume_is_given_up_in_both() {
    // Either the new drive vanishes, or a block of the second volume can be neither read, reconstructed nor recorded.
    for vanishes in [true, false] {
        let second = if vanishes { Level::Raid5 } else { Level::Raid0 };
        let mut record = two_volumes(Level::Raid5, second);
        record.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize);
        let mut array = Array::new(record, 2, 3, by_hand());
        let (mut one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        if !vanishes {
            let volume = wanted(&array).volumes[1].geometry;
            let from = volume.start_bytes + volume.component_bytes - (8 << 10);
            array.shared.borrow_mut().disks[1]
                .bad
                .push((from, from + 512));
        }
        array.command(replace()).unwrap();
        array.run_until(|array| copied(array, 0));
        array.shared.borrow_mut().disks[4].gone = vanishes;
        array.run_until(|array| replaced(array).len() == 2);
        assert!(replaced(&array).iter().all(|(_, complete)| !complete));
        overwrite(&mut array, 0, &mut one, 0x77);
        assert_eq!(in_slot(&wanted(&array)), [Some(OLD); 2]);
        array.wait_ms(400);
        let state = wanted(&array).members[4].state;
        let left = if vanishes {
            MemberState::Failed
        } else {
            MemberState::Spare
        };
        assert_eq!(state, left);
        check(&mut array, 0, &one);
        if vanishes {
            array.shared.borrow_mut().disks[3].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
        }
    }
}

#[test]
fn a_replacement_is_cancelled_in_both_volumes() {
    let record = two_volumes(Level::Raid5, Level::Raid10);
    let mut array = Array::new(record, 2, 3, by_hand());
    let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.command(replace()).unwrap();
    array.run_until(|array| copied(array, 0));
    assert_eq!(array.command(Command::Remove(NEW)), Err(Refused::Busy));
    assert_eq!(array.command(Command::CancelJob(VolumeId(1))), Ok(()));
    assert_eq!(replaced(&array).len(), 2);
    array.wait_ms(100);
    assert_eq!(in_slot(&wanted(&array)), [Some(OLD); 2]);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
    // Ordered again, the replacement begins at the start.
    array.shared.borrow_mut().events.clear();
    array.command(replace()).unwrap();
    array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
}

/// The old drive fails while the update is on its way. The new one has everything: nothing is degraded.
#[test]
fn the_old_drive_may_fail_at_the_switch() {
    for shards in [1, 2] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 7);
        array.shared.borrow_mut().disks[1].gone = true;
        let length = 24 << 10;
        let buffer = array.allocate(length);
        array.fill(buffer, &vec![0x44; length as usize]);
        let id = VolumeId(0);
        let tag = array.submit_to(0, id, Operation::Write, 0, length as u32, buffer, false);
        for _ in 0..200 {
            array.turn();
        }
        assert_eq!(
            array.take_completion(tag),
            None,
            "the old drive missed the write, and nothing on record says so yet"
        );
        array.release_persists();
        assert_eq!(array.finish(tag), Ok(()));
        one[..length as usize].fill(0x44);
        overwrite(&mut array, 1, &mut two, 0x55);
        assert_eq!(replaced(&array), [(0, true), (1, true)]);
        assert_eq!(in_slot(&wanted(&array)), [Some(NEW); 2]);
        for volume in &wanted(&array).volumes {
            assert_eq!(volume.current_slots().count(), 4);
        }
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// The new drive fails while the update is on its way. If that is known before the update is durable, the
/// old drive, which has everything, stays; else the new one has been lost like any other.
#[test]
fn the_new_drive_may_fail_at_the_switch() {
    for (shards, known_before) in [(1, true), (2, true), (1, false), (2, false)] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 8);
        array.shared.borrow_mut().disks[4].gone = true;
        if known_before {
            let id = VolumeId(1);
            let buffer = array.allocate(4096);
            array.fill(buffer, &two[..4096]);
            array.submit_to(0, id, Operation::Write, 0, 4096, buffer, false);
            array.run_until(|array| replaced(array).len() == 2);
        }
        array.release_persists();
        overwrite(&mut array, 0, &mut one, 0x66);
        overwrite(&mut array, 1, &mut two, 0x77);
        assert_eq!(replaced(&array).len(), 2);
        assert!(
            replaced(&array)
                .iter()
                .all(|(_, complete)| *complete != known_before)
        );
        array.wait_ms(100);
        let record = wanted(&array);
        assert_eq!(record.members[4].state, MemberState::Failed);
        for volume in &record.volumes {
            let slots = volume.current_slots().count();
            assert_eq!(slots, if known_before { 4 } else { 3 });
        }
        let drives: &[usize] = if known_before {
            &[0, 1, 2, 3]
        } else {
            &[0, 2, 3]
        };
        for &member in drives {
            let on_drive = array.shared.borrow().disks[member].record.clone().unwrap();
            assert_eq!(in_slot(&on_drive), in_slot(&record), "{member}");
            assert_eq!(on_drive.members[4].state, MemberState::Failed);
        }
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// The last drive of a mirror is replaced, and the new one fails before it is on record: the old one has
/// the only copy, and it stays.
#[test]
fn the_only_copy_is_never_given_up_for_one_that_is_not_on_record() {
    let mirror = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(mirror, 1, None), 1, 5, by_hand());
    let content = fill(&mut array, 0, 4);
    array.command(Command::Fail(MemberId(0))).unwrap();
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: MemberId(2),
    };
    array.command(order).unwrap();
    array.run_until(|array| copied(array, 0));
    // The new drive stores no record.
    array.shared.borrow_mut().disks[2].gone = true;
    array.run_until(|array| !replaced(array).is_empty());
    assert_eq!(replaced(&array), [(0, false)]);
    assert_eq!(wanted(&array).volumes[0].slots[1].member, Some(MemberId(1)));
    assert_eq!(wanted(&array).members[1].state, MemberState::Active);
    check(&mut array, 0, &content);
}

/// A record that names the new drive may be on some members already.
#[test]
fn a_replacement_cannot_be_called_off_at_the_switch() {
    let (mut array, one, two) = at_the_switch(1, 4);
    for volume in [0, 1] {
        let order = Command::CancelJob(VolumeId(volume));
        assert_eq!(array.command(order), Err(Refused::NoSuch));
    }
    array.release_persists();
    array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
    array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
}

/// Writes of a level without redundancy take no lock before there is a job, so the job waits for those that are under
/// way. It does not wait for reads.
#[test]
fn a_copy_of_a_raid_0_begins_while_a_read_is_under_way() {
    let shape = geometry(Level::Raid0, 3, 16 << 10, 16);
    let mut array = Array::new(record(shape, 1, None), 1, 5, by_hand());
    let content = fill(&mut array, 0, 4);
    array.shared.borrow_mut().latency_ns = 20_000_000_000;
    let buffer = array.allocate(256 << 10);
    let tag = array.submit(0, Operation::Read, 0, 256 << 10, buffer);
    array.turn_alone(0);
    array.shared.borrow_mut().latency_ns = 50_000;
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: MemberId(3),
    };
    array.command(order).unwrap();
    array.run_until(|array| copied(array, 0));
    assert!(array.shared.borrow().flights.contains_key(&tag));
    array.run_until(|array| {
        array.shared.borrow_mut().now += 10_000_000;
        !array.shared.borrow().flights.contains_key(&tag)
    });
    assert_eq!(array.take_completion(tag), Some(Ok(())));
    check(&mut array, 0, &content);
}

/// The flush before the clean mark is made while the record with the new drive is on its way.
#[test]
fn a_volume_is_clean_after_the_switch_only_if_the_new_drive_was_flushed_too() {
    let (mut array, mut one, _) = at_the_switch(1, 11);
    overwrite(&mut array, 0, &mut one, 0x12);
    assert!(!array.shared.borrow().disks[4].unflushed.is_empty());
    // The volume is idle for long enough to be marked clean.
    array.wait_ms(5_000);
    array.release_persists();
    let is_clean = Event::DirtyMark {
        volume: VolumeId(0),
        dirty: false,
    };
    array.run_until(|array| array.has_event(|event| *event == is_clean));
    assert_eq!(in_slot(&wanted(&array)), [Some(NEW); 2]);
    let shared = array.shared.borrow();
    for drive in [0, 2, 3, 4] {
        assert!(shared.disks[drive].unflushed.is_empty(), "drive {drive}");
    }
}

/// Writes with and without a plan: if the copy did not wait for them, they would miss the new drive.
#[test]
fn a_copy_of_a_raid_0_waits_for_writes_that_are_under_way() {
    for length in [4096, 96 << 10] {
        let shape = geometry(Level::Raid0, 3, 16 << 10, 16);
        let mut array = Array::new(record(shape, 1, None), 1, 5, by_hand());
        let mut content = fill(&mut array, 0, 4);
        content[16 << 10..][..length].fill(0x5A);
        array.shared.borrow_mut().latency_ns = 300_000_000;
        let buffer = array.allocate(length as u64);
        array.fill(buffer, &vec![0x5A; length]);
        let tag = array.submit(0, Operation::Write, 16 << 10, length as u32, buffer);
        array.turn_alone(0);
        array.shared.borrow_mut().latency_ns = 50_000;
        let order = Command::Replace {
            volume: VolumeId(0),
            slot: Slot(1),
            to: MemberId(3),
        };
        array.command(order).unwrap();
        let is_under_way = |array: &Array| array.shared.borrow().flights.contains_key(&tag);
        let has_begun =
            |array: &Array| array.has_event(|event| matches!(event, Event::JobStarted { .. }));
        let mut turns = 0;
        while is_under_way(&array) {
            array.turn();
            turns += 1;
            assert!(!is_under_way(&array) || !has_begun(&array), "{length}");
        }
        assert!(turns > 1000, "{turns}");
        array.run_until(|array| replaced(array) == [(0, true)]);
        array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
        check(&mut array, 0, &content);
    }
}
