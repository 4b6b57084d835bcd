//! A flush succeeds only if everything acknowledged before it is durable. It reaches every drive that holds a part of
//! the volume, also drives that are being filled or copied to. On a volume that has lost more than it survives, or was
//! never started, it is an error.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::Command;
use engine::control::record::{LogArea, Record, VolumeRecord};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Nanos, Slot, VolumeId};

const LEVELS: [(Level, u8); 4] = [
    (Level::Raid0, 2),
    (Level::Raid1, 2),
    (Level::Raid10, 4),
    (Level::Raid5, 3),
];

fn shape(level: Level, members: u8) -> Geometry {
    geometry(level, members, 16 << 10, 24)
}

fn ask(array: &mut Array, shard: usize, volume: u8) -> u64 {
    let buffer = array.allocate(512);
    array.submit_to(
        shard,
        VolumeId(volume),
        Operation::Flush,
        0,
        0,
        buffer,
        false,
    )
}

fn flush(array: &mut Array, shard: usize, volume: u8) -> Result<(), Failure> {
    let tag = ask(array, shard, volume);
    array.finish(tag)
}

fn is_lost(result: Result<(), Failure>) -> bool {
    matches!(result, Err(Failure::Unrecoverable { .. }))
}

fn with_caches(mut record: Record, volatile: bool) -> Record {
    let members = record.members.iter_mut();
    members.for_each(|member| member.volatile_cache = volatile);
    record
}

/// Another volume on the same drives.
fn and_another(mut record: Record, shape: Geometry) -> Record {
    let mut other = shape;
    other.start_bytes += record.volumes[0].geometry.component_bytes + (1 << 20);
    let volume = VolumeRecord {
        geometry: other,
        ..record.volumes[0].clone()
    };
    record.volumes.push(volume);
    record
}

/// What the drives of such a volume have in their caches is not known here, and they are not flushed.
#[test]
fn nothing_is_flushed_on_a_volume_that_was_not_started() {
    for (level, members) in LEVELS {
        for volatile in [true, false] {
            for shards in [1, 2] {
                let mut record = with_caches(record(shape(level, members), 0, None), volatile);
                record.volumes[0].not_started = true;
                let mut array = Array::new(record, shards, 3, Options::default());
                for shard in 0..usize::from(shards) {
                    let flushed = flush(&mut array, shard, 0);
                    assert!(is_lost(flushed), "{level}, {volatile}: {flushed:?}");
                }
            }
        }
    }
}

/// The drives write through, or their caches are empty. Acknowledged data are lost all the same.
#[test]
fn nothing_is_flushed_on_a_lost_volume_whose_drives_need_no_flush() {
    for (level, members) in LEVELS {
        let record = with_caches(record(shape(level, members), 0, None), false);
        let mut array = Array::new(record, 2, 3, Options::default());
        array.write(0, 0, &[1; 32 << 10]).unwrap();
        assert_eq!(flush(&mut array, 0, 0), Ok(()));
        for drive in 0..2 {
            array.shared.borrow_mut().disks[drive].gone = true;
            let _ = array.read(0, 0, 32 << 10);
        }
        let at_once = flush(&mut array, 0, 0);
        assert!(is_lost(at_once), "{level}: {at_once:?}");
        array.wait_ms(1000);
        for shard in 0..2 {
            let flushed = flush(&mut array, shard, 0);
            assert!(is_lost(flushed), "{level}, shard {shard}: {flushed:?}");
        }
    }
}

/// The failure is on record because of the volume that survives it. A flush of the lost volume is still an error.
#[test]
fn a_failure_on_record_does_not_make_a_lost_volumes_flush_good() {
    for volatile in [true, false] {
        let first = record(geometry(Level::Raid5, 4, 16 << 10, 12), 0, None);
        let raid0 = geometry(Level::Raid0, 4, 16 << 10, 12);
        let mut record = with_caches(and_another(first, raid0), volatile);
        for member in &mut record.members {
            member.size_bytes += 4 << 20;
        }
        let mut array = Array::new(record, 2, 3, Options::default());
        for volume in 0..2 {
            let buffer = array.allocate(128 << 10);
            let id = VolumeId(volume);
            let tag = array.submit_to(0, id, Operation::Write, 0, 128 << 10, buffer, false);
            assert_eq!(array.finish(tag), Ok(()));
        }
        array.shared.borrow_mut().disks[2].gone = true;
        assert!(array.read(0, 0, 128 << 10).is_ok());
        let recorded = Event::FailureRecorded(MemberId(2));
        array.run_until(|array| array.has_event(|event| *event == recorded));
        array.wait_ms(100);
        for shard in 0..2 {
            assert_eq!(flush(&mut array, shard, 0), Ok(()), "it survives");
            let flushed = flush(&mut array, shard, 1);
            assert!(is_lost(flushed), "caches: {volatile}: {flushed:?}");
        }
    }
}

/// The flush is under way when the drives are lost.
#[test]
fn a_flush_under_way_on_a_volume_that_is_lost_is_an_error() {
    for (level, members) in LEVELS {
        let record = record(shape(level, members), 0, None);
        let mut array = Array::new(record, 1, 3, Options::default());
        array.write(0, 0, &[1; 32 << 10]).unwrap();
        for drive in 0..2 {
            array.shared.borrow_mut().disks[drive].hung = true;
        }
        let tag = ask(&mut array, 0, 0);
        array.wait_ms(20);
        assert_eq!(array.take_completion(tag), None);
        for drive in 0..2 {
            let disk = &mut array.shared.borrow_mut().disks[drive];
            (disk.gone, disk.hung) = (true, false);
        }
        let flushed = array.finish(tag);
        assert!(is_lost(flushed), "{level}: {flushed:?}");
    }
}

/// Until then, the start after a crash could find the record from before the failure.
#[test]
fn a_flush_that_a_member_missed_waits_for_its_record_on_every_shard() {
    for (level, members) in LEVELS.into_iter().skip(1) {
        let record = record(shape(level, members), 0, None);
        let mut array = Array::new(record, 2, 3, Options::default());
        array.write(0, 0, &[1; 32 << 10]).unwrap();
        array.shared.borrow_mut().hold_persists = true;
        array.shared.borrow_mut().disks[0].flushes_to_fail = 1;
        let tags = [0, 1].map(|shard| ask(&mut array, shard, 0));
        array.wait_ms(1000);
        for tag in tags {
            assert_eq!(array.take_completion(tag), None, "{level}: too early");
        }
        array.release_persists();
        for tag in tags {
            assert_eq!(array.finish(tag), Ok(()), "{level}");
        }
    }
}

/// A drive that is being filled holds a part of the volume already, and may later be the only one that holds it.
#[test]
fn a_flush_reaches_a_drive_that_is_being_filled() {
    for (level, members) in LEVELS.into_iter().skip(1) {
        let options = Options {
            auto_rebuild: true,
            rate_bytes_per_s: 64 << 10,
            ..Options::default()
        };
        let mut array = Array::new(record(shape(level, members), 1, None), 1, 3, options);
        array.write(0, 0, &[1; 32 << 10]).unwrap();
        array.command(Command::Fail(MemberId(0))).unwrap();
        let new = usize::from(members);
        array.run_until(|array| !array.shared.borrow().disks[new].unflushed.is_empty());
        let is_filled = array.has_event(|event| matches!(event, Event::JobEnded { .. }));
        assert!(!is_filled, "{level}: too fast");
        let before: Vec<_> = array.shared.borrow().disks[new].unflushed.clone();
        assert_eq!(flush(&mut array, 0, 0), Ok(()));
        let shared = array.shared.borrow();
        let left = &shared.disks[new].unflushed;
        assert!(before.iter().all(|range| !left.contains(range)), "{level}");
    }
}

/// Copies the first drive, up to the moment at which the copy would take its slot.
fn copy(array: &mut Array, shape: Geometry) {
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(0),
        to: MemberId(shape.members),
    };
    array.command(order).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let job = controller.job(VolumeId(0)).expect("it is being copied");
        job.done_bytes == job.total_bytes
    });
}

/// The copy must not take the slot without what was flushed before, also where no other drive has a cache.
#[test]
fn a_flush_reaches_a_drive_that_is_being_copied_to() {
    for (level, members) in LEVELS {
        for others in [true, false] {
            let shape = shape(level, members);
            let new = usize::from(members);
            let mut record = with_caches(record(shape, 1, None), others);
            record.members[new].volatile_cache = true;
            let mut array = Array::new(record, 1, 3, Options::default());
            array.write(0, 0, &[1; 32 << 10]).unwrap();
            copy(&mut array, shape);
            array.shared.borrow_mut().hold_persists = true;
            array.write(0, 0, &[2; 32 << 10]).unwrap();
            let unflushed = |array: &Array| !array.shared.borrow().disks[new].unflushed.is_empty();
            assert!(unflushed(&array), "{level}: the copy gets every write");
            assert_eq!(flush(&mut array, 0, 0), Ok(()));
            assert!(!unflushed(&array), "{level}, others have caches: {others}");
        }
    }
}

/// The write-hole log's next unit overwrites the one before, whose writes must be durable by then, on the drive that is
/// copied to as well, also where no other drive has a cache.
#[test]
fn a_log_flushes_a_drive_that_is_being_copied_to_before_its_next_unit() {
    for volatile in [true, false] {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let mut record = with_caches(record(shape, 1, None), volatile);
        record.members[4].volatile_cache = true;
        record.volumes[0].log = Some(LogArea {
            offset_bytes: shape.start_bytes + shape.component_bytes,
            length_bytes: MIB as u32,
        });
        let mut array = Array::new(record, 1, 3, Options::default());
        array.write(0, 0, &[1; 48 << 10]).unwrap();
        copy(&mut array, shape);
        for disk in &mut array.shared.borrow_mut().disks {
            disk.unflushed.clear();
        }
        array.shared.borrow_mut().hold_persists = true;
        let units = array.shards[0].engine.stats().log_units;
        for round in 0..4 {
            array.write(0, 0, &[2 + round; 32 << 10]).unwrap();
            for (drive, disk) in array.shared.borrow_mut().disks.iter_mut().enumerate() {
                if !volatile && drive < 4 {
                    disk.unflushed.clear();
                }
            }
        }
        assert!(array.shards[0].engine.stats().log_units >= units + 4);
        assert_eq!(array.shared.borrow().early_units, 0, "caches: {volatile}");
    }
}

/// A drive that has been filled matches what the others have in their caches, which a power cut would lose. The log
/// would not repair that, so all drives are flushed before the record says that the new drive is current.
#[test]
fn all_drives_of_a_logged_volume_are_flushed_before_one_that_was_filled_is_current() {
    let shape = shape(Level::Raid5, 4);
    let mut record = record(shape, 1, None);
    record.volumes[0].log = Some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    let options = Options {
        auto_rebuild: true,
        clean_after: Nanos(60 * Nanos::SECOND.0),
        rate_bytes_per_s: 512 << 10,
        ..Options::default()
    };
    let mut array = Array::new(record, 1, 3, options);
    array.write(0, 0, &[1; 48 << 10]).unwrap();
    array.command(Command::Fail(MemberId(0))).unwrap();
    array.run_until(|array| {
        let controller = array.shards[0].engine.controller().unwrap();
        let job = controller.job(VolumeId(0));
        job.is_some_and(|job| job.done_bytes >= 64 << 10)
    });
    // The new drive will be given this write, and no earlier checkpoint has flushed it.
    let last = shape.size_bytes - shape.row_bytes();
    array.write(0, last, &[2; 48 << 10]).unwrap();
    let is_current = |array: &Array| {
        let shared = array.shared.borrow();
        let mut written = shared.persists.iter().map(|(_, record)| record);
        written.any(|record| {
            record.volumes[0].slots[0].member == Some(MemberId(4))
                && record.volumes[0].slots[0].current
        })
    };
    let mut in_caches = 0;
    array.run_until(|array| {
        let is_over = is_current(array);
        let shared = array.shared.borrow();
        let others = shared.disks[1..4].iter();
        let left: usize = others.map(|disk| disk.unflushed.len()).sum();
        if !is_over {
            in_caches = in_caches.max(left);
        }
        assert!(!is_over || left == 0, "{left} ranges are in caches");
        is_over
    });
    assert!(in_caches > 0, "there was nothing to flush");
}
