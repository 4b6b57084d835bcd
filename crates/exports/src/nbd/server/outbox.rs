//! Sends messages to a client, one at a time, so that bytes stay in order.
//!
//! While a message is being sent, further replies gather; they are sent together in the next one. Headers are written
//! only when a message is composed. Headers of replies without data then lie side by side and are sent as one piece of
//! memory.

use drives::arena::Arena;
use engine::limits::STEP_SEGMENTS_MAX;
use engine::units::Buffer;

use super::intake::Work;
use super::memory::{Area, Memory, TEXT_BYTES};
use super::requests::Answer;
use crate::nbd::{CommandKind, Extent};

/// A message of at least this length takes no further reply, so that the payload memory of its replies is freed before
/// the client has received all that waits.
const MESSAGE_BYTES_ENOUGH: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    /// Output of the handshake.
    Output {
        length: usize,
    },
    /// The first answered requests of the connection.
    Replies {
        count: usize,
        with_text: bool,
    },
}

/// The sending side of a connection.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Output of the handshake that is not sent yet.
    output: Vec<u8>,
    /// The content of the message that is being sent.
    content: Content,
    /// The memory of that message, without what has been sent.
    pieces: Vec<(Buffer, u32)>,
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox {
            output: Vec::new(),
            content: Content::Nothing,
            pieces: Vec::with_capacity(STEP_SEGMENTS_MAX),
        }
    }

    /// Queues output of the handshake.
    pub fn push_output(&mut self, output: Vec<u8>) {
        if self.output.is_empty() {
            self.output = output;
        } else {
            self.output.extend(output);
        }
    }

    /// Whether output of the handshake is not sent yet.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether a message is being sent.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.content != Content::Nothing
    }

    /// The memory that is left to send.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = (Buffer, u32)> + '_ {
        self.pieces.iter().copied()
    }

    /// Composes the next message; false if there is nothing to send.
    #[inline]
    pub fn compose(&mut self, work: &Work, area: Area, arena: &Arena) -> bool {
        self.pieces.clear();
        if self.has_output() {
            let length = self.output.len().min(TEXT_BYTES as usize);
            arena.write(area.text(), &self.output[..length]);
            self.pieces.push((area.text(), length as u32));
            self.content = Content::Output { length };
            return true;
        }
        if work.requests.answered_count() == 0 {
            return false;
        }
        self.compose_replies(work, area, arena);
        true
    }

    fn compose_replies(&mut self, work: &Work, area: Area, arena: &Arena) {
        let mut next_header = area.headers();
        let (mut count, mut bytes, mut with_text) = (0, 0, false);
        while bytes < MESSAGE_BYTES_ENOUGH
            && self.pieces.len() + 2 <= STEP_SEGMENTS_MAX
            && let Some((slot, answer)) = work.requests.answered(count)
        {
            count += 1;
            let command = &slot.command;
            let header = match answer {
                Answer::Text { length_bytes } => {
                    with_text = true;
                    self.push(area.text(), length_bytes);
                    continue;
                }
                Answer::Error(code) => work.encoder.error(command.cookie, code),
                Answer::Success => success_header(work, command),
            };
            arena.write(next_header, &header);
            self.push(next_header, header.len() as u32);
            next_header = next_header.at(header.len() as u32);
            bytes += header.len() as u64;
            if answer == Answer::Success
                && command.kind == CommandKind::Read
                && let Some(payload) = slot.payload
            {
                self.push(payload.buffer, command.length_bytes);
                bytes += u64::from(command.length_bytes);
            }
        }
        self.content = Content::Replies { count, with_text };
    }

    #[inline]
    fn push(&mut self, buffer: Buffer, length_bytes: u32) {
        if let Some((last, last_bytes)) = self.pieces.last_mut()
            && last.at(*last_bytes) == buffer
        {
            *last_bytes += length_bytes;
        } else {
            self.pieces.push((buffer, length_bytes));
        }
    }

    /// Notes that bytes of the message have been sent; true if the message is now complete.
    #[inline]
    pub fn sent(&mut self, mut sent_bytes: u32, work: &mut Work, memory: &mut Memory) -> bool {
        let mut done = 0;
        for (buffer, length_bytes) in &mut self.pieces {
            if sent_bytes < *length_bytes {
                *buffer = buffer.at(sent_bytes);
                *length_bytes -= sent_bytes;
                break;
            }
            sent_bytes -= *length_bytes;
            done += 1;
        }
        if done < self.pieces.len() {
            self.pieces.drain(..done);
            return false;
        }
        match std::mem::replace(&mut self.content, Content::Nothing) {
            Content::Output { length } => drop(self.output.drain(..length)),
            Content::Replies { count, with_text } => {
                work.requests.release_answered(count, memory);
                work.text_in_use &= !with_text;
            }
            Content::Nothing => {}
        }
        true
    }

    /// Drops the message that was being sent, which has failed.
    pub fn give_up(&mut self) {
        self.content = Content::Nothing;
    }
}

#[inline]
fn success_header(work: &Work, command: &crate::nbd::Command) -> crate::nbd::ReplyHeader {
    match command.kind {
        CommandKind::Read => {
            work.encoder
                .read(command.cookie, command.offset_bytes, command.length_bytes)
        }
        CommandKind::BlockStatus { .. } => {
            let extent = Extent {
                length_bytes: command.length_bytes,
                is_hole: false,
                is_zero: false,
            };
            work.encoder.block_status(command.cookie, extent)
        }
        _ => work.encoder.done(command.cookie),
    }
}
