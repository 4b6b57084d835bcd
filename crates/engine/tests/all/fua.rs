//! A request with FUA is durable when it is acknowledged, on every member that holds a part of it, parity and a drive
//! that is being copied to included, also if it was merged with others, cut into pieces, sent to another shard or
//! planned anew.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::Command;
use engine::control::record::LogArea;
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, ShardId, Slot, VolumeId};

const GRAIN: u32 = 4096;
const BLOCK: u64 = 512;

const ZEROES: Operation = Operation::WriteZeroes {
    keep_allocated: true,
    only_if_fast: false,
};

/// An array whose RAID 5 keeps a write-hole log if it is `logged`.
fn array(shape: Geometry, spares: u8, shards: u8, logged: bool) -> Array {
    let mut record = record(shape, spares, None);
    record.volumes[0].log = logged.then_some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    let mut array = Array::new(record, shards, 3, Options::default());
    let content = vec![0x5A; shape.size_bytes as usize];
    for (at, piece) in content.chunks(1 << 20).enumerate() {
        array.write(0, (at as u64) << 20, piece).expect("written");
    }
    forget(&array);
    array
}

/// All that was written so far counts as flushed.
fn forget(array: &Array) {
    let disks = &mut array.shared.borrow_mut().disks;
    disks.iter_mut().for_each(|disk| disk.unflushed.clear());
}

/// Drives that hold something of the volume that is not durable.
fn unflushed(array: &Array) -> Vec<usize> {
    let shared = array.shared.borrow();
    let drives = shared.disks.iter().enumerate();
    let has = drives.filter(|(_, disk)| !disk.unflushed.is_empty());
    has.map(|(drive, _)| drive).collect()
}

fn ask(
    array: &mut Array,
    shard: usize,
    what: Operation,
    offset: u64,
    length: u32,
    fua: bool,
) -> u64 {
    let buffer = array.allocate(u64::from(length));
    array.fill(buffer, &vec![0xA5; length as usize]);
    let volume = VolumeId(0);
    array.submit_to(shard, volume, what, offset, length, buffer, fua)
}

fn carry_out(
    array: &mut Array,
    shard: usize,
    what: Operation,
    offset: u64,
    length: u32,
) -> Result<(), Failure> {
    let tag = ask(array, shard, what, offset, length, true);
    array.finish(tag)
}

fn data_slot(shape: &Geometry, row: u64, data_index: u8) -> Slot {
    shape.data_slots(row, data_index).iter().next().unwrap()
}

/// Makes a block unreadable: row, slot, offset in the chunk.
fn spoil(array: &Array, row: u64, slot: Slot, in_chunk: u32) {
    let from = array.shape.member_offset_bytes(row, in_chunk);
    let disk = &mut array.shared.borrow_mut().disks[usize::from(slot.0)];
    disk.bad.push((from, from + BLOCK));
}

/// Copies the drive in a slot, up to the moment at which the copy would take the slot: both get every write.
fn copy(array: &mut Array, slot: Slot) {
    let shape = array.shape;
    array.shared.borrow_mut().hold_persists = true;
    let order = Command::Replace {
        volume: VolumeId(0),
        slot,
        to: MemberId(shape.members),
    };
    array.command(order).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let job = controller.job(VolumeId(0)).expect("it is being copied");
        job.done_bytes == shape.component_bytes
    });
    forget(array);
}

/// One of several writes that share a plan has FUA, whichever that is: then the plan's parity is durable as well.
#[test]
fn one_of_several_merged_writes_makes_their_row_durable() {
    for logged in [false, true] {
        for asks in 0..6 {
            let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
            let mut array = array(shape, 0, 1, logged);
            let merges = array.shards[0].engine.stats().merges;
            let offset = |at: u32| u64::from(at * GRAIN);
            let tags = (0..6).map(|at| {
                let is_asking = at == asks;
                ask(
                    &mut array,
                    0,
                    Operation::Write,
                    offset(at),
                    GRAIN,
                    is_asking,
                )
            });
            let tags: Vec<u64> = tags.collect();
            assert_eq!(array.finish(tags[asks as usize]), Ok(()));
            let merged = array.shards[0].engine.stats().merges - merges;
            assert_eq!(merged, 5, "they share a plan");
            assert_eq!(
                unflushed(&array),
                [],
                "logged: {logged}, write {asks} has FUA"
            );
        }
    }
}

#[test]
fn zeroes_and_trims_are_durable_at_every_level() {
    for (level, members) in [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
    ] {
        for logged in [false, level == Level::Raid5] {
            let shape = geometry(level, members, 64 << 10, 8);
            let row = shape.row_bytes().min(192 << 10) as u32;
            for what in [ZEROES, Operation::Trim] {
                // A part of a chunk, one row, and one row with parts of both its neighbours.
                for (offset, length) in [(0, GRAIN), (0, row), (u64::from(row) - 8192, row + 16384)]
                {
                    let mut array = array(shape, 0, 1, logged);
                    let done = carry_out(&mut array, 0, what, offset, length);
                    assert_eq!(done, Ok(()));
                    let at = format!("{level}, {what:?}, {length}, logged: {logged}");
                    assert_eq!(unflushed(&array), [], "{at}");
                }
            }
        }
    }
}

/// The rows cannot be zeroed as a whole, because their parity stands for a lost data chunk: the zeroes are written.
#[test]
fn zeroes_that_have_to_be_written_are_durable() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
    let mut array = array(shape, 0, 1, true);
    array.command(Command::Fail(MemberId(1))).unwrap();
    forget(&array);
    let length = 4 * shape.row_bytes() as u32;
    assert_eq!(carry_out(&mut array, 0, ZEROES, 0, length), Ok(()));
    assert_eq!(unflushed(&array), []);
    assert_eq!(array.read(0, 0, length).unwrap(), vec![0; length as usize]);
}

/// Whether the request is sent there whole, runs without a plan, or is cut into pieces.
#[test]
fn what_another_shard_carries_out_is_durable() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let shape = geometry(level, members, 64 << 10, 48);
        let row = shape.row_bytes();
        for what in [Operation::Write, ZEROES] {
            for length in [GRAIN, row as u32] {
                let mut array = array(shape, 0, 2, level == Level::Raid5);
                for at in 0..shape.size_bytes / row {
                    for shard in 0..2 {
                        let done = carry_out(&mut array, shard, what, at * row, length);
                        assert_eq!(done, Ok(()));
                        let of = format!("{level}, {what:?}, {length}, row {at}, shard {shard}");
                        assert_eq!(unflushed(&array), [], "{of}");
                    }
                }
                let owners = (0..shape.size_bytes / row).map(|row| shape.owner(row, 2));
                assert!(owners.clone().any(|by| by == ShardId(0)));
                assert!(owners.clone().any(|by| by == ShardId(1)));
            }
        }
    }
}

/// The drive that will take the slot must hold the request's data durably as well.
#[test]
fn the_drive_that_is_being_copied_to_has_it_durably() {
    for (level, members) in [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
    ] {
        for what in [Operation::Write, ZEROES] {
            for length in [GRAIN, 64 << 10, 192 << 10] {
                let shape = geometry(level, members, 64 << 10, 16);
                let mut array = array(shape, 1, 1, level == Level::Raid5);
                copy(&mut array, Slot(0));
                assert_eq!(carry_out(&mut array, 0, what, 0, length), Ok(()));
                let at = format!("{level}, {what:?}, {length}");
                assert_eq!(unflushed(&array), [], "{at}");
                let shared = array.shared.borrow();
                let place = shape.member_offset_bytes(0, 0) as usize;
                let new = shared.disks[usize::from(members)].bytes[place];
                assert_eq!(new, shared.disks[0].bytes[place], "{at}");
            }
        }
    }
}

/// The new parity depends on an unreadable block: the plan is given up, and the write continues piece by piece, around
/// the block.
#[test]
fn a_write_that_goes_on_in_pieces_is_durable() {
    for logged in [false, true] {
        // Unreadable is the data that is overwritten, the parity, or data that is not overwritten.
        for bad in 0..3 {
            let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
            let mut array = array(shape, 0, 1, logged);
            let slot = match bad {
                0 => data_slot(&shape, 0, 0),
                1 => shape.parity_slot(0).unwrap(),
                _ => data_slot(&shape, 0, 2),
            };
            spoil(&array, 0, slot, 8 * GRAIN);
            let replans = array.shards[0].engine.stats().replans;
            let length = if bad == 2 { 128 << 10 } else { 60 << 10 };
            let written = carry_out(&mut array, 0, Operation::Write, 0, length);
            assert_eq!(written, Ok(()));
            let given_up = array.shards[0].engine.stats().replans - replans;
            assert!(given_up > 0, "logged: {logged}, {bad}: it was not given up");
            assert_eq!(unflushed(&array), [], "logged: {logged}, {bad}");
        }
    }
}

/// Parity cannot be computed any more, and the data are written alone.
#[test]
fn data_that_are_written_without_their_parity_are_durable() {
    for logged in [false, true] {
        let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
        let mut array = array(shape, 0, 1, logged);
        for data_index in 0..2 {
            spoil(&array, 0, data_slot(&shape, 0, data_index), 2 * GRAIN);
        }
        let block = BLOCK as u32;
        let at = u64::from(2 * GRAIN);
        let written = carry_out(&mut array, 0, Operation::Write, at, block);
        assert_eq!(written, Ok(()));
        assert!(
            !array.shared.borrow().disks[1]
                .record
                .as_ref()
                .unwrap()
                .bad_blocks
                .ranges()
                .is_empty(),
            "parity was given up"
        );
        assert_eq!(unflushed(&array), [], "logged: {logged}");
    }
}

/// Two writes that wait together cannot share an entry of the log, and are planned one after the other.
#[test]
fn writes_that_are_taken_apart_again_stay_durable() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
    let mut array = array(shape, 0, 1, true);
    let chunk = u64::from(shape.chunk_bytes);
    // The first and the last chunk, and not what lies between: no log entry can cover both.
    let tags = [0, 2 * chunk].map(|at| ask(&mut array, 0, Operation::Write, at, GRAIN, true));
    for tag in tags {
        assert_eq!(array.finish(tag), Ok(()));
    }
    assert_eq!(unflushed(&array), []);
}

/// A member fails under the write, which is then planned anew without it.
#[test]
fn a_write_that_is_planned_again_without_a_member_is_durable() {
    for logged in [false, true] {
        let shape = geometry(Level::Raid5, 4, 64 << 10, 8);
        let mut array = array(shape, 0, 1, logged);
        let gone = data_slot(&shape, 0, 0);
        array.shared.borrow_mut().disks[usize::from(gone.0)].gone = true;
        let written = carry_out(&mut array, 0, Operation::Write, 0, GRAIN);
        assert_eq!(written, Ok(()));
        assert!(array.has_event(|event| *event == Event::FailureRecorded(MemberId(gone.0))));
        assert_eq!(unflushed(&array), [], "logged: {logged}");
        let found = array.read(0, 0, GRAIN).unwrap();
        assert_eq!(found, [0xA5; GRAIN as usize]);
    }
}

/// Writes with and without a plan.
#[test]
fn a_level_without_redundancy_keeps_it_too() {
    for length in [GRAIN, 300 << 10] {
        let shape = geometry(Level::Raid0, 3, 64 << 10, 64);
        let mut array = array(shape, 1, 1, false);
        assert_eq!(
            carry_out(&mut array, 0, Operation::Write, 0, length),
            Ok(())
        );
        assert_eq!(unflushed(&array), [], "{length}");
    }
}
