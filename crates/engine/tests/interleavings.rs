//! Two shards of whole engines, interleaved inside their turns wherever they touch what they share: the table of
//! claims and the set of failed members. `scripts/concurrency.sh shuttle` builds and runs this.
//!
//! Other tests put turns of shards in any order. Here Shuttle stops a shard in the middle of one, between a claim and
//! the look at the view, and has the other do as much as it likes meanwhile. Mirrors have to be equal at the end.
#![cfg(shuttle)]

#[path = "interleavings/long_runs.rs"]
mod long_runs;
#[path = "all/memory/mod.rs"]
mod memory;

use engine::control::message::{Command, Message};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::{Operation, Request};
use engine::turn::Shard;
use engine::units::{MemberId, Nanos, VolumeId};
use engine::world::Input;
use long_runs::LongRuns;
use memory::{Array, MemoryWorld, Random, Shared, geometry, record};
use shuttle::thread;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: u32 = 4096;
/// Turns of a shard after which a history has come to a standstill.
const TURNS_MAX: usize = 20_000;

/// A shard in a thread of its own: it is given its requests one by one and turns until `is_over`.
struct Station {
    shard: Shard<MemoryWorld>,
    shared: Rc<RefCell<Shared>>,
    requests: std::vec::IntoIter<Request>,
    is_over: fn(&Shared) -> bool,
}

thread_local! {
    /// Where threads take their shard from and put it back. Shuttle's threads are coroutines of one thread of the
    /// system, so all of them see the same cell, and shards, which are not `Send`, need not be sent.
    static STATIONS: RefCell<[Option<Station>; 2]> = const { RefCell::new([None, None]) };
}

impl Station {
    fn take(number: usize) -> Station {
        let station = STATIONS.with_borrow_mut(|stations| stations[number].take());
        station.expect("a shard that no thread has")
    }

    fn leave(self, number: usize) {
        STATIONS.with_borrow_mut(|stations| stations[number] = Some(self));
    }

    fn run(&mut self) {
        for _ in 0..TURNS_MAX {
            if let Some(request) = self.requests.next() {
                let now = Nanos(self.shared.borrow().now);
                self.shard.engine.handle(Input::Request(request), now);
            }
            if self.shard.turn() {
                self.shard.engine.check();
            }
            self.shared.borrow_mut().now += 10_000;
            if self.requests.len() == 0 && (self.is_over)(&self.shared.borrow()) {
                return;
            }
            thread::yield_now();
        }
        panic!("a shard has come to a standstill");
    }
}

fn has_no_request(shared: &Shared) -> bool {
    shared.flights.is_empty()
}

fn has_rebuilt(shared: &Shared) -> bool {
    let ended = |event: &Event| matches!(event, Event::JobEnded { complete: true, .. });
    has_no_request(shared) && shared.events.iter().any(ended)
}

/// Runs both shards of the array in threads of their own, until `is_over` holds for both.
fn in_threads(array: &mut Array, requests: [Vec<Request>; 2], is_over: fn(&Shared) -> bool) {
    let asked = requests.iter().map(Vec::len).sum::<usize>();
    let shards = std::mem::take(&mut array.shards).into_iter().zip(requests);
    let threads: Vec<_> = shards
        .enumerate()
        .map(|(number, (shard, requests))| {
            let station = Station {
                shard,
                shared: array.shared.clone(),
                requests: requests.into_iter(),
                is_over,
            };
            station.leave(number);
            thread::spawn(move || {
                let mut station = Station::take(number);
                station.run();
                station.leave(number);
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    array.shards = (0..2).map(|number| Station::take(number).shard).collect();
    let completions = std::mem::take(&mut array.shared.borrow_mut().completions);
    let succeeded = completions.iter().filter(|one| one.result.is_ok());
    assert_eq!(succeeded.count(), asked, "{completions:?}");
}

/// An array whose shards have both written, so that nothing waits for a dirty mark or a view.
fn array(shape: Geometry, spares: u8, seed: u64) -> Array {
    let mut array = Array::new(record(shape, spares, None), 2, seed, by_hand());
    write_once_each(&mut array);
    array.shared.borrow_mut().latency_ns = 20_000;
    array
}

fn write_once_each(array: &mut Array) {
    for shard in 0..2 {
        array.write(shard, 0, &[1; BLOCK as usize]).unwrap();
    }
}

fn by_hand() -> Options {
    Options {
        auto_rebuild: false,
        ..Options::default()
    }
}

fn mirror() -> Geometry {
    geometry(Level::Raid1, 2, 64 << 10, 16)
}

/// Writes of both shards to the first two blocks, which are the first shard's.
fn writes(array: &mut Array, random: &mut Random, each: usize) -> [Vec<Request>; 2] {
    [0, 1].map(|shard| {
        (0..each)
            .map(|_| {
                let buffer = array.allocate(u64::from(BLOCK));
                array.fill(buffer, &[random.next() as u8; BLOCK as usize]);
                let request = Request {
                    tag: 0,
                    volume: VolumeId(0),
                    operation: Operation::Write,
                    fua: false,
                    offset_bytes: random.below(2) * u64::from(BLOCK),
                    length_bytes: BLOCK,
                    buffer,
                };
                array.prepare(shard, request)
            })
            .collect()
    })
}

fn are_equal(array: &Array, drives: [usize; 2]) -> bool {
    let start = array.shape.start_bytes as usize;
    let blocks = start..start + 2 * BLOCK as usize;
    let disks = &array.shared.borrow().disks;
    disks[drives[0]].bytes[blocks.clone()] == disks[drives[1]].bytes[blocks]
}

/// How many histories a test tries, and which.
const HISTORIES: u64 = 3000;

/// Runs a test's history with each number; it returns how many writes the second shard made itself. A failure names
/// its history, which `INTERLEAVINGS_SEED` repeats alone.
fn in_many_orders(history: fn(u64) -> u64) {
    let only = std::env::var("INTERLEAVINGS_SEED").ok();
    let only = only.map(|number| number.parse().expect("INTERLEAVINGS_SEED is a number"));
    let (first, count) = only.map_or((0, HISTORIES), |only| (only, 1));
    let (current, elsewhere) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let scheduler = LongRuns::new(first, count, current.clone());
    let sum = elsewhere.clone();
    let run = move || {
        let made = history(current.load(Ordering::Relaxed));
        sum.fetch_add(made, Ordering::Relaxed);
    };
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(run);
    let elsewhere = elsewhere.load(Ordering::Relaxed);
    assert!(
        count == 1 || elsewhere > 0,
        "the second shard has asked the owner each time"
    );
}

#[test]
fn shards_that_write_the_same_blocks_leave_equal_mirrors() {
    in_many_orders(|seed| {
        let mut array = array(mirror(), 0, seed);
        let before = array.shards[1].engine.stats().singles_write;
        let requests = writes(&mut array, &mut Random(seed ^ 1 << 63), 3);
        in_threads(&mut array, requests, has_no_request);
        assert!(are_equal(&array, [0, 1]), "history {seed}");
        array.shards[1].engine.stats().singles_write - before
    });
}

/// The first shard begins to rebuild while the second may be anywhere in a write by the old view.
#[test]
fn what_is_written_while_a_rebuild_begins_reaches_the_new_drive() {
    in_many_orders(|seed| {
        let mut array = array(mirror(), 1, seed);
        array.command(Command::Fail(MemberId(1))).unwrap();
        write_once_each(&mut array);
        let before = array.shards[1].engine.stats().singles_write;
        array.shared.borrow_mut().events.clear();
        array.shared.borrow_mut().mail[0].push_back(Message::Command {
            ticket: 1,
            command: Command::Rebuild(VolumeId(0)),
        });
        let requests = writes(&mut array, &mut Random(seed ^ 1 << 63), 4);
        in_threads(&mut array, requests, has_rebuilt);
        assert!(are_equal(&array, [0, 2]), "history {seed}");
        array.shards[1].engine.stats().singles_write - before
    });
}
