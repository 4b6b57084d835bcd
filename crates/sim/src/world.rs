//! The interface between the engine and the [`Machine`]: one [`SimWorld`] for each shard.

use crate::machine::{Machine, Note};
use crate::ports::AnyPort;
use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::limits::REAP_MAX;
use engine::log::unit::LogUnit;
use engine::plan::Segment;
use engine::request::Completion;
use engine::token::Token;
use engine::units::{Buffer, MemberId, Nanos, ShardId};
use engine::world::{Input, Io, World};
use std::cell::RefCell;
use std::rc::Rc;

/// See the module's prose.
pub struct SimWorld {
    machine: Rc<RefCell<Machine>>,
    shard: ShardId,
    /// What clients use, if they do not hand their requests to the engine.
    port: Option<AnyPort>,
}

impl SimWorld {
    /// The world of one shard.
    #[must_use]
    pub fn new(machine: Rc<RefCell<Machine>>, shard: ShardId, port: Option<AnyPort>) -> SimWorld {
        SimWorld {
            machine,
            shard,
            port,
        }
    }
}

impl World for SimWorld {
    fn now(&mut self) -> Nanos {
        self.machine.borrow().clock()
    }

    fn reap(&mut self, inputs: &mut Vec<Input>) {
        if let Some(port) = &self.port {
            let now = self.machine.borrow().clock();
            port.poll(now, inputs);
        }
        let shard = self.shard.0 as usize;
        self.machine.borrow_mut().reap(shard, inputs, REAP_MAX);
    }

    // Drives take time here: every answer comes in a later turn.
    fn reap_answered(&mut self, _: &mut Vec<Input>) {}

    fn io(&mut self, io: Io, memory: impl Iterator<Item = Segment>) {
        let shard = self.shard.0 as usize;
        self.machine.borrow_mut().start(shard, io, memory);
    }

    fn cancel(&mut self, token: Token) {
        let shard = self.shard.0 as usize;
        self.machine.borrow_mut().cancel(shard, token);
    }

    fn xor(&mut self, target: Buffer, length_bytes: u32, sources: impl Iterator<Item = Segment>) {
        let length = length_bytes as usize;
        let mut machine = self.machine.borrow_mut();
        let sum = machine.xor_of(length, sources.map(|segment| segment.buffer));
        machine.memory_mut(target, length).copy_from_slice(&sum);
    }

    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool {
        let buffers = sources.map(|segment| segment.buffer);
        let sum = self.machine.borrow().xor_of(length_bytes as usize, buffers);
        sum.iter().all(|&byte| byte == 0)
    }

    fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        let mut machine = self.machine.borrow_mut();
        machine.encode_log(unit, partial_parities, image);
    }

    fn fill(&mut self, memory: Buffer, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut machine = self.machine.borrow_mut();
        machine
            .memory_mut(memory, bytes.len())
            .copy_from_slice(&bytes);
    }

    fn complete(&mut self, completion: Completion) {
        let mut machine = self.machine.borrow_mut();
        machine.note(&Note::Completion(completion.tag, completion.result.is_ok()));
        if let Some(port) = &self.port {
            drop(machine);
            return port.completed(completion);
        }
        machine.completions.push(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.machine.borrow_mut().pins.push(buffer);
        if let Some(port) = &self.port {
            port.pin(buffer);
        }
    }

    fn release(&mut self, buffer: Buffer) {
        let mut machine = self.machine.borrow_mut();
        let at = machine.pins.iter().position(|pin| *pin == buffer);
        let pin = machine
            .pins
            .swap_remove(at.expect("a buffer is pinned before it is released"));
        machine.let_go.push(pin);
        if let Some(port) = &self.port {
            drop(machine);
            port.release(buffer);
        }
    }

    fn send(&mut self, to: ShardId, message: Message) {
        let (from, to) = (self.shard.0 as usize, to.0 as usize);
        self.machine.borrow_mut().post(from, to, message);
    }

    fn persist(&mut self, member: MemberId, record: &Record) {
        let mut machine = self.machine.borrow_mut();
        let bay = machine.bays[member.0 as usize];
        machine.note(&Note::Persist(bay, record.generation));
        machine.persist(self.shard, member, record);
    }

    fn event(&mut self, event: Event) {
        let mut machine = self.machine.borrow_mut();
        machine.note(&Note::Event(&format!("{event:?}")));
        machine.events.push(event);
    }

    fn submit(&mut self) {
        if let Some(port) = &self.port {
            port.flush();
        }
    }

    fn wait(&mut self, _until: Option<Nanos>) {}
}
