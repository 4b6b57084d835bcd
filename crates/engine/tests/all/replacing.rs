//! A drive is replaced under load: nothing that is written meanwhile is missing on the new one.

use crate::memory::client::Client;
use crate::memory::{Array, geometry, record};
use engine::control::message::{Command, Message};
use engine::control::record::Record;
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level, Location};
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::Operation;
use engine::units::{MemberId, ShardId, Slot, VolumeId};

const ZEROES: Operation = Operation::WriteZeroes {
    keep_allocated: true,
    only_if_fast: false,
};

fn shapes() -> [Geometry; 4] {
    [
        geometry(Level::Raid0, 3, 16 << 10, 24),
        geometry(Level::Raid0, 2, 256 << 10, 3),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid5, 4, 16 << 10, 24),
    ]
}

fn replace(shape: &Geometry) -> Command {
    Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: MemberId(shape.members),
    }
}

fn ended(array: &Array, wanted: bool) -> bool {
    array.has_event(|event| {
        matches!(
            event,
            Event::JobEnded { job: JobName::Replace, complete, .. } if *complete == wanted
        )
    })
}

#[test]
fn what_is_written_while_a_drive_is_copied_is_on_the_new_one() {
    for shape in shapes() {
        for seed in 0..18 {
            let shards = 1 + (seed % 3) as u8;
            let mut array = Array::new(record(shape, 1, None), shards, seed, Options::default());
            let mut client = Client::new(shape.size_bytes, 400 + seed);
            for _ in 0..30 {
                client.step(&mut array, 16);
            }
            // Some of the requests in flight began before the copy.
            array.command(replace(&shape)).unwrap();
            let mut steps = 0;
            while !ended(&array, true) {
                client.step(&mut array, 16);
                steps += 1;
                assert!(steps < 100_000, "{shape:?} seed {seed}");
            }
            client.drain(&mut array);
            array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
            client.verify(&mut array);
            if shape.redundant() {
                assert_eq!(array.scrub(false), 0, "{shape:?} seed {seed}");
            }
        }
    }
}

#[test]
fn a_new_drive_that_dies_while_it_is_copied_to_costs_nothing() {
    for shape in shapes() {
        for seed in 0..9 {
            let shards = 1 + (seed % 3) as u8;
            let slow = Options {
                rate_bytes_per_s: 4 << 20,
                ..Options::default()
            };
            let mut array = Array::new(record(shape, 1, None), shards, seed, slow);
            let mut client = Client::new(shape.size_bytes, 500 + seed);
            array.command(replace(&shape)).unwrap();
            for _ in 0..20 + 5 * seed {
                client.step(&mut array, 16);
            }
            assert!(!ended(&array, true), "{shape:?} seed {seed}");
            array.shared.borrow_mut().disks[usize::from(shape.members)].gone = true;
            let mut steps = 0;
            while !ended(&array, false) && !ended(&array, true) {
                client.step(&mut array, 16);
                steps += 1;
                assert!(steps < 100_000, "{shape:?} seed {seed}");
            }
            assert!(ended(&array, false), "{shape:?} seed {seed}");
            for _ in 0..50 {
                client.step(&mut array, 16);
            }
            client.verify(&mut array);
        }
    }
}

/// One shard writes to the new drive while the other has not heard of it and reads from the old one.
#[test]
fn a_shard_that_learns_late_reads_nothing_old() {
    for shape in shapes() {
        let mut array = Array::new(record(shape, 1, None), 2, 7, Options::default());
        let length = 4096;
        // The first data chunk on the drive in slot 1 whose row belongs to the first shard.
        let of_slot = |row: u64| (0..shape.data_members()).map(move |index| (row, index));
        let places = (0..shape.rows()).filter(|&row| shape.owner(row, 2) == ShardId(0));
        let (row, data_index) = places
            .flat_map(of_slot)
            .find(|&(row, index)| shape.data_slots(row, index).has(Slot(1)))
            .unwrap();
        let offset = shape.volume_offset_bytes(Location {
            row,
            data_index,
            in_chunk_bytes: 0,
        });
        array.write(0, offset, &[1; 4096]).unwrap();
        array.command(replace(&shape)).unwrap();
        let to = MemberId(shape.members);
        let changes = |message: &Message| matches!(message, Message::View(view) if view.volumes[0].slots[1] == Some(to));
        // The second shard gets no messages from the moment at which the drives are exchanged.
        let mut kept = Vec::new();
        for _ in 0..400_000 {
            array.shards[0].turn();
            array.shared.borrow_mut().now += 10_000;
            let mut shared = array.shared.borrow_mut();
            if shared.mail[1].iter().any(changes) {
                kept.extend(shared.mail[1].drain(..));
                break;
            }
            drop(shared);
            array.shards[1].turn();
        }
        assert!(kept.iter().any(changes), "{shape:?}");
        let buffer = array.allocate(length);
        array.fill(buffer, &[2; 4096]);
        let tag = array.submit(0, Operation::Write, offset, length as u32, buffer);
        for _ in 0..1000 {
            array.shards[0].turn();
            array.shared.borrow_mut().now += 10_000;
            kept.extend(array.shared.borrow_mut().mail[1].drain(..));
        }
        assert_eq!(array.take_completion(tag), Some(Ok(())), "{shape:?}");
        let into = array.allocate(length);
        let read = array.submit(1, Operation::Read, offset, length as u32, into);
        for _ in 0..1000 {
            array.shards[1].turn();
            array.shared.borrow_mut().now += 10_000;
        }
        assert_eq!(array.take_completion(read), Some(Ok(())), "{shape:?}");
        let found = array.shared.borrow().memory[into.0 as usize];
        assert_eq!(found, 2, "{shape:?}: acknowledged, and not read");
        array.shared.borrow_mut().mail[1].extend(kept);
        array.run_until(|array| ended(array, true));
        assert_eq!(array.read(1, offset, 4096).unwrap(), [2; 4096]);
    }
}

#[test]
fn an_array_stops_at_any_moment_of_a_replacement() {
    for shape in shapes() {
        for seed in 0..60 {
            let shards = 1 + (seed % 3) as u8;
            let mut array = Array::new(record(shape, 1, None), shards, seed, Options::default());
            array.write(0, 0, &[7; 4096]).unwrap();
            array.command(replace(&shape)).unwrap();
            for _ in 0..2 * seed {
                array.turn();
            }
            array.command(Command::Stop).unwrap();
            array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        }
    }
}

/// The last drive of a mirror is replaced, and pulled while a write is still on its way to it: the new drive has
/// what was written.
#[test]
fn a_write_that_reached_the_new_drive_is_not_lost_with_the_old_one() {
    for seed in 0..8 {
        let shape = geometry(Level::Raid1, 2, 16 << 10, 128);
        let mut array = Array::new(record(shape, 1, None), 1, seed, Options::default());
        array.command(Command::Fail(MemberId(0))).unwrap();
        array.command(replace(&shape)).unwrap();
        array.run_until(|array| {
            let controller = array.shards[0].engine.controller().unwrap();
            let job = controller.job(VolumeId(0));
            job.is_some_and(|job| job.done_bytes == shape.component_bytes)
        });
        let buffer = array.allocate(4096);
        array.fill(buffer, &[9; 4096]);
        let usual_ns = array.shared.borrow().latency_ns;
        array.shared.borrow_mut().latency_ns = 50_000_000;
        let tag = array.submit(0, Operation::Write, 0, 4096, buffer);
        array.turn_alone(0);
        array.shared.borrow_mut().latency_ns = usual_ns;
        array.run_until(|array| ended(array, true));
        array.shared.borrow_mut().disks[1].gone = true;
        assert_eq!(array.finish(tag), Ok(()), "seed {seed}");
        assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096]);
    }
}

/// A read is still on its way to a drive of a RAID 0 when that is replaced and pulled: the new drive serves it.
#[test]
fn a_read_from_a_replaced_drive_that_was_pulled_asks_the_new_one() {
    for seed in 0..8 {
        let shape = geometry(Level::Raid0, 2, 16 << 10, 128);
        let mut array = Array::new(record(shape, 1, None), 1, seed, Options::default());
        let replaced = shape.members - 1;
        let offset = u64::from(shape.chunk_bytes) * u64::from(replaced);
        array.write(0, offset, &[9; 4096]).unwrap();
        let buffer = array.allocate(4096);
        let usual_ns = array.shared.borrow().latency_ns;
        array.shared.borrow_mut().latency_ns = 50_000_000;
        let tag = array.submit(0, Operation::Read, offset, 4096, buffer);
        array.turn_alone(0);
        array.shared.borrow_mut().latency_ns = usual_ns;
        array.command(replace(&shape)).unwrap();
        array.run_until(|array| ended(array, true));
        array.shared.borrow_mut().disks[usize::from(replaced)].gone = true;
        assert_eq!(array.finish(tag), Ok(()), "seed {seed}");
        assert_eq!(array.read(0, offset, 4096).unwrap(), [9; 4096]);
    }
}

/// Some members have the record that names the new drive when another one dies: whichever drive a record names
/// has what is written after that.
#[test]
fn a_replacement_on_record_is_not_given_up_for_another_drive() {
    let shape = geometry(Level::Raid0, 3, 16 << 10, 24);
    let to = MemberId(shape.members);
    let mut array = Array::new(record(shape, 1, None), 1, 3, Options::default());
    array.command(replace(&shape)).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let job = controller.job(VolumeId(0));
        job.is_some_and(|job| job.done_bytes == shape.component_bytes)
    });
    let controller = array.shards[0].engine.controller().unwrap();
    let before = controller.wanted().generation;
    array.shared.borrow_mut().hold_persists = true;
    let named = |record: &Record| record.volumes[0].slots[1].member;
    array.run_until(|array| {
        let shared = array.shared.borrow();
        shared
            .persists
            .iter()
            .any(|(_, record)| named(record) == Some(to))
    });
    array.shared.borrow_mut().disks[0].gone = true;
    assert!(array.read(0, 0, 4096).is_err());
    array.release_persists();
    array.run_until(|array| ended(array, true) || ended(array, false));
    let offset = u64::from(shape.chunk_bytes);
    array.write(0, offset, &[9; 4096]).unwrap();
    let shared = array.shared.borrow();
    let records = shared.disks.iter().filter_map(|disk| disk.record.as_ref());
    for record in records.filter(|record| record.generation > before) {
        let holder = named(record).unwrap();
        let mut blocks = shared.disks[usize::from(holder.0)].bytes.chunks(4096);
        assert!(
            blocks.any(|block| block == [9; 4096]),
            "{holder:?} lacks it"
        );
    }
}

/// At a level without redundancy, the new drive misses a write that goes to both drives. If it still served, it would
/// take the slot without acknowledged data, now or after a crash, as long as there is a record that names it.
#[test]
fn a_new_drive_that_misses_a_write_does_not_take_the_slot() {
    for what in [Operation::Write, ZEROES] {
        // A block that cannot be written, no room, and a drive that is gone.
        for errno in [5, 28, 61, 84, 122, 6] {
            let shape = geometry(Level::Raid0, 2, 16 << 10, 128);
            let mut array = Array::new(record(shape, 1, None), 1, 3, Options::default());
            let offset = u64::from(shape.chunk_bytes);
            array.write(0, offset, &[7; 4096]).unwrap();
            array.shared.borrow_mut().hold_persists = true;
            array.command(replace(&shape)).unwrap();
            array.run_until(|array| {
                let controller = array.shards[0].engine.controller().unwrap();
                let job = controller.job(VolumeId(0)).unwrap();
                job.done_bytes == shape.component_bytes
            });
            let writes = |kind| matches!(kind, StepKind::Write { .. } | StepKind::Zero { .. });
            let new = usize::from(shape.members);
            array.shared.borrow_mut().disks[new].refusal = Some((writes, errno, 1));
            let buffer = array.allocate(4096);
            array.fill(buffer, &[9; 4096]);
            let tag = array.submit(0, what, offset, 4096, buffer);
            array.wait_ms(1000);
            let early = array.take_completion(tag);
            assert_eq!(early, None, "{what:?}, errno {errno}: before the record");
            array.release_persists();
            let written = array.finish(tag);
            array.run_until(|array| ended(array, true) || ended(array, false));
            let expected = if what == ZEROES { [0; 4096] } else { [9; 4096] };
            assert_eq!(written, Ok(()), "{what:?}, errno {errno}");
            let found = array.read(0, offset, 4096);
            assert!(
                found.unwrap() == expected,
                "{what:?}, errno {errno}: old content"
            );
        }
    }
}
