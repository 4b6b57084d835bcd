//! Turns the commands that a connection's session delivers into requests.
//!
//! A write's payload is stored where the engine will use it. Bytes that arrived together with the command are copied
//! there; a long rest is received there directly (see `connection`).

use drives::arena::Arena;
use engine::units::{Buffer, VolumeId};
use engine::world::Input;

use super::memory::{Area, Memory};
use super::name::ConnectionName;
use super::requests::{Answer, Requests};
use super::stats::NbdStats;
use crate::nbd::{Accept, Command, CommandKind, ErrorCode, Refusal, ReplyEncoder, Sink};

/// A write whose payload has not arrived completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub slot: u16,
    pub filled_bytes: u32,
}

/// The requests of a connection, and the state of its intake.
#[derive(Debug)]
pub(super) struct Work {
    pub name: ConnectionName,
    pub volume: VolumeId,
    pub encoder: ReplyEncoder,
    pub requests: Requests,
    pub incoming: Option<Incoming>,
    /// Payload length of the last command if it was a write, otherwise 0; decides how much to receive next.
    pub last_write_bytes: u32,
    /// Whether the text area holds a reply that is not sent yet.
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

    /// Where to store the next bytes of the incoming write.
    pub fn incoming_buffer(&self) -> Option<Buffer> {
        let incoming = self.incoming?;
        let payload = self.requests.slot(incoming.slot).payload?;
        Some(payload.buffer.at(incoming.filled_bytes))
    }

    /// Notes that more of the incoming write has been stored. When nothing remains, submits it to the engine.
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

    /// Refuses a request for which there will be no memory.
    #[cold]
    fn refuse(&mut self, slot: u16, stats: &mut NbdStats) {
        stats.requests_refused += 1;
        self.requests
            .answer(slot, Answer::Error(ErrorCode::OutOfMemory));
    }
}

/// A connection's work, together with the parts of the port that it uses.
pub(super) struct Intake<'a> {
    pub work: &'a mut Work,
    pub area: Area,
    pub memory: &'a mut Memory,
    pub stats: &'a mut NbdStats,
    /// Buffer for composing sentences.
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
            // An array reports all of its space as allocated.
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
            // Only one sentence at a time; further refusals get a bare error number.
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
