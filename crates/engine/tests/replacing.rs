//! A drive is replaced under load: nothing that is written meanwhile is missing on the new one.

mod memory;

use engine::control::message::Command;
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::shard::Options;
use engine::units::{MemberId, Slot, VolumeId};
use memory::client::Client;
use memory::{Array, geometry, record};

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
            // Some of what is in flight now knows nothing of the copy.
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
