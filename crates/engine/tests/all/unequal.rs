//! Mirrors that a crash has left unequal: what a client has read once stays, whatever happens to the drives.

use crate::memory::marks::with_bitmap;
use crate::memory::{Array, MIB, Random, geometry, record};
use engine::control::message::Command;
use engine::control::record::{Record, SyncKind};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{Buffer, MemberId, Slot};

const KIB: u64 = 1 << 10;

fn shapes() -> [Geometry; 3] {
    [
        geometry(Level::Raid1, 2, MIB as u32, 8),
        geometry(Level::Raid1, 3, MIB as u32, 6),
        geometry(Level::Raid10, 4, 64 << 10, 48),
    ]
}

/// The record after a crash.
fn crashed(shape: Geometry, spares: u8) -> Record {
    let mut record = record(shape, spares, Some(SyncKind::Resync));
    record.volumes[0].dirty = true;
    record
}

/// An array in which every drive holds bytes of its own, and whose resync gets no further than its first bands:
/// the last eighth of the volume stays in doubt.
fn unequal(record: Record, shards: u8, seed: u64) -> Array {
    let slow = Options {
        rate_bytes_per_s: 1,
        ..Options::default()
    };
    let array = Array::new(record, shards, seed, slow);
    for (drive, disk) in (0u8..).zip(&mut array.shared.borrow_mut().disks) {
        disk.bytes.fill(0xA0 + drive);
    }
    array
}

/// An offset that stays in doubt, `number` times 4 KiB behind the first.
fn in_doubt(array: &Array, number: u64) -> u64 {
    array.shape.size_bytes / 8 * 7 + number * 4 * KIB
}

fn made_equal(array: &Array) -> u64 {
    let shards = array.shards.iter();
    shards
        .map(|shard| shard.engine.stats().reads_made_equal)
        .sum()
}

/// Commands that have written to drives.
fn written(array: &Array) -> u64 {
    let shards = array.shards.iter();
    shards.map(|shard| shard.engine.stats().member_writes).sum()
}

fn submit_read(array: &mut Array, offset: u64, length: u32) -> (u64, Buffer) {
    let buffer = array.allocate(u64::from(length));
    let tag = array.submit(0, Operation::Read, offset, length, buffer);
    (tag, buffer)
}

/// Clients read here and there, in pieces of any size, on any shard. Returns what has been seen, by sector.
fn look_around(array: &mut Array, random: &mut Random, seen: &mut [Option<u8>], looks: u32) {
    let sectors = seen.len() as u64;
    for _ in 0..looks {
        let most = [1, 8, 64, 400][random.below(4) as usize];
        let count = 1 + random.below(most);
        let first = random.below(sectors - count);
        let shard = random.below(array.shards.len() as u64) as usize;
        let bytes = array
            .read(shard, first * 512, count as u32 * 512)
            .expect("one drive is enough");
        for (sector, bytes) in (first as usize..).zip(bytes.chunks(512)) {
            let value = bytes[0];
            assert!(
                bytes.iter().all(|&byte| byte == value),
                "bytes of two drives"
            );
            assert_eq!(
                *seen[sector].get_or_insert(value),
                value,
                "sector {sector} of {:?}",
                array.shape
            );
        }
    }
}

#[test]
fn what_has_been_read_stays_when_the_drive_that_it_was_read_from_is_lost() {
    for (seed, shape) in (0..9).zip(shapes().iter().cycle()) {
        let mut array = unequal(crashed(*shape, 0), 1 + seed as u8 / 3, seed);
        let mut random = Random(70 + seed);
        let mut seen = vec![None; (shape.size_bytes / 512) as usize];
        look_around(&mut array, &mut random, &mut seen, 60);
        let first: Vec<u8> = seen.iter().copied().flatten().collect();
        array.shared.borrow_mut().disks[0].gone = true;
        look_around(&mut array, &mut random, &mut seen, 60);
        if shape.level == Level::Raid10 {
            array.shared.borrow_mut().disks[2].gone = true;
        }
        if shape.members == 3 {
            array.shared.borrow_mut().disks[1].gone = true;
        }
        look_around(&mut array, &mut random, &mut seen, 60);
        let all: Vec<u8> = seen.iter().copied().flatten().collect();
        assert!(first.iter().all(|&byte| byte == 0xA0 || byte == 0xA2));
        assert!(all.contains(&0xA1), "the drives did hold other bytes");
    }
}

#[test]
fn what_has_been_read_stays_when_it_cannot_be_read_there_any_more() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 0), 2, 11);
        let mut random = Random(7);
        let mut seen = vec![None; (shape.size_bytes / 512) as usize];
        look_around(&mut array, &mut random, &mut seen, 80);
        // Blocks that have not been read yet become unreadable as well: they are read from another drive.
        for _ in 0..60 {
            let extent = shape.component_bytes / 512;
            let from = shape.start_bytes + random.below(extent) * 512;
            array.shared.borrow_mut().disks[0]
                .bad
                .push((from, from + 512));
        }
        look_around(&mut array, &mut random, &mut seen, 160);
        let is_failed = |event: &Event| matches!(event, Event::MemberFailed { .. });
        assert!(!array.has_event(is_failed));
        array.shared.borrow_mut().disks[0].gone = true;
        look_around(&mut array, &mut random, &mut seen, 80);
    }
}

/// A drive that has missed the write that made copies equal must not come back with other bytes than were read.
#[test]
fn a_read_that_a_drive_missed_waits_until_its_failure_is_on_record() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 0), 1, 5);
        array.wait_ms(100);
        let place = in_doubt(&array, 0);
        {
            let mut shared = array.shared.borrow_mut();
            shared.hold_persists = true;
            shared.disks[1].writes_fail = true;
        }
        let (tag, _) = submit_read(&mut array, place, 4096);
        let mut others = Vec::new();
        if shape.level == Level::Raid10 {
            // The chunk of the other pair has not lost a drive.
            let second = place + u64::from(shape.chunk_bytes);
            others.push(submit_read(&mut array, second, 4096));
        }
        for _ in 0..3000 {
            array.turn();
        }
        assert_eq!(array.take_completion(tag), None, "{shape:?}");
        for (tag, _) in others {
            assert_eq!(array.take_completion(tag), Some(Ok(())));
        }
        // A read that comes when the drive has failed already waits too.
        let next = in_doubt(&array, 1);
        let (later, _) = submit_read(&mut array, next, 4096);
        for _ in 0..3000 {
            array.turn();
        }
        assert_eq!(array.take_completion(later), None, "{shape:?}");
        array.release_persists();
        array.finish(tag).expect("the other drive has it");
        array.finish(later).expect("the other drive has it");
        let shared = array.shared.borrow();
        let last = shared.disks[0].record.as_ref().expect("a record");
        assert!(!last.volumes[0].slots[1].current);
    }
}

#[test]
fn in_a_volume_that_has_failed_no_drive_is_left_behind_unnoticed() {
    let shape = geometry(Level::Raid10, 4, 64 << 10, 48);
    let mut array = unequal(crashed(shape, 0), 1, 5);
    array.wait_ms(100);
    let place = in_doubt(&array, 0);
    let other_pair = place + u64::from(shape.chunk_bytes);
    for drive in [0, 1] {
        array.shared.borrow_mut().disks[drive].gone = true;
    }
    let lost = array.read(0, place, 4096);
    assert!(matches!(lost, Err(Failure::Unrecoverable { .. })));
    // The pair that is whole still serves, and is still made equal.
    assert_eq!(array.read(0, other_pair, 4096), Ok(vec![0xA2; 4096]));
    let at = shape.locate(other_pair);
    let at = shape.member_offset_bytes(at.row, at.in_chunk_bytes) as usize;
    assert_eq!(array.shared.borrow().disks[3].bytes[at], 0xA2);
    // No failure is recorded any more: a drive that misses something could come back.
    array.shared.borrow_mut().disks[3].writes_fail = true;
    let unequal = array.read(0, other_pair + 4096, 4096);
    assert!(matches!(unequal, Err(Failure::Unrecoverable { .. })));
    assert_eq!(array.read(0, other_pair, 4096), Ok(vec![0xA2; 4096]));
}

#[test]
fn what_is_equal_is_not_written_again_and_read_from_all_drives() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 0), 1, 3);
        array.wait_ms(100);
        let (place, length) = (in_doubt(&array, 0), 96 * KIB as u32);
        let first = array.read(0, place, length).expect("a read");
        let (writes, equal) = (written(&array), made_equal(&array));
        assert!(equal > 0 && writes > 0);
        let before: Vec<usize> = {
            let shared = array.shared.borrow();
            shared.disks.iter().map(|disk| disk.reads).collect()
        };
        for _ in 0..20 {
            // At the same time, so that they are spread over the drives.
            let reads: Vec<_> = (0..24)
                .map(|number| submit_read(&mut array, place + number * 4 * KIB, 4096))
                .collect();
            for (number, (tag, buffer)) in (0..).zip(reads) {
                array.finish(tag).expect("a read");
                let shared = array.shared.borrow();
                let found = &shared.memory[buffer.0 as usize..][..4096];
                assert!(found == &first[number * 4096..][..4096]);
            }
        }
        assert_eq!((written(&array), made_equal(&array)), (writes, equal));
        let shared = array.shared.borrow();
        for (disk, before) in shared.disks.iter().zip(before) {
            assert!(disk.reads > before, "every drive serves");
        }
    }
}

#[test]
fn a_volume_that_is_only_read_is_not_written_to() {
    for shape in shapes() {
        let mut only_read = crashed(shape, 0);
        only_read.volumes[0].read_only = true;
        let mut array = unequal(only_read, 2, 3);
        let place = in_doubt(&array, 0);
        for shard in [0, 1] {
            let found = array.read(shard, place, 4096).expect("a read");
            assert!(found.iter().all(|&byte| byte == found[0]));
        }
        assert_eq!((written(&array), made_equal(&array)), (0, 0));
    }
}

#[test]
fn with_a_bitmap_only_what_it_marks_is_made_equal() {
    for shape in [shapes()[0], shapes()[2]] {
        let (region, number) = (64 * KIB, 84);
        let words = [0, 1 << (number % 64)];
        let mut record = with_bitmap(crashed(shape, 0), region, &words);
        record.volumes[0].then_resync = true;
        record.volumes[0].sync = None;
        let mut array = unequal(record, 1, 3);
        let marked = number * region;
        array.read(0, marked - 4096, 4096).expect("a read");
        array.read(0, marked + region, 4096).expect("a read");
        assert_eq!(written(&array), 0);
        array.read(0, marked, 4096).expect("a read");
        assert_eq!((written(&array), made_equal(&array)), (1, 1));
    }
}

/// The read is answered, and its bytes stay although the drive is failed and replaced and the other drive is lost.
#[test]
fn a_drive_that_hangs_while_copies_are_made_equal_costs_nobody_an_answer() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 1), 2, 9);
        array.wait_ms(100);
        let place = in_doubt(&array, 0);
        array.hang(1);
        let (tag, buffer) = submit_read(&mut array, place, 4096);
        array.wait_ms(40_000);
        array.finish(tag).expect("the other drive has it");
        let buffer = array.answer_of(tag, buffer);
        let found = array.shared.borrow().memory[buffer.0 as usize];
        array.unhang(1);
        array.wait_ms(100);
        array.command(Command::Rate(0)).expect("an order");
        let is_filled = |array: &mut Array| {
            let shared = array.shared.borrow();
            let record = shared.disks[0].record.as_ref();
            record.is_some_and(|record| {
                let volume = &record.volumes[0];
                let whole = volume.slots.iter().all(|slot| slot.current);
                whole
                    && volume
                        .slots
                        .iter()
                        .all(|slot| slot.member != Some(MemberId(1)))
            })
        };
        array.run_until(is_filled);
        array.shared.borrow_mut().disks[0].gone = true;
        let again = array.read(1, place, 4096).expect("a read");
        assert!(again.iter().all(|&byte| byte == found));
    }
}

/// One block of a grain is unreadable on all copies, so the read is an error and has made nothing equal: what else lies
/// in the grain may still differ, and is read from one copy until it is made equal.
#[test]
fn a_read_that_fails_has_made_nothing_equal() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 0), 1, 3);
        let place = in_doubt(&array, 0);
        let at = shape.locate(place);
        let bad = shape.member_offset_bytes(at.row, at.in_chunk_bytes) + 512;
        for disk in &mut array.shared.borrow_mut().disks {
            disk.bad.push((bad, bad + 512));
        }
        assert!(array.read(0, place, 4096).is_err());
        assert_eq!(made_equal(&array), 0, "{shape:?}");
        let first = array.read(0, place, 512).unwrap();
        let copies = shape.data_slots(at.row, at.data_index);
        let from = shape.member_offset_bytes(at.row, at.in_chunk_bytes) as usize;
        for slot in copies.iter() {
            let shared = array.shared.borrow();
            let held = &shared.disks[usize::from(slot.0)].bytes[from..from + 512];
            assert!(held == first, "{shape:?}: slot {slot:?}");
        }
    }
}

/// The next start may take any copy as the source. What the resync has copied may have been read, and reads do not
/// write it again: so it is durable when it is written, and not only at the next checkpoint.
#[test]
fn what_a_resync_copies_is_durable_at_once() {
    for shape in shapes() {
        let mut array = Array::new(crashed(shape, 0), 1, 3, Options::default());
        for (drive, disk) in (0u8..).zip(&mut array.shared.borrow_mut().disks) {
            disk.bytes.fill(0xA0 + drive);
        }
        array.run_until(|array| {
            for (drive, disk) in array.shared.borrow().disks.iter().enumerate() {
                assert_eq!(disk.unflushed, [], "{shape:?}: drive {drive}");
            }
            array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
        });
        let copies = shape.data_slots(0, 0);
        let at = shape.member_offset_bytes(0, 0) as usize;
        let held = |slot: Slot| array.shared.borrow().disks[usize::from(slot.0)].bytes[at];
        assert!(copies.iter().all(|slot| held(slot) == 0xA0), "{shape:?}");
    }
}

/// The second read waits for the lock of the first, and finds the copies equal.
#[test]
fn of_two_reads_of_a_place_one_makes_its_copies_equal() {
    for shape in shapes() {
        let mut array = unequal(crashed(shape, 0), 1, 5);
        array.wait_ms(100);
        let place = in_doubt(&array, 0);
        let before = written(&array);
        let reads = [(); 2].map(|()| submit_read(&mut array, place, 4096).0);
        for tag in reads {
            assert_eq!(array.finish(tag), Ok(()));
        }
        let copies = u64::from(shape.members / shape.data_members());
        assert_eq!(written(&array) - before, copies - 1, "{shape:?}");
        assert_eq!(made_equal(&array), 1, "{shape:?}");
    }
}

/// There is nothing to make equal, and the read need not wait for a lock.
#[test]
fn a_mirror_with_one_drive_left_is_read_as_it_is() {
    for shape in [shapes()[0], shapes()[2]] {
        let mut array = unequal(crashed(shape, 0), 1, 5);
        array.command(Command::Fail(MemberId(1))).unwrap();
        let recorded = Event::FailureRecorded(MemberId(1));
        array.run_until(|array| array.has_event(|event| *event == recorded));
        let place = in_doubt(&array, 0) / shape.row_bytes() * shape.row_bytes();
        let plans = |array: &Array| array.shards[0].engine.stats().plans_reconstruct;
        let before = plans(&array);
        assert_eq!(array.read(0, place, 4096).unwrap(), [0xA0; 4096]);
        assert_eq!(plans(&array), before, "{shape:?}");
    }
}
