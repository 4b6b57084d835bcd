//! What every component of a shard needs and none owns: the shard's number, the time, the operator's options, the
//! outputs that the world is to carry out, and the counters.

use crate::control::message::Message;
use crate::event::Event;
use crate::limits::PLANS_MAX;
use crate::options::Options;
use crate::output::Output;
use crate::setup::Setup;
use crate::stats::Stats;
use crate::units::{Buffer, Nanos, ShardId};
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Desk {
    id: ShardId,
    shards: u8,
    now: Nanos,
    options: Options,
    zeros: Buffer,
    outputs: Vec<Output>,
    /// What this shard has done; each shard counts its own work.
    pub stats: Stats,
}

impl Desk {
    /// The desk of a shard that starts at `now`.
    pub fn new(setup: &Setup, now: Nanos) -> Desk {
        Desk {
            id: setup.shard,
            shards: setup.shards,
            now,
            options: setup.options,
            zeros: setup.zeros,
            outputs: Vec::with_capacity(2 * PLANS_MAX),
            stats: Stats::default(),
        }
    }

    /// Which shard this is.
    #[inline]
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// How many shards there are.
    #[inline]
    pub fn shards(&self) -> u8 {
        self.shards
    }

    /// The time of the last input or tick.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Time has passed.
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// What the operator has chosen.
    #[inline]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Memory that holds nothing but zeros.
    #[inline]
    pub fn zeros(&self) -> Buffer {
        self.zeros
    }

    /// Has the world do something, after all that it has been asked for before.
    #[inline]
    pub fn ask(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Sends another shard a message.
    #[inline]
    pub fn send(&mut self, shard: ShardId, message: Message) {
        self.outputs.push(Output::Send(shard, message));
    }

    /// Sends all shards a message, this one included.
    pub fn tell_shards(&mut self, message: &Message) {
        for shard in 0..self.shards {
            self.send(ShardId(shard), message.clone());
        }
    }

    /// Sends the controller a message.
    pub fn tell_controller(&mut self, message: Message) {
        self.send(ShardId(0), message);
    }

    /// Tells people of an event.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push(Output::Event(event));
    }

    /// Whether the world is to do something.
    #[inline]
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Swaps the outputs into `done`, which must be empty.
    #[inline]
    pub fn take_outputs(&mut self, done: &mut Vec<Output>) {
        core::mem::swap(&mut self.outputs, done);
        // The two buffers take turns, so both get the larger capacity.
        if self.outputs.capacity() < done.capacity() {
            self.outputs.reserve(done.capacity());
        }
    }

    /// Outputs for which there is memory.
    pub fn room(&self) -> usize {
        self.outputs.capacity()
    }
}
