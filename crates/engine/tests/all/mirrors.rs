//! Which copy of mirrored data is read, and what happens to commands that a drive answers with "try again".

use crate::memory::{Array, geometry, record};
use engine::control::message::Command;
use engine::control::record::{MemberState, SyncKind};
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::limits::RETRIES_MAX;
use engine::options::Options;
use engine::request::Operation;
use engine::units::VolumeId;

/// Submits `count` reads of 4 KiB from all over the volume at once; returns what they brought.
fn read_many(array: &mut Array, count: u64) -> Vec<u8> {
    let blocks = array.shape.size_bytes / 4096;
    let reads: Vec<_> = (0..count)
        .map(|number| {
            let buffer = array.allocate(4096);
            let offset = number * 7919 % blocks * 4096;
            (
                array.submit(0, Operation::Read, offset, 4096, buffer),
                buffer,
            )
        })
        .collect();
    let mut bytes = Vec::new();
    for (tag, buffer) in reads {
        array.finish(tag).expect("a read");
        let buffer = array.answer_of(tag, buffer);
        bytes.extend_from_slice(&array.shared.borrow().memory[buffer.0 as usize..][..4096]);
    }
    bytes
}

fn reads_of(array: &Array, drive: usize) -> usize {
    array.shared.borrow().disks[drive].reads
}

#[test]
fn reads_go_to_the_mirror_with_the_fewest_in_flight() {
    for (level, members, copies) in [
        (Level::Raid1, 2u8, 2u8),
        (Level::Raid1, 3, 3),
        (Level::Raid10, 4, 2),
    ] {
        let shape = geometry(level, members, 64 << 10, 64);
        let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
        read_many(&mut array, 1200);
        let fair = 1200 / usize::from(members);
        for drive in 0..usize::from(members) {
            let reads = reads_of(&array, drive);
            assert!(
                reads > fair * 4 / 5 && reads < fair * 6 / 5,
                "{level:?}: drive {drive} had {reads} of 1200"
            );
        }
        // A drive that does not answer gets no more reads once it has the most in flight.
        array.hang(0);
        let before: Vec<usize> = (0..usize::from(copies))
            .map(|drive| reads_of(&array, drive))
            .collect();
        for _ in 0..200 {
            let buffer = array.allocate(4096);
            array.submit(0, Operation::Read, 0, 4096, buffer);
            array.wait_ms(1);
        }
        let others: usize = (1..usize::from(copies))
            .map(|drive| reads_of(&array, drive) - before[drive])
            .sum();
        assert!(
            others >= 190,
            "{level:?}: only {others} of 200 went around the slow drive"
        );
    }
}

/// After a crash two copies may differ; which of them is read must not change from one moment to the next.
#[test]
fn mirrors_that_may_differ_show_the_content_of_one_copy() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        let shape = geometry(level, members, 64 << 10, 32);
        let slow = Options {
            rate_bytes_per_s: 1,
            ..Options::default()
        };
        let mut array = Array::new(record(shape, 0, Some(SyncKind::Resync)), 1, 3, slow);
        for (drive, disk) in array.shared.borrow_mut().disks.iter_mut().enumerate() {
            disk.bytes.fill(if drive % 2 == 0 { 0xA0 } else { 0xB1 });
        }
        let found = read_many(&mut array, 600);
        assert!(
            found.iter().all(|&byte| byte == 0xA0),
            "{level:?}: both copies were read"
        );
        // The same content is read when that copy cannot be read any more.
        array.shared.borrow_mut().disks[0].bad = vec![(shape.start_bytes, shape.start_bytes + 512)];
        for _ in 0..20 {
            assert!(array.read(0, 0, 4096).expect("a copy") == [0xA0; 4096]);
        }
    }
}

/// An older copy of a drive was put in its place: the content is that of the other drives. Where all records are alike,
/// it is that of the lowest slot.
#[test]
fn mirrors_that_may_differ_get_the_content_of_the_newest_record() {
    for (level, members, differing, is_behind) in [
        (Level::Raid1, 2, 0, true),
        (Level::Raid1, 2, 1, true),
        (Level::Raid1, 2, 1, false),
        (Level::Raid10, 4, 0, true),
        (Level::Raid10, 4, 3, true),
        (Level::Raid10, 4, 3, false),
    ] {
        let shape = geometry(level, members, 64 << 10, 32);
        let slow = Options {
            rate_bytes_per_s: 1,
            ..Options::default()
        };
        for (options, is_read_only) in [(slow, false), (slow, true), (Options::default(), false)] {
            let mut crashed = record(shape, 0, Some(SyncKind::Resync));
            crashed.volumes[0].dirty = true;
            crashed.volumes[0].read_only = is_read_only;
            crashed.members[differing].behind = is_behind;
            let mut array = Array::new(crashed, 1, 3, options);
            for (drive, disk) in array.shared.borrow_mut().disks.iter_mut().enumerate() {
                disk.bytes
                    .fill(if drive == differing { 0xB1 } else { 0xA0 });
            }
            if options.rate_bytes_per_s == 0 {
                array.wait_for_job();
            }
            let found = read_many(&mut array, 600);
            assert!(
                found.iter().all(|&byte| byte == 0xA0),
                "{level:?}: drive {differing} was read"
            );
            // The next start may read another copy: what was read must be on it by then, also after a power cut.
            let shared = array.shared.borrow();
            assert!(shared.disks[differing].unflushed.is_empty(), "{level:?}");
            drop(shared);
            // The differing drive is still read when the other one is lost.
            if is_read_only {
                array.shared.borrow_mut().disks[differing ^ 1].gone = true;
                read_many(&mut array, 10);
            }
        }
    }
}

/// The same where the resync has to wait: the array was degraded when it crashed, and the rebuild comes first.
#[test]
fn mirrors_whose_resync_waits_for_a_rebuild_are_read_from_the_lowest_slot_only() {
    let shape = geometry(Level::Raid10, 4, 64 << 10, 32);
    let mut degraded = record(shape, 1, None);
    degraded.members[1].state = MemberState::Failed;
    let volume = &mut degraded.volumes[0];
    volume.slots[1].current = false;
    (volume.dirty, volume.then_resync) = (true, true);
    let by_hand = Options {
        auto_rebuild: false,
        ..Options::default()
    };
    let mut array = Array::new(degraded, 1, 3, by_hand);
    for (drive, disk) in array.shared.borrow_mut().disks.iter_mut().enumerate() {
        disk.bytes.fill([0xA0, 0, 0xA0, 0xB1, 0][drive]);
    }
    let found = read_many(&mut array, 600);
    assert!(found.iter().all(|&byte| byte == 0xA0), "both were read");
    assert_eq!(reads_of(&array, 3), 0);
    // After the rebuild the resync runs, and then the copies are the same.
    array.command(Command::Rebuild(VolumeId(0))).unwrap();
    let is_over = |event: &Event| {
        let job = JobName::Resync;
        matches!(event, Event::JobEnded { job: of, complete: true, .. } if *of == job)
    };
    array.run_until(|array| array.has_event(is_over));
    let extent = shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
    for drive in [0, 2, 3, 4] {
        let bytes = &array.shared.borrow().disks[drive].bytes[extent.clone()];
        assert!(bytes.iter().all(|&byte| byte == 0xA0), "drive {drive}");
    }
}

#[test]
fn what_a_drive_puts_off_is_asked_again_and_then_given_up() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let shape = geometry(level, members, 64 << 10, 16);
        let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
        array.write(0, 0, &[1; 4096]).expect("a write");
        for drive in 0..usize::from(members) {
            array.shared.borrow_mut().disks[drive].busy = usize::from(RETRIES_MAX);
        }
        array
            .write(0, 0, &[2; 4096])
            .expect("a write that is put off");
        assert!(array.read(0, 0, 4096).expect("a read") == [2; 4096]);
        assert!(!array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
        array.shared.borrow_mut().disks[1].busy = usize::MAX;
        array
            .write(0, 0, &[3; 4096])
            .expect("a write without the drive");
        array
            .write(0, 64 << 10, &[4; 4096])
            .expect("a write without the drive");
        assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
        assert!(array.read(0, 0, 4096).expect("a read") == [3; 4096]);
    }
}
