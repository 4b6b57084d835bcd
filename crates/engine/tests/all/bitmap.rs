//! The write-intent bitmap: a region is marked before it is written to, its bit is cleared only after its writes are
//! durable, a crash leaves only marked regions in doubt, and a drive that comes back is given the marked regions.

mod clearing;
mod crashes;
mod keeping;
mod returning;

use crate::memory::client::Client;
use crate::memory::marks::{union, with_bitmap};
use crate::memory::{Array, geometry, record};
use engine::control::record::Record;
use engine::layout::{Geometry, Level};
use engine::options::Options;

const REGION: u64 = 64 << 10;

fn shapes() -> Vec<Geometry> {
    vec![
        geometry(Level::Raid1, 2, 1 << 20, 3),
        geometry(Level::Raid10, 4, 16 << 10, 40),
        geometry(Level::Raid5, 4, 16 << 10, 60),
        geometry(Level::Raid5, 3, 128 << 10, 9),
    ]
}

fn marked(shape: Geometry, spares: u8) -> Record {
    with_bitmap(record(shape, spares, None), REGION, &[])
}

fn started(record: &Record, shards: u8, seed: u64) -> Array {
    let array = Array::new(record.clone(), shards, seed, Options::default());
    array.shared.borrow_mut().watch(record);
    array
}

fn count(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

/// The bits on the drives, united.
fn on_drives(array: &Array, record: &Record) -> Vec<u64> {
    let members = record.volumes[0].geometry.members as usize;
    union(&array.shared.borrow().disks[..members], record)
}

#[test]
fn regions_are_marked_before_writes_and_cleared_after_flushes() {
    let (mut writes, mut cleared) = (0, 0);
    for seed in 0..24 {
        let record = marked(shapes()[seed as usize % 4], 0);
        let shape = record.volumes[0].geometry;
        let mut array = started(&record, 1 + (seed / 4 % 3) as u8, seed);
        let mut client = Client::new(shape.size_bytes, 100 + seed);
        for round in 0..6 {
            for _ in 0..60 {
                client.step(&mut array, 8);
                // Time passes in leaps, so that rounds of clearing fall between writes.
                array.shared.borrow_mut().now += 40_000_000 * (round % 3);
            }
        }
        client.drain(&mut array);
        assert!(count(&on_drives(&array, &record)) > 0);
        client.verify(&mut array);
        array.wait_ms(16_000);
        assert_eq!(
            count(&on_drives(&array, &record)),
            0,
            "seed {seed}: all at rest"
        );
        let watch = array.shared.borrow().marks.unwrap();
        assert_eq!(
            (watch.unannounced, watch.early),
            (0, 0),
            "seed {seed}, {shape:?}"
        );
        writes += watch.writes;
        cleared += watch.cleared;
    }
    assert!(
        writes > 200 && cleared > 200,
        "{writes} writes, {cleared} bits cleared"
    );
}

#[test]
fn many_requests_wait_for_one_update() {
    let record = marked(geometry(Level::Raid5, 4, 16 << 10, 600), 0);
    let mut array = started(&record, 1, 7);
    let buffer = array.allocate(4096);
    let size = record.volumes[0].geometry.size_bytes;
    let tags: Vec<u64> = (0..200)
        .map(|at| {
            let offset = at * (size / 200) / 4096 * 4096;
            array.submit(0, engine::request::Operation::Write, offset, 4096, buffer)
        })
        .collect();
    for tag in tags {
        assert_eq!(array.finish(tag), Ok(()));
    }
    let watch = array.shared.borrow().marks.unwrap();
    assert_eq!(watch.unannounced, 0);
    assert!(
        watch.writes <= 4 * 3,
        "{} writes of the bitmap",
        watch.writes
    );
    let counted = array.shards[0].engine.stats().bitmap_writes;
    assert_eq!(4 * counted, watch.writes as u64, "one for each drive");
    assert!(count(&on_drives(&array, &record)) > 100);
}
