//! Histories of a queue from any bytes: what a guest makes available, what the engine answers, which memory hung drives keep,
//! and servers that die and are followed by others. For the fuzzer and, on random bytes, for ordinary tests.
//!
//! A *tame* guest sends requests that make sense, in one place of the volume for each chain. Then every request has to be
//! answered once, rightly, whatever else happens. A *wild* guest also writes anything anywhere in its memory. Then nothing
//! may reach the engine that breaks a rule, nothing may be lost that belongs to us, and the queue has to end.

use super::guest::{Guest, read, write};
use super::in_flight::InFlight;
use super::queue::Opening;
use super::queues::Queues;
use super::request::{Rules, WITHOUT_DATA_BYTES_MAX};
use super::split_ring::{Places, SplitRing};
use super::wire::*;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, Nanos, VolumeId};
use engine::world::Input;
use std::collections::VecDeque;
use std::sync::Arc;
use vm_memory::GuestAddress;

const SIZE: u16 = 16;
/// Chains that a tame guest uses.
const ROOMS: u16 = 4;
/// The part of the volume that belongs to a chain, and its longest request: more than one piece.
const PLACE_BYTES: u64 = 16 << 10;
const PAGE_BYTES: usize = 4096;
const MEMORY_BYTES: usize = 128 << 10;
const PLACES: Places = Places {
    table: 0,
    available: 0x1000,
    used: 0x2000,
};
/// Where the rooms of chains begin, and what they contain.
const ROOM_AT: u64 = 0x4000;
const ROOM_BYTES: u64 = 0x5000;
const STATUS_AT: u64 = 16;
const TABLE_AT: u64 = 0x40;
const DATA_AT: u64 = 0x100;
/// What a turn takes, and what passes without one.
const TURN: Nanos = Nanos(20_000);
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

/// A request that was not answered yet.
struct Asked {
    kind: u32,
    status: u8,
    /// What a read has to find, or a write to leave, at the beginning of its place.
    data: Vec<u8>,
}

struct History {
    is_wild: bool,
    guest: Arc<Guest>,
    area: Arc<Guest>,
    arena: Arc<Arena>,
    pages: usize,
    queues: Queues,
    /// Whether the queue is served; a wild guest's may not be any more.
    is_served: bool,
    asked: [Option<Asked>; ROOMS as usize],
    available: u16,
    used: u16,
    in_engine: VecDeque<Request>,
    /// Memory that hung drives may use.
    pins: VecDeque<Buffer>,
    volume: Vec<u8>,
    now: Nanos,
}

fn memory(length_bytes: usize) -> Arc<Guest> {
    let memory = Guest::from_ranges(&[(GuestAddress(0), length_bytes)]);
    Arc::new(memory.expect("memory for a test"))
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
            guest: memory(MEMORY_BYTES),
            area: memory(PAGE_BYTES),
            queues: Queues::new(Pool::new(arena.clone(), 0..pages * PAGE_BYTES)),
            arena,
            pages,
            is_served: false,
            asked: Default::default(),
            available: 0,
            used: 0,
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
        let mut ring = SplitRing::new(&self.guest, PLACES, SIZE, true, 0).ok()?;
        let used = ring.next_used();
        let (in_flight, again) = InFlight::open(self.area.clone(), 0, SIZE, used).ok()?;
        ring.skip_to(used.wrapping_add(again.len() as u16));
        Some(Opening {
            volume: VolumeId(0),
            rules: RULES,
            guest: self.guest.clone(),
            ring,
            in_flight: Some(in_flight),
            again,
        })
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        write(&self.guest, at, bytes).expect("places of the test are in its memory");
    }

    fn room(room: u16) -> u64 {
        ROOM_AT + u64::from(room) * ROOM_BYTES
    }

    /// The guest makes a request available, if its room is free.
    fn ask(&mut self, choice: u8, bytes: &mut impl Iterator<Item = u8>) {
        let room = u16::from(choice) % ROOMS;
        let mut next = || bytes.next().unwrap_or(0);
        let (what, length, seed) = (next(), next(), next());
        if self.asked[usize::from(room)].is_some() {
            return;
        }
        let sectors = 1 + u64::from(length % 32);
        let sector = u64::from(room) * PLACE_BYTES / SECTOR_BYTES;
        let (kind, mut status) = match what % 8 {
            0..3 => (REQUEST_READ, STATUS_OK),
            3..5 => (REQUEST_WRITE, STATUS_OK),
            5 => (REQUEST_FLUSH, STATUS_OK),
            6 => (REQUEST_ZEROES, STATUS_OK),
            _ => (REQUEST_IDENTITY, STATUS_OK),
        };
        let mut length_bytes = sectors * SECTOR_BYTES;
        if what > 240 && matches!(kind, REQUEST_READ | REQUEST_WRITE) {
            (length_bytes, status) = (length_bytes - 1, STATUS_ERROR);
        }
        let data = self.data(kind, room, length_bytes, seed);
        let range = [
            &sector.to_le_bytes()[..],
            &(sectors as u32).to_le_bytes(),
            &[0; 4],
        ];
        let sent = match kind {
            REQUEST_WRITE => data.clone(),
            REQUEST_ZEROES => range.concat(),
            _ => Vec::new(),
        };
        let wanted_bytes = match kind {
            REQUEST_READ => length_bytes as u32,
            REQUEST_IDENTITY => IDENTITY_BYTES as u32,
            _ => 0,
        };
        self.describe(room, (kind, sector), &sent, wanted_bytes, what & 64 != 0);
        self.publish(3 * room);
        self.asked[usize::from(room)] = Some(Asked { kind, status, data });
    }

    /// What the place of a room begins with when its request is answered.
    fn data(&self, kind: u32, room: u16, length_bytes: u64, seed: u8) -> Vec<u8> {
        let at = usize::from(room) * PLACE_BYTES as usize;
        let length = length_bytes as usize;
        match kind {
            REQUEST_READ => self.volume[at..at + length].to_vec(),
            REQUEST_WRITE => (0..length).map(|at| (at / 64) as u8 ^ seed).collect(),
            REQUEST_ZEROES => vec![0; length],
            _ => Vec::new(),
        }
    }

    /// Writes a request and its chain, in the queue's table or in one of its own.
    fn describe(
        &self,
        room: u16,
        (kind, sector): (u32, u64),
        sent: &[u8],
        wanted_bytes: u32,
        is_indirect: bool,
    ) {
        let at = Self::room(room);
        let head = [
            &kind.to_le_bytes()[..],
            &[0; 4],
            &sector.to_le_bytes(),
            &[0xee],
        ];
        self.put(at, &head.concat());
        self.put(at + DATA_AT, sent);
        let next = DESCRIPTOR_NEXT;
        let mut parts = vec![(at, HEADER_BYTES as u32, next)];
        if !sent.is_empty() {
            parts.push((at + DATA_AT, sent.len() as u32, next));
        }
        if wanted_bytes > 0 {
            parts.push((at + DATA_AT, wanted_bytes, next | DESCRIPTOR_WRITE));
        }
        parts.push((at + STATUS_AT, 1, DESCRIPTOR_WRITE));
        let (table, first) = match is_indirect {
            true => (at + TABLE_AT, 0),
            false => (PLACES.table, 3 * room),
        };
        for (index, part) in (first..).zip(&parts) {
            self.describe_part(table, index, *part);
        }
        if is_indirect {
            let length_bytes = parts.len() as u32 * DESCRIPTOR_BYTES as u32;
            let part = (at + TABLE_AT, length_bytes, DESCRIPTOR_INDIRECT);
            self.describe_part(PLACES.table, 3 * room, part);
        }
    }

    fn describe_part(&self, table: u64, index: u16, (address, length, flags): (u64, u32, u16)) {
        let bytes = [
            &address.to_le_bytes()[..],
            &length.to_le_bytes(),
            &flags.to_le_bytes(),
            &(index + 1).to_le_bytes(),
        ];
        self.put(table + u64::from(index) * DESCRIPTOR_BYTES, &bytes.concat());
    }

    fn publish(&mut self, head: u16) {
        let is_awaited = self.is_awaited();
        let place = PLACES.available + 4 + 2 * u64::from(self.available % SIZE);
        self.put(place, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.put(PLACES.available + 2, &self.available.to_le_bytes());
        if self.is_served && (is_awaited || self.is_wild) {
            self.queues.kicked(0);
        }
    }

    /// Whether the queue has asked to be told of the next chain.
    fn is_awaited(&self) -> bool {
        let mut event = [0; 2];
        let at = PLACES.used + 4 + 8 * u64::from(SIZE);
        read(&self.guest, at, &mut event).expect("the ring is in memory");
        u16::from_le_bytes(event) == self.available
    }

    /// A wild guest writes anything anywhere, most often where it hurts.
    fn scribble(&mut self, bytes: &mut impl Iterator<Item = u8>) {
        let mut next = || u64::from(bytes.next().unwrap_or(0));
        let (area, offset) = (next(), next());
        let content: Vec<u8> = (0..1 + next() % 8).map(|_| next() as u8).collect();
        let at = match area % 6 {
            0 | 1 => PLACES.table + offset,
            2 => PLACES.available + offset % 40,
            3 => PLACES.used + offset % 140,
            4 => Self::room((offset % 4) as u16) + offset / 4,
            _ => return write(&self.area, offset, &content).expect("it is in the area"),
        };
        self.put(at, &content);
        if self.is_served {
            self.queues.kicked(0);
        }
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

    /// Compares each new answer with what it has to be.
    fn check_answers(&mut self) {
        let number = |at: u64| {
            let mut bytes = [0; 2];
            read(&self.guest, at, &mut bytes).expect("places of the test are in its memory");
            u16::from_le_bytes(bytes)
        };
        let until = number(PLACES.used + 2);
        while self.used != until {
            let place = PLACES.used + 4 + 8 * u64::from(self.used % SIZE);
            let room = number(place) / 3;
            self.used = self.used.wrapping_add(1);
            let asked = self.asked[usize::from(room)].take();
            self.check_answer(room, &asked.expect("a request is answered once"));
        }
    }

    fn check_answer(&self, room: u16, asked: &Asked) {
        let at = Self::room(room);
        let mut status = [0];
        read(&self.guest, at + STATUS_AT, &mut status).expect("a room is in memory");
        assert_eq!(
            status[0], asked.status,
            "of a request of type {}",
            asked.kind
        );
        if asked.status != STATUS_OK {
            return;
        }
        let place = usize::from(room) * PLACE_BYTES as usize;
        let on_volume = &self.volume[place..place + asked.data.len()];
        assert!(on_volume == asked.data, "the volume has something else");
        let mut in_guest = asked.data.clone();
        match asked.kind {
            REQUEST_READ => {
                read(&self.guest, at + DATA_AT, &mut in_guest).expect("a room is in memory");
                assert!(in_guest == asked.data, "the guest has read something else");
            }
            REQUEST_IDENTITY => {
                in_guest = vec![0; IDENTITY_BYTES];
                read(&self.guest, at + DATA_AT, &mut in_guest).expect("a room is in memory");
                assert_eq!(in_guest, RULES.identity);
            }
            _ => {}
        }
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
                let left = self.available.wrapping_sub(next);
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
mod tests {
    use super::*;
    use crate::vhost_user::guest::Broken;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn any_history_of_a_queue_keeps_the_rules(history in proptest::collection::vec(any::<u8>(), 0..400)) {
            fuzz_one(&history);
        }
    }

    /// Requests of several pieces, with memory for one piece at a time, across a server that dies in the middle.
    #[test]
    fn a_request_is_carried_out_piece_by_piece_and_again_by_the_next_server() {
        let mut history = History::begin(1, false);
        // A write and a read of 32 sectors, in two rooms.
        history.ask(0, &mut [3, 31, 7].into_iter());
        history.ask(1, &mut [0, 31, 0].into_iter());
        history.turn();
        assert_eq!(history.in_engine.len(), 1);
        for _ in 0..2 {
            history.complete(0);
            history.turn();
        }
        assert_eq!(history.in_engine[0].offset_bytes, 2 * PAGE_BYTES as u64);
        history.die(0);
        history.turn();
        // The write begins again, and comes first.
        let first = history.in_engine[0];
        assert_eq!((first.operation, first.offset_bytes), (Operation::Write, 0));
        for _ in 0..8 {
            history.complete(0);
            history.turn();
            history.turn();
        }
        assert!(history.asked.iter().all(Option::is_none));
        history.finish();
    }

    #[test]
    fn a_busy_guest_is_looked_at_and_need_not_tell() {
        let mut history = History::begin(2, false);
        history.turn();
        history.turn();
        for round in 0..4 {
            assert_eq!(history.is_awaited(), round < 2, "the first two are told of");
            history.ask(0, &mut [0, 1, 0].into_iter());
            history.turn();
            history.complete(0);
            history.turn();
        }
        history.settle();
        assert!(history.is_awaited(), "an idle guest has to tell");
        history.finish();
    }

    #[test]
    fn a_chain_that_is_made_available_twice_breaks_its_queue() {
        let mut history = History::begin(2, true);
        history.ask(0, &mut [0, 1, 0].into_iter());
        history.turn();
        history.publish(0);
        let mut inputs = Vec::new();
        history.queues.go_on(history.now, &mut inputs);
        assert!(inputs.is_empty());
        let mut broken = None;
        history
            .queues
            .publish(|_, published| broken = published.err());
        assert_eq!(broken, Some(Broken::Twice(0)));
        history.finish();
    }

    #[test]
    fn a_queue_that_ends_takes_nothing_more() {
        let mut history = History::begin(2, false);
        history.ask(0, &mut [0, 1, 0].into_iter());
        history.turn();
        history.ask(1, &mut [0, 1, 0].into_iter());
        history.queues.end(0);
        history.turn();
        assert_eq!(history.in_engine.len(), 1);
        assert!(!history.queues.is_quiet(0), "a request is in the engine");
        history.complete(0);
        history.turn();
        assert!(history.queues.is_quiet(0));
        assert_eq!(history.queues.remove(0), 1);
    }
}
