//! Histories of a queue's tags from any bytes: what the kernel asks, what the engine answers, and which memory hung drives
//! keep. The rules of [`Tags`] are checked after each event. For the fuzzer and, on random bytes, for ordinary tests.

use super::command::{Command, TagName};
use super::descriptor::Rules;
use super::tags::Tags;
use drives::arena::{Arena, ArenaOptions, Pool};
use drives::ublk::Descriptor;
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, VolumeId};
use engine::world::Input;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const DEPTH: u16 = 4;
const RULES: Rules = Rules {
    size_bytes: 1 << 20,
    block_bytes: 512,
    request_bytes_max: 64 << 10,
};

/// Runs the history that `data` describes. Its first byte says how much memory there is beyond what tags own.
///
/// # Panics
/// If a rule is broken.
pub fn fuzz_one(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut history = History::begin(usize::from(bytes.next().unwrap_or(0) % 4));
    while let Some(kind) = bytes.next() {
        match kind % 4 {
            0 | 1 => history.request(&mut bytes),
            2 => history.complete(kind / 4),
            _ => history.release(),
        }
        history.turn();
    }
    history.finish();
}

/// What kernel, engine and drives hold.
struct History {
    tags: Tags,
    /// By tag, the memory that its command names.
    with_kernel: BTreeMap<u16, Buffer>,
    in_engine: VecDeque<Request>,
    /// Memory that hung drives may use.
    pins: VecDeque<Buffer>,
    inputs: Vec<Input>,
    asked: u64,
    answered: u64,
}

impl History {
    fn begin(spare_blocks: usize) -> History {
        let length_bytes = (usize::from(DEPTH) + spare_blocks) * RULES.request_bytes_max as usize;
        let options = ArenaOptions {
            length_bytes,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).expect("memory for a test");
        let mut tags = Tags::new(Pool::new(arena, 0..length_bytes));
        let mut commands = Vec::new();
        tags.begin(VolumeId(0), RULES, DEPTH, &mut commands)
            .expect("there is memory for every tag");
        let with_kernel = commands
            .iter()
            .map(|command| (command.name.tag, command.buffer));
        History {
            with_kernel: with_kernel.collect(),
            tags,
            in_engine: VecDeque::new(),
            pins: VecDeque::new(),
            inputs: Vec::new(),
            asked: 0,
            answered: 0,
        }
    }

    /// The kernel gives a tag a request, if the tag has a command.
    fn request(&mut self, bytes: &mut impl Iterator<Item = u8>) {
        let mut number = |length: usize| {
            let taken = bytes.by_ref().take(length);
            taken.fold(0u64, |number, byte| number << 8 | u64::from(byte))
        };
        let tag = (number(1) % u64::from(DEPTH)) as u16;
        let descriptor = Descriptor {
            operation_and_flags: number(2) as u32,
            sectors: number(2) as u32 % 300,
            // Often inside the device, and with another first byte anywhere.
            first_sector: number(1).wrapping_pow(8).wrapping_add(number(2) % 2100),
        };
        let Some(buffer) = self.with_kernel.remove(&tag) else {
            return;
        };
        self.asked += 1;
        let name = TagName { place: 0, tag };
        if self
            .tags
            .requested(name, &descriptor, &mut self.inputs)
            .is_err()
        {
            return assert!(
                self.inputs.is_empty(),
                "a refused request went to the engine"
            );
        }
        let Some(Input::Request(request)) = self.inputs.pop() else {
            panic!("a request that is not refused goes to the engine");
        };
        assert_eq!(
            request.buffer, buffer,
            "a request uses the memory of its command"
        );
        check_request(&request);
        self.in_engine.push_back(request);
    }

    /// The engine answers its oldest request, and says before whether a drive keeps the memory.
    fn complete(&mut self, choice: u8) {
        let Some(request) = self.in_engine.pop_front() else {
            return;
        };
        let has_data = matches!(request.operation, Operation::Read | Operation::Write);
        let is_pinned = has_data && choice & 1 != 0;
        if is_pinned {
            self.tags.pin(request.buffer);
            self.pins.push_back(request.buffer);
        }
        let result = match choice / 2 % 4 {
            0 | 1 => Ok(()),
            2 if is_pinned && request.operation == Operation::Read => Err(Failure::BufferHeld),
            _ => Err(Failure::NotSupported),
        };
        let tag = request.tag;
        self.tags.completed(Completion { tag, result });
    }

    /// A drive lets go of memory.
    fn release(&mut self) {
        if let Some(buffer) = self.pins.pop_front() {
            self.tags.release(buffer);
        }
    }

    /// The end of a turn: commands go to the kernel, repeated reads to the engine.
    fn turn(&mut self) {
        let mut commands: Vec<Command> = Vec::new();
        if self.tags.may_go_on() {
            self.tags.go_on(&mut self.inputs, &mut commands);
        }
        self.tags.take_commands(&mut commands);
        for command in commands {
            assert!(
                command.answer.is_some(),
                "a later command answers a request"
            );
            let before = self.with_kernel.insert(command.name.tag, command.buffer);
            assert!(before.is_none(), "a tag has one command at a time");
            self.answered += 1;
        }
        for input in self.inputs.drain(..) {
            let Input::Request(request) = input else {
                panic!("tags give nothing but requests");
            };
            self.in_engine.push_back(request);
        }
        self.check_memory();
    }

    /// No two tags share memory, and the kernel has none that a drive may use.
    fn check_memory(&self) {
        let held = self.with_kernel.values().copied();
        let held = held.chain(self.in_engine.iter().map(|request| request.buffer));
        let held: Vec<u64> = held.map(|buffer| buffer.0).collect();
        let places: BTreeSet<&u64> = held.iter().collect();
        assert_eq!(places.len(), held.len(), "two tags share memory");
        let offered = |pin: &Buffer| self.with_kernel.values().any(|buffer| buffer == pin);
        assert!(
            !self.pins.iter().any(offered),
            "the kernel may write where a drive does"
        );
    }

    /// Drives let go of everything and the engine answers everything: then every tag is with the kernel again.
    fn finish(mut self) {
        while !self.in_engine.is_empty() || !self.pins.is_empty() {
            self.release();
            self.complete(0);
            self.turn();
        }
        self.turn();
        assert_eq!(self.with_kernel.len(), usize::from(DEPTH), "a tag is lost");
        assert_eq!(self.asked, self.answered, "each request is answered once");
        let counted = self.tags.statistics();
        assert_eq!((counted.pinned_bytes, counted.requests_in_flight), (0, 0));
    }
}

/// What the engine relies on.
fn check_request(request: &Request) {
    let length_bytes = u64::from(request.length_bytes);
    assert!(request.offset_bytes + length_bytes <= RULES.size_bytes);
    assert_eq!(
        (request.offset_bytes | length_bytes) % u64::from(RULES.block_bytes),
        0
    );
    assert_eq!(length_bytes == 0, request.operation == Operation::Flush);
    if matches!(request.operation, Operation::Read | Operation::Write) {
        assert!(request.length_bytes <= RULES.request_bytes_max);
    }
}
