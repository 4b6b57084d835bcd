//! When the next unit of a write-hole log may overwrite the one before: not while a write that the old unit covers may
//! be missing on a drive that a crash would bring back.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::record::{LogArea, Record};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::MemberId;

const CHUNK: u64 = 16 << 10;

fn shape() -> Geometry {
    geometry(Level::Raid5, 4, CHUNK as u32, 24)
}

fn with_log(mut record: Record) -> Record {
    let shape = record.volumes[0].geometry;
    record.volumes[0].log = Some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    record
}

fn ask(array: &mut Array, what: Operation, offset_bytes: u64, length_bytes: u64) -> u64 {
    let buffer = array.allocate(length_bytes);
    array.fill(buffer, &vec![9; length_bytes as usize]);
    array.submit(0, what, offset_bytes, length_bytes as u32, buffer)
}

fn units(array: &Array) -> u64 {
    array.shards[0].engine.stats().log_units
}

fn turn(array: &mut Array, times: usize) {
    (0..times).for_each(|_| {
        array.turn();
    });
}

/// A drive has its part of the first write in its cache, and fails before that is flushed. Until its failure is on
/// record, a crash would bring the drive back without that part.
#[test]
fn a_unit_stays_the_newest_while_a_drive_that_failed_before_its_flush_may_come_back() {
    let shape = shape();
    let mut array = Array::new(with_log(record(shape, 0, None)), 1, 3, Options::default());
    let length = shape.row_bytes();
    for row in 0..12 {
        array
            .write(0, row * length, &vec![1; length as usize])
            .unwrap();
    }
    let drive = |index| usize::from(shape.data_slots(0, index).iter().next().unwrap().0);
    let before = units(&array);
    let first = ask(&mut array, Operation::Write, 0, 2 * CHUNK);
    while units(&array) == before {
        array.turn();
    }
    array.shared.borrow_mut().disks[drive(1)].hung = true;
    turn(&mut array, 50);
    // A write to another row whose parity is on the same drive: it waits for the log.
    let row = u64::from(shape.members);
    assert_eq!(shape.parity_slot(row), shape.parity_slot(0));
    let second = ask(&mut array, Operation::Write, row * length + 2 * CHUNK, 4096);
    turn(&mut array, 50);
    assert_eq!(units(&array), before + 1, "the next unit was written");
    {
        let mut shared = array.shared.borrow_mut();
        shared.hold_persists = true;
        shared.disks[drive(0)].gone = true;
        let of_first = shape.member_offset_bytes(0, 0);
        let mut cached = shared.disks[drive(0)].unflushed.iter();
        assert!(cached.any(|range| range.0 == of_first), "it is in no cache");
    }
    ask(&mut array, Operation::Read, 8 * length, 4096);
    turn(&mut array, 50);
    let lost = MemberId(drive(0) as u8);
    let is_noticed =
        |event: &Event| matches!(event, Event::MemberFailed { member, .. } if *member == lost);
    assert!(array.has_event(is_noticed));
    array.shared.borrow_mut().disks[drive(1)].hung = false;
    array.wait_ms(1000);
    assert_eq!(units(&array), before + 1, "the next unit was written");
    assert_eq!(array.shared.borrow().early_units, 0);
    array.release_persists();
    for tag in [first, second] {
        assert_eq!(array.finish(tag), Ok(()));
    }
}
