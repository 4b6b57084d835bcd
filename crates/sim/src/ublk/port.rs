//! The tags of one shard: between the kernel and the shard's engine, in place of the ring of a real port
//! ([`exports::ublk::UblkPort`]).

use super::memory::{Blocks, block};
use super::{Devices, UblkCounts, connections_of, rules};
use crate::machine::Machine;
use engine::request::{Completion, Failure};
use engine::units::{Buffer, VolumeId};
use engine::world::Input;
use exports::ublk::Descriptor;
use exports::ublk::Tags;
use exports::ublk::{Command, TagName};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What comes to the port.
enum Arrival {
    /// A request for a tag: the tag, what the kernel asks, and the memory that the tag's last command has offered.
    Request(TagName, Descriptor, Buffer),
    /// The process is about to end: no more requests are carried out.
    Leave,
}

/// See the module's prose.
pub struct Port {
    machine: Rc<RefCell<Machine>>,
    tags: Tags<Blocks>,
    /// By their place: volume and client of each queue.
    queues: Vec<(u8, u8)>,
    depth: u16,
    arrivals: VecDeque<Arrival>,
    inputs: Vec<Input>,
    /// Commands that the kernel has not seen yet.
    commands: Vec<Command>,
    /// By request: the memory that the engine has for it. Kept until the answer is with the kernel.
    in_engine: BTreeMap<u64, Buffer>,
    counts: UblkCounts,
}

impl Port {
    /// Begins to serve the queues of a shard. `volumes` says size and sector of each volume.
    ///
    /// # Panics
    /// If `blocks` has less memory than [`Devices::blocks`] says.
    #[must_use]
    pub fn new(
        machine: Rc<RefCell<Machine>>,
        blocks: Blocks,
        devices: Devices,
        (shard, shards): (u8, u8),
        volumes: impl Iterator<Item = (u64, u32)>,
    ) -> Port {
        let mut port = Port {
            machine,
            tags: Tags::new(blocks),
            queues: Vec::new(),
            depth: devices.depth,
            arrivals: VecDeque::new(),
            inputs: Vec::new(),
            commands: Vec::new(),
            in_engine: BTreeMap::new(),
            counts: UblkCounts::default(),
        };
        for ((size_bytes, block_bytes), volume) in volumes.zip(0..) {
            for connection in connections_of(shard, shards) {
                let rules = rules(size_bytes, block_bytes);
                let (id, depth) = (VolumeId(volume), devices.depth);
                let place = port.tags.begin(id, rules, depth, &mut port.commands);
                assert_eq!(place.map(usize::from), Some(port.queues.len()));
                port.queues.push((volume, connection));
            }
        }
        // Not the memory that tags have at first: most of it is never used.
        port.tags.memory().spoils.set(true);
        port
    }

    /// Volume and client of a queue.
    #[must_use]
    pub fn queue(&self, place: u16) -> (u8, u8) {
        self.queues[usize::from(place)]
    }

    /// The place of the queue of a volume and a client.
    #[must_use]
    pub fn place(&self, volume: u8, connection: u8) -> Option<u16> {
        let queue = (volume, connection);
        let place = self.queues.iter().position(|other| *other == queue)?;
        u16::try_from(place).ok()
    }

    /// The kernel gives a tag a request, which the shard's next turn takes.
    pub fn arrive(&mut self, name: TagName, descriptor: Descriptor, offered: Buffer) {
        let request = Arrival::Request(name, descriptor, offered);
        self.arrivals.push_back(request);
    }

    /// The shard is told to leave all further requests to the next process.
    pub fn leave(&mut self) {
        self.arrivals.push_back(Arrival::Leave);
    }

    /// Whether all requests that are not left to the next process have been answered.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.tags.has_left()
    }

    /// Whether the shard should take another turn at once.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.tags.may_go_on()
    }

    /// The beginning of a turn: tags that wait for memory try again, and requests go to the engine.
    pub fn poll(&mut self, inputs: &mut Vec<Input>) {
        if self.tags.may_go_on() {
            let from = self.commands.len();
            self.tags.go_on(&mut self.inputs, &mut self.commands);
            self.note_commands(from);
            self.hand_in(inputs);
        }
        while let Some(arrival) = self.arrivals.pop_front() {
            match arrival {
                Arrival::Leave => self.tags.leave(),
                Arrival::Request(name, descriptor, offered) => {
                    self.request(name, &descriptor, offered, inputs);
                }
            }
        }
    }

    fn request(
        &mut self,
        name: TagName,
        descriptor: &Descriptor,
        offered: Buffer,
        inputs: &mut Vec<Input>,
    ) {
        let taken = self.tags.requested(name, descriptor, &mut self.inputs);
        if let Err(refusal) = taken {
            self.complain(format!(
                "{descriptor:?} keeps the rules, and is refused: {refusal}"
            ));
        }
        if let Some(Input::Request(request)) = self.inputs.first()
            && request.buffer != offered
        {
            self.complain(format!("{name:?} has other memory than it has offered"));
        }
        self.hand_in(inputs);
    }

    /// Moves requests to the engine.
    fn hand_in(&mut self, inputs: &mut Vec<Input>) {
        for input in &self.inputs {
            let Input::Request(request) = input else {
                continue;
            };
            let places = block(request.buffer);
            let mut machine = self.machine.borrow_mut();
            machine.let_go.retain(|pin| !places.contains(&pin.0));
            if machine.is_used_by_drives(&places) {
                let text = format!("{request:?} begins, and a drive may still use its memory");
                machine.problems.push(text);
            }
            self.in_engine.insert(request.tag, request.buffer);
        }
        inputs.append(&mut self.inputs);
    }

    /// The engine has answered a request.
    pub fn completed(&mut self, completion: Completion) {
        if completion.result == Err(Failure::BufferHeld) {
            self.counts.held += 1;
            let buffer = self.in_engine.remove(&completion.tag);
            if !buffer.is_some_and(|buffer| self.was_pinned(buffer)) {
                self.complain(format!("the memory of {completion:?} is held by nobody"));
            }
        }
        self.tags.completed(completion);
    }

    /// Whether memory is pinned, or was pinned for its present request: the drive may have answered meanwhile.
    fn was_pinned(&self, buffer: Buffer) -> bool {
        let machine = self.machine.borrow();
        let mut pins = machine.pins.iter().chain(&machine.let_go);
        pins.any(|pin| block(buffer).contains(&pin.0))
    }

    /// A hung drive may use memory until [`Port::release`].
    pub fn pin(&mut self, buffer: Buffer) {
        self.tags.pin(buffer);
    }

    /// See [`Port::pin`].
    pub fn release(&mut self, buffer: Buffer) {
        self.tags.release(buffer);
    }

    /// The end of a turn: answers go to the kernel.
    pub fn flush(&mut self) {
        let from = self.commands.len();
        self.tags.take_commands(&mut self.commands);
        self.note_commands(from);
    }

    fn note_commands(&mut self, from: usize) {
        for command in &self.commands[from..] {
            let before = self.in_engine.remove(&command.name.number());
            let is_other = before.is_some_and(|before| before != command.buffer);
            self.counts.exchanged += u64::from(is_other);
        }
    }

    /// The commands for the kernel since the last call.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> UblkCounts {
        let mut counts = std::mem::take(&mut self.counts);
        counts.starved = self.tags.memory().refused.take();
        counts.copied = self.tags.memory().copied.take();
        counts
    }

    /// The memory that the engine has for requests.
    pub fn in_engine(&self) -> impl Iterator<Item = Buffer> {
        self.in_engine.values().copied()
    }

    /// The devices are removed: every tag's command ends. All memory has to be free then.
    ///
    /// # Errors
    /// What is left over.
    pub fn end(&mut self) -> Result<(), String> {
        for place in (0..).take(self.queues.len()) {
            for tag in 0..self.depth {
                let is_last = self.tags.ended(TagName { place, tag });
                if is_last != (tag + 1 == self.depth) {
                    return Err(format!("queue {place} does not end with its last tag"));
                }
            }
        }
        let counted = self.tags.statistics();
        let left = (counted.pinned_bytes, counted.requests_in_flight);
        if !self.tags.is_empty() || left != (0, 0) {
            return Err(format!("tags have ended, and something is left: {left:?}"));
        }
        if !self.tags.memory().is_all_free() {
            return Err("tags have ended, and not all of their memory is free".to_owned());
        }
        Ok(())
    }

    fn complain(&self, problem: String) {
        self.machine.borrow_mut().problems.push(problem);
    }
}
