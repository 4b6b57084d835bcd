//! Histories of a queue from any bytes: what a guest makes available, what the engine answers, which memory hung drives keep,
//! and servers that die and are followed by others. For the fuzzer and, on random bytes, for ordinary tests.
//!
//! A *tame* guest sends requests that make sense, in one place of the volume for each chain. Then every request has to be
//! answered once, rightly, whatever else happens. A *wild* guest also writes anything anywhere in its memory. Then nothing
//! may reach the engine that breaks a rule, nothing may be lost that belongs to us, and the queue has to end.

use super::driver::{Driver, Shape, memory};
use super::queue::Opening;
use super::queues::Queues;
use super::request::{Rules, WITHOUT_DATA_BYTES_MAX};
use super::wire::IDENTITY_BYTES;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, Nanos, VolumeId};
use engine::world::Input;
use std::collections::VecDeque;
use std::sync::Arc;

mod asking;

use asking::Asked;

/// Chains that a tame guest uses.
const ROOMS: u16 = 4;
/// The part of the volume that belongs to a chain, and its longest request: more than one piece.
const PLACE_BYTES: u64 = 16 << 10;
const PAGE_BYTES: usize = 4096;
/// Some more than the queue needs: a wild guest also writes behind its end.
const AREA_BYTES: u64 = PAGE_BYTES as u64;
const SHAPE: Shape = Shape {
    queue_at: 0,
    area_at: 0,
    rooms: ROOMS,
    data_bytes_max: PLACE_BYTES,
    has_event_index: true,
};
/// What a turn takes, and what passes without one.
const TURN: Nanos = Nanos(2_000);
const LONG: Nanos = Nanos(1_000_000);
const TURNS_MAX: usize = 1000;
const RULES: Rules = Rules {
    size_bytes: ROOMS as u64 * PLACE_BYTES,
    block_bytes: 512,
    write_through: false,
    identity: [b'i'; IDENTITY_BYTES],
};

/// Runs the history that `data` describes. Its first byte says how much memory there is and how the guest behaves.
///
/// # Panics
/// If a rule is broken.
pub fn fuzz_one(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let first = bytes.next().unwrap_or(0);
    let mut history = History::begin(1 + usize::from(first % 8), first & 128 != 0);
    while let Some(kind) = bytes.next() {
        match kind % 8 {
            0..3 => history.ask(kind / 8, &mut bytes),
            3..5 => history.complete(kind / 8),
            5 => history.release(),
            6 if history.is_wild => history.scribble(&mut bytes),
            6 => history.now = history.now.after(LONG),
            _ => history.die(kind / 8),
        }
        history.turn();
    }
    if first & 64 != 0 {
        history.settle();
    }
    history.finish();
}

struct History {
    is_wild: bool,
    driver: Driver,
    arena: Arc<Arena>,
    pages: usize,
    queues: Queues,
    /// Whether the queue is served; a wild guest's may not be any more.
    is_served: bool,
    asked: [Option<Asked>; ROOMS as usize],
    in_engine: VecDeque<Request>,
    /// Memory that hung drives may use.
    pins: VecDeque<Buffer>,
    volume: Vec<u8>,
    now: Nanos,
}

impl History {
    fn begin(pages: usize, is_wild: bool) -> History {
        let options = ArenaOptions {
            length_bytes: pages * PAGE_BYTES,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).expect("memory for a test");
        let mut history = History {
            is_wild,
            driver: Driver::new(memory(SHAPE.queue_bytes()), memory(AREA_BYTES), SHAPE, 0),
            queues: Queues::new(Pool::new(arena.clone(), 0..pages * PAGE_BYTES)),
            arena,
            pages,
            is_served: false,
            asked: Default::default(),
            in_engine: VecDeque::new(),
            pins: VecDeque::new(),
            volume: vec![0; RULES.size_bytes as usize],
            now: Nanos(0),
        };
        history.serve();
        history
    }

    /// A server begins to serve the queue, or finds that it makes no sense.
    fn serve(&mut self) {
        let opening = self.opening();
        assert!(opening.is_some() || self.is_wild, "a tame queue is served");
        self.is_served = opening.is_some();
        if let Some(opening) = opening {
            assert_eq!(self.queues.begin(opening), 0);
        }
    }

    fn opening(&self) -> Option<Opening> {
        let (ring, in_flight, again) = self.driver.open().ok()?;
        Some(Opening {
            volume: VolumeId(0),
            rules: RULES,
            guest: self.driver.guest().clone(),
            ring,
            in_flight: Some(in_flight),
            again,
        })
    }

    /// The engine carries out its oldest request, or does not, and says whether a drive keeps the memory.
    fn complete(&mut self, choice: u8) {
        let Some(request) = self.in_engine.pop_front() else {
            return;
        };
        let has_data = matches!(request.operation, Operation::Read | Operation::Write);
        if has_data && choice & 1 != 0 {
            self.queues.pin(request.buffer);
            self.pins.push_back(request.buffer);
        }
        let is_held = has_data && choice & 1 != 0 && choice & 6 == 6;
        let result = match is_held && request.operation == Operation::Read {
            true => Err(Failure::BufferHeld),
            false => {
                self.carry_out(&request);
                Ok(())
            }
        };
        let tag = request.tag;
        self.queues.completed(Completion { tag, result });
    }

    fn carry_out(&mut self, request: &Request) {
        let at = request.offset_bytes as usize;
        let bytes = at..at + request.length_bytes as usize;
        match request.operation {
            Operation::Read => self.arena.write(request.buffer, &self.volume[bytes]),
            Operation::Write => self.arena.read(request.buffer, &mut self.volume[bytes]),
            Operation::Trim | Operation::WriteZeroes { .. } => self.volume[bytes].fill(0),
            Operation::Flush => {}
        }
    }

    /// A drive lets go of memory.
    fn release(&mut self) {
        if let Some(buffer) = self.pins.pop_front() {
            self.queues.release(buffer);
        }
    }

    /// The server is killed, and some of what the engine had is done; another one follows.
    fn die(&mut self, choice: u8) {
        for at in 0..self.in_engine.len() {
            if choice >> (at % 5) & 1 != 0 {
                let request = self.in_engine[at];
                self.carry_out(&request);
            }
        }
        self.in_engine.clear();
        self.pins.clear();
        let pool = Pool::new(self.arena.clone(), 0..self.pages * PAGE_BYTES);
        self.queues = Queues::new(pool);
        self.serve();
    }

    fn turn(&mut self) {
        let mut inputs = Vec::new();
        self.now = self.now.after(TURN);
        if self.queues.may_go_on() {
            self.queues.go_on(self.now, &mut inputs);
        }
        for input in inputs {
            let Input::Request(request) = input else {
                panic!("queues give nothing but requests");
            };
            self.check_request(&request);
            self.in_engine.push_back(request);
        }
        self.queues.publish(|_, _| {});
        if !self.is_wild {
            self.check_answers();
        }
    }

    /// What the engine and hung drives rely on.
    fn check_request(&self, request: &Request) {
        let length_bytes = u64::from(request.length_bytes);
        assert!(request.offset_bytes + length_bytes <= RULES.size_bytes);
        assert_eq!((request.offset_bytes | length_bytes) % 512, 0);
        assert_eq!(length_bytes == 0, request.operation == Operation::Flush);
        assert!(length_bytes <= WITHOUT_DATA_BYTES_MAX);
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return;
        }
        assert!(length_bytes <= PAGE_BYTES as u64, "a piece is too long");
        assert!(self.queues.own(request.buffer));
        let in_engine = self.in_engine.iter().map(|other| other.buffer);
        let mut others = in_engine.chain(self.pins.iter().copied());
        assert!(
            !others.any(|other| other == request.buffer),
            "a request uses memory of another, or of a hung drive"
        );
    }

    /// The engine answers everything, and drives let go of everything, until nothing is left to do. Every request of a tame
    /// guest is answered then, whether the queue was told of it or had to look.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.complete(0);
            self.release();
            self.turn();
            if self.in_engine.is_empty() && self.pins.is_empty() && !self.queues.may_go_on() {
                let is_answered = self.asked.iter().all(Option::is_none);
                assert!(is_answered || self.is_wild, "a request was never taken");
                return;
            }
        }
        panic!("the queue never rests");
    }

    /// The engine answers everything, drives let go of everything, and the queue ends.
    fn finish(mut self) {
        if self.is_served {
            self.queues.end(0);
        }
        self.turn();
        while !self.in_engine.is_empty() || !self.pins.is_empty() {
            self.complete(0);
            self.release();
            self.turn();
            // Chains that were behind others, and pieces that had no memory.
            self.turn();
        }
        if self.is_served {
            assert!(self.queues.is_quiet(0), "a queue does not end");
            let next = self.queues.remove(0);
            if !self.is_wild {
                // What was made available and not taken is still there.
                let left = self.driver.available().wrapping_sub(next);
                let unanswered = self.asked.iter().flatten().count();
                assert_eq!(usize::from(left), unanswered, "a request is lost");
            }
        }
        let all_bytes = (self.pages * PAGE_BYTES) as u64;
        assert_eq!(self.queues.available_bytes(), all_bytes, "memory is lost");
        let counted = self.queues.statistics();
        assert_eq!(
            (
                counted.pinned_bytes,
                counted.requests_in_flight,
                counted.clients
            ),
            (0, 0, 0)
        );
    }
}

#[cfg(test)]
mod tests;
