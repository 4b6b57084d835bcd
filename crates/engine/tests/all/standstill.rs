//! The process stands still for longer than the deadline, or its clock jumps: no drive was slow.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::record::{LogArea, Record};
use engine::event::Event;
use engine::layout::Level;
use engine::limits::{COLLECTING_TURNS_MAX, REAP_MAX};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos};

const DEADLINE: Nanos = Nanos(2 * Nanos::SECOND.0);
const PAUSE: u64 = 3 * Nanos::SECOND.0;
/// A sweep, and some turns.
const SWEEP_MS: u64 = 300;

fn options() -> Options {
    Options {
        member_deadline: DEADLINE,
        ..Options::default()
    }
}

fn records() -> [Record; 4] {
    let logged = || {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 24);
        let mut record = record(shape, 0, None);
        record.volumes[0].log = Some(LogArea {
            offset_bytes: shape.start_bytes + shape.component_bytes,
            length_bytes: MIB as u32,
        });
        record
    };
    [
        record(geometry(Level::Raid1, 2, 64 << 10, 24), 0, None),
        record(geometry(Level::Raid10, 4, 16 << 10, 24), 0, None),
        record(geometry(Level::Raid5, 3, 16 << 10, 24), 0, None),
        logged(),
    ]
}

fn has_failed(array: &Array) -> bool {
    array.has_event(|event| {
        matches!(
            event,
            Event::MemberFailed { .. } | Event::MemberOverdue(_) | Event::VolumeFailed(_)
        )
    })
}

/// Reads and writes all over the volume, none of them answered.
fn load(array: &mut Array) -> Vec<u64> {
    (0..32)
        .map(|at| {
            let operation = if at % 3 == 0 {
                Operation::Read
            } else {
                Operation::Write
            };
            let buffer = array.allocate(4096);
            let shard = at % array.shards.len();
            array.submit(shard, operation, at as u64 * (20 << 10), 4096, buffer)
        })
        .collect()
}

fn finish(array: &mut Array, tags: Vec<u64>) {
    for tag in tags {
        assert_eq!(array.finish(tag), Ok(()));
    }
}

#[test]
fn a_process_that_stood_still_for_longer_than_the_deadline_fails_no_member() {
    for record in records() {
        for shards in [1, 2] {
            for turns_before in 0..12 {
                let mut array = Array::new(record.clone(), shards, 3, options());
                array.write(0, 0, &[1; 4096]).expect("a write");
                array.shared.borrow_mut().latency_ns = 300_000;
                let tags = load(&mut array);
                (0..turns_before).for_each(|_| {
                    array.turn();
                });
                array.shared.borrow_mut().now += PAUSE;
                finish(&mut array, tags);
                array.wait_ms(SWEEP_MS);
                assert!(!has_failed(&array), "paused after {turns_before} turns");
            }
        }
    }
}

/// The answers come more than a turn after the standstill, as from threads of the kernel that stood still too.
#[test]
fn what_a_drive_has_left_of_its_time_is_what_it_had_before() {
    for record in records() {
        let mut array = Array::new(record, 1, 3, options());
        array.write(0, 0, &[1; 4096]).expect("a write");
        array.shared.borrow_mut().latency_ns = 0;
        array.shared.borrow_mut().disks[1].hung = true;
        let tags = load(&mut array);
        array.wait_ms(500);
        array.shared.borrow_mut().now += PAUSE;
        array.wait_ms(500);
        assert!(!has_failed(&array), "one second of two");
        array.shared.borrow_mut().disks[1].hung = false;
        finish(&mut array, tags);
        assert!(!has_failed(&array));
    }
}

#[test]
fn a_drive_that_hangs_is_failed_although_the_process_stands_still_now_and_then() {
    for record in records() {
        let mut array = Array::new(record, 1, 3, options());
        array.write(0, 0, &[1; 4096]).expect("a write");
        array.hang(1);
        let tags = load(&mut array);
        for _ in 0..4 {
            array.wait_ms(DEADLINE.0 / Nanos::MILLISECOND.0 / 4 + SWEEP_MS);
            array.shared.borrow_mut().now += PAUSE;
        }
        array.wait_ms(2 * SWEEP_MS);
        assert!(array.has_event(|event| *event == Event::MemberOverdue(MemberId(1))));
        finish(&mut array, tags);
    }
}

/// As long as every turn brings answers, more may be on their way, and no drive is failed; but not for ever.
#[test]
fn a_drive_that_hangs_is_failed_although_every_turn_brings_answers() {
    let mut array = Array::new(records()[0].clone(), 1, 3, options());
    array.write(0, 0, &[1; 4096]).expect("a write");
    array.hang(1);
    let hangs = load(&mut array);
    array.turn();
    array.shared.borrow_mut().now += PAUSE;
    let mut left = REAP_MAX * usize::from(COLLECTING_TURNS_MAX);
    while !array.has_event(|event| *event == Event::MemberOverdue(MemberId(1))) {
        array.shared.borrow_mut().now += 10_000_000;
        // A message for each turn.
        let message = engine::control::message::Message::WriteIntent(engine::units::VolumeId(0));
        array.shared.borrow_mut().mail[0].push_back(message);
        array.turn();
        left = left.checked_sub(1).expect("it is failed in the end");
    }
    finish(&mut array, hangs);
}

#[test]
fn a_clock_that_goes_back_fails_no_member_and_stops_no_deadline() {
    for record in records() {
        let mut array = Array::new(record, 1, 3, options());
        array.wait_ms(10_000);
        array.write(0, 0, &[1; 4096]).expect("a write");
        let tags = load(&mut array);
        array.turn();
        // The drives of this test go by the same clock: they answer half a second later.
        array.shared.borrow_mut().now -= Nanos::SECOND.0 / 2;
        finish(&mut array, tags);
        array.hang(1);
        let tags = load(&mut array);
        array.shared.borrow_mut().now -= Nanos::SECOND.0;
        array.wait_ms(DEADLINE.0 / Nanos::MILLISECOND.0 + 2 * SWEEP_MS);
        assert!(array.has_event(|event| *event == Event::MemberOverdue(MemberId(1))));
        finish(&mut array, tags);
    }
}

/// A drive that was to store the record was not slow either.
#[test]
fn a_process_that_stood_still_while_a_record_was_written_fails_no_member() {
    for record in records() {
        let mut array = Array::new(record, 2, 3, options());
        array.shared.borrow_mut().hold_persists = true;
        let buffer = array.allocate(4096);
        let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
        array.run_until(|array| !array.shared.borrow().persists.is_empty());
        array.shared.borrow_mut().now += PAUSE;
        array.wait_ms(SWEEP_MS);
        assert!(!has_failed(&array), "the standstill was counted");
        array.release_persists();
        assert_eq!(array.finish(tag), Ok(()));
    }
}
