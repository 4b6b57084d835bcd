//! Writes to a row of a RAID 5 in which two blocks cannot be read: what is written can be read, lost data are errors
//! and never wrong bytes, and nothing is given up that could be reconstructed.

use crate::memory::{Array, Disk, MIB, Random, geometry, record};
use engine::control::bad_blocks::{BadBlocks, BadRange};
use engine::control::message::Command;
use engine::control::record::{LogArea, Record};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::limits::{BAD_BLOCK_ENTRIES_MAX, GRAIN_BYTES};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Slot, VolumeId};

const GRAIN: u64 = GRAIN_BYTES as u64;
const BLOCK: u64 = 512;
/// The row that is spoiled: its parity is on another drive than that of row 0.
const ROW: u64 = 2;

fn shapes() -> [Geometry; 3] {
    [
        geometry(Level::Raid5, 3, 32 << 10, 8),
        geometry(Level::Raid5, 4, 128 << 10, 6),
        geometry(Level::Raid5, 6, 16 << 10, 12),
    ]
}

fn over(record: Record, disks: Vec<Disk>, shards: u8, shape: Geometry) -> Array {
    Array::over(record, disks, shards, 5, Options::default(), shape)
}

/// An array full of content, whose bad-block log has room for `room` entries. It has a write-hole log unless it has
/// four drives.
fn filled(shape: Geometry, spares: u8, shards: u8, room: u64) -> (Array, Vec<u8>) {
    let mut record = record(shape, spares, None);
    record.bad_blocks = BadBlocks::new((BAD_BLOCK_ENTRIES_MAX - room) as usize);
    record.volumes[0].log = (shape.members != 4).then(|| LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    let mut array = Array::new(record, shards, 5, Options::default());
    let mut random = Random(9);
    let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
    for (at, piece) in content.chunks(1 << 20).enumerate() {
        array.write(0, (at as u64) << 20, piece).expect("written");
    }
    (array, content)
}

fn spoil(array: &Array, slot: Slot, in_chunk: u64) {
    let from = array.shape.member_offset_bytes(ROW, in_chunk as u32);
    let disk = &mut array.shared.borrow_mut().disks[usize::from(slot.0)];
    disk.bad.push((from, from + BLOCK));
}

/// The same block of the first two data chunks.
fn spoil_both(array: &Array, in_chunk: u64) {
    spoil(array, data_slot(&array.shape, 0), in_chunk);
    spoil(array, data_slot(&array.shape, 1), in_chunk);
}

fn data_slot(shape: &Geometry, data_index: u8) -> Slot {
    shape.data_slots(ROW, data_index).iter().next().unwrap()
}

/// Where a data chunk's block lies in the volume.
fn offset(shape: &Geometry, data_index: u64, in_chunk: u64) -> u64 {
    ROW * shape.row_bytes() + data_index * u64::from(shape.chunk_bytes) + in_chunk
}

fn write(array: &mut Array, content: &mut [u8], at: u64, bytes: &[u8]) -> Result<(), Failure> {
    content[at as usize..][..bytes.len()].copy_from_slice(bytes);
    array.write(0, at, bytes)
}

/// Reads all blocks; returns where it gets errors. What is read must be right.
fn errors(array: &mut Array, content: &[u8]) -> Vec<u64> {
    let mut errors = Vec::new();
    for (at, expected) in (0u64..).zip(content.chunks(GRAIN as usize)) {
        let shard = at as usize % array.shards.len();
        if let Ok(bytes) = array.read(shard, at * GRAIN, GRAIN_BYTES) {
            assert!(bytes == expected, "wrong bytes at {}", at * GRAIN);
            continue;
        }
        for (block, expected) in (0u64..).zip(expected.chunks(BLOCK as usize)) {
            let offset = at * GRAIN + block * BLOCK;
            match array.read(shard, offset, BLOCK as u32) {
                Ok(bytes) => assert!(bytes == expected, "wrong bytes at {offset}"),
                Err(_) => errors.push(offset),
            }
        }
    }
    errors
}

fn on_record(array: &Array) -> Vec<BadRange> {
    let record = array.shared.borrow().disks[0].record.clone().unwrap();
    record.bad_blocks.ranges().to_vec()
}

fn parity_range(shape: &Geometry, in_chunk: u64) -> BadRange {
    BadRange {
        member: MemberId(shape.parity_slot(ROW).unwrap().0),
        offset_bytes: shape.member_offset_bytes(ROW, in_chunk as u32),
        length_bytes: BLOCK,
    }
}

#[test]
fn either_of_two_unreadable_blocks_can_be_written_and_both_make_the_row_whole() {
    for (shape, shards) in shapes().into_iter().zip(1..) {
        let (mut array, mut content) = filled(shape, 0, shards, 9);
        let bad = 2 * GRAIN + BLOCK;
        spoil_both(&array, bad);
        // A neighbouring block that one drive cannot read costs nothing.
        spoil(&array, data_slot(&shape, 1), bad + BLOCK);
        let first = offset(&shape, 0, 2 * GRAIN);
        let other = offset(&shape, 1, bad);
        write(&mut array, &mut content, first, &[7; GRAIN as usize]).unwrap();
        assert_eq!(on_record(&array), [parity_range(&shape, bad)]);
        assert_eq!(errors(&mut array, &content), [other], "{shape:?}");
        // The same write again needs no update of the record.
        let updates = array.shared.borrow().persists.len();
        write(&mut array, &mut content, first, &[8; GRAIN as usize]).unwrap();
        assert_eq!(array.shared.borrow().persists.len(), updates);
        assert_eq!(errors(&mut array, &content), [other]);
        write(&mut array, &mut content, other, &[9; BLOCK as usize]).unwrap();
        assert_eq!(on_record(&array), []);
        assert_eq!(errors(&mut array, &content), []);
        assert_eq!(array.scrub(false), 0);
        array.shared.borrow_mut().disks[1].gone = true;
        assert_eq!(errors(&mut array, &content), []);
    }
}

/// A data block and its parity are unreadable: the data block can be written with what the other drives hold, and the
/// blocks beside it without parity.
#[test]
fn an_unreadable_block_beside_unreadable_parity_can_be_written() {
    for (shape, shards) in shapes().into_iter().zip(1..) {
        let (mut array, mut content) = filled(shape, 0, shards, 9);
        let parity = shape.parity_slot(ROW).unwrap();
        spoil(&array, data_slot(&shape, 0), BLOCK);
        spoil(&array, parity, BLOCK);
        let (other, bad) = (offset(&shape, 1, BLOCK), offset(&shape, 0, BLOCK));
        write(&mut array, &mut content, other, &[7; BLOCK as usize]).unwrap();
        assert_eq!(on_record(&array), [parity_range(&shape, BLOCK)]);
        assert_eq!(errors(&mut array, &content), [bad]);
        write(&mut array, &mut content, bad, &[8; BLOCK as usize]).unwrap();
        assert_eq!(on_record(&array), []);
        array.shared.borrow_mut().disks[0].gone = true;
        assert_eq!(errors(&mut array, &content), []);
    }
}

/// No data are written before the parity is on record as lost, so what is read after a crash is right or an error.
#[test]
fn parity_is_on_record_as_lost_before_data_are_written() {
    for (shape, shards) in shapes().into_iter().zip(1..) {
        let (mut array, mut content) = filled(shape, 0, shards, 9);
        spoil_both(&array, GRAIN);
        array.shared.borrow_mut().hold_persists = true;
        let at = offset(&shape, 0, GRAIN);
        let place = shape.member_offset_bytes(ROW, GRAIN_BYTES) as usize;
        let slot = usize::from(data_slot(&shape, 0).0);
        let on_drive = |array: &Array| array.shared.borrow().disks[slot].bytes[place];
        let before = on_drive(&array);
        let buffer = array.allocate(BLOCK);
        array.fill(buffer, &[!before; BLOCK as usize]);
        let tag = array.submit(0, Operation::Write, at, BLOCK as u32, buffer);
        array.wait_ms(200);
        assert_eq!(
            (array.take_completion(tag), on_drive(&array)),
            (None, before)
        );
        array.run_until(|array| {
            array.release_persists();
            !array.shared.borrow().flights.contains_key(&tag)
        });
        assert_eq!(array.take_completion(tag), Some(Ok(())));
        content[at as usize..][..BLOCK as usize].fill(!before);
        // The process ends here.
        let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
        let record = disks[0].record.clone().unwrap();
        let mut array = over(record, disks, shards, shape);
        let lost = offset(&shape, 1, GRAIN);
        assert_eq!(errors(&mut array, &content), [lost]);
        assert_eq!(on_record(&array), [parity_range(&shape, GRAIN)]);
    }
}

/// One drive is missing and another cannot read a block: what the missing one held there is lost, and nothing
/// beside it. That block exists in the parity alone, so it can be written as soon as the parity can be computed.
#[test]
fn without_a_drive_an_unreadable_block_can_be_written_and_costs_no_other() {
    for (shape, shards) in shapes().into_iter().zip(1..) {
        let (mut array, mut content) = filled(shape, 0, shards, 9);
        let gone = data_slot(&shape, 1);
        array.command(Command::Fail(MemberId(gone.0))).unwrap();
        spoil(&array, data_slot(&shape, 0), 3 * BLOCK);
        let [bad, lost] = [0, 1].map(|at| offset(&shape, at, 3 * BLOCK));
        let block = [1; BLOCK as usize];
        let refused = Err(Failure::Unrecoverable { offset_bytes: lost });
        assert_eq!(array.write(0, lost, &block), refused);
        assert_eq!(errors(&mut array, &content), [bad, lost]);
        let grain = offset(&shape, 0, 0);
        write(&mut array, &mut content, grain, &[7; GRAIN as usize]).unwrap();
        assert_eq!(on_record(&array), [parity_range(&shape, 3 * BLOCK)]);
        assert_eq!(errors(&mut array, &content), [lost]);
        write(&mut array, &mut content, lost, &block).unwrap();
        assert_eq!(on_record(&array), []);
        assert_eq!(errors(&mut array, &content), []);
    }
}

#[test]
fn where_the_log_is_full_the_block_fails_alone_and_stays_as_it_was() {
    let shape = geometry(Level::Raid5, 5, 128 << 10, 6);
    let (mut array, mut content) = filled(shape, 0, 2, 0);
    spoil_both(&array, 2 * GRAIN);
    let [first, second] = [0, 1].map(|at| offset(&shape, at, 2 * GRAIN));
    let whole = vec![0xAB; 64 << 10];
    let offset_bytes = first;
    let lost = Err(Failure::Unrecoverable { offset_bytes });
    assert_eq!(array.write(0, first - 2 * GRAIN, &whole), lost);
    assert!(array.has_event(|event| matches!(event, Event::BadBlockLogFull(_))));
    let volume = VolumeId(0);
    let told = Event::Unrecoverable {
        volume,
        offset_bytes,
    };
    assert!(array.has_event(|event| *event == told));
    assert!(!array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
    // All of it but that block has been written, redundantly.
    let from = (first - 2 * GRAIN) as usize;
    content[from..][..whole.len()].fill(0xAB);
    assert_eq!(errors(&mut array, &content), [first, second]);
    array.shared.borrow_mut().disks[usize::from(data_slot(&shape, 2).0)].gone = true;
    let third = offset(&shape, 2, 2 * GRAIN);
    assert_eq!(errors(&mut array, &content), [first, second, third]);
}

#[test]
fn of_writes_that_share_a_plan_only_the_hopeless_one_fails() {
    let shape = shapes()[1];
    let (mut array, _) = filled(shape, 0, 1, 0);
    spoil_both(&array, 5 * GRAIN);
    let merges = array.shards[0].engine.stats().merges;
    let buffer = array.allocate(32 << 10);
    array.fill(buffer, &[7; 32 << 10]);
    let mut submit = |at: u64| {
        let (offset, buffer) = (
            offset(&shape, 0, at * GRAIN),
            buffer.at((at * GRAIN) as u32),
        );
        array.submit(0, Operation::Write, offset, GRAIN_BYTES, buffer)
    };
    let tags: Vec<u64> = (0..8).map(&mut submit).collect();
    for (at, tag) in (0u64..).zip(tags) {
        let offset_bytes = offset(&shape, 0, 5 * GRAIN);
        let expected = if at == 5 {
            Err(Failure::Unrecoverable { offset_bytes })
        } else {
            Ok(())
        };
        assert_eq!(array.finish(tag), expected, "grain {at}");
    }
    assert_eq!(array.shards[0].engine.stats().merges - merges, 7);
}

/// The drive that would have had the only copy fails first: that is an error, not an acknowledgement.
#[test]
fn data_that_no_drive_took_are_not_acknowledged() {
    let shape = shapes()[1];
    let (mut array, content) = filled(shape, 0, 1, 9);
    spoil_both(&array, GRAIN);
    let slot = usize::from(data_slot(&shape, 0).0);
    array.shared.borrow_mut().disks[slot].writes_fail = true;
    let [first, second] = [0, 1].map(|at| offset(&shape, at, GRAIN));
    let refused = array.write(0, first, &[7; BLOCK as usize]);
    let lost = Failure::Unrecoverable {
        offset_bytes: first,
    };
    assert_eq!(refused, Err(lost));
    assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
    assert_eq!(errors(&mut array, &content), [first, second]);
}

/// The drive that takes the slot of the row's parity does not bring the old parity back.
#[test]
fn a_drive_that_is_being_replaced_gives_parity_up_on_both() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 6);
    for wait_ms in [0, 3, 30, 300] {
        let (mut array, mut content) = filled(shape, 1, 2, 9);
        let parity = shape.parity_slot(ROW).unwrap();
        array.command(Command::Rate(1 << 20)).unwrap();
        let order = Command::Replace {
            volume: VolumeId(0),
            slot: parity,
            to: MemberId(shape.members),
        };
        array.command(order).unwrap();
        array.wait_ms(wait_ms);
        spoil_both(&array, GRAIN);
        let [first, second] = [0, 1].map(|at| offset(&shape, at, GRAIN));
        write(&mut array, &mut content, first, &[7; BLOCK as usize]).unwrap();
        array.command(Command::Rate(0)).unwrap();
        array.run_until(|array| {
            let controller = array.shards[0].engine.controller().unwrap();
            controller.job(VolumeId(0)).is_none() && controller.is_durable()
        });
        assert_eq!(errors(&mut array, &content), [second], "after {wait_ms} ms");
    }
}

/// At each offset, blocks of any drives but one are spoiled, with any writes and restarts in between: what is written
/// can be read, nothing is ever wrong, and only blocks that were spoiled and not written since are errors.
#[test]
fn whatever_is_written_is_there_and_only_what_was_spoiled_is_not() {
    for (seed, shape) in (0..12).zip(shapes().into_iter().cycle()) {
        let shards = 1 + seed as u8 % 3;
        let (mut array, mut content) = filled(shape, 0, shards, 200);
        let mut random = Random(seed);
        let mut spoiled = Vec::new();
        for round in 0..80 {
            let in_chunk = random.below(24) * BLOCK;
            if round % 4 == 0 {
                // A block that is unreadable on all drives would be the host's fault: see hosts_errors.
                let spared = (in_chunk / BLOCK) as u8 % shape.members;
                let slots: Vec<u8> = (0..2 + random.below(2))
                    .map(|_| random.below(u64::from(shape.members)) as u8)
                    .filter(|slot| *slot != spared)
                    .collect();
                for slot in slots {
                    spoil(&array, Slot(slot), in_chunk);
                    spoiled.extend(
                        shape
                            .data_index(ROW, Slot(slot))
                            .map(|data_index| offset(&shape, u64::from(data_index), in_chunk)),
                    );
                }
            }
            let data_index = random.below(u64::from(shape.data_members()));
            let length = (1 + random.below(8)) * BLOCK;
            let at = offset(&shape, data_index, random.below(20) * BLOCK);
            let bytes = vec![round as u8; length as usize];
            assert_eq!(
                write(&mut array, &mut content, at, &bytes),
                Ok(()),
                "seed {seed}"
            );
            spoiled.retain(|&block| block < at || block >= at + length);
            if round % 10 == 9 {
                let errors = errors(&mut array, &content);
                assert!(errors.iter().all(|at| spoiled.contains(at)), "seed {seed}");
                let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
                let record = disks[0].record.clone().unwrap();
                array = over(record, disks, shards, shape);
            }
        }
        let row = ROW * shape.row_bytes();
        let whole = vec![0xA5; shape.row_bytes() as usize];
        write(&mut array, &mut content, row, &whole).unwrap();
        assert_eq!(on_record(&array), []);
        assert_eq!(errors(&mut array, &content), []);
        assert_eq!(array.scrub(false), 0);
    }
}
