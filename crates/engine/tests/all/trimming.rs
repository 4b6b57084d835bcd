//! Trim: afterwards each block of the range is unchanged or zero, nothing else has changed, and redundancy matches the
//! data.

use crate::memory::{Array, Random, geometry, record};
use engine::control::message::{Command, Message};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{Buffer, MemberId};

fn shapes() -> [Geometry; 5] {
    [
        geometry(Level::Raid0, 3, 16 << 10, 20),
        geometry(Level::Raid1, 2, 64 << 10, 24),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid5, 3, 4 << 10, 60),
        geometry(Level::Raid5, 4, 64 << 10, 12),
    ]
}

fn trim(array: &mut Array, shard: usize, offset: u64, length: u64) {
    let nothing = Buffer(0);
    let tag = array.submit(shard, Operation::Trim, offset, length as u32, nothing);
    array.finish(tag).expect("a trim");
}

fn read_all(array: &mut Array) -> Vec<u8> {
    let size = array.shape.size_bytes;
    let parts = (0..size).step_by(64 << 10);
    parts
        .flat_map(|at| {
            let length = (size - at).min(64 << 10);
            array.read(0, at, length as u32).expect("a read")
        })
        .collect()
}

/// Trims all over a volume that is full of noise; with `lost`, one drive fails after some of them.
fn play(shape: Geometry, shards: u8, lost: bool, seed: u64) -> usize {
    let mut array = Array::new(record(shape, 0, None), shards, seed, Options::default());
    let mut random = Random(seed);
    let noise = |random: &mut Random| random.next() as u8 | 1;
    let mut content: Vec<u8> = (0..shape.size_bytes).map(|_| noise(&mut random)).collect();
    for (at, bytes) in content.chunks(64 << 10).enumerate() {
        array
            .write(0, (at as u64) * (64 << 10), bytes)
            .expect("a write");
    }
    let row = shape.row_bytes();
    let mut zeroed = 0;
    for round in 0..12 {
        if lost && round == 6 {
            array
                .command(Command::Fail(MemberId(1)))
                .expect("it survives that");
        }
        // Whole rows every other time, any blocks otherwise.
        let (offset, length) = if round % 2 == 0 {
            let first = random.below(shape.size_bytes / row);
            let rows = 1 + random.below((shape.size_bytes / row - first).min(3));
            (first * row, rows * row)
        } else {
            let blocks = shape.size_bytes / 512;
            let first = random.below(blocks);
            (
                first * 512,
                (1 + random.below((blocks - first).min(300))) * 512,
            )
        };
        trim(&mut array, round % usize::from(shards), offset, length);
        let found = read_all(&mut array);
        for at in (0..shape.size_bytes as usize).step_by(512) {
            let (now, was) = (&found[at..at + 512], &content[at..at + 512]);
            let inside = (offset..offset + length).contains(&(at as u64));
            let cleared = inside && now.iter().all(|&byte| byte == 0);
            zeroed += usize::from(cleared);
            assert!(
                now == was || cleared,
                "{shape:?}, round {round}, seed {seed}: byte {at}"
            );
        }
        content = found;
    }
    if shape.redundant() && !lost {
        assert_eq!(array.scrub(false), 0, "{shape:?}");
    }
    zeroed
}

#[test]
fn a_trim_changes_nothing_outside_of_its_range() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in [1, 2] {
            for lost in [false, true] {
                if lost && !shape.redundant() {
                    continue;
                }
                let zeroed = play(shape, shards, lost, 40 + at as u64);
                assert!(zeroed > 0, "{shape:?}: no trim has freed anything");
            }
        }
    }
}

/// Trims the whole volume, once by each shard; returns how many blocks of all members changed.
fn blocks_changed_by_trims(array: &mut Array) -> usize {
    let size = array.shape.size_bytes;
    let before = members(array);
    for shard in 0..array.shards.len() {
        trim(array, shard, 0, size);
    }
    let after = members(array);
    before.iter().zip(&after).filter(|(a, b)| a != b).count()
}

/// The extents of all members, block by block.
fn members(array: &Array) -> Vec<Vec<u8>> {
    let shape = array.shape;
    let extent = shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
    let shared = array.shared.borrow();
    let disks = shared.disks[..usize::from(shape.members)].iter();
    disks
        .flat_map(|disk| disk.bytes[extent.clone()].chunks(512).map(<[u8]>::to_vec))
        .collect()
}

fn full_of_ones(record: engine::control::record::Record, shards: u8) -> Array {
    let shape = record.volumes[0].geometry;
    let mut array = Array::new(record, shards, 9, Options::default());
    for at in (0..shape.size_bytes).step_by(64 << 10) {
        let length = (shape.size_bytes - at).min(64 << 10) as usize;
        array.write(0, at, &vec![1; length]).expect("a write");
    }
    array
}

#[test]
fn a_volume_with_a_drive_that_cannot_discard_trims_nothing() {
    for shape in shapes() {
        for shards in [1, 2] {
            let mut full = record(shape, 0, None);
            full.members[1].discards = false;
            let mut array = full_of_ones(full, shards);
            assert_eq!(blocks_changed_by_trims(&mut array), 0, "{shape:?}");
        }
    }
}

#[test]
fn from_the_first_refusal_to_discard_on_a_volume_trims_nothing() {
    for shape in shapes() {
        for shards in [1, 2] {
            let mut array = full_of_ones(record(shape, 0, None), shards);
            trim(&mut array, 0, 0, shape.row_bytes());
            let refused = Message::DiscardRefused(MemberId(1));
            array.shared.borrow_mut().mail[0].push_back(refused);
            array.run_until(|array| {
                array.has_event(|event| *event == Event::DiscardRefused(MemberId(1)))
            });
            let followed = |array: &mut Array| {
                let controller = array.shards[0].engine.controller();
                controller.is_some_and(engine::control::Controller::is_followed)
            };
            array.run_until(followed);
            assert_eq!(blocks_changed_by_trims(&mut array), 0, "{shape:?}");
            if shape.redundant() {
                assert_eq!(array.scrub(false), 0, "{shape:?}");
            }
        }
    }
}

#[test]
fn a_drive_that_joins_and_cannot_discard_ends_trims() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 24);
    let mut with_spare = record(shape, 1, None);
    with_spare.members[3].discards = false;
    let options = Options {
        auto_rebuild: true,
        ..Options::default()
    };
    let mut array = Array::new(with_spare, 1, 9, options);
    for at in (0..shape.size_bytes).step_by(64 << 10) {
        array.write(0, at, &[1; 64 << 10]).expect("a write");
    }
    let before = read_all(&mut array);
    array
        .command(Command::Fail(MemberId(1)))
        .expect("it survives that");
    array.wait_for_job();
    trim(&mut array, 0, 0, shape.size_bytes);
    assert_eq!(read_all(&mut array), before, "nothing is trimmed");
    assert_eq!(array.scrub(false), 0);
}
