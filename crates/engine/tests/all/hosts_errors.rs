//! The same errno from more members than a volume can lose is the host's fault: requests are answered with errors, and
//! no failure goes on record, so that the volume starts whole when the host works again.

use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::Command;
use engine::control::record::MemberState;
use engine::event::Event;
use engine::layout::Level;
use engine::limits::BAD_BLOCK_ENTRIES_MAX;
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Nanos, VolumeId};

const ENODEV: i32 = 19;
const EROFS: i32 = 30;
const ENOMEM: i32 = 12;
const LEVELS: [(Level, u8); 3] = [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)];

fn array(level: Level, members: u8, shards: u8, seed: u64) -> Array {
    let shape = geometry(level, members, 16 << 10, 24);
    let options = Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    };
    Array::new(record(shape, 0, None), shards, seed, options)
}

/// Makes a member refuse every command.
fn refuse(array: &Array, member: usize, errno: i32) {
    array.shared.borrow_mut().disks[member].refusal = Some((|_: StepKind| true, errno, usize::MAX));
}

/// Members that some drive has on record as failed.
fn on_record(array: &Array) -> Vec<u8> {
    let shared = array.shared.borrow();
    let records = shared.disks.iter().filter_map(|disk| disk.record.as_ref());
    let mut failed: Vec<u8> = records
        .flat_map(|record| (0u8..).zip(&record.members))
        .filter(|(_, member)| member.state == MemberState::Failed)
        .map(|(id, _)| id)
        .collect();
    failed.sort_unstable();
    failed.dedup();
    failed
}

/// Whether each volume could be started whole from the record of each drive.
fn starts_whole(array: &Array) -> bool {
    let shared = array.shared.borrow();
    let mut records = shared.disks.iter().filter_map(|disk| disk.record.as_ref());
    records.all(|record| {
        let mut slots = record.volumes.iter().flat_map(|volume| &volume.slots);
        slots.all(|slot| slot.current)
    })
}

#[test]
fn the_same_errno_from_all_members_leaves_no_trace_on_record() {
    for (level, members) in LEVELS {
        for shards in [1, 3] {
            for errno in [ENODEV, EROFS, ENOMEM] {
                let mut array = array(level, members, shards, 5);
                array.write(0, 0, &[1; 65536]).expect("a write");
                (0..usize::from(members)).for_each(|member| refuse(&array, member, errno));
                let failed = array.write(0, 0, &[2; 65536]);
                assert!(
                    matches!(failed, Err(Failure::Unrecoverable { .. })),
                    "{failed:?}"
                );
                array.wait_ms(1000);
                assert!(array.read(0, 0, 4096).is_err());
                assert_eq!(on_record(&array), [], "{level}, errno {errno}");
                assert!(starts_whole(&array));
                assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
                array.command(Command::Stop).expect("a stop");
                array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
                assert_eq!(on_record(&array), []);
                // Nobody knows whether what was in flight left the members consistent.
                let shared = array.shared.borrow();
                let records = shared.disks.iter().filter_map(|disk| disk.record.as_ref());
                records.for_each(|record| assert!(record.volumes[0].dirty, "{level}"));
            }
        }
    }
}

/// The second failure is noticed before the first is on record.
#[test]
fn members_that_fail_one_after_the_other_within_a_sweep_are_the_hosts() {
    for (level, members) in LEVELS {
        let mut array = array(level, members, 1, 5);
        array.write(0, 0, &[1; 65536]).expect("a write");
        refuse(&array, 0, ENODEV);
        let buffer = array.allocate(65536);
        let tag = array.submit(0, Operation::Write, 0, 65536, buffer);
        array.wait_ms(100);
        assert_eq!(array.take_completion(tag), None, "nothing is on record");
        refuse(&array, 1, ENODEV);
        let _ = array.read(0, 0, 65536);
        assert!(array.finish(tag).is_err(), "{level}: the volume is lost");
        array.wait_ms(1000);
        assert_eq!(on_record(&array), [], "{level}");
    }
}

/// The record's generation on each drive.
fn generations(array: &Array) -> Vec<u64> {
    let shared = array.shared.borrow();
    let on_drive = |disk: &crate::memory::Disk| disk.record.as_ref().map_or(1, |on| on.generation);
    shared.disks.iter().map(on_drive).collect()
}

/// A drive whose record is two updates behind the others' is taken for an old copy at the next start. The record
/// moves on before the first write of a session; the members fail at each moment of that, and some have not received
/// the first update.
#[test]
fn no_drive_that_failed_by_the_hosts_fault_is_left_two_updates_behind() {
    const EAGAIN: i32 = 11;
    let levels = LEVELS.into_iter().chain([(Level::Raid0, 4)]);
    for (level, members) in levels {
        for steps in 0..5 {
            let mut array = array(level, members, 2, 5);
            let buffer = array.allocate(4096);
            array.shared.borrow_mut().hold_persists = true;
            array.submit(0, Operation::Write, 0, 4096, buffer);
            array.wait_ms(1);
            for _ in 0..steps {
                array.release_persists();
                array.shared.borrow_mut().hold_persists = true;
                array.wait_ms(1);
            }
            for member in usize::from(members).saturating_sub(2)..usize::from(members) {
                refuse(&array, member, EAGAIN);
            }
            let shape = array.shape;
            let length = shape.size_bytes.min(4 * shape.row_bytes()) as u32;
            let buffer = array.allocate(length.into());
            let read = array.submit(1, Operation::Read, 0, length, buffer);
            let answer = array.finish(read);
            let lost = matches!(answer, Err(Failure::Unrecoverable { .. }));
            assert!(lost, "{level}: {answer:?}");
            array.shared.borrow_mut().hold_persists = false;
            array.release_persists();
            array.wait_ms(2000);
            assert_eq!(on_record(&array), [], "{level}, {steps}");
            let behind = generations(&array);
            let newest = behind.iter().max();
            let oldest = behind.iter().min();
            assert!(
                newest
                    .zip(oldest)
                    .is_some_and(|(newest, oldest)| newest - oldest < 2),
                "{level}, after {steps} halves of updates: {behind:?}"
            );
            array.command(Command::Stop).expect("a stop");
            array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        }
    }
}

/// A RAID 0 of two drives fails during an update of the record, and a mirror of two other drives does not.
#[test]
fn a_volume_that_goes_on_has_its_changes_on_record_whatever_another_ones_drives_lack() {
    let mut both = record(geometry(Level::Raid0, 2, 16 << 10, 24), 2, None);
    for member in &mut both.members {
        member.state = MemberState::Active;
    }
    let mut mirror = both.volumes[0].clone();
    mirror.geometry = geometry(Level::Raid1, 2, 16 << 10, 24);
    for (slot, member) in mirror.slots.iter_mut().zip([2, 3]) {
        slot.member = Some(MemberId(member));
    }
    both.volumes.push(mirror);
    let mut array = Array::new(both, 1, 5, Options::default());
    let buffer = array.allocate(4096);
    array.shared.borrow_mut().hold_persists = true;
    array.submit(0, Operation::Write, 0, 4096, buffer);
    array.wait_ms(1);
    refuse(&array, 0, ENODEV);
    array.read(0, 0, 4096).expect_err("no other drive has it");
    array.release_persists();
    let (volume, write) = (VolumeId(1), Operation::Write);
    let tag = array.submit_to(0, volume, write, 0, 4096, buffer, false);
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(on_record(&array), []);
}

/// The record of the order leaves no drive two updates behind whose failure is not on record.
#[test]
fn what_an_operator_asks_for_is_on_record_also_when_the_volume_has_failed() {
    let options = Options {
        auto_rebuild: false,
        ..Options::default()
    };
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 1, None), 1, 5, options);
    // Drive 0 fails during an update of the record, so that it lacks the update; its failure goes on record.
    array.shared.borrow_mut().hold_persists = true;
    let buffer = array.allocate(4096);
    let write = array.submit(0, Operation::Write, 0, 4096, buffer);
    array.wait_ms(1);
    refuse(&array, 0, ENODEV);
    array
        .command(Command::Fail(MemberId(0)))
        .expect("it is mirrored");
    array.release_persists();
    assert_eq!(array.finish(write), Ok(()));
    assert_eq!(on_record(&array), [0]);
    refuse(&array, 1, ENODEV);
    array.read(0, 0, 4096).expect_err("both copies are lost");
    array.wait_ms(1000);
    assert_eq!(on_record(&array), [0]);
    array
        .command(Command::Fail(MemberId(4)))
        .expect("it is a spare");
    array.run_until(|array| on_record(array) == [0, 4]);
}

#[test]
fn different_errnos_are_the_drives_and_the_first_is_on_record() {
    // A mirror of two would have no drive left to record the failure on.
    for (level, members) in &LEVELS[1..] {
        let mut array = array(*level, *members, 1, 5);
        array.write(0, 0, &[1; 65536]).expect("a write");
        refuse(&array, 0, ENODEV);
        refuse(&array, 1, EROFS);
        array.read(0, 0, 65536).expect_err("both are lost");
        array.wait_ms(1000);
        let failed = on_record(&array);
        assert!(failed.len() == 1 && failed[0] < 2, "{level}: {failed:?}");
    }
}

#[test]
fn a_stop_waits_for_no_record_that_nobody_is_left_to_keep() {
    let mut array = array(Level::Raid1, 2, 1, 5);
    array.write(0, 0, &[1; 65536]).expect("a write");
    refuse(&array, 0, ENODEV);
    refuse(&array, 1, EROFS);
    array.read(0, 0, 65536).expect_err("both are lost");
    array.wait_ms(1000);
    array.command(Command::Stop).expect("a stop");
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
    assert_eq!(on_record(&array), []);
}

#[test]
fn a_failure_that_is_the_drives_own_is_on_record_before_what_it_missed_is_acknowledged() {
    for (level, members) in LEVELS {
        let mut array = array(level, members, 1, 5);
        array.write(0, 0, &[1; 65536]).expect("a write");
        refuse(&array, 0, ENODEV);
        array.write(0, 0, &[2; 65536]).expect("one is not missed");
        assert_eq!(on_record(&array), [0], "{level}");
        // Another member that fails in the same way later is too late to make both the host's fault.
        refuse(&array, 1, ENODEV);
        let _ = array.read(0, 0, 65536);
        array.wait_ms(1000);
        assert_eq!(on_record(&array), [0], "{level}");
    }
}

#[test]
fn what_an_operator_asks_for_is_on_record_at_once() {
    let mut array = array(Level::Raid1, 2, 1, 5);
    array.write(0, 0, &[1; 4096]).expect("a write");
    array
        .command(Command::Fail(MemberId(1)))
        .expect("it survives that");
    let before = array.shared.borrow().now;
    array.run_until(|array| on_record(array) == [1]);
    let took_ns = array.shared.borrow().now - before;
    assert!(took_ns < 100 * Nanos::MILLISECOND.0, "{took_ns}");
}

/// The flush before the clean mark is under way when a member is lost beyond redundancy.
#[test]
fn a_volume_that_is_lost_while_it_is_flushed_is_not_marked_clean() {
    // Before and after the controller has decided what goes on record.
    for later_ms in [100, 500] {
        is_not_marked_clean_after(later_ms);
    }
}

fn is_not_marked_clean_after(later_ms: u64) {
    let mut array = array(Level::Raid5, 4, 1, 5);
    array
        .command(Command::Fail(MemberId(0)))
        .expect("it survives that");
    array.write(0, 0, &[1; 65536]).expect("a write");
    array.shared.borrow_mut().disks[2].hung = true;
    array.wait_ms(1000);
    refuse(&array, 1, ENODEV);
    for at in (0..array.shape.size_bytes).step_by(16 << 10) {
        let buffer = array.allocate(4096);
        array.submit(0, Operation::Read, at, 4096, buffer);
    }
    array.wait_ms(later_ms);
    assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
    array.shared.borrow_mut().disks[2].hung = false;
    array.wait_ms(1000);
    let shared = array.shared.borrow();
    let survivor = shared.disks[3].record.as_ref().expect("a record");
    assert!(survivor.volumes[0].dirty);
}

/// One or two drives may have an unreadable block. If the same block is unreadable on all of them, the drives are not
/// at fault.
#[test]
fn parity_is_not_given_up_where_no_drive_can_be_read() {
    const EIO: i32 = 5;
    // Whether or not the bad-block log has room.
    for (shards, taken) in [
        (1, BAD_BLOCK_ENTRIES_MAX),
        (3, BAD_BLOCK_ENTRIES_MAX),
        (1, 0),
        (3, 0),
    ] {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let mut first = record(shape, 0, None);
        first.bad_blocks = BadBlocks::new(taken as usize);
        let mut array = Array::new(first, shards, 5, Options::default());
        array.write(0, 0, &[1; 96 << 10]).expect("a write");
        let refusal = Some((
            (|kind: StepKind| kind == StepKind::Read) as fn(StepKind) -> bool,
            EIO,
            usize::MAX,
        ));
        for disk in &mut array.shared.borrow_mut().disks {
            disk.refusal = refusal;
        }
        let failed = array.write(0, 4096, &[2; 4096]);
        assert!(
            matches!(failed, Err(Failure::Unrecoverable { .. })),
            "{failed:?}"
        );
        array.wait_ms(1000);
        for disk in &mut array.shared.borrow_mut().disks {
            disk.refusal = None;
        }
        assert!(!array.has_event(|event| matches!(event, Event::BadBlocksRecorded(_))));
        assert_eq!(on_record(&array), []);
        let all = array.read(0, 0, 96 << 10).expect("the host works again");
        assert!(
            all.iter().all(|&byte| byte == 1),
            "the failed write changed data"
        );
    }
}

/// The drive that was being filled and one that the volume cannot do without refuse everything, one soon after the
/// other: neither failure goes on record, so the next start continues with the same drive.
#[test]
fn a_spare_waits_until_it_is_decided_whether_the_drive_before_it_has_failed() {
    for is_hosts in [true, false] {
        let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
        let options = Options {
            rate_bytes_per_s: 24 << 10,
            ..Options::default()
        };
        let mut array = Array::new(record(shape, 2, None), 1, 5, options);
        array.write(0, 0, &[1; 65536]).expect("a write");
        array
            .command(Command::Fail(MemberId(1)))
            .expect("it is mirrored");
        let activated = |member: u8| move |event: &Event| matches!(event, Event::SpareActivated { member: MemberId(by), .. } if *by == member);
        array.run_until(|array| array.has_event(activated(4)));
        array.wait_ms(400);
        refuse(&array, 4, ENODEV);
        array.run_until(|array| {
            array.has_event(|event| {
                matches!(
                    event,
                    Event::MemberFailed {
                        member: MemberId(4),
                        ..
                    }
                )
            })
        });
        if is_hosts {
            refuse(&array, 0, ENODEV);
            assert!(array.read(0, 0, 16384).is_err());
        }
        array.wait_ms(1000);
        assert_eq!(array.has_event(activated(5)), !is_hosts);
        let failed: &[u8] = if is_hosts { &[1] } else { &[1, 4] };
        assert_eq!(on_record(&array), failed);
        let in_slot = MemberId(if is_hosts { 4 } else { 5 });
        let shared = array.shared.borrow();
        let on_drive = shared.disks[2].record.as_ref().expect("it has one");
        assert_eq!(on_drive.volumes[0].slots[1].member, Some(in_slot));
    }
}

/// Meanwhile the volume is idle for long enough to be marked clean.
#[test]
fn nothing_is_flushed_for_a_clean_mark_before_a_failure_is_on_record() {
    for (level, members) in LEVELS {
        let mut array = array(level, members, 1, 5);
        array.write(0, 0, &[1; 65536]).expect("a write");
        refuse(&array, 0, ENODEV);
        let flushes = |array: &Array| array.shards[0].engine.stats().member_flushes;
        let before = flushes(&array);
        let read = array.read(0, 0, 65536).expect("the others have it");
        assert_eq!(read, [1; 65536]);
        let recorded = Event::FailureRecorded(MemberId(0));
        array.run_until(|array| {
            array.shared.borrow_mut().now += Nanos::MILLISECOND.0;
            let is_recorded = array.has_event(|event| *event == recorded);
            assert!(is_recorded || flushes(array) == before, "{level}");
            is_recorded
        });
        let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
        array.run_until(|array| array.has_event(is_clean));
    }
}

/// Such a record would not name the failure, and would be newer than the failed member's own.
#[test]
fn no_record_is_written_before_it_is_decided_what_of_a_failure_goes_on_it() {
    for (level, members) in LEVELS {
        let mut array = array(level, members, 1, 5);
        array.write(0, 0, &[1; 65536]).expect("a write");
        let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
        array.run_until(|array| array.has_event(is_clean));
        refuse(&array, 0, ENODEV);
        array.read(0, 0, 65536).expect("the others have it");
        assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
        let count = |array: &Array| array.shared.borrow().persists.len();
        let before = count(&array);
        // This write needs the dirty mark.
        let buffer = array.allocate(4096);
        let tag = array.submit(0, Operation::Write, 0, 4096, buffer);
        array.wait_ms(200);
        assert_eq!(count(&array), before, "{level}");
        assert_eq!(array.take_completion(tag), None);
        assert_eq!(array.finish(tag), Ok(()));
        for (_, record) in &array.shared.borrow().persists[before..] {
            assert_eq!(record.members[0].state, MemberState::Failed, "{level}");
        }
    }
}

/// The host's error stays the reason why the volume is lost.
#[test]
fn a_drive_that_fails_in_a_lost_volume_puts_none_of_the_others_on_record() {
    let mut array = array(Level::Raid5, 4, 1, 5);
    array.write(0, 0, &[1; 65536]).expect("a write");
    refuse(&array, 0, ENODEV);
    refuse(&array, 1, ENODEV);
    assert!(array.read(0, 0, 65536).is_err());
    refuse(&array, 2, EROFS);
    for at in 0..4 {
        let buffer = array.allocate(65536);
        array.submit(0, Operation::Read, at << 16, 65536, buffer);
    }
    array.wait_ms(100);
    let third = |event: &Event| matches!(event, Event::MemberFailed { member, .. } if *member == MemberId(2));
    assert!(array.has_event(third));
    array.wait_ms(1000);
    assert_eq!(on_record(&array), []);
    let shared = array.shared.borrow();
    let is_lost = |event: &&Event| **event == Event::VolumeFailed(VolumeId(0));
    assert_eq!(shared.events.iter().filter(is_lost).count(), 1);
}
