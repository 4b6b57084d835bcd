//! Work is counted by class, so that a slowdown can be found without a profiler.

use crate::memory::{Array, geometry, record};
use engine::layout::Level;
use engine::options::Options;
use engine::request::Operation;

fn array(level: Level) -> Array {
    let shape = geometry(level, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
    array.write(0, 0, &[1; 4096]).unwrap();
    array
}

fn stats(array: &Array) -> engine::stats::Stats {
    *array.shards[0].engine.stats()
}

#[test]
fn zeroes_are_planned_as_writes_are() {
    let mut array = array(Level::Raid1);
    let before = stats(&array).plans_write;
    let zeroes = Operation::WriteZeroes {
        keep_allocated: true,
        only_if_fast: false,
    };
    let buffer = array.allocate(512);
    let tag = array.submit(0, zeroes, 0, 4096, buffer);
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(stats(&array).plans_write - before, 1);
}

/// A small read of a RAID 0 has no plan until a drive answers with an error.
#[test]
fn a_request_without_a_plan_gets_one_when_it_is_in_trouble() {
    let mut array = array(Level::Raid0);
    let before = stats(&array).plans_direct;
    array.read(0, 0, 4096).unwrap();
    assert_eq!(stats(&array).plans_direct, before);
    array.shared.borrow_mut().disks[0].busy = 1;
    array.read(0, 0, 4096).unwrap();
    assert_eq!(stats(&array).plans_direct - before, 1);
}
