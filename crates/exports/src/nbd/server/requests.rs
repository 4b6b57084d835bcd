//! The requests of one connection, from the command until the reply has been sent.
//!
//! A request keeps its slot and its payload memory until its reply has been sent. The slot's number is part of the tag
//! by which the engine identifies the request. The tag also has a generation, which distinguishes an answer to an
//! earlier user of the slot from one to the present user.

use std::collections::VecDeque;

use engine::request::{Failure, Operation, Request};
use engine::units::{Buffer, VolumeId};

use super::memory::Memory;
use super::name::{ConnectionName, RequestTag};
use crate::nbd::{Command, CommandKind, ErrorCode};
use crate::pinned::Payload;

/// The most requests of one connection at a time.
pub(super) const REQUESTS_MAX: usize = 128;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Success; reads with their data, block status with one extent.
    Success,
    /// An error without a sentence.
    Error(ErrorCode),
    /// The reply is already in the connection's text area.
    Text { length_bytes: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Not submitted yet; a write may still wait for payload.
    Receiving,
    InEngine,
    /// A read that has to be repeated, because a hanging drive keeps its memory.
    Held,
    Answered(Answer),
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub command: Command,
    pub payload: Option<Payload>,
    state: State,
    generation: u32,
}

#[derive(Debug)]
pub(super) struct Requests {
    slots: Box<[Slot]>,
    free: Vec<u16>,
    /// Answered requests in the order in which replies are sent; a request leaves when its reply is sent.
    answered: VecDeque<u16>,
    in_engine: u16,
    held_bytes: u64,
}

impl Requests {
    pub fn new() -> Requests {
        let unused = Slot {
            command: Command {
                cookie: 0,
                kind: CommandKind::Flush,
                offset_bytes: 0,
                length_bytes: 0,
            },
            payload: None,
            state: State::Free,
            generation: 0,
        };
        Requests {
            slots: vec![unused; REQUESTS_MAX].into_boxed_slice(),
            free: (0..REQUESTS_MAX as u16).rev().collect(),
            answered: VecDeque::with_capacity(REQUESTS_MAX),
            in_engine: 0,
            held_bytes: 0,
        }
    }

    /// A slot for `command`, with payload memory if it needs some; `None` if there is no room now. If there will never
    /// be memory, the slot has no payload and the caller has to refuse the request.
    #[inline]
    pub fn take(&mut self, command: Command, memory: &mut Memory) -> Option<u16> {
        let &slot = self.free.last()?;
        let needs_payload = matches!(command.kind, CommandKind::Read | CommandKind::Write { .. });
        let payload = if needs_payload {
            let payload = memory.allocate(&mut self.held_bytes, command.length_bytes);
            if payload.is_none() && !memory.is_exhausted() {
                return None;
            }
            payload
        } else {
            None
        };
        self.free.pop();
        let entry = &mut self.slots[usize::from(slot)];
        entry.command = command;
        entry.payload = payload;
        entry.state = State::Receiving;
        Some(slot)
    }

    /// Returns the request for the engine, which has it from now on.
    #[inline]
    pub fn submit(&mut self, name: ConnectionName, slot: u16, volume: VolumeId) -> Request {
        self.in_engine += 1;
        self.request(name, slot, volume)
    }

    #[inline]
    fn request(&mut self, name: ConnectionName, slot: u16, volume: VolumeId) -> Request {
        let entry = &mut self.slots[usize::from(slot)];
        entry.state = State::InEngine;
        let (operation, fua) = operation(entry.command.kind);
        Request {
            tag: RequestTag::new(name.index, slot, entry.generation).0,
            volume,
            operation,
            fua,
            offset_bytes: entry.command.offset_bytes,
            length_bytes: entry.command.length_bytes,
            buffer: entry.payload.map_or(Buffer(0), |payload| payload.buffer),
        }
    }

    /// Takes the engine's answer. False if the request was not in the engine.
    #[inline]
    pub fn complete(&mut self, tag: RequestTag, result: Result<(), Failure>) -> bool {
        if !self.is_in_engine(tag) {
            return false;
        }
        self.in_engine -= 1;
        let answer = match result {
            Ok(()) => Answer::Success,
            Err(failure) => Answer::Error(error_code(failure)),
        };
        self.answer(tag.slot(), answer);
        true
    }

    #[inline]
    fn is_in_engine(&self, tag: RequestTag) -> bool {
        self.slots.get(usize::from(tag.slot())).is_some_and(|slot| {
            slot.state == State::InEngine && slot.generation == tag.generation()
        })
    }

    /// Takes the answer that a hanging drive keeps the memory of a read. False if the request was not in the engine.
    #[cold]
    pub fn hold(&mut self, tag: RequestTag, memory: &mut Memory) -> bool {
        if !self.is_in_engine(tag) {
            return false;
        }
        let entry = &mut self.slots[usize::from(tag.slot())];
        entry.state = State::Held;
        if let Some(payload) = entry.payload.take() {
            memory.free(&mut self.held_bytes, payload);
        }
        true
    }

    /// Repeats the read in `slot` in other memory; `None` if there is none now. The read still counts as in the engine.
    #[cold]
    pub fn ask_again(
        &mut self,
        name: ConnectionName,
        slot: u16,
        volume: VolumeId,
        memory: &mut Memory,
    ) -> Option<Request> {
        let entry = &mut self.slots[usize::from(slot)];
        debug_assert_eq!(entry.state, State::Held);
        let length_bytes = entry.command.length_bytes;
        entry.payload = Some(memory.allocate(&mut self.held_bytes, length_bytes)?);
        Some(self.request(name, slot, volume))
    }

    /// Answers the read in `slot` with an error instead of repeating it.
    #[cold]
    pub fn give_up(&mut self, slot: u16, code: ErrorCode) {
        debug_assert_eq!(self.slots[usize::from(slot)].state, State::Held);
        self.in_engine -= 1;
        self.answer(slot, Answer::Error(code));
    }

    /// Queues the reply to a request.
    #[inline]
    pub fn answer(&mut self, slot: u16, answer: Answer) {
        self.slots[usize::from(slot)].state = State::Answered(answer);
        self.answered.push_back(slot);
    }

    /// The request whose reply is sent after `skipped` others.
    #[inline]
    pub fn answered(&self, skipped: usize) -> Option<(&Slot, Answer)> {
        let slot = &self.slots[usize::from(*self.answered.get(skipped)?)];
        match slot.state {
            State::Answered(answer) => Some((slot, answer)),
            _ => None,
        }
    }

    /// Releases the first `count` answered requests: their replies have been sent, or never will be.
    #[inline]
    pub fn release_answered(&mut self, count: usize, memory: &mut Memory) {
        for _ in 0..count {
            let Some(slot) = self.answered.pop_front() else {
                return;
            };
            self.release(slot, memory);
        }
    }

    /// Frees a slot that is no longer in use.
    #[inline]
    pub fn release(&mut self, slot: u16, memory: &mut Memory) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.generation = entry.generation.wrapping_add(1);
        entry.state = State::Free;
        if let Some(payload) = entry.payload.take() {
            memory.free(&mut self.held_bytes, payload);
        }
        self.free.push(slot);
    }

    #[inline]
    pub fn slot(&self, slot: u16) -> &Slot {
        &self.slots[usize::from(slot)]
    }

    /// How many replies wait or are being sent.
    #[inline]
    pub fn answered_count(&self) -> usize {
        self.answered.len()
    }

    #[inline]
    pub fn in_engine(&self) -> u16 {
        self.in_engine
    }

    /// Frees all slots; neither the engine nor the kernel uses any of them.
    pub fn release_all(&mut self, memory: &mut Memory) {
        debug_assert_eq!(self.in_engine, 0, "the engine still uses payload memory");
        self.answered.clear();
        for slot in 0..self.slots.len() as u16 {
            if self.slots[usize::from(slot)].state != State::Free {
                self.release(slot, memory);
            }
        }
    }
}

fn operation(kind: CommandKind) -> (Operation, bool) {
    match kind {
        CommandKind::Write { fua } => (Operation::Write, fua),
        CommandKind::Flush => (Operation::Flush, false),
        CommandKind::Trim { fua } => (Operation::Trim, fua),
        CommandKind::WriteZeroes {
            fua,
            no_hole,
            fast_only,
        } => {
            let zeroes = Operation::WriteZeroes {
                keep_allocated: no_hole,
                only_if_fast: fast_only,
            };
            (zeroes, fua)
        }
        // A block status is answered without the engine.
        CommandKind::Read | CommandKind::BlockStatus { .. } => (Operation::Read, false),
    }
}

fn error_code(failure: Failure) -> ErrorCode {
    match failure {
        Failure::Misuse => ErrorCode::Invalid,
        Failure::ReadOnly => ErrorCode::NotPermitted,
        Failure::Unrecoverable { .. } | Failure::BufferHeld => ErrorCode::InputOutput,
        Failure::NotSupported => ErrorCode::NotSupported,
        Failure::Stopping => ErrorCode::ShuttingDown,
    }
}

#[cfg(test)]
pub(super) mod tests;
