//! What is on record about drives that have failed or left the container.

use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadRange;
use engine::control::message::{Command, Message};
use engine::control::record::{MemberState, Record, VolumeRecord};
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::policy::ErrorClass;
use engine::request::Operation;
use engine::units::{MemberId, ShardId};

const LEAVES: MemberId = MemberId(1);

/// What each of the drives that are left has on record.
fn on_record(array: &Array) -> Vec<Record> {
    let shared = array.shared.borrow();
    let drives = [0, 2].map(|drive: usize| shared.disks[drive].record.clone());
    drives.into_iter().flatten().collect()
}

/// Lost blocks of two drives are on record, and one of the drives has been removed.
fn removed() -> (Array, BadRange) {
    let shape = geometry(Level::Raid1, 3, 1 << 20, 4);
    let mut start = record(shape, 0, None);
    let stays = BadRange {
        member: MemberId(0),
        offset_bytes: shape.start_bytes,
        length_bytes: 4096,
    };
    let leaves = BadRange {
        member: LEAVES,
        offset_bytes: shape.start_bytes + (1 << 20),
        length_bytes: 4096,
    };
    start.bad_blocks.add(stays).unwrap();
    start.bad_blocks.add(leaves).unwrap();
    let mut array = Array::new(start, 1, 3, Options::default());
    array.write(0, 2 << 20, &[1; 4096]).unwrap();
    array.command(Command::Fail(LEAVES)).unwrap();
    let recorded = Event::FailureRecorded(LEAVES);
    array.run_until(|array| array.has_event(|event| *event == recorded));
    array.command(Command::Remove(LEAVES)).unwrap();
    array.wait_ms(100);
    (array, stays)
}

#[test]
fn a_drive_that_was_removed_is_absent_on_record() {
    let (array, _) = removed();
    for record in on_record(&array) {
        assert_eq!(record.members[1].state, MemberState::Absent);
        assert_eq!(record.volumes[0].slots[1].member, None);
    }
}

/// They would take room in the bad-block log from others.
#[test]
fn lost_blocks_of_a_drive_that_was_removed_are_forgotten_with_the_next_change() {
    let (mut array, stays) = removed();
    assert!(on_record(&array)[0].bad_blocks.cover(stays));
    array.write(0, 0, &[2; 4096]).unwrap();
    for record in on_record(&array) {
        assert_eq!(record.bad_blocks.ranges(), []);
    }
}

/// The first serves, the second is being filled, the third is in no slot.
#[test]
fn a_volume_does_without_drives_that_hold_nothing_current_of_it() {
    let mut volume = record(geometry(Level::Raid1, 3, 1 << 20, 4), 0, None).volumes[0].clone();
    volume.slots[1].current = false;
    volume.slots[2].member = None;
    let without = |volume: &VolumeRecord| [0, 1, 2].map(|at| volume.does_without(MemberId(at)));
    assert_eq!(without(&volume), [false, true, true]);
    // Nobody knows what a volume that was not started holds.
    volume.not_started = true;
    assert_eq!(without(&volume), [false; 3]);
}

/// Another shard has written over the block, but the drive has failed by the time the controller hears of that. If
/// the failure is not on record, the drive may come back without the write.
#[test]
fn a_lost_block_of_a_drive_that_has_failed_stays_on_record() {
    let shape = geometry(Level::Raid1, 3, 1 << 20, 4);
    let of_second = |row: &u64| shape.owner(*row, 2) == ShardId(1);
    let row = (0..shape.rows()).find(of_second).unwrap();
    let lost = BadRange {
        member: MemberId(0),
        offset_bytes: shape.member_offset_bytes(row, 0),
        length_bytes: 4096,
    };
    let mut start = record(shape, 0, None);
    start.bad_blocks.add(lost).unwrap();
    let mut array = Array::new(start, 2, 3, Options::default());
    array.write(1, ((row + 1) % 4) << 20, &[1; 4096]).unwrap();
    let buffer = array.allocate(4096);
    let tag = array.submit(1, Operation::Write, row << 20, 4096, buffer);
    let is_change = |message: &Message| matches!(message, Message::BadBlocks { .. });
    while !array.shared.borrow().mail[0].iter().any(is_change) {
        array.turn_alone(1);
    }
    let failed = Message::MemberFailed {
        member: MemberId(0),
        class: ErrorClass::Gone,
        errno: 0,
    };
    array.shared.borrow_mut().mail[0].push_front(failed);
    assert_eq!(array.finish(tag), Ok(()));
    array.wait_ms(100);
    let shared = array.shared.borrow();
    for drive in 1..3 {
        let own = shared.disks[drive].record.as_ref().unwrap();
        assert!(own.bad_blocks.cover(lost));
    }
}
