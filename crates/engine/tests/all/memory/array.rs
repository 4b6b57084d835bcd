//! The array that a test talks to.

use super::{Disk, Flight, MIB, MemoryWorld, Random, Shared};
use engine::claims::Claims;
use engine::control::message::{Command, Message};
use engine::control::record::Record;
use engine::event::Event;
use engine::layout::Geometry;
use engine::limits::BAND_BYTES_MAX;
use engine::options::Options;
use engine::request::{Failure, Operation, Request};
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{Buffer, Nanos, ShardId, VolumeId};
use engine::world::Input;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// An array in memory.
pub struct Array {
    pub shards: Vec<Shard<MemoryWorld>>,
    pub shared: Rc<RefCell<Shared>>,
    pub shape: Geometry,
    /// The whole state is checked once in this many busy turns: in each, unless so many requests wait that a check
    /// takes as long as many turns.
    pub check_every_turns: u64,
    busy_turns: u64,
    next_tag: u64,
    payload_from: u64,
    payload_next: u64,
}

/// Payload memory for requests.
const PAYLOAD_BYTES: u64 = 16 * MIB;
const SCRATCH_BYTES: u64 = 16 * MIB;

impl Array {
    pub fn new(record: Record, shards: u8, seed: u64, options: Options) -> Array {
        let shape = record.volumes[0].geometry;
        let disks = record
            .members
            .iter()
            .map(|member| Disk::empty(member.size_bytes));
        let disks = disks.collect();
        Array::over(record, disks, shards, seed, options, shape)
    }

    /// An array over drives that hold something already.
    pub fn over(
        record: Record,
        disks: Vec<Disk>,
        shards: u8,
        seed: u64,
        options: Options,
        shape: Geometry,
    ) -> Array {
        let zeros = 4096;
        let scratch_from = zeros + u64::from(BAND_BYTES_MAX);
        let payload_from = scratch_from + SCRATCH_BYTES * u64::from(shards);
        let shared = Rc::new(RefCell::new(Shared {
            now: 1,
            random: Random(seed),
            memory: vec![0; (payload_from + PAYLOAD_BYTES) as usize],
            disks,
            mail: (0..shards).map(|_| VecDeque::new()).collect(),
            completions: Vec::new(),
            flights: BTreeMap::new(),
            held: Vec::new(),
            moved: Vec::new(),
            pins: Vec::new(),
            allocations: Vec::new(),
            late: 0,
            payload_from,
            events: Vec::new(),
            persists: Vec::new(),
            hold_persists: false,
            refuses: |_, _| false,
            expressed: record.clone(),
            refused: Vec::new(),
            early_checkpoints: 0,
            early_clears: 0,
            held_persists: Vec::new(),
            shape,
            logged: vec![Vec::new(); shape.members as usize],
            early_units: 0,
            marks: None,
            latency_ns: 50_000,
        }));
        let claims = Claims::new();
        let make = |shard: u8| {
            let setup = Setup {
                shard: ShardId(shard),
                shards,
                record: record.clone(),
                scratch: (
                    Buffer(scratch_from + SCRATCH_BYTES * u64::from(shard)),
                    SCRATCH_BYTES,
                ),
                zeros: Buffer(zeros),
                options,
                claims: claims.clone(),
            };
            let world = MemoryWorld {
                shared: shared.clone(),
                shard: ShardId(shard),
                pending: Vec::new(),
                ready: Vec::new(),
                hung_persists: Vec::new(),
            };
            Shard::new(Engine::new(setup, Nanos(1)), world)
        };
        let shards = (0..shards).map(make).collect();
        Array {
            shards,
            shared,
            shape,
            check_every_turns: 1,
            busy_turns: 0,
            next_tag: 1,
            payload_from,
            payload_next: 0,
        }
    }

    /// One turn of every shard, in random order, and a little time.
    pub fn turn(&mut self) -> bool {
        let mut busy = false;
        let first = self
            .shared
            .borrow_mut()
            .random
            .below(self.shards.len() as u64) as usize;
        for offset in 0..self.shards.len() {
            let at = (first + offset) % self.shards.len();
            busy |= self.turn_one(at);
        }
        self.ask_again();
        let mut shared = self.shared.borrow_mut();
        shared.now += 10_000;
        busy
    }

    /// A turn of a shard, and a check of its whole state if there was anything to do.
    fn turn_one(&mut self, shard: usize) -> bool {
        let shard = &mut self.shards[shard];
        let busy = shard.turn();
        if busy {
            self.busy_turns += 1;
            if self.busy_turns.is_multiple_of(self.check_every_turns) {
                shard.engine.check();
            }
        }
        busy
    }

    /// A turn of one shard only: the others are busy elsewhere.
    pub fn turn_alone(&mut self, shard: usize) {
        self.turn_one(shard);
        self.shared.borrow_mut().now += 10_000;
    }

    /// A turn of one shard that gets none of its mail, as if messages were delayed.
    pub fn turn_without_mail(&mut self, shard: usize) {
        let mut kept = std::mem::take(&mut self.shared.borrow_mut().mail[shard]);
        self.turn_alone(shard);
        let mut shared = self.shared.borrow_mut();
        kept.append(&mut shared.mail[shard]);
        shared.mail[shard] = kept;
    }

    /// The results of four reads at once on a shard that gets none of its mail.
    pub fn read_without_mail(&mut self, shard: usize, offset: u64, length: u32) -> Vec<Vec<u8>> {
        let reads: Vec<_> = (0..4)
            .map(|_| {
                let buffer = self.allocate(u64::from(length));
                let tag = self.submit(shard, Operation::Read, offset, length, buffer);
                (tag, buffer)
            })
            .collect();
        let bytes = |array: &mut Array, (tag, buffer): (u64, Buffer)| {
            while array.shared.borrow().flights.contains_key(&tag) {
                array.turn_without_mail(shard);
            }
            assert_eq!(array.take_completion(tag), Some(Ok(())));
            let shared = array.shared.borrow();
            shared.memory[buffer.0 as usize..][..length as usize].to_vec()
        };
        reads.into_iter().map(|read| bytes(self, read)).collect()
    }

    /// Issues reads whose buffers are held again, with other buffers.
    fn ask_again(&mut self) {
        let held = std::mem::take(&mut self.shared.borrow_mut().held);
        for tag in held {
            let mut request = self.shared.borrow().flights[&tag].request;
            request.buffer = self.allocate(u64::from(request.length_bytes));
            let mut shared = self.shared.borrow_mut();
            let now = Nanos(shared.now);
            shared.moved.retain(|(of, _)| *of != request.tag);
            shared.moved.push((request.tag, request.buffer));
            let flight = shared.flights.get_mut(&request.tag).unwrap();
            flight.again = false;
            flight.request = request;
            let shard = flight.shard;
            drop(shared);
            self.shards[shard]
                .engine
                .handle(Input::Request(request), now);
        }
    }

    /// Where the bytes of the read `tag` are, which was submitted with `buffer`.
    pub fn answer_of(&self, tag: u64, buffer: Buffer) -> Buffer {
        let shared = self.shared.borrow();
        let moved = shared.moved.iter().find(|(of, _)| *of == tag);
        moved.map_or(buffer, |(_, moved)| *moved)
    }

    /// Turns until `until` holds; panics after too many turns.
    pub fn run_until(&mut self, mut until: impl FnMut(&mut Array) -> bool) {
        for _ in 0..400_000 {
            if until(self) {
                return;
            }
            self.turn();
        }
        let events = &self.shared.borrow().events;
        panic!(
            "the awaited state was not reached; last events: {:?}",
            &events[events.len().saturating_sub(20)..]
        );
    }

    pub fn wait_ms(&mut self, milliseconds: u64) {
        let step = 20;
        for _ in 0..milliseconds.div_ceil(step) {
            self.shared.borrow_mut().now += step * 1_000_000;
            self.turn();
            self.turn();
        }
    }

    /// Memory for a request. It is given out again after a while, unless it is pinned or its request has not been
    /// answered.
    pub fn allocate(&mut self, length: u64) -> Buffer {
        let length = length.next_multiple_of(512);
        let mut shared = self.shared.borrow_mut();
        for _ in 0..100_000 {
            if self.payload_next + length > PAYLOAD_BYTES {
                self.payload_next = 0;
            }
            let from = self.payload_from + self.payload_next;
            let wanted = from..from + length;
            let overlaps =
                |other: &&Range<u64>| other.start < wanted.end && wanted.start < other.end;
            let in_use = |other: &&Range<u64>| {
                let pinned = shared.pins.iter().any(|pin| other.contains(&pin.0));
                let mut asked = shared.flights.values();
                pinned || asked.any(|flight| other.contains(&flight.request.buffer.0))
            };
            if let Some(taken) = shared.allocations.iter().filter(overlaps).find(in_use) {
                self.payload_next = taken.end - self.payload_from;
                continue;
            }
            shared
                .allocations
                .retain(|other| other.start >= wanted.end || wanted.start >= other.end);
            shared.allocations.push(wanted);
            self.payload_next += length;
            return Buffer(from);
        }
        panic!("all payload memory is in use");
    }

    pub fn submit(
        &mut self,
        shard: usize,
        operation: Operation,
        offset: u64,
        length: u32,
        buffer: Buffer,
    ) -> u64 {
        self.submit_to(shard, VolumeId(0), operation, offset, length, buffer, false)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn submit_to(
        &mut self,
        shard: usize,
        volume: VolumeId,
        operation: Operation,
        offset: u64,
        length: u32,
        buffer: Buffer,
        fua: bool,
    ) -> u64 {
        let request = self.prepare(
            shard,
            Request {
                tag: 0,
                volume,
                operation,
                fua,
                offset_bytes: offset,
                length_bytes: length,
                buffer,
            },
        );
        let now = Nanos(self.shared.borrow().now);
        self.shards[shard]
            .engine
            .handle(Input::Request(request), now);
        request.tag
    }

    /// The request with a tag of its own, for the caller to give to the shard.
    pub fn prepare(&mut self, shard: usize, request: Request) -> Request {
        let tag = self.next_tag;
        self.next_tag += 1;
        let request = Request { tag, ..request };
        let flight = Flight {
            request,
            shard,
            again: false,
        };
        self.shared.borrow_mut().flights.insert(tag, flight);
        request
    }

    pub fn take_completion(&mut self, tag: u64) -> Option<Result<(), Failure>> {
        let mut shared = self.shared.borrow_mut();
        let at = shared
            .completions
            .iter()
            .position(|completion| completion.tag == tag)?;
        Some(shared.completions.swap_remove(at).result)
    }

    pub fn finish(&mut self, tag: u64) -> Result<(), Failure> {
        let mut result = None;
        self.run_until(|array| {
            result = array.take_completion(tag);
            result.is_some()
        });
        result.unwrap()
    }

    pub fn fill(&mut self, buffer: Buffer, bytes: &[u8]) {
        self.shared.borrow_mut().memory[buffer.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn write(&mut self, shard: usize, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let buffer = self.allocate(bytes.len() as u64);
        self.fill(buffer, bytes);
        let tag = self.submit(shard, Operation::Write, offset, bytes.len() as u32, buffer);
        self.finish(tag)
    }

    pub fn read(&mut self, shard: usize, offset: u64, length: u32) -> Result<Vec<u8>, Failure> {
        let buffer = self.allocate(u64::from(length));
        let tag = self.submit(shard, Operation::Read, offset, length, buffer);
        self.finish(tag)?;
        let buffer = self.answer_of(tag, buffer);
        Ok(self.shared.borrow().memory[buffer.0 as usize..][..length as usize].to_vec())
    }

    pub fn command(&mut self, command: Command) -> Result<(), engine::control::message::Refused> {
        let ticket = self.next_tag;
        self.next_tag += 1;
        self.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
        let mut answer = None;
        self.run_until(|array| {
            answer = array
                .shared
                .borrow()
                .events
                .iter()
                .find_map(|event| match event {
                    Event::Answered {
                        ticket: answered,
                        result,
                    } if *answered == ticket => Some(*result),
                    _ => None,
                });
            answer.is_some()
        });
        answer.unwrap()
    }

    pub fn has_event(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.shared.borrow().events.iter().any(wanted)
    }

    /// Makes a drive hang: it takes commands, does not answer, and ignores cancelling.
    pub fn hang(&mut self, drive: usize) {
        let disk = &mut self.shared.borrow_mut().disks[drive];
        (disk.hung, disk.deaf) = (true, true);
    }

    /// Ends a hang: the drive carries out the commands that it has.
    pub fn unhang(&mut self, drive: usize) {
        self.shared.borrow_mut().disks[drive].hung = false;
    }

    /// Commands that drives have not answered and that no shard waits for any more.
    pub fn left_behind(&self) -> usize {
        let left = |shard: &Shard<MemoryWorld>| shard.engine.left_behind().0;
        self.shards.iter().map(left).sum()
    }

    pub fn release_persists(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.hold_persists = false;
        let held = std::mem::take(&mut shared.held_persists);
        drop(shared);
        for (shard, input) in held {
            self.shards[shard.0 as usize].world.ready.push(input);
        }
    }

    /// Scrubs and returns the number of stripes that do not match.
    pub fn scrub(&mut self, repair: bool) -> u64 {
        self.shared.borrow_mut().events.clear();
        self.command(Command::Scrub {
            volume: VolumeId(0),
            repair,
        })
        .expect("scrub starts");
        let mut found = None;
        self.run_until(|array| {
            found = array
                .shared
                .borrow()
                .events
                .iter()
                .find_map(|event| match event {
                    Event::JobEnded {
                        complete,
                        mismatches,
                        ..
                    } => Some((*complete, *mismatches)),
                    _ => None,
                });
            found.is_some()
        });
        let (complete, mismatches) = found.unwrap();
        assert!(complete, "the scrub ran to its end");
        mismatches
    }

    pub fn wait_for_job(&mut self) {
        self.run_until(|array| {
            array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
        });
    }
}
