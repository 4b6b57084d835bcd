//! What keeps a bit set: a write that has not ended, a shard that has not answered, a drive that is lost meanwhile.

use super::{REGION, count, marked, on_drives, started};
use crate::memory::{Array, geometry};
use engine::control::message::{Command, Message};
use engine::control::record::Record;
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos};

/// From one round of clearing to the next.
const ROUND_MS: u64 = 5_000;

fn mirror() -> Geometry {
    geometry(Level::Raid1, 2, 1 << 20, 3)
}

fn parity() -> Geometry {
    geometry(Level::Raid5, 3, 128 << 10, 9)
}

/// Options under which only rounds of clearing flush drives.
fn options() -> Options {
    Options {
        clean_after: Nanos(600 * Nanos::SECOND.0),
        auto_rebuild: false,
        ..Options::default()
    }
}

fn watched(shape: Geometry, shards: u8) -> (Array, Record) {
    let record = marked(shape, 0);
    let array = Array::new(record.clone(), shards, 3, options());
    array.shared.borrow_mut().watch(&record);
    (array, record)
}

fn ask(array: &mut Array, shard: usize, offset: u64, length: u32) -> u64 {
    let buffer = array.allocate(u64::from(length));
    array.fill(buffer, &vec![9; length as usize]);
    array.submit(shard, Operation::Write, offset, length, buffer)
}

/// Commands that are issued from here on take this long.
fn take(array: &Array, latency: Nanos) {
    array.shared.borrow_mut().latency_ns = latency.0;
}

/// Runs only the first shard, a millisecond a turn, until `is_so` holds.
fn first_alone_until(array: &mut Array, is_so: impl Fn(&Array) -> bool) {
    for _ in 0..20_000 {
        if is_so(array) {
            return;
        }
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.turn_alone(0);
    }
    panic!("the awaited state was not reached in 20 000 turns");
}

fn cleared(array: &Array) -> usize {
    array.shared.borrow().marks.unwrap().cleared
}

/// Otherwise a power cut could leave the write without its bit.
#[test]
fn bits_are_durable_when_the_write_that_they_are_for_begins() {
    for shape in [mirror(), parity()] {
        let (mut array, _) = watched(shape, 1);
        array.write(0, 0, &[7; 4096]).unwrap();
        let shared = array.shared.borrow();
        let bits_at = shared.marks.unwrap().bits_at;
        for disk in &shared.disks {
            let mut in_cache = disk.unflushed.iter().map(|range| range.0);
            assert!(!in_cache.any(|from| from >= bits_at), "{shape:?}");
        }
    }
}

/// A write with or without a plan, which is under way for more than two rounds of clearing.
#[test]
fn a_bit_stays_as_long_as_a_write_in_its_region_has_not_ended() {
    for (shape, length) in [(mirror(), 4096), (mirror(), 192 << 10), (parity(), 4096)] {
        let (mut array, record) = watched(shape, 1);
        array.write(0, 0, &[7; 4096]).unwrap();
        take(&array, Nanos(28 * Nanos::SECOND.0));
        let tag = ask(&mut array, 0, 0, length);
        (0..20).for_each(|_| array.turn_alone(0));
        take(&array, Nanos(50_000));
        array.wait_ms(2 * ROUND_MS + 1_000);
        assert!(array.shared.borrow().flights.contains_key(&tag));
        assert!(count(&on_drives(&array, &record)) > 0);
        assert_eq!(cleared(&array), 0, "{shape:?}, {length}");
        array.wait_ms(18_000);
        assert_eq!(array.finish(tag), Ok(()));
        assert_eq!(array.shared.borrow().marks.unwrap().early, 0);
    }
}

/// So a client that writes to a region now and then does not wait for a bitmap update each time.
#[test]
fn a_bit_stays_for_a_round_after_the_last_write_in_its_region() {
    let zeroes = Operation::WriteZeroes {
        keep_allocated: true,
        only_if_fast: false,
    };
    for (shape, what) in [
        (mirror(), Operation::Write),
        (parity(), Operation::Write),
        (mirror(), zeroes),
    ] {
        let (mut array, record) = watched(shape, 1);
        let buffer = array.allocate(4096);
        for _ in 0..3 {
            let tag = array.submit(0, what, 0, 4096, buffer);
            assert_eq!(array.finish(tag), Ok(()));
            array.wait_ms(ROUND_MS + 100);
            assert_eq!(cleared(&array), 0, "{shape:?}");
        }
        array.wait_ms(2 * ROUND_MS);
        assert_eq!(count(&on_drives(&array, &record)), 0);
    }
}

/// A shard that has not answered may be writing in the region.
#[test]
fn a_bit_stays_until_every_shard_has_answered() {
    let (mut array, _) = watched(mirror(), 2);
    array.write(0, 0, &[7; 4096]).unwrap();
    array.wait_ms(ROUND_MS + 500);
    let is_asked = |message: &Message| matches!(message, Message::CloseRegions { .. });
    first_alone_until(&mut array, |array| {
        array.shared.borrow().mail[1].iter().any(is_asked)
    });
    for _ in 0..1000 {
        array.turn_alone(0);
    }
    assert_eq!(cleared(&array), 0);
    array.wait_ms(500);
    assert_eq!(cleared(&array), 2, "once on each drive");
}

/// The lost drive lacks what was in its cache.
#[test]
fn a_bit_stays_when_a_drive_is_lost_under_the_flush_before_it_is_cleared() {
    let (mut array, record) = watched(mirror(), 1);
    array.write(0, 0, &[7; 4096]).unwrap();
    array.wait_ms(ROUND_MS + 500);
    let flushes = |array: &Array| array.shards[0].engine.stats().member_flushes;
    let before = flushes(&array);
    take(&array, Nanos(3 * Nanos::SECOND.0));
    first_alone_until(&mut array, |array| flushes(array) > before);
    take(&array, Nanos(50_000));
    let lost = MemberId(1);
    array.command(Command::Fail(lost)).unwrap();
    let recorded = Event::FailureRecorded(lost);
    array.run_until(|array| array.has_event(|event| *event == recorded));
    assert!(!array.shared.borrow().disks[0].unflushed.is_empty());
    array.wait_ms(4_000);
    assert!(array.shared.borrow().disks[0].unflushed.is_empty());
    assert_eq!(count(&on_drives(&array, &record)), 1);
    assert_eq!(cleared(&array), 0);
}

/// The round asks the shards which regions are at rest before they learn that the new bit is set and they may write.
#[test]
fn a_bit_that_is_being_set_is_not_cleared_in_the_round_that_begins_meanwhile() {
    let (mut array, record) = watched(mirror(), 1);
    let other = 20 * REGION;
    array.write(0, other, &[7; 4096]).unwrap();
    array.wait_ms(2 * ROUND_MS - 100);
    let writes = |array: &Array| array.shared.borrow().marks.unwrap().writes;
    let before = writes(&array);
    array.shared.borrow_mut().disks[0].hung = true;
    let tag = ask(&mut array, 0, 0, 4096);
    first_alone_until(&mut array, |array| writes(array) > before);
    assert_eq!(cleared(&array), 0, "the round has not begun");
    array.wait_ms(500);
    array.unhang(0);
    assert_eq!(array.finish(tag), Ok(()));
    array.wait_ms(500);
    assert_eq!(cleared(&array), 2, "the bit of the other region");
    assert_eq!(on_drives(&array, &record), [1]);
    assert_eq!(array.shared.borrow().marks.unwrap().early, 0);
}

/// The second write covers two regions: one is marked and at rest, the other is not marked. It waits for the bitmap
/// update that is under way for the first write.
#[test]
fn a_bit_that_somebody_waits_for_is_not_cleared_in_the_round_that_begins_meanwhile() {
    let (mut array, record) = watched(mirror(), 1);
    array.write(0, REGION, &[7; 4096]).unwrap();
    array.wait_ms(2 * ROUND_MS - 100);
    let writes = |array: &Array| array.shared.borrow().marks.unwrap().writes;
    let before = writes(&array);
    array.shared.borrow_mut().disks[0].hung = true;
    let first = ask(&mut array, 0, 20 * REGION, 4096);
    first_alone_until(&mut array, |array| writes(array) > before);
    let second = ask(&mut array, 0, 2 * REGION - 2048, 4096);
    array.wait_ms(500);
    array.unhang(0);
    assert_eq!(array.finish(first), Ok(()));
    assert_eq!(array.finish(second), Ok(()));
    array.wait_ms(1_000);
    assert_eq!(on_drives(&array, &record), [1 << 20 | 0b110]);
    assert_eq!(array.shared.borrow().marks.unwrap().early, 0);
}

/// The bit of the last write is still set, so the bitmap does not hold the next write up.
#[test]
fn a_write_to_a_clean_volume_waits_for_the_dirty_mark_where_its_bit_is_set() {
    for length in [4096, 192 << 10] {
        let record = marked(mirror(), 0);
        let mut array = started(&record, 1, 3);
        array.write(0, 0, &vec![7; length as usize]).unwrap();
        let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
        array.run_until(|array| {
            array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
            array.has_event(is_clean)
        });
        assert!(count(&on_drives(&array, &record)) > 0);
        array.shared.borrow_mut().hold_persists = true;
        let tag = ask(&mut array, 0, 0, length);
        array.wait_ms(200);
        assert_eq!(array.take_completion(tag), None, "{length}");
        let first = array.shape.start_bytes as usize;
        assert_eq!(array.shared.borrow().disks[0].bytes[first], 7, "{length}");
        array.release_persists();
        assert_eq!(array.finish(tag), Ok(()));
    }
}
