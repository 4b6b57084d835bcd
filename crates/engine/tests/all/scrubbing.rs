//! Scrubs that continue where an earlier process left them, what they report of a mismatch, and stripes that are held
//! still for inspection.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::jobs::JobStatus;
use engine::control::message::{Command, Message, Refused};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, SlotSet, VolumeId};

const VOLUME: VolumeId = VolumeId(0);

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

fn shapes() -> Vec<Geometry> {
    vec![
        geometry(Level::Raid1, 2, 64 << 10, 37),
        geometry(Level::Raid1, 3, 64 << 10, 20),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid5, 3, 4 << 10, 60),
        geometry(Level::Raid5, 4, 64 << 10, 12),
        geometry(Level::Raid5, 3, 1 << 20, 2),
    ]
}

/// Makes slot `slot` of `row` disagree, by a change of the drive's bytes.
fn spoil(array: &Array, shape: &Geometry, row: u64, slot: usize) {
    let at = shape.member_offset_bytes(row, 512) as usize;
    array.shared.borrow_mut().disks[slot].bytes[at] ^= 0x5A;
}

fn status(array: &Array) -> Option<JobStatus> {
    array.shards[0].engine.controller().unwrap().job(VOLUME)
}

/// Runs the job to its end and returns the rows it found to disagree, with the slots, in order.
fn found_by(array: &mut Array, order: Command) -> Vec<(u64, SlotSet, bool)> {
    array.shared.borrow_mut().events.clear();
    array.command(order).expect("the scrub starts");
    array.run_until(|array| {
        array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
    });
    let shape = array.shared.borrow().shape;
    let shared = array.shared.borrow();
    let mismatch = |event: &Event| match *event {
        Event::Mismatch {
            member_offset_bytes,
            slots,
            repaired,
            ..
        } => Some((
            member_offset_bytes / u64::from(shape.chunk_bytes),
            slots,
            repaired,
        )),
        _ => None,
    };
    let mut rows: Vec<_> = shared.events.iter().filter_map(mismatch).collect();
    rows.sort_unstable_by_key(|(row, ..)| *row);
    rows
}

fn scrub(repair: bool) -> Command {
    Command::Scrub {
        volume: VOLUME,
        repair,
    }
}

#[test]
fn a_mismatch_names_the_slots_that_disagree() {
    for shape in shapes() {
        for shards in [1, 3] {
            let mut array = Array::new(record(shape, 0, None), shards, 3, quick());
            let last = usize::from(shape.members) - 1;
            spoil(&array, &shape, 1, last);
            let expected = match shape.level {
                // The other pair agrees.
                Level::Raid10 => SlotSet(0b1100),
                // The first copy is the one that others are compared with.
                Level::Raid1 => SlotSet(1 | 1 << last),
                _ => SlotSet::all(shape.members),
            };
            for repairs in [false, true] {
                let found = found_by(&mut array, scrub(repairs));
                assert_eq!(found, [(1, expected, repairs)], "{shape:?}");
            }
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

#[test]
fn a_scrub_that_is_continued_looks_at_what_is_behind_its_position_only() {
    for shape in shapes().into_iter().filter(|shape| shape.rows() > 4) {
        for shards in [1, 2] {
            for repair in [false, true] {
                let mut array = Array::new(record(shape, 0, None), shards, 9, quick());
                let last = shape.rows() - 1;
                for row in [0, 2, last] {
                    spoil(&array, &shape, row, 1);
                }
                let order = Command::ContinueScrub {
                    volume: VOLUME,
                    repair,
                    from_bytes: 2 * u64::from(shape.chunk_bytes),
                };
                let found = found_by(&mut array, order);
                let rows: Vec<u64> = found.iter().map(|(row, ..)| *row).collect();
                assert_eq!(rows, [2, last], "{shape:?}");
                assert_eq!(array.scrub(false), if repair { 1 } else { 3 });
                // A position behind the end costs nothing and is no error.
                let order = Command::ContinueScrub {
                    volume: VOLUME,
                    repair,
                    from_bytes: u64::MAX,
                };
                assert_eq!(found_by(&mut array, order), []);
            }
        }
    }
}

#[test]
fn the_position_of_a_repair_is_kept_only_when_what_it_wrote_is_flushed() {
    let shape = geometry(Level::Raid5, 3, 64 << 10, 400);
    for repair in [false, true] {
        let options = Options {
            rate_bytes_per_s: 2 * MIB,
            ..quick()
        };
        let mut array = Array::new(record(shape, 0, None), 1, 4, options);
        for row in 0..shape.rows() {
            spoil(&array, &shape, row, 2);
        }
        array.command(scrub(repair)).unwrap();
        let (mut kept_bytes, mut lagged) = (0, false);
        for _ in 0..900 {
            array.wait_ms(20);
            let Some(job) = status(&array) else { break };
            assert!(job.kept_bytes >= kept_bytes && job.kept_bytes <= job.done_bytes);
            kept_bytes = job.kept_bytes;
            lagged |= job.kept_bytes < job.done_bytes;
            assert!(repair || job.kept_bytes == job.done_bytes);
            let shared = array.shared.borrow();
            let end_bytes = shape.start_bytes + kept_bytes;
            for disk in shared.disks.iter().filter(|_| repair) {
                let early = |(low, _): &&(u64, u64)| *low < end_bytes && *low >= shape.start_bytes;
                assert_eq!(disk.unflushed.iter().find(early), None, "{kept_bytes}");
            }
        }
        assert!(kept_bytes > 0, "none was kept");
        assert_eq!(lagged, repair);
    }
}

/// Asks the owner of a stripe to keep it still.
fn inspect(array: &mut Array, shape: &Geometry, ticket: u64, offset_bytes: u64) -> usize {
    let row = shape.locate(offset_bytes).row;
    let owner = usize::from(shape.owner(row, array.shards.len() as u8).0);
    let message = Message::Inspect {
        ticket,
        volume: VOLUME,
        offset_bytes,
    };
    array.shared.borrow_mut().mail[owner].push_back(message);
    owner
}

fn let_go(array: &mut Array, owner: usize, ticket: u64) {
    array.shared.borrow_mut().mail[owner].push_back(Message::Inspected { ticket });
}

fn ended(ticket: u64, held: bool) -> Event {
    Event::InspectionEnded { ticket, held }
}

#[test]
fn nothing_is_written_to_a_stripe_that_stands_still() {
    for shape in shapes() {
        for shards in [1, 3] {
            let mut array = Array::new(record(shape, 0, None), shards, 6, quick());
            // The dirty mark is a new view, which would end the inspection.
            array.write(0, shape.row_bytes(), &[1; 4096]).unwrap();
            let owner = inspect(&mut array, &shape, 7, 4096);
            array.run_until(|array| array.has_event(|e| *e == Event::Inspectable { ticket: 7 }));
            let buffer = array.allocate(4096);
            array.fill(buffer, &[9; 4096]);
            let tags: Vec<u64> = (0..usize::from(shards))
                .map(|shard| array.submit(shard, Operation::Write, 0, 4096, buffer))
                .collect();
            for _ in 0..50 {
                array.turn();
            }
            let at = shape.member_offset_bytes(0, 0) as usize;
            for (slot, disk) in array.shared.borrow().disks.iter().enumerate() {
                assert_eq!(disk.bytes[at], 0, "{shape:?}: slot {slot} was written");
            }
            // Writes elsewhere do not wait, and reads wait nowhere.
            assert_eq!(array.read(0, 0, 4096).unwrap(), [0; 4096]);
            array.write(0, shape.row_bytes(), &[2; 4096]).unwrap();
            let_go(&mut array, owner, 7);
            for tag in tags {
                array.finish(tag).unwrap();
            }
            assert!(array.has_event(|event| *event == ended(7, true)));
            assert_eq!(array.read(0, 0, 4096).unwrap(), [9; 4096]);
        }
    }
}

#[test]
fn an_inspection_ends_by_itself_and_with_every_new_view() {
    let shape = geometry(Level::Raid5, 3, 64 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 2, 6, quick());
    inspect(&mut array, &shape, 1, 0);
    array.run_until(|array| array.has_event(|event| *event == Event::Inspectable { ticket: 1 }));
    // Each shard takes one inspection at a time.
    inspect(&mut array, &shape, 2, 0);
    array.run_until(|array| array.has_event(|event| *event == ended(2, false)));
    array.wait_ms(3000);
    assert!(array.has_event(|event| *event == ended(1, false)));
    // There is no such stripe, and the next one belongs to the other shard.
    inspect(&mut array, &shape, 3, u64::MAX);
    array.run_until(|array| array.has_event(|event| *event == ended(3, false)));
    let message = Message::Inspect {
        ticket: 4,
        volume: VOLUME,
        offset_bytes: 0,
    };
    let owner = usize::from(shape.owner(0, 2).0);
    array.shared.borrow_mut().mail[1 - owner].push_back(message);
    array.run_until(|array| array.has_event(|event| *event == ended(4, false)));
    // A member fails: what was read may be outdated.
    inspect(&mut array, &shape, 5, 0);
    array.run_until(|array| array.has_event(|event| *event == Event::Inspectable { ticket: 5 }));
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.run_until(|array| array.has_event(|event| *event == ended(5, false)));
    array.write(0, 0, &[3; 4096]).unwrap();
    assert_eq!(array.command(scrub(false)), Err(Refused::Busy));
    // An inspection does not hold up a stop.
    inspect(&mut array, &shape, 6, 0);
    array.command(Command::Stop).unwrap();
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
}
