//! Trim: what lies inside the range is afterwards as it was or zero, block by block; nothing else changes,
//! and redundancy fits.

mod memory;

use engine::control::message::Command;
use engine::layout::{Geometry, Level};
use engine::request::Operation;
use engine::shard::Options;
use engine::units::{Buffer, MemberId};
use memory::{Array, Random, geometry, record};

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
