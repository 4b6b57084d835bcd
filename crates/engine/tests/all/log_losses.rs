//! Drives that have a volume's write-hole log are lost while a write is being logged: no data are written whose old
//! parity may come back, and the loss of a drive that was only being copied to costs no other drive.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::Command;
use engine::control::record::{LogArea, Record, VolumeRecord};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, Slot, VolumeId};

const VOLUME: VolumeId = VolumeId(0);

fn with_log(mut record: Record) -> Record {
    let shape = record.volumes[0].geometry;
    record.volumes[0].log = Some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    record
}

/// Another volume on the same drives, which survives the loss of one of each pair.
fn and_a_mirror(mut record: Record) -> Record {
    let first = record.volumes[0].geometry;
    let mut mirror = geometry(Level::Raid10, 4, 16 << 10, 12);
    mirror.start_bytes += first.component_bytes + 2 * MIB;
    let volume = VolumeRecord {
        geometry: mirror,
        log: None,
        ..record.volumes[0].clone()
    };
    record.volumes.push(volume);
    for member in &mut record.members {
        member.size_bytes = mirror.start_bytes + mirror.component_bytes + 4 * MIB;
    }
    record
}

/// One of the `data` slots, whose drive the mirror can lose beside that of `parity`.
fn of_another_pair(parity: Slot, data: &[Slot]) -> Slot {
    let is_other = |slot: &&Slot| slot.0 / 2 != parity.0 / 2;
    *data.iter().find(is_other).unwrap()
}

fn options() -> Options {
    Options {
        auto_rebuild: false,
        member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

/// Where a row's parity and its data are, in order.
fn slots(shape: &Geometry, row: u64) -> (Slot, Vec<Slot>) {
    let data = |index| shape.data_slots(row, index).iter().next().unwrap();
    let all = (0..shape.data_members()).map(data).collect();
    (shape.parity_slot(row).unwrap(), all)
}

/// The byte that a slot's drive holds at the beginning of a row.
fn held(array: &Array, row: u64, slot: Slot) -> u8 {
    let at = array.shape.member_offset_bytes(row, 0) as usize;
    array.shared.borrow().disks[usize::from(slot.0)].bytes[at]
}

fn ask(array: &mut Array, offset_bytes: u64, fill: u8) -> u64 {
    let buffer = array.allocate(4096);
    array.fill(buffer, &[fill; 4096]);
    array.submit(0, Operation::Write, offset_bytes, 4096, buffer)
}

/// Nothing but a unit is written with FUA here.
fn is_unit(kind: StepKind) -> bool {
    matches!(kind, StepKind::Write { fua: true })
}

/// The drive may come back with its old parity: because its failure is not recorded, or, where it is recorded because
/// another volume survives it, because an operator trusts the drive.
#[test]
fn a_unit_that_its_drive_did_not_take_lets_nothing_be_written_if_that_was_one_drive_too_many() {
    for (hangs, on_record) in [(false, false), (true, false), (true, true)] {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let mut record = with_log(record(shape, 0, None));
        if on_record {
            record = and_a_mirror(record);
        }
        let mut array = Array::new(record, 1, 3, options());
        array.write(0, 0, &[1; 48 << 10]).unwrap();
        let (parity, data) = slots(&shape, 0);
        let lost = of_another_pair(parity, &data);
        let written = *data.iter().find(|&&slot| slot != lost).unwrap();
        let data_index = data.iter().position(|&slot| slot == written).unwrap() as u64;
        array.command(Command::Fail(MemberId(lost.0))).unwrap();
        let units = array.shards[0].engine.stats().log_units;
        let has_log = usize::from(parity.0);
        if !hangs {
            array.shared.borrow_mut().disks[has_log].refusal = Some((is_unit, 5, 1));
        }
        let tag = ask(&mut array, data_index * (16 << 10), 9);
        while array.shards[0].engine.stats().log_units == units {
            array.turn_alone(0);
        }
        if hangs {
            array.hang(has_log);
        }
        let at = format!("hangs: {hangs}, on record: {on_record}");
        assert!(array.finish(tag).is_err(), "{at}");
        let recorded = Event::FailureRecorded(MemberId(parity.0));
        assert_eq!(array.has_event(|event| *event == recorded), on_record);
        array.wait_ms(2000);
        assert_eq!(held(&array, 0, written), 1, "{at}: written without parity");
    }
}

/// The drive in service has the unit, and need not be failed before the write is acknowledged.
#[test]
fn a_unit_that_only_the_drive_that_is_copied_to_did_not_take_costs_no_other() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 64);
    let slow = Options {
        rate_bytes_per_s: 64 << 10,
        ..options()
    };
    let mut array = Array::new(with_log(record(shape, 1, None)), 1, 3, slow);
    array.write(0, 0, &[1; 48 << 10]).unwrap();
    let (parity, _) = slots(&shape, 0);
    let order = Command::Replace {
        volume: VOLUME,
        slot: parity,
        to: MemberId(4),
    };
    array.command(order).unwrap();
    array.run_until(|array| {
        let job = array.shards[0].engine.controller().unwrap().job(VOLUME);
        job.is_some_and(|job| job.done_bytes >= 32 << 10)
    });
    array.shared.borrow_mut().disks[4].refusal = Some((is_unit, 5, 1));
    let tag = ask(&mut array, 0, 9);
    assert_eq!(array.finish(tag), Ok(()));
    let failed = |member: MemberId| move |event: &Event| matches!(event, Event::MemberFailed { member: by, .. } if *by == member);
    assert!(array.has_event(failed(MemberId(4))), "it took the unit");
    assert!(!array.has_event(failed(MemberId(parity.0))));
    assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096]);
    array.command(Command::Rate(0)).unwrap();
    assert_eq!(array.scrub(false), 0);
}

/// Both losses are on record because of another volume that survives them. If an operator trusts the second drive when
/// it is back, its old parity counts: no data may have been written that it does not match, and none acknowledged.
#[test]
fn a_write_that_comes_to_its_log_when_too_much_is_lost_on_record_writes_nothing() {
    let mut met = 0;
    for seed in 0..48 {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let record = and_a_mirror(with_log(record(shape, 0, None)));
        let mirror = record.volumes[1].geometry;
        let mut array = Array::new(record, 1, seed, Options::default());
        array.write(0, 0, &[1; 48 << 10]).unwrap();
        let (parity, data) = slots(&shape, 0);
        let lost = of_another_pair(parity, &data);
        let written = *data.iter().find(|&&slot| slot != lost).unwrap();
        let data_index = data.iter().position(|&slot| slot == written).unwrap() as u64;
        array.command(Command::Fail(MemberId(lost.0))).unwrap();
        // When the write begins, this loss may be on record or not.
        let first = Event::FailureRecorded(MemberId(lost.0));
        if seed % 2 == 0 {
            array.run_until(|array| array.has_event(|event| *event == first));
        }
        // The old parity is read, and then its drive is lost, before the old data are read.
        array.shared.borrow_mut().latency_ns = 4 * Nanos::SECOND.0;
        let (reads, units) = {
            let stats = array.shards[0].engine.stats();
            (stats.member_reads, stats.log_units)
        };
        let tag = ask(&mut array, data_index * (16 << 10), 9);
        while array.shards[0].engine.stats().member_reads == reads {
            array.turn_alone(0);
        }
        array.shared.borrow_mut().latency_ns = 50_000;
        array.wait_ms(2000);
        if array.shards[0].engine.stats().log_units > units {
            continue;
        }
        array.shared.borrow_mut().disks[usize::from(parity.0)].gone = true;
        // The lost drive misses a write to the mirror, which is acknowledged when the loss is on record.
        let length = mirror.row_bytes() as u32;
        let buffer = array.allocate(u64::from(length));
        let write = Operation::Write;
        let other = array.submit_to(0, VolumeId(1), write, 0, length, buffer, false);
        assert_eq!(array.finish(other), Ok(()));
        let recorded = Event::FailureRecorded(MemberId(parity.0));
        assert!(array.has_event(|event| *event == recorded), "seed {seed}");
        array.wait_ms(900);
        met += usize::from(array.shared.borrow().flights.contains_key(&tag));
        assert!(array.finish(tag).is_err(), "seed {seed}: acknowledged");
        assert_eq!(held(&array, 0, written), 1, "seed {seed}: written");
    }
    assert!(met > 2, "{met} writes came to their log after that");
}

fn stats(array: &Array) -> engine::stats::Stats {
    *array.shards[0].engine.stats()
}

/// A turn, and a millisecond.
fn step(array: &mut Array) {
    array.turn();
    array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
}

/// A write has been logged and only some of its drives have it when the volume is lost, which is on record because of
/// another volume. If the lost drive is trusted later, the unit makes the row consistent: the next unit must not
/// overwrite it.
#[test]
fn a_unit_stays_the_newest_when_its_write_is_lost_on_record() {
    let mut met = 0;
    for seed in 0..12 {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let record = and_a_mirror(with_log(record(shape, 0, None)));
        let mirror = record.volumes[1].geometry;
        let mut array = Array::new(record, 1, seed, Options::default());
        let rows = u64::from(shape.members) + 1;
        for row in 0..rows {
            let bytes = [1; 48 << 10];
            array.write(0, row * shape.row_bytes(), &bytes).unwrap();
        }
        let (parity, data) = slots(&shape, 0);
        let lost = of_another_pair(parity, &data);
        let index_of = |slot: Slot| data.iter().position(|&by| by == slot).unwrap() as u64;
        // The drive that is lost later is in the mirror's pair of the one with the log: that pair keeps one drive.
        let second = *data.iter().find(|slot| slot.0 / 2 == parity.0 / 2).unwrap();
        let third = *data
            .iter()
            .find(|&&slot| slot != lost && slot != second)
            .unwrap();
        array.command(Command::Fail(MemberId(lost.0))).unwrap();
        let before = stats(&array);
        let first_write = ask(&mut array, index_of(second) << 14, 9);
        while stats(&array).member_reads == before.member_reads {
            array.turn_alone(0);
        }
        let usual_ns = array.shared.borrow().latency_ns;
        array.shared.borrow_mut().latency_ns = 3 * Nanos::SECOND.0;
        while stats(&array).log_units == before.log_units {
            array.turn_alone(0);
        }
        array.shared.borrow_mut().latency_ns = usual_ns;
        // A write to another row with the same log, for which it has to wait.
        let next_row = u64::from(shape.members);
        assert_eq!(shape.parity_slot(next_row), Some(parity));
        let offset_bytes = next_row * shape.row_bytes() + (index_of(third) << 14);
        let next_write = ask(&mut array, offset_bytes, 9);
        (0..50).for_each(|_| array.turn_alone(0));
        array.shared.borrow_mut().latency_ns = 3 * Nanos::SECOND.0;
        let writes = stats(&array).member_writes;
        while stats(&array).member_writes == writes {
            step(&mut array);
        }
        array.shared.borrow_mut().latency_ns = usual_ns;
        array.shared.borrow_mut().disks[usize::from(second.0)].gone = true;
        let length = mirror.row_bytes() as u32;
        let buffer = array.allocate(u64::from(length));
        let write = Operation::Write;
        let other = array.submit_to(0, VolumeId(1), write, 0, length, buffer, false);
        assert_eq!(array.finish(other), Ok(()));
        let recorded = Event::FailureRecorded(MemberId(second.0));
        assert!(array.has_event(|event| *event == recorded), "seed {seed}");
        met += usize::from(array.shared.borrow().flights.contains_key(&first_write));
        assert!(array.finish(first_write).is_err(), "seed {seed}");
        assert!(array.finish(next_write).is_err(), "seed {seed}");
        array.wait_ms(1000);
        let units = stats(&array).log_units;
        assert_eq!(units, before.log_units + 1, "seed {seed}: overwritten");
    }
    assert!(met > 2, "{met} writes were under way then");
}

/// Nothing waits for the unit any more.
#[test]
fn a_unit_that_comes_back_after_it_was_given_up_is_not_counted_again() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let mut array = Array::new(with_log(record(shape, 0, None)), 1, 3, options());
    array.write(0, 0, &[1; 48 << 10]).unwrap();
    array.wait_ms(100);
    let has_log = usize::from(slots(&shape, 0).0.0);
    let units = stats(&array).log_units;
    let tag = ask(&mut array, 0, 9);
    while stats(&array).log_units == units {
        array.turn_alone(0);
    }
    array.hang(has_log);
    array.wait_ms(2000);
    assert_eq!(array.take_completion(tag), Some(Ok(())));
    assert_eq!(array.left_behind(), 1);
    array.unhang(has_log);
    array.wait_ms(100);
    assert_eq!(array.left_behind(), 0);
    assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096]);
}

/// The late unit was sent to the slot's old drive, and the next one goes to the new drive. Data are written only when
/// the next unit is durable.
#[test]
fn a_unit_that_comes_back_late_is_not_taken_for_the_next_one() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let with_spare = Options {
        auto_rebuild: true,
        ..options()
    };
    let mut array = Array::new(with_log(record(shape, 1, None)), 1, 3, with_spare);
    array.write(0, 0, &[1; 48 << 10]).unwrap();
    array.wait_ms(100);
    let (parity, data) = slots(&shape, 0);
    let units = stats(&array).log_units;
    let tag = ask(&mut array, 0, 9);
    while stats(&array).log_units == units {
        array.turn_alone(0);
    }
    array.hang(usize::from(parity.0));
    array.run_until(|array| {
        array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
        array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
    });
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.left_behind(), 1);
    let before = stats(&array);
    let tag = ask(&mut array, 0, 8);
    while stats(&array).member_reads == before.member_reads {
        array.turn_alone(0);
    }
    array.shared.borrow_mut().latency_ns = 250 * Nanos::MILLISECOND.0;
    while stats(&array).log_units == before.log_units {
        array.turn_alone(0);
    }
    array.shared.borrow_mut().latency_ns = 50_000;
    array.unhang(usize::from(parity.0));
    for _ in 0..200 {
        array.turn_alone(0);
    }
    assert_eq!(array.left_behind(), 0);
    assert_eq!(held(&array, 0, data[0]), 9, "the unit is not durable");
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(held(&array, 0, data[0]), 8);
}
