//! A shard's world: what is asked of it within a turn is collected, and carried out at the turn's end by
//! [`super::run`]. Memory is addresses only.

use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::limits::REAP_MAX;
use engine::log::LogUnit;
use engine::plan::Segment;
use engine::request::Completion;
use engine::units::{Buffer, MemberId, Nanos, ShardId};
use engine::world::{Input, Io, Token, World};
use std::collections::VecDeque;

/// See the module's prose.
#[derive(Default)]
pub struct TimedWorld {
    /// When the turn began.
    pub now_ns: u64,
    /// What waits for the next turn.
    pub inputs: VecDeque<Input>,
    /// Commands for drives.
    pub commands: Vec<Io>,
    /// Answers to clients.
    pub completions: Vec<Completion>,
    /// Messages to other shards.
    pub mail: Vec<(ShardId, Message)>,
    /// Drives whose metadata are to be written.
    pub persists: Vec<MemberId>,
    /// What a run without faults must not see.
    pub trouble: Option<Event>,
    /// Other cores that have something to do when the turn ends.
    pub wakes: Vec<u16>,
    /// Ways of requests through the kernel in the turn, where that is not one for each command.
    pub entered: Option<u64>,
    /// Whether what turns take includes the kernel's work for commands and their answers.
    pub kernel_is_paid: bool,
}

impl TimedWorld {
    /// Whether a turn has asked for something beside commands and answers.
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
        // Mostly one or two.
        for _ in 0..REAP_MAX {
            match self.inputs.pop_front() {
                Some(input) => inputs.push(input),
                None => return,
            }
        }
    }

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
