//! Every plan of a shard is in use: work that needs one waits, nothing counts as done because there was none, and
//! requests that run without a plan still get one when a drive fails.

use crate::memory::marks::with_bitmap;
use crate::memory::{Array, MIB, geometry, record};
use engine::control::record::{Record, VolumeRecord};
use engine::event::Event;
use engine::layout::Level;
use engine::limits::PLANS_MAX;
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, VolumeId};

const CHUNK: u64 = 4 << 10;
const REGION: u64 = 64 << 10;
/// The volume that is watched; two others take the last plans.
const WATCHED: u8 = 3;

/// A large volume, and three small ones with bitmaps on the same drives.
fn four_volumes() -> Record {
    let mut all = record(geometry(Level::Raid10, 4, CHUNK as u32, 2200), 0, None);
    let mut from = all.volumes[0].geometry.component_bytes + 2 * MIB;
    for _ in 1..4 {
        let mut shape = geometry(Level::Raid10, 4, 16 << 10, 24);
        shape.start_bytes += from;
        from += shape.component_bytes + 2 * MIB;
        let volume = VolumeRecord {
            geometry: shape,
            ..all.volumes[0].clone()
        };
        let mut alone = all.clone();
        alone.volumes = vec![volume];
        all.volumes.extend(with_bitmap(alone, REGION, &[]).volumes);
    }
    let members = all.members.iter_mut();
    members.for_each(|member| member.size_bytes += from);
    all
}

fn ask(array: &mut Array, volume: u8, what: Operation, offset: u64) -> u64 {
    let buffer = array.allocate(4096);
    array.fill(buffer, &[7; 4096]);
    array.submit_to(0, VolumeId(volume), what, offset, 4096, buffer, false)
}

fn turns(array: &mut Array, count: usize) {
    (0..count).for_each(|_| array.turn_alone(0));
}

/// An array whose first drive hangs, and whose plans all wait for it, but for those that are reserved for requests
/// without a plan. With the tags of the requests that are not answered.
fn without_plans() -> (Array, Vec<u64>) {
    let options = Options {
        clean_after: Nanos(100 * Nanos::MILLISECOND.0),
        member_deadline: Nanos(2 * Nanos::SECOND.0),
        ..Options::default()
    };
    let mut array = Array::new(four_volumes(), 1, 3, options);
    for volume in 0..4 {
        let tag = ask(&mut array, volume, Operation::Write, 0);
        assert_eq!(array.finish(tag), Ok(()));
    }
    array.shared.borrow_mut().disks[0].hung = true;
    // All of them are on the first pair.
    let place = |at: u64| 2 * CHUNK * at;
    let zeroes = Operation::WriteZeroes {
        keep_allocated: true,
        only_if_fast: false,
    };
    let mut tags = Vec::new();
    tags.extend((0..200).map(|at| ask(&mut array, 0, Operation::Read, place(at))));
    turns(&mut array, 20);
    tags.extend((0..PLANS_MAX as u64).map(|at| ask(&mut array, 0, zeroes, place(at))));
    turns(&mut array, 20);
    for volume in 1..3 {
        tags.push(ask(&mut array, volume, Operation::Write, 2 * REGION));
        turns(&mut array, 20);
    }
    let is_asked = |tag: &u64| array.shared.borrow().flights.contains_key(tag);
    let tags: Vec<u64> = tags.into_iter().filter(is_asked).collect();
    let reads = tags.len() - PLANS_MAX - 2;
    assert!(reads > 50, "{reads} requests without a plan");
    (array, tags)
}

/// Waits until the drive is failed at its deadline and all requests are answered. Those without a plan need one then.
fn until_answered(array: &mut Array, tags: Vec<u64>) {
    array.wait_ms(3_000);
    for tag in tags {
        assert_eq!(array.finish(tag), Ok(()));
    }
    assert!(array.has_event(|event| *event == Event::FailureRecorded(MemberId(0))));
}

#[test]
fn a_write_whose_bit_cannot_be_set_for_want_of_a_plan_waits() {
    let (mut array, mut tags) = without_plans();
    let tag = ask(&mut array, WATCHED, Operation::Write, 2 * REGION);
    turns(&mut array, 100);
    assert_eq!(array.take_completion(tag), None);
    tags.push(tag);
    until_answered(&mut array, tags);
}

/// The volume has been idle for a while, and its drives have to be flushed before the record says that it is clean.
#[test]
fn a_volume_is_not_clean_because_there_is_no_plan_for_its_flush() {
    let (mut array, tags) = without_plans();
    let shape = array.shards[0].engine.geometry(VolumeId(WATCHED)).unwrap();
    let extent = shape.start_bytes..shape.start_bytes + shape.component_bytes;
    let says_clean = |array: &Array, drive: usize| {
        let shared = array.shared.borrow();
        let record = shared.disks[drive].record.as_ref();
        record.is_some_and(|record| !record.volumes[usize::from(WATCHED)].dirty)
    };
    for _ in 0..3000 {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.turn();
        let shared = array.shared.borrow();
        let mut unflushed = shared.disks[1..].iter().flat_map(|disk| &disk.unflushed);
        let is_in_cache = unflushed.any(|range| extent.contains(&range.0));
        drop(shared);
        assert!(
            !is_in_cache || !says_clean(&array, 1),
            "data are in a cache"
        );
    }
    until_answered(&mut array, tags);
    array.wait_ms(1_000);
    assert!(says_clean(&array, 1), "not retried");
}

#[test]
fn requests_without_a_plan_that_got_one_in_trouble_keep_none_for_ever() {
    let shape = geometry(Level::Raid0, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
    for _ in 0..PLANS_MAX + 10 {
        array.shared.borrow_mut().disks[0].busy = 1;
        array.read(0, 0, 4096).unwrap();
    }
    assert!(array.read(0, 0, 256 << 10).is_ok());
}
