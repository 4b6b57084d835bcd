//! The clean mark is written behind a fence. Writes that meet the fence must neither be lost nor hold it up for ever.

use crate::memory::{Array, Disk, geometry, record};
use engine::control::message::{Command, Message};
use engine::control::record::VolumeView;
use engine::event::Event;
use engine::layout::Level;
use engine::limits::PLANS_MAX;
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::{Failure, Operation};
use engine::units::{Nanos, ShardId};

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

/// Runs shard 0 alone until it has sent shard 1 a view for which `wanted` holds.
fn until_view(array: &mut Array, wanted: fn(&VolumeView) -> bool) {
    let sent = |array: &Array| {
        let shared = array.shared.borrow();
        let mut mail = shared.mail[1].iter();
        mail.any(|message| matches!(message, Message::View(view) if wanted(&view.volumes[0])))
    };
    while !sent(array) {
        array.shards[0].turn();
        array.shared.borrow_mut().now += 10_000;
    }
}

/// A shard that does not know of the fence yet has taken a write and sends a piece of it to one that does.
/// The fence waits for the write to drain, so the write must not wait for the fence.
#[test]
fn a_piece_sent_on_before_its_shard_knew_of_the_fence_takes_the_fence_down() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 2, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    // Shard 1 is idle for long enough to report that, and is not queried again.
    for _ in 0..60_000 {
        array.shards[1].turn();
        array.shared.borrow_mut().now += 10_000;
    }
    until_view(&mut array, |view| !view.writes_allowed);
    // Row 0 belongs to shard 0.
    let buffer = array.allocate(4096);
    array.fill(buffer, &[2; 4096]);
    let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.read(0, 0, 4096).unwrap(), [2; 4096]);
    let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
    array.run_until(|array| array.has_event(is_clean));
}

/// The flush behind the fence fails on a member. Writes that wait at the fence are woken, although the next attempt to
/// mark the volume clean could begin at once.
#[test]
fn a_write_that_waits_for_a_fence_whose_flush_fails_is_carried_out() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().disks[1].hung = true;
    for _ in 0..60_000 {
        array.turn();
    }
    let buffer = array.allocate(4096);
    let tag = array.submit(0, Operation::Write, 8192, 4096, buffer);
    assert_eq!(array.finish(tag), Ok(()));
}

/// Writes become allowed and the array stops before the shard takes its next turn.
#[test]
fn a_write_that_waits_for_the_dirty_mark_is_refused_when_the_array_stops_first() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 2, 3, quick());
    array.turn();
    let buffer = array.allocate(4096);
    let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
    array.shards[1].turn();
    until_view(&mut array, |view| view.writes_allowed);
    let (ticket, command) = (1000, Command::Stop);
    array.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
    until_view(&mut array, |view| view.stopping);
    assert_eq!(array.finish(tag), Err(Failure::Stopping));
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
}

/// Writes that have begun end. Those that wait for a plan are refused, also if they would need none with more room.
#[test]
fn writes_that_wait_for_room_are_refused_when_the_array_stops_first() {
    let shape = geometry(Level::Raid0, 4, 64 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().completions.clear();
    array.shared.borrow_mut().latency_ns = 10 * Nanos::MILLISECOND.0;
    let buffer = array.allocate(4096);
    let all = PLANS_MAX as u64 + 1000;
    for at in 0..all {
        array.submit(0, Operation::Write, at % 64 * 4096, 4096, buffer);
    }
    array.turn();
    let (ticket, command) = (1000, Command::Stop);
    array.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
    let shared = array.shared.borrow();
    assert_eq!(shared.completions.len() as u64, all);
    let of = |result| {
        let answers = shared.completions.iter();
        answers.filter(|answer| answer.result == result).count() as u64
    };
    let refused = of(Err(Failure::Stopping));
    assert!((1000..1100).contains(&refused), "{refused}");
    assert_eq!(of(Ok(())), all - refused);
}

/// A stop does not wait for the volume to be idle, and its drives are flushed at once. Without the fence, a crash could
/// leave a mirror that is marked clean and whose halves differ.
#[test]
fn nothing_on_record_is_clean_while_a_write_is_under_way() {
    for shards in [1, 2] {
        let shape = geometry(Level::Raid1, 2, 64 << 10, 16);
        let mut array = Array::new(record(shape, 0, None), shards, 3, quick());
        array.write(0, 0, &[1; 4096]).unwrap();
        array.shared.borrow_mut().latency_ns = 200 * Nanos::MILLISECOND.0;
        let buffer = array.allocate(4096);
        let shard = usize::from(shards) - 1;
        let tag = array.submit(shard, Operation::Write, 0, 4096, buffer);
        array.turn();
        array.turn();
        // Commands from here on are answered long before the write is.
        array.shared.borrow_mut().latency_ns = 50_000;
        let (ticket, command) = (1000, Command::Stop);
        array.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
        let mut turns = 0;
        while array.shared.borrow().flights.contains_key(&tag) {
            array.turn();
            turns += 1;
            let shared = array.shared.borrow();
            let is_dirty = shared.disks.iter().all(|disk| {
                let record = disk.record.as_ref();
                record.is_some_and(|record| record.volumes[0].dirty)
            });
            let is_over = !shared.flights.contains_key(&tag);
            assert!(is_dirty || is_over, "clean after {turns} turns");
        }
        assert!(turns > 1000, "the write took {turns} turns only");
        assert_eq!(array.take_completion(tag), Some(Ok(())));
        array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
        // The stop has waited for the clean mark as well.
        for disk in &array.shared.borrow().disks {
            assert!(!disk.record.as_ref().unwrap().volumes[0].dirty);
        }
    }
}

#[test]
fn clean_is_on_record_only_when_everything_is_flushed() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let shape = geometry(level, members, 16 << 10, 24);
        let mut array = Array::new(record(shape, 0, None), 1, 3, quick());
        array.write(0, 0, &[1; 16 << 10]).unwrap();
        let unflushed = |array: &Array| {
            let shared = array.shared.borrow();
            let has = |disk: &crate::memory::Disk| !disk.unflushed.is_empty();
            shared.disks.iter().any(has)
        };
        assert!(unflushed(&array), "{level}");
        let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
        array.run_until(|array| array.has_event(is_clean));
        assert!(!unflushed(&array), "{level}");
    }
}

/// A member is lost behind the fence, so its cache is not flushed. Whether the failure goes on record is decided later:
/// it does not, if the host is to blame.
#[test]
fn a_volume_is_not_clean_that_was_flushed_without_a_member_nobody_has_decided_about() {
    let everything: fn(StepKind) -> bool = |_| true;
    let enodev = Some((everything, 19, usize::MAX));
    let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 2, 3, quick());
    array.write(0, 0, &[1; 48 << 10]).unwrap();
    for _ in 0..60_000 {
        array.shards[1].turn();
        array.shared.borrow_mut().now += 10_000;
    }
    until_view(&mut array, |view| !view.writes_allowed);
    let read_all = |array: &mut Array| {
        for row in 0..8 {
            let buffer = array.allocate(48 << 10);
            let offset = row * shape.row_bytes();
            array.submit(0, Operation::Read, offset, 48 << 10, buffer);
        }
    };
    let flushes = |array: &Array| array.shards[0].engine.stats().member_flushes;
    let before = flushes(&array);
    array.shared.borrow_mut().disks[0].refusal = enodev;
    read_all(&mut array);
    (0..100).for_each(|_| array.turn_alone(0));
    assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
    assert_eq!(flushes(&array), before);
    array.run_until(|array| flushes(array) == before + 3);
    array.wait_ms(20);
    array.shared.borrow_mut().disks[1].refusal = enodev;
    read_all(&mut array);
    array.run_until(|array| array.has_event(|event| matches!(event, Event::VolumeFailed(_))));
    array.wait_ms(1000);
    let shared = array.shared.borrow();
    for drive in &shared.disks[2..] {
        let own = &drive.record.as_ref().unwrap().volumes[0];
        assert!(own.dirty && own.slots.iter().all(|slot| slot.current));
    }
}

/// A shard that does not know of the fence yet begins a write, and learns of the fence afterwards.
#[test]
fn a_volume_is_not_clean_while_a_write_from_before_the_fence_is_under_way() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 2, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    for _ in 0..60_000 {
        array.shards[1].turn();
        array.shared.borrow_mut().now += 10_000;
    }
    until_view(&mut array, |view| !view.writes_allowed);
    let of_second = |row: &u64| shape.owner(*row, 2) == ShardId(1);
    let row = (0..shape.rows()).find(of_second).unwrap();
    array.shared.borrow_mut().latency_ns = 200 * Nanos::MILLISECOND.0;
    let buffer = array.allocate(4096);
    let offset = row * shape.row_bytes();
    let tag = array.submit(1, Operation::Write, offset, 4096, buffer);
    (0..3).for_each(|_| array.turn_without_mail(1));
    array.shared.borrow_mut().latency_ns = 50_000;
    let mut turns = 0;
    while array.shared.borrow().flights.contains_key(&tag) {
        array.turn();
        turns += 1;
        let shared = array.shared.borrow();
        let says_clean = |disk: &&Disk| !disk.record.as_ref().unwrap().volumes[0].dirty;
        let is_over = !shared.flights.contains_key(&tag);
        assert!(is_over || shared.disks.iter().find(says_clean).is_none());
    }
    assert!(turns > 1000, "{turns}");
}
