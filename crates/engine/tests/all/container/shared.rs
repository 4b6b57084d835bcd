//! Two volumes on one set of drives, and their content.

use crate::memory::{Array, Random, geometry, record};
use engine::control::record::VolumeRecord;
use engine::layout::Level;
use engine::options::Options;
use engine::request::Operation;
use engine::units::VolumeId;

/// Volumes of these levels, on four drives and with a spare.
pub fn two_volumes(first: Level, second: Level) -> engine::control::record::Record {
    let shape = geometry(first, 4, 16 << 10, 12);
    let mut record = record(shape, 1, None);
    let mut other = geometry(second, 4, 8 << 10, 16);
    other.start_bytes = shape.start_bytes + shape.component_bytes + (1 << 20);
    for member in &mut record.members {
        member.size_bytes = other.start_bytes + other.component_bytes + (4 << 20);
    }
    let volume = VolumeRecord {
        geometry: other,
        ..record.volumes[0].clone()
    };
    record.volumes.push(volume);
    record
}

/// Writes a volume and returns what it holds.
pub fn fill(array: &mut Array, volume: u8, seed: u64) -> Vec<u8> {
    let size = array.shards[0]
        .engine
        .geometry(VolumeId(volume))
        .unwrap()
        .size_bytes;
    let mut random = Random(seed);
    let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
    let buffer = array.allocate(size);
    array.fill(buffer, &content);
    let tag = array.submit_to(
        0,
        VolumeId(volume),
        Operation::Write,
        0,
        size as u32,
        buffer,
        false,
    );
    assert_eq!(array.finish(tag), Ok(()));
    content
}

/// Compares a volume with what it should hold.
pub fn check(array: &mut Array, volume: u8, content: &[u8]) {
    let buffer = array.allocate(content.len() as u64);
    let shard = array.shards.len() - 1;
    let length = content.len() as u32;
    let tag = array.submit_to(
        shard,
        VolumeId(volume),
        Operation::Read,
        0,
        length,
        buffer,
        false,
    );
    assert_eq!(array.finish(tag), Ok(()));
    let shared = array.shared.borrow();
    assert!(
        shared.memory[buffer.0 as usize..][..content.len()] == *content,
        "volume {volume}"
    );
}

/// Options under which spares are taken only by order.
pub fn by_hand() -> Options {
    Options {
        auto_rebuild: false,
        ..Options::default()
    }
}
