//! The process is killed at any moment, and the next one resyncs by the bits on the drives.

use super::{REGION, count, marked, shapes, started};
use crate::memory::client::Client;
use crate::memory::crash::{bad_rows, content};
use crate::memory::marks::{regions, union, with_bitmap};
use crate::memory::{Array, Disk};
use engine::control::record::{SyncKind, SyncRecord};
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::units::SlotSet;

/// Rows whose redundancy does not match their data.
fn torn_rows(disks: &[Disk], shape: &Geometry) -> Vec<u64> {
    if shape.level == Level::Raid5 {
        return bad_rows(disks, shape);
    }
    let differs = |&row: &u64| {
        let from = shape.member_offset_bytes(row, 0) as usize;
        let range = from..from + shape.row_height_bytes(row) as usize;
        let members = &disks[..shape.members as usize];
        let differ = |pair: &[Disk]| pair[0].bytes[range.clone()] != pair[1].bytes[range.clone()];
        members.chunks(2).any(differ)
    };
    (0..shape.rows()).filter(differs).collect()
}

#[test]
fn a_crash_leaves_doubt_in_marked_regions_only_and_a_resync_of_those_removes_it() {
    let (mut torn, mut unmarked, mut reads) = (0, 0, 0);
    for seed in 0..60 {
        let record = marked(shapes()[seed as usize % 4], 0);
        let shape = record.volumes[0].geometry;
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = started(&record, shards, 400 + seed);
        let mut client = Client::new(shape.size_bytes, 3000 + seed);
        for step in 0..40 + seed * 9 {
            client.step(&mut array, 6);
            if step % 40 == 39 {
                array.shared.borrow_mut().now += 5_200_000_000;
            }
        }
        let mut disks = array.crash();
        let words = union(&disks, &record);
        for row in torn_rows(&disks, &shape) {
            torn += 1;
            let from = shape.member_offset_bytes(row, 0);
            let row = from..from + u64::from(shape.row_height_bytes(row));
            let is_marked = |region: u64| words[region as usize / 64] >> (region % 64) & 1 == 1;
            let mut regions = regions(&shape, REGION, row);
            assert!(regions.any(is_marked), "seed {seed}: torn and not marked");
        }
        // The next process writes the united bits to all drives and resyncs the marked regions.
        let mut next = with_bitmap(record.clone(), REGION, &words);
        next.volumes[0].dirty = true;
        next.volumes[0].sync = Some(SyncRecord {
            kind: SyncKind::Resync,
            done_bytes: 0,
        });
        disks.iter_mut().for_each(|disk| disk.reads = 0);
        let bits = u64::from(count(&words));
        let options = Options::default();
        let mut array = Array::over(next.clone(), disks, shards, seed, options, shape);
        array.shared.borrow_mut().watch(&next);
        array.shared.borrow_mut().write_marks(&words);
        array.wait_for_job();
        reads += array
            .shared
            .borrow()
            .disks
            .iter()
            .map(|disk| disk.reads)
            .sum::<usize>();
        unmarked += (shape.component_bytes / REGION).saturating_sub(bits);
        let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
        assert_eq!(
            torn_rows(&disks, &shape),
            Vec::<u64>::new(),
            "seed {seed}, {shape:?}"
        );
        let found = content(&disks, &shape, SlotSet(0), 0, shape.size_bytes);
        let flying = client.writes_in_flight();
        for (at, (found, known)) in found.chunks(512).zip(client.model.chunks(512)).enumerate() {
            let offset = at as u64 * 512;
            let new = flying.iter().any(|(from, bytes)| {
                let at = offset.checked_sub(*from);
                at.is_some_and(|at| bytes.get(at as usize..at as usize + 512) == Some(found))
            });
            assert!(found == known || new, "seed {seed}: byte {offset} is wrong");
        }
    }
    assert!(
        torn > 20 && unmarked > 100 && reads > 0,
        "{torn} torn, {unmarked} unmarked"
    );
}

#[test]
fn a_resync_reads_marked_regions_and_nothing_else() {
    for shape in super::returning::shapes() {
        let record = marked(shape, 0);
        let everything = [u64::MAX; 10];
        let reads = |words: &[u64]| {
            let mut next = with_bitmap(record.clone(), REGION, words);
            next.volumes[0].dirty = true;
            next.volumes[0].sync = Some(SyncRecord {
                kind: SyncKind::Resync,
                done_bytes: 0,
            });
            let mut array = Array::new(next, 2, 5, Options::default());
            array.wait_for_job();
            let shared = array.shared.borrow();
            shared.disks.iter().map(|disk| disk.reads).sum::<usize>()
        };
        let (all, one, none) = (reads(&everything), reads(&[1 << 3]), reads(&[0]));
        assert_eq!(none, 0);
        assert!(one > 0 && one * 5 < all, "{shape:?}: {one} of {all}");
    }
}
