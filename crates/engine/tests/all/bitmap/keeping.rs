//! Which drives hold the bits, how far the bits reach, and what jobs do by them.

use super::{REGION, count, marked, on_drives, started};
use crate::memory::marks::with_bitmap;
use crate::memory::{Array, geometry, record};
use engine::control::message::{Command, Message};
use engine::control::record::{SyncKind, SyncRecord};
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::units::{MemberId, Nanos, Slot, VolumeId};

/// The volume has exactly as many regions as a sector has bits.
#[test]
fn the_last_region_of_a_full_sector_of_bits_is_marked() {
    let region_bytes = 4096;
    let shape = geometry(Level::Raid1, 2, 1 << 20, 16);
    assert_eq!(shape.component_bytes / region_bytes, 512 * 8);
    let record = with_bitmap(record(shape, 0, None), region_bytes, &[]);
    let mut array = started(&record, 2, 3);
    let last = shape.size_bytes - region_bytes;
    assert_eq!(array.write(1, last, &[7; 4096]), Ok(()));
    let words = on_drives(&array, &record);
    assert_eq!((count(&words), words[63] >> 63), (1, 1));
    let watch = array.shared.borrow().marks.unwrap();
    assert_eq!(watch.unannounced, 0);
}

/// The filled drive may be the only one that is left after a crash.
#[test]
fn a_drive_that_was_filled_carries_every_bit_that_was_set_before() {
    for shape in super::returning::shapes() {
        let record = marked(shape, 1);
        let mut array = started(&record, 1, 5);
        for at in 0..4 {
            let offset = shape.size_bytes / 4 * at;
            array.write(0, offset, &[9; 4096]).unwrap();
        }
        array.command(Command::Fail(MemberId(1))).unwrap();
        let is_over = |event: &Event| matches!(event, Event::JobEnded { complete: true, .. });
        array.run_until(|array| array.has_event(is_over));
        let shared = array.shared.borrow();
        let from = shared.marks.unwrap().bits_at as usize;
        let bits = |drive: usize| &shared.disks[drive].bytes[from..from + 512];
        assert!(count(&on_drives(&array, &record)) >= 4);
        assert_eq!(bits(usize::from(shape.members)), bits(0), "{shape:?}");
    }
}

fn resync_of(marks: u64) -> engine::control::record::Record {
    let shape = geometry(Level::Raid5, 3, 128 << 10, 9);
    let mut record = with_bitmap(record(shape, 0, None), REGION, &[marks]);
    record.volumes[0].dirty = true;
    record.volumes[0].sync = Some(SyncRecord {
        kind: SyncKind::Resync,
        done_bytes: 0,
    });
    record
}

/// Between the two rows nothing is marked.
#[test]
fn a_resync_goes_on_behind_a_row_that_cannot_be_done_and_rows_without_marks() {
    let (lost, torn) = (1, 5);
    let of_row = |row: u64| 0b11 << (2 * row);
    let record = resync_of(of_row(lost) | of_row(torn));
    let shape = record.volumes[0].geometry;
    // One row in a second: the first is over before the next begins.
    let slow = Options {
        rate_bytes_per_s: 128 << 10,
        ..Options::default()
    };
    let mut array = Array::new(record, 1, 3, slow);
    let data = shape.data_slots(lost, 0).iter().next().unwrap();
    let unreadable = shape.member_offset_bytes(lost, 0);
    let parity = usize::from(shape.parity_slot(torn).unwrap().0);
    let from = shape.member_offset_bytes(torn, 0) as usize;
    {
        let disks = &mut array.shared.borrow_mut().disks;
        let bad = &mut disks[usize::from(data.0)].bad;
        bad.push((unreadable, unreadable + 512));
        disks[parity].bytes[from..from + (128 << 10)].fill(0xEE);
    }
    array.run_until(|array| {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.has_event(|event| matches!(event, Event::JobEnded { .. }))
    });
    let incomplete = |event: &Event| {
        matches!(
            event,
            Event::JobEnded {
                complete: false,
                ..
            }
        )
    };
    assert!(array.has_event(incomplete), "the first row was done");
    let shared = array.shared.borrow();
    let row = &shared.disks[parity].bytes[from..from + (128 << 10)];
    assert!(
        row.iter().all(|&byte| byte == 0),
        "parity was not recomputed"
    );
}

/// Only the drive that was being copied and its copy have volatile caches, and the shard that clears bits has not
/// learned yet that the copy was cancelled.
#[test]
fn bits_are_cleared_after_a_flush_also_when_a_copy_has_just_been_called_off() {
    let mut record = marked(geometry(Level::Raid1, 2, 1 << 20, 3), 1);
    record.members[1].volatile_cache = false;
    let options = Options {
        clean_after: Nanos(600 * Nanos::SECOND.0),
        auto_rebuild: false,
        ..Options::default()
    };
    let mut array = Array::new(record.clone(), 2, 3, options);
    array.shared.borrow_mut().watch(&record);
    array.write(0, 0, &[7; 4096]).unwrap();
    // Drive 1 writes through.
    array.shared.borrow_mut().disks[1].unflushed.clear();
    array.wait_ms(5_500);
    let asks = |array: &Array| {
        let is_asked = |message: &Message| matches!(message, Message::CloseRegions { .. });
        array.shared.borrow().mail[1].iter().any(is_asked)
    };
    assert!(!asks(&array) && !array.shared.borrow().disks[0].unflushed.is_empty());
    while !asks(&array) {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.turn_alone(0);
    }
    let order = |array: &Array, command| {
        let ticket = 1 << 40;
        array.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
    };
    let (volume, slot, to) = (VolumeId(0), Slot(0), MemberId(2));
    order(&array, Command::Replace { volume, slot, to });
    (0..20).for_each(|_| array.turn_alone(0));
    // The order and shard 1's answer reach shard 0 in one turn.
    order(&array, Command::CancelJob(volume));
    array.turn_alone(1);
    array.wait_ms(2_000);
    let is_over = |event: &Event| {
        matches!(
            event,
            Event::JobEnded {
                complete: false,
                ..
            }
        )
    };
    assert!(array.has_event(is_over), "the copy was called off");
    let watch = array.shared.borrow().marks.unwrap();
    assert_eq!((watch.cleared, watch.early), (2, 0));
}
