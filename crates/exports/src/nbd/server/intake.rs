//! From commands to requests: what a connection's session delivers to.
//!
//! A write's payload is stored where the engine will find it. What came in together with the command is
//! copied there; a long rest is received there directly (see `connection`).

use drives::arena::Arena;
use engine::units::{Buffer, VolumeId};
use engine::world::Input;

use super::memory::{Area, Memory};
use super::name::ConnectionName;
use super::requests::{Answer, Requests};
use super::stats::NbdStats;
use crate::nbd::{Accept, Command, CommandKind, ErrorCode, Refusal, ReplyEncoder, Sink};

/// A write whose payload is still coming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub slot: u16,
    pub filled_bytes: u32,
}

/// What a connection's commands become.
#[derive(Debug)]
pub(super) struct Work {
    pub name: ConnectionName,
    pub volume: VolumeId,
    pub encoder: ReplyEncoder,
    pub requests: Requests,
    pub incoming: Option<Incoming>,
    /// Payload of the last command if that was a write; tells how much to receive next.
    pub last_write_bytes: u32,
    /// A reply with a sentence waits in the text area.
    pub text_in_use: bool,
}

impl Work {
    /// Hands a complete request to the engine.
    #[inline]
    pub fn submit(&mut self, slot: u16, stats: &mut NbdStats, inputs: &mut Vec<Input>) {
        let request = self.requests.submit(self.name, slot, self.volume);
        stats.requests_in_flight += 1;
        inputs.push(Input::Request(request));
    }

    /// Where the next bytes of the incoming write belong.
    pub fn incoming_buffer(&self) -> Option<Buffer> {
        let incoming = self.incoming?;
        let payload = self.requests.slot(incoming.slot).payload?;
        Some(payload.buffer.at(incoming.filled_bytes))
    }

    /// More of the incoming write has been stored; with nothing left it goes to the engine.
    pub fn stored(
        &mut self,
        length_bytes: u32,
        remaining_bytes: u32,
        stats: &mut NbdStats,
        inputs: &mut Vec<Input>,
    ) {
        let Some(incoming) = &mut self.incoming else {
            return;
        };
        incoming.filled_bytes += length_bytes;
        let slot = incoming.slot;
        if remaining_bytes > 0 {
            return;
        }
        self.incoming = None;
        if self.requests.slot(slot).payload.is_some() {
            self.submit(slot, stats, inputs);
        } else {
            self.refuse(slot, stats);
        }
    }

    /// There will be no memory for a request.
    #[cold]
    fn refuse(&mut self, slot: u16, stats: &mut NbdStats) {
        stats.requests_refused += 1;
        self.requests
            .answer(slot, Answer::Error(ErrorCode::OutOfMemory));
    }
}

/// A connection's work together with what it needs of the port.
pub(super) struct Intake<'a> {
    pub work: &'a mut Work,
    pub area: Area,
    pub memory: &'a mut Memory,
    pub stats: &'a mut NbdStats,
    /// For composing sentences.
    pub text: &'a mut Vec<u8>,
    pub inputs: &'a mut Vec<Input>,
}

impl Intake<'_> {
    fn arena(&self) -> &Arena {
        self.memory.arena()
    }
}

impl Sink for Intake<'_> {
    #[inline]
    fn command(&mut self, command: Command) -> Accept {
        let Some(slot) = self.work.requests.take(command, self.memory) else {
            return Accept::Later;
        };
        self.stats.requests += 1;
        self.work.last_write_bytes = 0;
        match command.kind {
            CommandKind::Write { .. } => {
                self.work.last_write_bytes = command.length_bytes;
                self.work.incoming = Some(Incoming {
                    slot,
                    filled_bytes: 0,
                });
            }
            // Everything is allocated, as far as an array knows.
            CommandKind::BlockStatus { .. } => self.work.requests.answer(slot, Answer::Success),
            CommandKind::Read if self.work.requests.slot(slot).payload.is_none() => {
                self.work.refuse(slot, self.stats);
            }
            _ => self.work.submit(slot, self.stats, self.inputs),
        }
        Accept::Taken
    }

    fn refusal(&mut self, refusal: Refusal) -> Accept {
        let command = Command {
            cookie: refusal.cookie(),
            kind: CommandKind::Flush,
            offset_bytes: 0,
            length_bytes: 0,
        };
        let Some(slot) = self.work.requests.take(command, self.memory) else {
            return Accept::Later;
        };
        self.stats.requests_refused += 1;
        let answer = if self.work.text_in_use {
            // One sentence at a time; a client that breaks rules in bulk gets bare numbers.
            Answer::Error(refusal.code())
        } else {
            self.text.clear();
            self.work.encoder.refusal(self.text, &refusal);
            self.arena().write(self.area.text(), self.text);
            self.work.text_in_use = true;
            Answer::Text {
                length_bytes: self.text.len() as u32,
            }
        };
        self.work.requests.answer(slot, answer);
        Accept::Taken
    }

    #[inline]
    fn payload(&mut self, bytes: &[u8], remaining_bytes: u32) {
        if let Some(buffer) = self.work.incoming_buffer() {
            self.arena().write(buffer, bytes);
        }
        self.work
            .stored(bytes.len() as u32, remaining_bytes, self.stats, self.inputs);
    }
}

#[cfg(test)]
mod tests;
