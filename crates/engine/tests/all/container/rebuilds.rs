//! Rebuilds that are ordered or start by themselves, and the spares that they take.

use super::shared::{by_hand, check, fill, two_volumes};
use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::{Command, Message, Refused};
use engine::control::record::MemberState;
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::limits::BAD_BLOCK_ENTRIES_MAX;
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, Slot, VolumeId};

#[test]
fn without_leave_to_take_spares_a_rebuild_is_ordered() {
    for shards in [1, 3] {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, shards, 3, by_hand());
        let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        let order = |volume| Command::Rebuild(VolumeId(volume));
        assert_eq!(
            array.command(order(0)),
            Err(Refused::NoSuch),
            "volume 0 is whole"
        );
        assert_eq!(array.command(order(7)), Err(Refused::NoSuch));
        array.command(Command::Fail(MemberId(2))).unwrap();
        array.wait_ms(1000);
        assert!(!array.has_event(|event| matches!(event, Event::SpareActivated { .. })));
        assert_eq!(array.command(order(1)), Ok(()));
        // Ordered again while it is under way, the rebuild continues.
        assert_eq!(array.command(order(1)), Ok(()));
        array.run_until(|array| ended(array, 0) && ended(array, 1));
        assert_eq!(array.command(order(0)), Err(Refused::NoSuch));
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
        // Waits until the failure is on record.
        array.wait_ms(400);
        assert_eq!(array.command(order(0)), Err(Refused::NoSpare));
    }
}

fn ended(array: &Array, volume: u8) -> bool {
    array.has_event(|event| {
        matches!(event, Event::JobEnded { volume: of, job: JobName::Rebuild, complete: true, .. }
            if *of == VolumeId(volume))
    })
}

#[test]
fn a_rebuild_waits_for_nothing_when_its_drives_are_scrubbed() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 60);
    let options = Options {
        rate_bytes_per_s: 64 << 10,
        ..by_hand()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, options);
    let content = fill(&mut array, 0, 9);
    let scrub = Command::Scrub {
        volume: VolumeId(0),
        repair: false,
    };
    array.command(scrub).unwrap();
    array.wait_ms(500);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.command(Command::Rate(0)).unwrap();
    array.command(Command::Rebuild(VolumeId(0))).unwrap();
    array.run_until(|array| ended(array, 0));
    // The scrub had nothing left to compare with, and says so once.
    let checks = |event: &&Event| {
        matches!(
            event,
            Event::JobEnded {
                job: JobName::Check,
                complete: false,
                failures: 0,
                ..
            }
        )
    };
    assert_eq!(
        array.shared.borrow().events.iter().filter(checks).count(),
        1
    );
    assert!(!array.has_event(|event| matches!(event, Event::Unrecoverable { .. })));
    check(&mut array, 0, &content);
}

#[test]
fn a_rebuild_that_cannot_record_an_unreadable_block_uses_up_one_spare_only() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut full = record(shape, 2, None);
    full.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize);
    let mut array = Array::new(full, 1, 5, Options::default());
    let content = fill(&mut array, 0, 9);
    let from = shape.member_offset_bytes(7, 0);
    array.shared.borrow_mut().disks[0]
        .bad
        .push((from, from + 512));
    array.command(Command::Fail(MemberId(1))).unwrap();
    let given_up = |event: &&Event| {
        matches!(
            event,
            Event::JobEnded {
                complete: false,
                ..
            }
        )
    };
    let count = |array: &Array| array.shared.borrow().events.iter().filter(given_up).count();
    array.run_until(|array| count(array) == 1);
    array.wait_ms(1000);
    assert_eq!(count(&array), 1);
    let spare = |array: &Array| {
        let controller = array.shards[0].engine.controller().unwrap();
        controller.wanted().members[5].state
    };
    assert_eq!(spare(&array), MemberState::Spare);
    // An operator who knows that the block can be read again orders the rebuild.
    array.shared.borrow_mut().disks[0].bad.clear();
    assert_eq!(array.command(Command::Rebuild(VolumeId(0))), Ok(()));
    array.run_until(|array| ended(array, 0));
    array.shared.borrow_mut().disks[2].gone = true;
    check(&mut array, 0, &content);
}

#[test]
fn a_rebuild_that_makes_no_sense_is_refused() {
    let order = Command::Rebuild(VolumeId(0));
    let stripes = geometry(Level::Raid0, 3, 16 << 10, 12);
    let mut array = Array::new(record(stripes, 1, None), 1, 5, by_hand());
    assert_eq!(array.command(order), Err(Refused::NoRedundancy));
    let mirror = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut small = record(mirror, 1, None);
    small.members[2].size_bytes -= 4 << 20;
    let mut array = Array::new(small, 1, 5, by_hand());
    array.command(Command::Fail(MemberId(1))).unwrap();
    assert_eq!(array.command(order), Err(Refused::TooSmall));
    let mut array = Array::new(record(mirror, 1, None), 1, 5, by_hand());
    array.shared.borrow_mut().disks[0].gone = true;
    array.shared.borrow_mut().disks[1].gone = true;
    array.write(0, 0, &[1; 512]).unwrap_err();
    array.wait_ms(100);
    assert_eq!(
        array.command(order),
        Err(Refused::NoSuch),
        "nothing is left"
    );
}

/// Until its part is on record, the process that starts after a crash takes the drive for a spare, and may use it for
/// something else.
#[test]
fn nothing_is_written_to_a_new_drive_before_its_part_is_on_record() {
    for shards in [1, 3] {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, shards, 3, by_hand());
        let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        array.command(Command::Fail(MemberId(1))).unwrap();
        array
            .run_until(|array| array.has_event(|event| matches!(event, Event::FailureRecorded(_))));
        array.shared.borrow_mut().hold_persists = true;
        array.command(Command::Rebuild(VolumeId(0))).unwrap();
        array.wait_ms(100);
        assert!(!array.has_event(|event| matches!(event, Event::JobStarted { .. })));
        let is_empty = array.shared.borrow().disks[4].unflushed.is_empty();
        assert!(is_empty, "something has been written to it");
        array.release_persists();
        array.run_until(|array| ended(array, 0) && ended(array, 1));
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// The new drive keeps its place in the record, because the other volume uses it. Ranges that it lacks from then on
/// must not count as rebuilt, whenever the power fails.
#[test]
fn a_rebuild_that_is_given_up_begins_anew_on_record_before_its_drive_misses_a_write() {
    for shards in [1, 3] {
        let mut start = two_volumes(Level::Raid5, Level::Raid10);
        start.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize);
        let options = Options {
            rate_bytes_per_s: 24 << 10,
            // The volumes stay dirty, so that writes need not wait for the dirty mark.
            clean_after: Nanos(3600 * Nanos::SECOND.0),
            ..Options::default()
        };
        let mut array = Array::new(start, shards, 5, options);
        let mut content = fill(&mut array, 0, 9);
        fill(&mut array, 1, 8);
        let shape = array.shape;
        let unreadable = shape.member_offset_bytes(shape.rows() - 1, 0);
        let bad = (unreadable, unreadable + 512);
        array.shared.borrow_mut().disks[0].bad.push(bad);
        array.command(Command::Fail(MemberId(1))).unwrap();
        let checkpoint = |array: &Array| {
            let shared = array.shared.borrow();
            let record = shared.disks[2].record.as_ref();
            let sync = record.and_then(|record| record.volumes[0].sync);
            sync.map_or(0, |sync| sync.done_bytes)
        };
        while checkpoint(&array) == 0 {
            array.wait_ms(100);
            assert!(!array.has_event(|event| matches!(event, Event::JobEnded { .. })));
        }
        array.shared.borrow_mut().hold_persists = true;
        array.command(Command::Rate(0)).unwrap();
        array.wait_ms(3000);
        let row = (0..shape.rows()).find(|&row| shape.data_index(row, Slot(1)) == Some(1));
        let row = row.unwrap();
        let offset = row * shape.row_bytes() + u64::from(shape.chunk_bytes);
        assert!(row * u64::from(shape.chunk_bytes) < checkpoint(&array));
        let new = vec![0x5A; shape.chunk_bytes as usize];
        let buffer = array.allocate(new.len() as u64);
        array.fill(buffer, &new);
        let length = shape.chunk_bytes;
        let tag = array.submit(0, Operation::Write, offset, length, buffer);
        array.wait_ms(200);
        let is_answered = array
            .shared
            .borrow()
            .completions
            .iter()
            .any(|done| done.tag == tag);
        let at = shape.member_offset_bytes(row, 0) as usize;
        let is_there = array.shared.borrow().disks[4].bytes[at..][..new.len()] == new;
        assert!(
            !is_answered || is_there || checkpoint(&array) == 0,
            "{shards} shards: the drive lacks what was acknowledged"
        );
        array.release_persists();
        array.finish(tag).unwrap();
        let given_up = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    volume: VolumeId(0),
                    complete: false,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(given_up));
        for drive in [0, 2, 3] {
            let shared = array.shared.borrow();
            let own = &shared.disks[drive].record.as_ref().unwrap().volumes[0];
            let filled = own.sync.map_or(0, |sync| sync.done_bytes);
            assert_eq!(
                filled, 0,
                "{shards} shards, drive {drive}: checkpoint after the end"
            );
        }
        content[offset as usize..][..new.len()].copy_from_slice(&new);
        array.shared.borrow_mut().disks[0].bad.clear();
        array.command(Command::Rebuild(VolumeId(0))).unwrap();
        array.run_until(|array| ended(array, 0));
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &content);
    }
}

/// Tells the controller that these members, and no others, are about to fail.
fn report(array: &mut Array, members: &[u8]) {
    let members = members.iter().map(|&member| MemberId(member)).collect();
    let message = Message::AboutToFail(members);
    array.shared.borrow_mut().mail[0].push_back(message);
    array.wait_ms(1);
}

/// The spares that have taken slots, and whether they were about to fail.
fn activated(array: &Array) -> Vec<(u8, bool)> {
    let shared = array.shared.borrow();
    let spares = shared.events.iter().filter_map(|event| match event {
        Event::SpareActivated {
            member,
            about_to_fail,
            ..
        } => Some((member.0, *about_to_fail)),
        _ => None,
    });
    spares.collect()
}

#[test]
fn a_spare_that_is_about_to_fail_is_taken_only_if_no_other_fits() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let taken = |about_to_fail: &[u8], is_other_too_small: bool| {
        let mut spares = record(shape, 2, None);
        if is_other_too_small {
            spares.members[3].size_bytes -= 4 << 20;
        }
        let mut array = Array::new(spares, 1, 5, Options::default());
        let content = fill(&mut array, 0, 1);
        report(&mut array, about_to_fail);
        array.command(Command::Fail(MemberId(1))).unwrap();
        array.run_until(|array| ended(array, 0));
        array.shared.borrow_mut().disks[0].gone = true;
        check(&mut array, 0, &content);
        activated(&array)
    };
    assert_eq!(taken(&[], false), [(2, false)], "the first of two alike");
    assert_eq!(taken(&[2], false), [(3, false)]);
    assert_eq!(taken(&[3], false), [(2, false)]);
    // Any drive is better than none.
    assert_eq!(taken(&[2, 3], false), [(2, true)]);
    assert_eq!(taken(&[2], true), [(2, true)]);
}

/// Tells the controller that these members, and no others, cannot be written any more.
fn report_not_writable(array: &mut Array, members: &[u8]) {
    let members = members.iter().map(|&member| MemberId(member)).collect();
    let message = Message::NotWritable(members);
    array.shared.borrow_mut().mail[0].push_back(message);
    array.wait_ms(1);
}

/// The spares of which it was told that they were passed over, because they cannot be written.
fn passed_over(array: &Array) -> Vec<u8> {
    let shared = array.shared.borrow();
    let spares = shared.events.iter().filter_map(|event| match event {
        Event::SpareNotWritable { member, slot, .. } => {
            assert_eq!(*slot, Slot(1));
            Some(member.0)
        }
        _ => None,
    });
    spares.collect()
}

#[test]
fn a_spare_that_cannot_be_written_is_not_taken_even_if_no_other_fits() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 2, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 1);
    report_not_writable(&mut array, &[2, 3]);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.wait_ms(1000);
    assert_eq!(activated(&array), []);
    assert_eq!(passed_over(&array), [2, 3], "each is told once");
    let order = Command::Rebuild(VolumeId(0));
    assert_eq!(array.command(order), Err(Refused::NotWritable));
    // The other one is well again, although it is about to fail: it is taken.
    report(&mut array, &[2, 3]);
    report_not_writable(&mut array, &[2]);
    array.run_until(|array| ended(array, 0));
    assert_eq!(activated(&array), [(3, true)]);
    array.shared.borrow_mut().disks[0].gone = true;
    check(&mut array, 0, &content);
}

#[test]
fn no_drive_is_copied_onto_a_spare_that_cannot_be_written() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 1, None), 1, 5, Options::default());
    fill(&mut array, 0, 1);
    report_not_writable(&mut array, &[2]);
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(0),
        to: MemberId(2),
    };
    assert_eq!(array.command(order), Err(Refused::NotWritable));
}

/// A larger spare that is well is better than a smaller one that is about to fail.
#[test]
fn of_two_lost_slots_the_first_gets_the_spare_that_is_well() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 64);
    let mut spares = record(shape, 2, None);
    spares.members[5].size_bytes += 4 << 20;
    let mut array = Array::new(spares, 2, 5, Options::default());
    let content = fill(&mut array, 0, 1);
    report(&mut array, &[4]);
    for lost in [0, 2] {
        array.command(Command::Fail(MemberId(lost))).unwrap();
    }
    array.run_until(|array| activated(array).len() == 2 && ended_twice(array));
    assert_eq!(activated(&array), [(5, false), (4, true)]);
    check(&mut array, 0, &content);
}

fn ended_twice(array: &Array) -> bool {
    let shared = array.shared.borrow();
    let is_end = |event: &&Event| {
        matches!(
            event,
            Event::JobEnded {
                job: JobName::Rebuild,
                complete: true,
                ..
            }
        )
    };
    shared.events.iter().filter(is_end).count() == 2
}

/// Else the first rebuild after a start could take a spare that has had no time to say that it is about to fail.
#[test]
fn after_the_start_the_reports_of_drives_are_awaited_for_a_while() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let options = Options {
        health_known_within: Nanos(10 * Nanos::SECOND.0),
        ..Options::default()
    };
    let without_drive = || {
        let mut array = Array::new(record(shape, 2, None), 1, 5, options);
        array.command(Command::Fail(MemberId(1))).unwrap();
        array.wait_ms(5000);
        assert_eq!(activated(&array), []);
        array
    };
    let mut array = without_drive();
    report(&mut array, &[2]);
    array.run_until(|array| ended(array, 0));
    assert_eq!(activated(&array), [(3, false)]);
    // No drive answers.
    let mut array = without_drive();
    array.wait_ms(4000);
    assert_eq!(activated(&array), []);
    array.wait_ms(2000);
    assert_eq!(activated(&array), [(2, false)]);
    // An order does not wait.
    let mut array = without_drive();
    array.command(Command::Rebuild(VolumeId(0))).unwrap();
    array.wait_ms(100);
    assert_eq!(activated(&array), [(2, false)]);
}

#[test]
fn what_is_about_to_fail_is_what_was_reported_last() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 2, None), 1, 5, Options::default());
    fill(&mut array, 0, 1);
    report(&mut array, &[2]);
    report(&mut array, &[3]);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.run_until(|array| ended(array, 0));
    assert_eq!(activated(&array), [(2, false)]);
}

#[test]
fn a_spare_that_is_too_small_is_passed_over() {
    let mut spares = record(geometry(Level::Raid1, 2, 64 << 10, 16), 2, None);
    spares.members[2].size_bytes -= 4 << 20;
    let mut array = Array::new(spares, 1, 5, Options::default());
    let content = fill(&mut array, 0, 1);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.run_until(|array| ended(array, 0));
    let controller = array.shards[0].engine.controller().unwrap();
    let slots = &controller.wanted().volumes[0].slots;
    assert_eq!(slots[1].member, Some(MemberId(3)));
    array.shared.borrow_mut().disks[0].gone = true;
    check(&mut array, 0, &content);
}
