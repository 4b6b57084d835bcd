//! A member is lost at an unlucky moment: while the array stops or is fenced, or during the last flush.

use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::{Command, Message};
use engine::control::record::MemberState;
use engine::event::Event;
use engine::layout::Level;
use engine::limits::{BAD_BLOCK_ENTRIES_MAX, FAILURES_HEARD_FOR};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Nanos, VolumeId};

const ZEROES: Operation = Operation::WriteZeroes {
    keep_allocated: true,
    only_if_fast: false,
};

fn is_lost(result: Result<(), Failure>) -> bool {
    matches!(result, Err(Failure::Unrecoverable { .. }))
}

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

/// A write that a lost member missed waits for the failed mark, and the stop waits for the write: neither
/// may wait for the other for ever.
#[test]
fn a_member_lost_while_the_array_stops_does_not_keep_it_from_stopping() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        for shards in 1..=3 {
            let shape = geometry(level, members, 16 << 10, 24);
            let mut array = Array::new(record(shape, 0, None), shards, 3, quick());
            array.write(0, 0, &[1; 4096]).unwrap();
            array.shared.borrow_mut().disks[1].hung = true;
            let last = (0..12).map(|at| {
                let buffer = array.allocate(8192);
                let shard = at % shards as usize;
                array.submit(
                    shard,
                    Operation::Write,
                    at as u64 * (24 << 10),
                    8192,
                    buffer,
                )
            });
            let tags: Vec<u64> = last.collect();
            array.turn();
            array.command(Command::Stop).unwrap();
            array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
            for tag in tags {
                assert_eq!(array.finish(tag), Ok(()), "{level} on {shards} shards");
            }
        }
    }
}

fn flush(array: &mut Array) -> Result<(), Failure> {
    let buffer = array.allocate(512);
    let volume = VolumeId(0);
    let tag = array.submit_to(0, volume, Operation::Flush, 0, 0, buffer, false);
    array.finish(tag)
}

/// Only one half of the mirror has a cache; what it cannot flush, the other half has on its medium.
#[test]
fn a_flush_that_a_failed_half_missed_is_done_by_the_other_half() {
    let mut record = record(geometry(Level::Raid1, 2, 64 << 10, 16), 0, None);
    record.members[1].volatile_cache = false;
    let mut array = Array::new(record, 1, 5, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().disks[0].flushes_fail = true;
    assert_eq!(flush(&mut array), Ok(()));
    assert!(array.has_event(|event| matches!(event, Event::FailureRecorded(_))));
}

/// An operator switches on the write cache of a drive that had none.
#[test]
fn a_cache_that_turns_volatile_is_flushed_from_then_on() {
    let mut record = record(geometry(Level::Raid1, 2, 64 << 10, 16), 0, None);
    record.members[1].volatile_cache = false;
    let mut array = Array::new(record, 2, 5, quick());
    let unflushed = |array: &Array| !array.shared.borrow().disks[1].unflushed.is_empty();
    array.write(0, 0, &[1; 4096]).unwrap();
    assert_eq!(flush(&mut array), Ok(()));
    assert!(unflushed(&array), "it was flushed");
    let turned = Message::CacheTurnedVolatile(MemberId(1));
    array.shared.borrow_mut().mail[0].push_back(turned);
    array.wait_ms(40);
    assert!(array.has_event(|event| *event == Event::CacheTurnedVolatile(MemberId(1))));
    assert_eq!(flush(&mut array), Ok(()));
    assert!(!unflushed(&array));
}

/// The other members' flushes say nothing about what this one lost.
#[test]
fn a_flush_that_a_member_of_a_raid_0_missed_fails() {
    let record = record(geometry(Level::Raid0, 3, 16 << 10, 16), 0, None);
    let mut array = Array::new(record, 1, 5, quick());
    array.write(0, 0, &[1; 65536]).unwrap();
    array.shared.borrow_mut().disks[1].flushes_fail = true;
    let failed = flush(&mut array);
    assert!(
        matches!(failed, Err(Failure::Unrecoverable { .. })),
        "{failed:?}"
    );
    // The next flush does not reach what the lost member has acknowledged either.
    let again = flush(&mut array);
    assert!(
        matches!(again, Err(Failure::Unrecoverable { .. })),
        "{again:?}"
    );
}

/// What the flush was to make durable may be gone, and the next flush would succeed and say nothing of that. So a
/// member that could not flush is failed, without redundancy too.
#[test]
fn a_flush_that_failed_is_not_tried_again() {
    let record = record(geometry(Level::Raid0, 3, 16 << 10, 16), 0, None);
    let mut array = Array::new(record, 1, 5, quick());
    array.write(0, 0, &[1; 65536]).unwrap();
    array.shared.borrow_mut().disks[1].flushes_fail = true;
    assert!(flush(&mut array).is_err());
    array.shared.borrow_mut().disks[1].flushes_fail = false;
    assert!(
        flush(&mut array).is_err(),
        "the drive says nothing of what it lost"
    );
    assert!(
        array.read(0, 16 << 10, 4096).is_err(),
        "what it lost is not read"
    );
    assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
}

/// A drive that has failed a flush once may answer the next one with success, although the same writes are lost.
#[test]
fn one_flush_that_fails_costs_the_member() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let shape = geometry(level, members, 16 << 10, 24);
        let mut array = Array::new(record(shape, 0, None), 1, 5, quick());
        array.write(0, 0, &[1; 4096]).unwrap();
        array.shared.borrow_mut().disks[0].flushes_to_fail = 1;
        assert_eq!(flush(&mut array), Ok(()));
        let recorded = Event::FailureRecorded(MemberId(0));
        assert!(array.has_event(|event| *event == recorded), "{level}");
        assert_eq!(array.read(0, 0, 4096).unwrap(), [1; 4096]);
    }
}

/// A rebuild gives up because of a block that it cannot read. Its other commands in flight to the new drive must not
/// keep their locks.
#[test]
fn a_rebuild_that_gives_up_leaves_no_lock_behind() {
    let options = Options {
        auto_rebuild: true,
        ..quick()
    };
    for seed in 0..20 {
        let shape = geometry(Level::Raid10, 4, 4 << 10, 32);
        let mut full = record(shape, 1, None);
        full.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize);
        let mut array = Array::new(full, 1, seed, options);
        array.write(0, 0, &[1; 4096]).unwrap();
        let bad = shape.start_bytes + 10 * 4096;
        array.shared.borrow_mut().disks[0]
            .bad
            .push((bad, bad + 512));
        array.command(Command::Fail(MemberId(1))).unwrap();
        let gave_up = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    complete: false,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(gave_up));
        for row in 0..32 {
            let offset = row * shape.row_bytes();
            assert_eq!(
                array.write(0, offset, &[2; 4096]),
                Ok(()),
                "seed {seed} row {row}"
            );
        }
    }
}

/// A crash before the failed mark would bring the member back as current, without what its cache held.
#[test]
fn a_flush_waits_for_the_failed_mark_of_members_that_cannot_do_theirs() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        for volatile in [true, false] {
            let shape = geometry(level, members, 16 << 10, 24);
            let mut record = record(shape, 0, None);
            record
                .members
                .iter_mut()
                .for_each(|member| member.volatile_cache = volatile);
            let mut array = Array::new(record, 1, 3, Options::default());
            array.write(0, 0, &[1; 4096]).unwrap();
            array.shared.borrow_mut().disks[0].gone = true;
            array.shared.borrow_mut().hold_persists = true;
            // A read notices the loss.
            let all = shape.row_bytes().min(shape.size_bytes) as u32;
            assert!(array.read(0, 0, all).is_ok());
            let buffer = array.allocate(0);
            let flush = array.submit(0, Operation::Flush, 0, 0, buffer);
            array.wait_ms(200);
            assert!(array.take_completion(flush).is_none(), "{level}: too early");
            array.release_persists();
            assert_eq!(array.finish(flush), Ok(()));
        }
    }
}

#[test]
fn nothing_is_flushed_on_a_volume_that_has_lost_too_much() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid5, 3)] {
        let shape = geometry(level, members, 16 << 10, 24);
        let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
        array.write(0, 0, &[1; 32 << 10]).unwrap();
        for drive in 0..2 {
            array.shared.borrow_mut().disks[drive].gone = true;
            let _ = array.read(0, 0, 32 << 10);
        }
        let lost = Err(Failure::Unrecoverable { offset_bytes: 0 });
        assert_eq!(flush(&mut array), lost, "{level}");
        array.wait_ms(100);
        assert_eq!(flush(&mut array), lost, "{level}");
    }
}

/// The failed mark is on record, but one shard does not know of the failure yet and reads the old data from the member.
/// Until it knows, the write must not be acknowledged.
#[test]
fn a_write_that_a_member_missed_waits_for_shards_that_still_read_from_it() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 2, 3, Options::default());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().disks[1].writes_fail = true;
    let buffer = array.allocate(4096);
    array.fill(buffer, &[2; 4096]);
    let tag = array.submit(0, Operation::Write, 0, 4096, buffer);
    for _ in 0..500 {
        array.turn_alone(0);
    }
    // The time in which further failures are waited for has passed.
    array.shared.borrow_mut().now += FAILURES_HEARD_FOR.0;
    for _ in 0..500 {
        array.turn_alone(0);
    }
    let on_record = array.shared.borrow().disks[0].record.clone().unwrap();
    assert_eq!(on_record.members[1].state, MemberState::Failed);
    for _ in 0..100 {
        array.turn_without_mail(1);
    }
    assert_eq!(array.take_completion(tag), None, "acknowledged too early");
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.read(1, 0, 4096).unwrap(), [2; 4096]);
}

/// A member that has a read fails, and the block is overwritten on the others. Then the member answers, with what it
/// holds.
#[test]
fn what_a_failed_member_answers_late_is_not_taken() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.hang(1);
    let reads: Vec<_> = (0..4)
        .map(|_| {
            let buffer = array.allocate(4096);
            (array.submit(0, Operation::Read, 0, 4096, buffer), buffer)
        })
        .collect();
    array.wait_ms(20);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.write(0, 0, &[2; 4096]).unwrap();
    let is_with_it = |read: &&(u64, _)| array.shared.borrow().flights.contains_key(&read.0);
    let late: Vec<_> = reads.iter().filter(is_with_it).copied().collect();
    assert!(!late.is_empty(), "no read is with the member");
    array.unhang(1);
    for (tag, buffer) in late {
        assert_eq!(array.finish(tag), Ok(()));
        let buffer = array.answer_of(tag, buffer).0 as usize;
        let shared = array.shared.borrow();
        assert_eq!(shared.memory[buffer..buffer + 4096], [2; 4096]);
    }
}

/// A drive fails a flush, may have lost what was in its cache, and answers afterwards as if nothing had happened. A
/// shard that no message has reached yet must not read from it.
#[test]
fn a_shard_without_mail_reads_nothing_from_a_member_that_has_failed() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 2, 3, Options::default());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().disks[1].flushes_to_fail = 1;
    let buffer = array.allocate(0);
    array.submit(0, Operation::Flush, 0, 0, buffer);
    for _ in 0..100 {
        array.turn_alone(0);
    }
    array.shared.borrow_mut().disks[1].bytes.fill(0);
    array.turn_without_mail(1);
    for found in array.read_without_mail(1, 0, 4096) {
        assert_eq!(found, [1; 4096]);
    }
}

/// The write was planned with the drive, and continues after the drive has failed, before its plan has noticed that the
/// drive will miss it. When the write is acknowledged, the drive must not come back as current.
#[test]
fn a_write_planned_before_a_member_failed_waits_for_its_failed_mark() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
    let length = shape.row_bytes();
    for row in 0..12 {
        array.write(0, row * length, &[1; 48 << 10]).unwrap();
    }
    let drive = |index| usize::from(shape.data_slots(0, index).iter().next().unwrap().0);
    // Two of three chunks are written, and for their parity the third one is read.
    array.shared.borrow_mut().disks[drive(2)].hung = true;
    let buffer = array.allocate(32 << 10);
    array.fill(buffer, &[9; 32 << 10]);
    let tag = array.submit(0, Operation::Write, 0, 32 << 10, buffer);
    (0..50).for_each(|_| array.turn_alone(0));
    array.shared.borrow_mut().hold_persists = true;
    array.shared.borrow_mut().disks[drive(0)].gone = true;
    let other = array.allocate(4096);
    array.submit(0, Operation::Read, 8 * length, 4096, other);
    (0..50).for_each(|_| array.turn_alone(0));
    let lost = MemberId(drive(0) as u8);
    let is_noticed =
        |event: &Event| matches!(event, Event::MemberFailed { member, .. } if *member == lost);
    assert!(array.has_event(is_noticed));
    assert!(array.shared.borrow().flights.contains_key(&tag));
    array.shared.borrow_mut().disks[drive(2)].hung = false;
    array.wait_ms(1000);
    assert_eq!(array.take_completion(tag), None, "acknowledged too early");
    array.release_persists();
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.read(0, 0, 32 << 10).unwrap(), [9; 32 << 10]);
}

/// Also where the drives that are left hold all that is written: the volume is unchanged when a lost drive comes back.
#[test]
fn a_volume_that_has_failed_writes_nothing_to_the_drives_that_are_left() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    for shards in [1, 2] {
        let mut array = Array::new(record(shape, 0, None), shards, 3, Options::default());
        array.write(0, 0, &[1; 64 << 10]).unwrap();
        for drive in 0..2 {
            array.shared.borrow_mut().disks[drive].gone = true;
            let _ = array.read(0, 0, 4096);
        }
        let failed = Event::VolumeFailed(VolumeId(0));
        array.run_until(|array| array.has_event(|event| *event == failed));
        array.wait_ms(1000);
        let offset = u64::from(shape.chunk_bytes);
        for shard in 0..usize::from(shards) {
            for what in [Operation::Write, ZEROES] {
                let buffer = array.allocate(4096);
                array.fill(buffer, &[9; 4096]);
                let tag = array.submit(shard, what, offset, 4096, buffer);
                let written = array.finish(tag);
                assert!(is_lost(written), "{what:?}: {written:?}");
            }
        }
        let at = shape.member_offset_bytes(0, 0) as usize;
        for drive in 2..4 {
            assert_eq!(array.shared.borrow().disks[drive].bytes[at], 1);
        }
    }
}

/// The first chunk has been written: the answer tells the client how far.
#[test]
fn a_write_that_is_lost_in_part_names_the_first_byte_that_is() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 1, 3, Options::default());
    array.write(0, 0, &[1; 64 << 10]).unwrap();
    for drive in 2..4 {
        array.shared.borrow_mut().disks[drive].writes_fail = true;
    }
    let offset_bytes = u64::from(shape.chunk_bytes);
    let lost = Err(Failure::Unrecoverable { offset_bytes });
    assert_eq!(array.write(0, 0, &[2; 32 << 10]), lost);
}
