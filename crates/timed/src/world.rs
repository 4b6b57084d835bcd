//! A shard's world: it collects the outputs of a turn, and [`super::run`] carries them out at the turn's end.
//! Memory is addresses only.

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
use std::collections::VecDeque;

/// Size of a page, the unit in which the kernel pins memory.
const PAGE_BYTES: u64 = 4096;

/// Requests or commands that pass through the kernel.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entered {
    /// How many.
    pub count: u64,
    /// Pages of their memory, not counting each one's first.
    pub further_pages: u64,
}

impl Entered {
    /// Adds a request or command of this length.
    #[inline]
    pub fn add(&mut self, length_bytes: u64) {
        self.count += 1;
        self.further_pages += length_bytes.saturating_sub(1) / PAGE_BYTES;
    }
}

/// See the module's prose.
#[derive(Default)]
pub struct TimedWorld {
    /// When the turn began.
    pub now_ns: u64,
    /// Inputs of the next turn.
    pub inputs: VecDeque<Input>,
    /// Commands for drives.
    pub commands: Vec<Io>,
    /// Answers to clients.
    pub completions: Vec<Completion>,
    /// Messages to other shards.
    pub mail: Vec<(ShardId, Message)>,
    /// Drives whose metadata is to be written.
    pub persists: Vec<MemberId>,
    /// An event that must not occur in a run without faults.
    pub trouble: Option<Event>,
    /// Other cores that get work when the turn ends.
    pub wakes: Vec<u16>,
    /// What has passed through the kernel in the turn, if that is not the turn's commands.
    pub entered: Option<Entered>,
    /// Whether the time of turns already includes the kernel's work for commands and their answers.
    pub kernel_is_paid: bool,
}

impl TimedWorld {
    /// Takes what has passed through the kernel in the turn and is to be charged.
    #[inline]
    #[must_use]
    pub fn take_entered(&mut self) -> Entered {
        let entered = self.entered.take();
        if self.kernel_is_paid {
            return Entered::default();
        }
        entered.unwrap_or_else(|| {
            let mut all = Entered::default();
            let commands = self.commands.iter();
            commands.for_each(|io| all.add(io.length_bytes));
            all
        })
    }

    /// Whether a turn has outputs other than commands and answers.
    #[inline]
    #[must_use]
    pub fn asks_others(&self) -> bool {
        !(self.wakes.is_empty() && self.mail.is_empty() && self.persists.is_empty())
    }
}

impl World for TimedWorld {
    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(self.now_ns)
    }

    #[inline]
    fn reap(&mut self, inputs: &mut Vec<Input>) {
        // Usually there are one or two inputs.
        for _ in 0..REAP_MAX {
            match self.inputs.pop_front() {
                Some(input) => inputs.push(input),
                None => return,
            }
        }
    }

    // Drives take time here: every answer comes in a later turn.
    fn reap_answered(&mut self, _: &mut Vec<Input>) {}

    #[inline]
    fn io(&mut self, io: Io, _memory: impl Iterator<Item = Segment>) {
        self.commands.push(io);
    }

    fn cancel(&mut self, _token: Token) {}

    fn xor(&mut self, _: Buffer, _: u32, _: impl Iterator<Item = Segment>) {}

    fn xor_is_zero(&mut self, _: u32, _: impl Iterator<Item = Segment>) -> bool {
        true
    }

    fn encode_log(&mut self, _: &LogUnit, _: impl Iterator<Item = Segment>, _: Buffer) {}

    fn fill(&mut self, _memory: Buffer, _words: &[u64]) {}

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.completions.push(completion);
    }

    fn pin(&mut self, _buffer: Buffer) {}

    fn release(&mut self, _buffer: Buffer) {}

    fn send(&mut self, to: ShardId, message: Message) {
        self.mail.push((to, message));
    }

    fn persist(&mut self, member: MemberId, _record: &Record) {
        self.persists.push(member);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::MemberFailed { .. }
            | Event::MemberOverdue(_)
            | Event::VolumeFailed(_)
            | Event::JobEnded {
                complete: false, ..
            }
            | Event::Unrecoverable { .. } => self.trouble = Some(event),
            _ => {}
        }
    }

    fn submit(&mut self) {}

    fn wait(&mut self, _until: Option<Nanos>) {}
}
