//! What has to be on record before the first write of a session, so that a copy of a drive from before it is recognised
//! as old.

use crate::memory::client::Client;
use crate::memory::marks::with_bitmap;
use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::Command;
use engine::control::record::{Record, SyncKind};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;

fn shapes() -> [Geometry; 4] {
    [
        geometry(Level::Raid0, 3, 16 << 10, 12),
        geometry(Level::Raid1, 2, MIB as u32, 2),
        geometry(Level::Raid10, 4, 16 << 10, 12),
        geometry(Level::Raid5, 3, 16 << 10, 12),
    ]
}

fn quick() -> Options {
    Options {
        clean_after: engine::units::Nanos(20_000_000),
        ..Options::default()
    }
}

/// Records of a volume that is clean, has a bitmap, was not stopped cleanly (with and without a resync to be done),
/// lacks a member, or has its initial sync before it.
fn states(shape: Geometry) -> Vec<Record> {
    let clean = record(shape, 0, None);
    let mut all = vec![clean.clone()];
    if !shape.redundant() {
        return all;
    }
    let mut crashed = record(shape, 0, Some(SyncKind::Resync));
    crashed.volumes[0].dirty = true;
    let mut settled = clean.clone();
    settled.volumes[0].dirty = true;
    let mut degraded = clean.clone();
    degraded.volumes[0].slots[1].current = false;
    degraded.volumes[0].slots[1].member = None;
    let mut initial = record(shape, 0, Some(SyncKind::Initial));
    initial.volumes[0].dirty = false;
    all.push(with_bitmap(clean, 64 << 10, &[0; 4]));
    all.extend([crashed, settled, degraded, initial]);
    all
}

/// The volume's bytes on each member.
fn content(array: &Array) -> Vec<Vec<u8>> {
    let shape = array.shape;
    let extent = shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
    let shared = array.shared.borrow();
    let disks = shared.disks.iter();
    disks
        .map(|disk| disk.bytes[extent.clone()].to_vec())
        .collect()
}

/// By member in service: the generation on record.
fn generations(array: &Array) -> Vec<u64> {
    let shared = array.shared.borrow();
    let members = shared.disks.iter().enumerate();
    let in_service = members.filter(|(at, _)| {
        let record = array.shards[0].engine.controller().expect("on the first");
        let mut slots = record.wanted().volumes[0].slots.iter();
        slots.any(|slot| {
            slot.member
                .is_some_and(|member| usize::from(member.0) == *at)
        })
    });
    let generation = |disk: &crate::memory::Disk| disk.record.as_ref().map_or(1, |r| r.generation);
    in_service.map(|(_, disk)| generation(disk)).collect()
}

/// A copy that is one generation behind would be taken for a member that an interrupted update has not reached.
#[test]
fn the_record_has_moved_on_twice_before_anything_is_written() {
    for record in shapes().into_iter().flat_map(states) {
        for shards in [1, 2] {
            let shape = record.volumes[0].geometry;
            let mut array = Array::new(record.clone(), shards, 5, quick());
            for (drive, disk) in (1u8..).zip(&mut array.shared.borrow_mut().disks) {
                let from = shape.start_bytes as usize;
                disk.bytes[from..][..shape.component_bytes as usize].fill(drive);
            }
            let before = content(&array);
            let buffer = array.allocate(4096);
            array.fill(buffer, &[9; 4096]);
            let tag = array.submit(0, Operation::Write, 0, 4096, buffer);
            let (mut written_at, mut answer) = (None, None);
            for _ in 0..20_000 {
                if content(&array) != before {
                    written_at.get_or_insert(generations(&array));
                }
                answer = answer.or(array.take_completion(tag));
                if answer.is_some() {
                    break;
                }
                array.turn();
            }
            assert_eq!(answer, Some(Ok(())), "{:?}", record.volumes[0]);
            let written_at = written_at.expect("it has been written");
            assert!(
                written_at.iter().all(|&generation| generation >= 3),
                "{:?}: written with {written_at:?} on record",
                record.volumes[0]
            );
        }
    }
}

/// An array that is only read, or is stopped at once, leaves the record as it is.
#[test]
fn an_array_that_is_only_read_is_not_written() {
    for shape in shapes() {
        let mut array = Array::new(record(shape, 0, None), 2, 5, quick());
        array.read(0, 0, 4096).unwrap();
        array.read(1, 8192, 4096).unwrap();
        array.wait_ms(200);
        assert_eq!(array.command(Command::Stop), Ok(()));
        array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        assert!(array.shared.borrow().persists.is_empty(), "{shape:?}");
    }
}

/// The second update begins when the first is on all members, and waiting writes are neither lost nor early.
#[test]
fn writes_wait_for_both_updates_and_are_carried_out_then() {
    for record in shapes().into_iter().flat_map(states) {
        let mut array = Array::new(record.clone(), 2, 7, quick());
        let buffer = array.allocate(4096);
        array.fill(buffer, &[9; 4096]);
        let tags = [0, 1].map(|shard| {
            array.shared.borrow_mut().hold_persists = true;
            array.submit(shard, Operation::Write, 4096, 4096, buffer)
        });
        // Each half of each update.
        for _ in 0..4 {
            for _ in 0..200 {
                array.turn();
            }
            for tag in tags {
                assert_eq!(array.take_completion(tag), None, "{:?}", record.volumes[0]);
            }
            array.release_persists();
            array.shared.borrow_mut().hold_persists = true;
        }
        array.release_persists();
        for tag in tags {
            assert_eq!(array.finish(tag), Ok(()));
        }
        assert_eq!(array.read(0, 4096, 4096), Ok(vec![9; 4096]));
    }
}

/// A stop during the first updates answers the requests that wait, and ends.
#[test]
fn an_array_can_be_stopped_before_its_first_write() {
    for record in shapes().into_iter().flat_map(states) {
        for turns in 0..24 {
            let mut array = Array::new(record.clone(), 2, turns, quick());
            let buffer = array.allocate(4096);
            let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
            for _ in 0..turns {
                array.turn();
            }
            array.shared.borrow_mut().mail[0].push_back(
                engine::control::message::Message::Command {
                    ticket: 1,
                    command: Command::Stop,
                },
            );
            array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
            let answer = array.take_completion(tag);
            assert!(answer.is_some(), "{:?} after {turns}", record.volumes[0]);
        }
    }
}

/// A volume that is dirty at the start and idle becomes clean by itself, and a write that comes meanwhile is carried
/// out.
#[test]
fn a_write_that_meets_the_first_clean_mark_is_carried_out() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for turns in 0..60 {
            let mut settled = record(shape, 0, None);
            settled.volumes[0].dirty = true;
            let mut array = Array::new(settled, 2, turns, quick());
            for _ in 0..turns {
                array.turn();
            }
            array.write(1, 0, &[turns as u8; 4096]).unwrap();
            array.wait_ms(300);
            let shared = array.shared.borrow();
            let mut records = shared.disks.iter().map(|disk| disk.record.as_ref());
            assert!(records.all(|record| !record.unwrap().volumes[0].dirty));
        }
    }
}

/// Clients that write at once and without pause, with a drive that fails during the first updates.
#[test]
fn a_drive_that_fails_amid_the_first_updates_keeps_nobody_waiting() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for turns in 0..30 {
            let mut array = Array::new(record(shape, 0, None), 2, turns, quick());
            let mut client = Client::new(shape.size_bytes, turns);
            for turn in 0..60 {
                if turn == turns {
                    array.shared.borrow_mut().disks[1].gone = true;
                }
                client.step(&mut array, 8);
            }
            client.drain(&mut array);
        }
    }
}

/// Bits may be cleared in this session, so a drive that was copied before it may lack more than the marked regions.
#[test]
fn a_copy_from_before_the_start_cannot_come_back_by_the_bitmap() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        let cleared = |array: &Array| {
            let shared = array.shared.borrow();
            let record = shared.disks[0].record.as_ref().expect("it is written");
            let bitmap = record.volumes[0].bitmap.as_ref().expect("it has one");
            bitmap.cleared_generation
        };
        let whole = with_bitmap(record(shape, 0, None), 64 << 10, &[0; 4]);
        let mut array = Array::new(whole.clone(), 1, 5, quick());
        array.write(0, 0, &[1; 4096]).unwrap();
        assert_eq!(cleared(&array), 2, "{shape:?}");
        // While a drive is away no bit is cleared, and it may come back.
        let mut degraded = whole;
        degraded.volumes[0].slots[1].current = false;
        degraded.volumes[0].slots[1].member = None;
        let mut array = Array::new(degraded, 1, 5, quick());
        array.write(0, 0, &[1; 4096]).unwrap();
        assert_eq!(cleared(&array), 0, "{shape:?}");
    }
}
