//! A drive fails while writes wait for it, and another takes its slot: what the writes had planned for the old drive is
//! not carried out on the new one.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::{Command, Message};
use engine::control::record::LogArea;
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, VolumeId};

/// With a write-hole log and a spare.
fn logged(shape: Geometry) -> Array {
    let mut shelf = record(shape, 1, None);
    shelf.volumes[0].log = Some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    let options = Options {
        auto_rebuild: true,
        member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Options::default()
    };
    Array::new(shelf, 1, 3, options)
}

/// The first write's unit hangs with the drive that holds the row's parity; the other writes wait for the next unit.
#[test]
fn what_waits_for_a_log_is_not_logged_on_the_next_drive() {
    for waiting in 1..6 {
        let shape = geometry(Level::Raid5, 3, 64 << 10, 24);
        let mut array = logged(shape);
        array.write(0, 0, &[1; 4096]).unwrap();
        let row = 1;
        let parity = shape.parity_slot(row).unwrap();
        array.hang(usize::from(parity.0));
        let tags: Vec<u64> = (0..=waiting)
            .map(|at| {
                let buffer = array.allocate(4096);
                array.fill(buffer, &[2 + at as u8; 4096]);
                let offset_bytes = row * shape.row_bytes() + at * 8192;
                let tag = array.submit(0, Operation::Write, offset_bytes, 4096, buffer);
                array.wait_ms(1);
                tag
            })
            .collect();
        let ended = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    job: JobName::Rebuild,
                    complete: true,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(ended));
        for tag in tags {
            assert_eq!(array.finish(tag), Ok(()));
        }
        assert!(
            array.shared.borrow().last_logged(parity).is_empty(),
            "{waiting}: the new drive's log covers writes that it never got"
        );
        for at in 0..=waiting {
            let found = array.read(0, row * shape.row_bytes() + at * 8192, 4096);
            assert_eq!(found.unwrap(), [2 + at as u8; 4096]);
        }
        assert_eq!(array.scrub(false), 0);
    }
}

/// Writes wait for the log of a drive that is being filled when another drive is lost: the rebuild is given up,
/// the slot is empty, and nothing that was not carried out may be acknowledged.
#[test]
fn what_waits_for_a_log_when_the_volume_fails_is_not_acknowledged() {
    for writes in 1..5 {
        let shape = geometry(Level::Raid5, 4, 64 << 10, 24);
        let mut array = logged(shape);
        array.write(0, 0, &[1; 4096]).unwrap();
        array.command(Command::Rate(2 * MIB)).unwrap();
        let filled = shape.parity_slot(0).unwrap();
        array.command(Command::Fail(MemberId(filled.0))).unwrap();
        array.run_until(|array| {
            let job = array.shards[0]
                .engine
                .controller()
                .unwrap()
                .job(VolumeId(0));
            job.is_some_and(|job| job.done_bytes >= 128 << 10)
        });
        array.hang(4);
        let tags: Vec<u64> = (0..writes)
            .map(|at| {
                let buffer = array.allocate(4096);
                array.fill(buffer, &[9; 4096]);
                let tag = array.submit(0, Operation::Write, at * 8192, 4096, buffer);
                array.wait_ms(1);
                tag
            })
            .collect();
        let other = (0..4).find(|&slot| slot != filled.0).unwrap();
        array.shared.borrow_mut().disks[usize::from(other)].gone = true;
        let length_bytes = shape.row_bytes() as u32;
        let buffer = array.allocate(u64::from(length_bytes));
        let offset_bytes = 8 * shape.row_bytes();
        array.submit(0, Operation::Read, offset_bytes, length_bytes, buffer);
        array
            .run_until(|array| array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
        array.unhang(4);
        for tag in tags {
            assert!(array.finish(tag).is_err(), "{writes} writes");
        }
    }
}

/// A shard sends a read that a failed drive could not serve to the row's owner. The message takes longer than the
/// rebuild of the next drive, and then the other mirror fails: the next drive holds everything and serves the read.
#[test]
fn a_read_tries_the_next_drive_in_the_slot_of_one_that_failed() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 48);
    let options = Options {
        auto_rebuild: true,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, options);
    array.write(0, 0, &[7; 4096]).unwrap();
    array.shared.borrow_mut().disks[0].gone = true;
    // Of two reads, one goes to the first mirror.
    let reads = [(); 2].map(|()| {
        let buffer = array.allocate(4096);
        (array.submit(1, Operation::Read, 0, 4096, buffer), buffer)
    });
    for _ in 0..100 {
        array.turn_alone(1);
    }
    let mail = std::mem::take(&mut array.shared.borrow_mut().mail[0]);
    let asks = |message: &Message| matches!(message, Message::Forward(_));
    let (late, others): (Vec<Message>, Vec<Message>) = mail.into_iter().partition(asks);
    assert_eq!(late.len(), 1, "reads that were sent to the owner");
    array.shared.borrow_mut().mail[0].extend(others);
    array.wait_for_job();
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.shared.borrow_mut().mail[0].extend(late);
    for (tag, buffer) in reads {
        assert_eq!(array.finish(tag), Ok(()));
        let at = array.answer_of(tag, buffer).0 as usize;
        assert_eq!(array.shared.borrow().memory[at..at + 4096], [7; 4096]);
    }
}

/// Submits writes all over the volume, whose reads of old data take seconds. Until these have ended there is no scratch
/// memory for other plans.
fn take_all_scratch(array: &mut Array) -> Vec<u64> {
    let shape = array.shape;
    array.shared.borrow_mut().latency_ns = 4 * Nanos::SECOND.0;
    let tags = (1..shape.rows()).map(|row| {
        let buffer = array.allocate(60 << 10);
        array.fill(buffer, &[1; 60 << 10]);
        let offset_bytes = row * shape.row_bytes();
        array.submit(0, Operation::Write, offset_bytes, 60 << 10, buffer)
    });
    let tags = tags.collect();
    array.turn_alone(0);
    array.shared.borrow_mut().latency_ns = 50_000;
    tags
}

/// A plan waits for scratch memory, and meanwhile the drive that it was to read from is replaced. The new drive is not
/// filled there yet: what it holds must reach neither a client nor parity.
#[test]
fn what_waits_for_memory_reads_nothing_from_the_next_drive() {
    for (seed, is_read) in (0..4).zip([false, true].into_iter().cycle()) {
        let shape = geometry(Level::Raid5, 4, 64 << 10, 200);
        let options = Options {
            auto_rebuild: true,
            ..Options::default()
        };
        let mut array = Array::new(record(shape, 1, None), 1, seed, options);
        let row = shape.row_bytes();
        array.write(0, 0, &vec![7; row as usize]).unwrap();
        let slot = |data_index| shape.data_slots(0, data_index).iter().next().unwrap();
        if is_read {
            // This block can only be reconstructed, from the other drives, one of which will be lost.
            let from = shape.member_offset_bytes(0, 0);
            let disk = &mut array.shared.borrow_mut().disks[usize::from(slot(1).0)];
            disk.bad.push((from, from + 512));
        }
        let others = take_all_scratch(&mut array);
        let (what, offset_bytes) = if is_read {
            (Operation::Read, u64::from(shape.chunk_bytes))
        } else {
            (Operation::Write, 0)
        };
        let buffer = array.allocate(4096);
        array.fill(buffer, &[9; 4096]);
        let tag = array.submit(0, what, offset_bytes, 4096, buffer);
        array.wait_ms(40);
        assert_eq!(array.take_completion(tag), None, "there was scratch memory");
        let lost = MemberId(slot(0).0);
        array.command(Command::Fail(lost)).unwrap();
        let is_taken = |array: &mut Array| {
            let controller = array.shards[0].engine.controller().unwrap();
            let record = controller.wanted();
            record.volumes[0].slots[usize::from(lost.0)].member == Some(MemberId(4))
        };
        array.run_until(is_taken);
        array.wait_ms(5000);
        let result = array.finish(tag);
        for tag in others {
            assert_eq!(array.finish(tag), Ok(()));
        }
        if is_read {
            let buffer = array.answer_of(tag, buffer).0 as usize;
            let shared = array.shared.borrow();
            let is_right = shared.memory[buffer..buffer + 4096] == [7; 4096];
            assert!(result.is_err() || is_right, "seed {seed}: wrong bytes");
        } else {
            assert_eq!(result, Ok(()));
            assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096], "seed {seed}");
            array.run_until(|array| {
                let ended = |event: &Event| matches!(event, Event::JobEnded { .. });
                array.has_event(ended)
            });
            assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096], "seed {seed}");
            assert_eq!(array.scrub(false), 0, "seed {seed}");
        }
    }
}

/// Where a crash could leave wrong parity, a write is logged, on the new drive as on any other.
#[test]
fn a_write_to_a_row_that_the_next_drive_has_already_is_logged_on_it() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 24);
    let mut array = logged(shape);
    array.write(0, 0, &[1; 4096]).unwrap();
    array.command(Command::Rate(2 * MIB)).unwrap();
    let filled = shape.parity_slot(0).unwrap();
    array.command(Command::Fail(MemberId(filled.0))).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let job = controller.job(VolumeId(0));
        job.is_some_and(|job| job.done_bytes >= 128 << 10)
    });
    let units = array.shards[0].engine.stats().log_units;
    array.write(0, 0, &[2; 4096]).unwrap();
    assert_eq!(array.shards[0].engine.stats().log_units, units + 1);
    assert!(!array.shared.borrow().last_logged(filled).is_empty());
    array.command(Command::Rate(0)).unwrap();
    array.wait_for_job();
    assert_eq!(array.scrub(false), 0);
}

/// Otherwise, what the drive logged when it served in this slot before would be replayed after a crash.
#[test]
fn a_drive_is_not_filled_before_its_log_is_empty() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 24);
    let mut array = logged(shape);
    array.write(0, 0, &[1; 4096]).unwrap();
    array.wait_ms(100);
    let stats = |array: &Array| *array.shards[0].engine.stats();
    let before = stats(&array);
    array.shared.borrow_mut().latency_ns = 4 * Nanos::SECOND.0;
    array.shared.borrow_mut().random = crate::memory::Random(3);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.run_until(|array| stats(array).log_units > before.log_units);
    array.shared.borrow_mut().latency_ns = 50_000;
    for _ in 0..500 {
        array.turn();
    }
    let now = stats(&array);
    assert_eq!(now.log_units, before.log_units + 1);
    assert_eq!(now.plans_background, before.plans_background);
    array.run_until(|array| {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
    });
}

/// A write is under way that the slot's previous drive has logged. The next unit, an empty one, has to wait until that
/// write has ended.
#[test]
fn a_drive_is_not_filled_while_a_write_is_under_way_that_was_logged_in_its_slot() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 24);
    let mut array = logged(shape);
    array.write(0, 0, &[1; 4096]).unwrap();
    array.wait_ms(100);
    let stats = |array: &Array| *array.shards[0].engine.stats();
    let before = stats(&array);
    let buffer = array.allocate(4096);
    array.fill(buffer, &[2; 4096]);
    let row = shape.row_bytes();
    let tag = array.submit(0, Operation::Write, row, 4096, buffer);
    array.run_until(|array| stats(array).log_units > before.log_units);
    array.shared.borrow_mut().latency_ns = 200 * Nanos::MILLISECOND.0;
    array.run_until(|array| stats(array).member_writes > before.member_writes);
    array.shared.borrow_mut().latency_ns = 50_000;
    let lost = MemberId(shape.parity_slot(1).unwrap().0);
    array.command(Command::Fail(lost)).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let slots = &controller.wanted().volumes[0].slots;
        slots[usize::from(lost.0)].member == Some(MemberId(4))
    });
    for _ in 0..500 {
        array.turn();
    }
    assert!(array.shared.borrow().flights.contains_key(&tag));
    assert_eq!(stats(&array).plans_background, before.plans_background);
    array.run_until(|array| {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
    });
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.read(0, row, 4096).unwrap(), [2; 4096]);
    assert_eq!(array.scrub(false), 0);
}
