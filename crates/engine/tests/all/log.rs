//! The write-hole log: the process is killed at any moment of random writes, the log is replayed, and
//! nothing but what was being written has changed, also when a drive is lost at the same time.

use crate::memory::client::Client;
use crate::memory::crash::{bad_rows, content, replay};
use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::Command;
use engine::control::record::{LogArea, Record};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Slot, SlotSet};

fn area(shape: &Geometry) -> LogArea {
    LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    }
}

fn logged(shape: Geometry, spares: u8) -> Record {
    let mut record = record(shape, spares, None);
    record.volumes[0].log = Some(area(&shape));
    record
}

fn shapes() -> Vec<Geometry> {
    vec![
        geometry(Level::Raid5, 3, 4 << 10, 40),
        geometry(Level::Raid5, 4, 16 << 10, 16),
        geometry(Level::Raid5, 5, 64 << 10, 6),
        geometry(Level::Raid5, 4, 256 << 10, 3),
    ]
}

/// Checks that bytes that were not being written are unchanged, and that each other sector is old or new. Only sectors
/// that were being written to a drive lost in the crash (`torn`) may hold anything: a log of partial parity cannot
/// restore them.
fn compare(
    client: &Client,
    (disks, shape): (&[crate::memory::Disk], &Geometry),
    missing: SlotSet,
    torn: bool,
    seed: u64,
) {
    let found = content(disks, shape, missing, 0, shape.size_bytes);
    let flying = client.writes_in_flight();
    for (at, (found, known)) in found.chunks(512).zip(client.model.chunks(512)).enumerate() {
        let offset = at as u64 * 512;
        let new = flying.iter().find_map(|(from, bytes)| {
            let at = offset.checked_sub(*from)? as usize;
            bytes.get(at..at + 512)
        });
        let place = shape.locate(offset);
        let holder = shape.data_slots(place.row, place.data_index);
        if torn && new.is_some() && holder.0 & missing.0 != 0 {
            continue;
        }
        assert!(
            found == known || new == Some(found),
            "seed {seed}, {shape:?}: byte {offset} (row {}, data {}) is wrong, {} in flight",
            place.row,
            place.data_index,
            new.is_some(),
        );
    }
}

#[test]
fn a_crash_at_any_moment_leaves_parity_that_the_log_repairs() {
    let (mut torn, mut replayed) = (0, 0);
    for seed in 0..60 {
        let shape = shapes()[seed as usize % 4];
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = Array::new(logged(shape, 0), shards, seed, Options::default());
        let mut client = Client::new(shape.size_bytes, 5000 + seed);
        for _ in 0..40 + seed * 7 {
            client.step(&mut array, 10);
        }
        let mut disks = array.crash();
        torn += bad_rows(&disks, &shape).len();
        replayed += replay(&mut disks, &shape, area(&shape), SlotSet(0));
        assert_eq!(
            bad_rows(&disks, &shape),
            Vec::<u64>::new(),
            "seed {seed}, {shape:?}"
        );
        compare(&client, (&disks, &shape), SlotSet(0), false, seed);
    }
    assert!(
        torn > 20 && replayed > 100,
        "{torn} rows were torn, {replayed} entries replayed"
    );
}

#[test]
fn a_drive_lost_in_the_crash_takes_nothing_with_it() {
    let mut holes = 0;
    for seed in 0..60 {
        let shape = shapes()[seed as usize % 4];
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = Array::new(logged(shape, 0), shards, 300 + seed, Options::default());
        let mut client = Client::new(shape.size_bytes, 9000 + seed);
        for _ in 0..40 + seed * 7 {
            client.step(&mut array, 10);
        }
        let mut disks = array.crash();
        let missing = SlotSet(0).with(Slot((seed % u64::from(shape.members)) as u8));
        holes += bad_rows(&disks, &shape).len();
        disks[missing.iter().next().unwrap().0 as usize]
            .bytes
            .fill(0xEE);
        replay(&mut disks, &shape, area(&shape), missing);
        compare(&client, (&disks, &shape), missing, true, seed);
    }
    assert!(holes > 20, "{holes} rows were torn");
}

#[test]
fn a_degraded_array_survives_crashes_too() {
    for seed in 0..120 {
        let shape = shapes()[seed as usize % 4];
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = Array::new(logged(shape, 0), shards, 700 + seed, Options::default());
        let mut client = Client::new(shape.size_bytes, 7000 + seed);
        let lost = MemberId((seed % u64::from(shape.members)) as u8);
        for _ in 0..60 {
            client.step(&mut array, 10);
        }
        array.command(Command::Fail(lost)).unwrap();
        for _ in 0..40 + seed * 7 {
            client.step(&mut array, 10);
        }
        assert!(!array.has_event(|event| matches!(event, Event::Unrecoverable { .. })));
        let mut disks = array.crash();
        let missing = SlotSet(0).with(Slot(lost.0));
        disks[lost.0 as usize].bytes.fill(0xEE);
        replay(&mut disks, &shape, area(&shape), missing);
        compare(&client, (&disks, &shape), missing, false, seed);
    }
}

/// The loss is not on record when the process is killed, so the drive comes back as if it had not failed.
/// Where it holds parity it also holds the log, so nothing may have been written that could not be logged.
#[test]
fn a_drive_that_fails_just_before_the_crash_comes_back() {
    let mut replayed = 0;
    for seed in 0..60 {
        let shape = shapes()[seed as usize % 4];
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = Array::new(logged(shape, 0), shards, 500 + seed, Options::default());
        let mut client = Client::new(shape.size_bytes, 6000 + seed);
        for _ in 0..60 {
            client.step(&mut array, 10);
        }
        let lost = (seed % u64::from(shape.members)) as usize;
        {
            let mut shared = array.shared.borrow_mut();
            shared.hold_persists = true;
            shared.disks[lost].gone = true;
        }
        for _ in 0..40 + seed * 3 {
            client.step(&mut array, 10);
        }
        assert!(!array.has_event(|event| matches!(event, Event::FailureRecorded(_))));
        // The lost drive may come back without what was in its cache: the unit that covers it must still be there.
        assert_eq!(array.shared.borrow().early_units, 0, "seed {seed}");
        let mut disks = array.crash();
        replayed += replay(&mut disks, &shape, area(&shape), SlotSet(0));
        assert_eq!(
            bad_rows(&disks, &shape),
            Vec::<u64>::new(),
            "seed {seed}, {shape:?}"
        );
        compare(&client, (&disks, &shape), SlotSet(0), false, seed);
    }
    assert!(replayed > 100, "{replayed} entries replayed");
}

/// The second loss is not on record, so its drive comes back as it is: what it missed must not have been
/// written elsewhere unless the log has it.
#[test]
fn a_volume_that_lost_too_much_is_whole_again_with_the_drive_that_it_lost_last() {
    let mut failed = 0;
    for seed in 0..120 {
        let shape = shapes()[seed as usize % 4];
        let shards = 1 + (seed / 4 % 3) as u8;
        let mut array = Array::new(logged(shape, 0), shards, 40 + seed, Options::default());
        let mut client = Client::new(shape.size_bytes, 3000 + seed);
        let first = MemberId((seed % u64::from(shape.members)) as u8);
        let second = (first.0 + 1 + (seed / 5 % 2) as u8) % shape.members;
        for _ in 0..60 {
            client.step(&mut array, 10);
        }
        array.command(Command::Fail(first)).unwrap();
        for _ in 0..60 + seed * 3 {
            client.step(&mut array, 10);
        }
        client.allow_errors();
        {
            // The first loss is on record: that drive is not used again.
            let mut shared = array.shared.borrow_mut();
            shared.disks[usize::from(first.0)].unflushed.clear();
            shared.early_units = 0;
        }
        let fails = |disk: &mut crate::memory::Disk| match seed % 3 {
            0 => disk.gone = true,
            _ => disk.writes_fail = true,
        };
        fails(&mut array.shared.borrow_mut().disks[usize::from(second)]);
        for _ in 0..200 {
            client.step(&mut array, 10);
        }
        client.drain(&mut array);
        failed += client.failed_writes();
        assert_eq!(array.shared.borrow().early_units, 0, "seed {seed}");
        let mut disks = array.crash();
        let missing = SlotSet(0).with(Slot(first.0));
        disks[first.0 as usize].bytes.fill(0xEE);
        replay(&mut disks, &shape, area(&shape), missing);
        compare(&client, (&disks, &shape), missing, true, seed);
    }
    assert!(failed > 100, "{failed} writes failed");
}

#[test]
fn a_logged_array_lives_as_any_other() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in 1..=3 {
            let mut array = Array::new(logged(shape, 1), shards, at as u64, Options::default());
            let mut client = Client::new(shape.size_bytes, 70 + at as u64);
            for _ in 0..200 {
                client.step(&mut array, 12);
            }
            array.shared.borrow_mut().disks[1].gone = true;
            for _ in 0..400 {
                client.step(&mut array, 12);
            }
            array.wait_for_job();
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?} {shards} shards");
        }
    }
}

#[test]
fn the_unit_before_is_durable_before_the_next_is_written() {
    let shape = shapes()[1];
    let mut array = Array::new(logged(shape, 0), 1, 3, Options::default());
    let length = shape.row_bytes() * 4;
    let mut tags = Vec::new();
    for offset in (0..length).step_by(4096) {
        let buffer = array.allocate(4096);
        tags.push(array.submit(0, Operation::Write, offset, 4096, buffer));
    }
    for tag in tags {
        array.finish(tag).unwrap();
    }
    let stats = *array.shards[0].engine.stats();
    assert!(stats.log_units > 0 && stats.log_entries >= stats.log_units);
    assert!(
        stats.log_entries > 2 * stats.log_units,
        "plans share units: {stats:?}"
    );
    assert_eq!(array.shared.borrow().early_units, 0);
}

/// A rebuild has passed a row when another drive is lost, one too many for the volume: that loss is not recorded, and
/// the drive may come back. No data may be written that its parity does not match, also where enough drives are left.
#[test]
fn a_volume_that_has_failed_writes_nothing_that_its_parity_does_not_know() {
    for seed in 0..2 {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 64);
        let options = Options {
            auto_rebuild: true,
            rate_bytes_per_s: 16 << 10,
            ..Options::default()
        };
        let mut array = Array::new(logged(shape, 1), 1, seed, options);
        for row in 0..4 {
            let bytes = [1 + row as u8; 48 << 10];
            array.write(0, row * shape.row_bytes(), &bytes).unwrap();
        }
        array.command(Command::Fail(MemberId(1))).unwrap();
        let bands_filled = |array: &mut Array| {
            let disks = &array.shared.borrow().disks;
            let filled = |row| disks[4].bytes[shape.member_offset_bytes(row, 0) as usize] != 0;
            (0..4).all(filled)
        };
        array.run_until(bands_filled);
        array.wait_ms(20);
        // Row 0 has its parity on the last drive, and this piece of data on the first.
        assert_eq!(shape.parity_slot(0), Some(Slot(3)));
        array.shared.borrow_mut().disks[3].gone = true;
        let written = array.write(0, 0, &[9; 4096]);
        assert!(written.is_err(), "seed {seed}");
        let at = shape.member_offset_bytes(0, 0) as usize;
        let held = array.shared.borrow().disks[0].bytes[at];
        assert_eq!(
            held, 1,
            "seed {seed}: the parity that may come back does not match"
        );
    }
}

#[test]
fn full_rows_and_zeroed_ones_can_be_cut_off_at_any_moment() {
    let shape = shapes()[1];
    let mut torn = 0;
    for turns in 0..60 {
        let mut array = Array::new(logged(shape, 0), 1, turns, Options::default());
        let mut random = crate::memory::Random(turns);
        let half = shape.size_bytes / 2;
        let noise: Vec<u8> = (0..half).map(|_| random.next() as u8).collect();
        array.write(0, 0, &noise).unwrap();
        // The newest unit of every log covers rows that are not written to again.
        array.write(0, half, &noise).unwrap();
        let operation = match turns % 3 {
            0 => Operation::Write,
            kind => Operation::WriteZeroes {
                keep_allocated: kind == 1,
                only_if_fast: false,
            },
        };
        let length = shape.row_bytes() * 3;
        let buffer = array.allocate(length);
        array.submit(0, operation, 0, length as u32, buffer);
        for _ in 0..turns {
            array.turn();
        }
        let mut disks = array.crash();
        torn += bad_rows(&disks, &shape).len();
        replay(&mut disks, &shape, area(&shape), SlotSet(0));
        assert_eq!(bad_rows(&disks, &shape), [0; 0], "after {turns} turns");
    }
    assert!(torn > 10, "{torn} rows were torn");
}
