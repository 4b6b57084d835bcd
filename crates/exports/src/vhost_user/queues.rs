//! All queues of a shard, and their memory, without I/O: chains become requests for the engine, and its answers go back to
//! the guests.
//!
//! # Memory
//!
//! A request has payload memory only while the engine has it. One that is longer than a piece is carried out piece by piece
//! in the same memory, so a guest may send requests of any length. Where there is no memory, requests wait in the order in
//! which they came, and their queue takes nothing more. A guest cannot hold memory up: what was read is copied to the guest
//! at once. Memory that a hung drive may still use (`pinned`) is replaced by other memory before the next piece.

use super::guest::Broken;
use super::memory::{CopiedMemory, Way};
use super::queue::{Opening, Queue, Taken};
use super::request::{Order, failure_status};
use super::wire::STATUS_OK;
use crate::export::Statistics;
use crate::pinned::{Payload, Pinned};
use drives::arena::Pool;
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, Nanos};
use engine::world::Input;
use std::collections::VecDeque;

/// The longest piece: longer ones gain nothing.
const PIECE_BYTES_MAX: u64 = 1 << 20;
/// A piece takes at most this part of the memory.
const PIECES_LEAST: u64 = 8;

/// A request of the shard: the place of its queue, and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The queue's place.
    pub place: u16,
    /// The slot.
    pub slot: u16,
}

impl Name {
    #[inline]
    fn number(self) -> u64 {
        u64::from(self.place) << 16 | u64::from(self.slot)
    }

    #[inline]
    fn of(number: u64) -> Name {
        Name {
            place: (number >> 16) as u16,
            slot: number as u16,
        }
    }
}

/// The length of the next piece of a request.
#[inline]
fn piece_bytes(order: &Order, done_bytes: u64, most_bytes: u32) -> u32 {
    let left_bytes = order.length_bytes - done_bytes;
    match order.has_data() {
        true => left_bytes.min(u64::from(most_bytes)) as u32,
        // The rules have limited these lengths to what a request of the engine may have.
        false => u32::try_from(left_bytes).expect("a request without data is not longer"),
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Queues<M = Pool> {
    queues: Vec<Option<Queue>>,
    memory: M,
    piece_bytes_max: u32,
    pinned: Pinned,
    /// Requests whose next piece has memory, or needs none.
    ready: VecDeque<Name>,
    /// Requests that wait for memory.
    waiting: VecDeque<Name>,
    /// Whether memory has become free since waiting requests have tried last.
    freed: bool,
    /// Queues that may have chains which could not be taken yet.
    behind: VecDeque<u16>,
    /// Queues in which something was given back.
    touched: Vec<u16>,
    /// Whether requests were taken or given back since the last [`Queues::go_on`] began.
    is_busy: bool,
    /// The same of the time before that.
    was_busy: bool,
    statistics: Statistics,
}

impl<M: CopiedMemory> Queues<M> {
    /// No queue yet; payload lies in `memory`.
    #[must_use]
    pub fn new(memory: M) -> Queues<M> {
        let most = (memory.available_bytes() / PIECES_LEAST).clamp(4096, PIECE_BYTES_MAX);
        Queues {
            queues: Vec::new(),
            piece_bytes_max: 1 << most.ilog2(),
            memory,
            pinned: Pinned::new(),
            ready: VecDeque::with_capacity(1024),
            waiting: VecDeque::with_capacity(1024),
            freed: false,
            behind: VecDeque::with_capacity(64),
            touched: Vec::with_capacity(64),
            is_busy: false,
            was_busy: false,
            statistics: Statistics::default(),
        }
    }

    /// Begins to serve a queue. Returns its place. Its chains are taken at the next [`Queues::go_on`]. The driver is told once
    /// at the next [`Queues::publish`]: the server before may have been killed after it has let the driver see answers, and
    /// before it has told of them.
    pub fn begin(&mut self, opening: Opening) -> u16 {
        let free = self.queues.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.queues.push(None);
            self.queues.len() - 1
        });
        self.queues[place] = Some(Queue::new(opening));
        self.statistics.clients_accepted += 1;
        self.statistics.clients += 1;
        let place = u16::try_from(place).expect("far fewer queues than 65536");
        self.kicked(place);
        self.touched.push(place);
        place
    }

    #[inline]
    fn queue(&mut self, place: u16) -> &mut Queue {
        let queue = self.queues.get_mut(usize::from(place));
        let queue = queue.and_then(Option::as_mut);
        queue.expect("a request belongs to a queue that is served")
    }

    /// The queue may have new chains.
    #[inline]
    pub fn kicked(&mut self, place: u16) {
        if !self.behind.contains(&place) {
            self.behind.push_back(place);
        }
    }

    /// Takes nothing more from the ring of a queue. What was taken is still answered.
    pub fn end(&mut self, place: u16) {
        self.queue(place).is_ending = true;
        self.kicked(place);
    }

    /// Whether a queue has answered all that it has taken, or cannot any more.
    #[must_use]
    pub fn is_quiet(&self, place: u16) -> bool {
        let queue = self.queues[usize::from(place)].as_ref();
        queue.is_none_or(Queue::is_quiet)
    }

    /// Forgets a quiet queue. Returns the index of the next chain in its ring.
    ///
    /// # Panics
    /// If requests of it are left.
    pub fn remove(&mut self, place: u16) -> u16 {
        let queue = self.queues[usize::from(place)].take();
        let queue = queue.expect("a queue is removed once");
        assert!(queue.is_quiet(), "{queue:?} has requests");
        self.behind.retain(|behind| *behind != place);
        self.touched.retain(|touched| *touched != place);
        self.statistics.clients -= 1;
        queue.next_available()
    }

    /// Whether [`Queues::go_on`] has something to do.
    #[inline]
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        !self.ready.is_empty()
            || self.freed && !self.waiting.is_empty()
            || !self.behind.is_empty() && self.waiting.is_empty()
    }

    /// Sends pieces to the engine, as far as there is memory: first of requests that have begun, then of new ones.
    #[inline]
    pub fn go_on(&mut self, now: Nanos, inputs: &mut Vec<Input>) {
        self.was_busy = std::mem::take(&mut self.is_busy);
        if std::mem::take(&mut self.freed) {
            while let Some(name) = self.waiting.pop_front() {
                if !self.has_memory(name) {
                    self.waiting.push_front(name);
                    break;
                }
                self.ready.push_back(name);
            }
        }
        while let Some(name) = self.ready.pop_front() {
            self.send(name, inputs);
        }
        for _ in 0..self.behind.len() {
            if !self.waiting.is_empty() {
                break;
            }
            let Some(place) = self.behind.pop_front() else {
                break;
            };
            self.take(place, now, inputs);
        }
    }

    /// Takes chains of one queue until there are no more, no slot is free, there is no memory, or it had its turn
    /// ([`Queue::turn_max`]). A queue that may have more, or is to be looked at again, stays behind: a guest that sends ever
    /// more requests which are refused must not keep the shard from its other work.
    #[inline]
    fn take(&mut self, place: u16, now: Nanos, inputs: &mut Vec<Input>) {
        for _ in 0..self.queue(place).turn_max() {
            if !self.queue(place).has_room() {
                return;
            }
            let was_busy = self.was_busy;
            match self.queue(place).take(now, was_busy) {
                Ok(Taken::Nothing) => return,
                Ok(Taken::NothingYet) => break,
                Ok(Taken::Answered(refusal)) => {
                    self.statistics.requests += u64::from(refusal.is_none());
                    self.statistics.requests_failed += u64::from(refusal.is_some());
                    self.touch(place);
                }
                Ok(Taken::Order(slot)) => {
                    self.is_busy = true;
                    self.statistics.requests += 1;
                    self.statistics.requests_in_flight += 1;
                    let name = Name { place, slot };
                    if !self.has_memory(name) {
                        self.waiting.push_back(name);
                        self.kicked(place);
                        return;
                    }
                    self.send(name, inputs);
                }
                Err(broken) => return self.break_off(place, broken),
            }
        }
        self.kicked(place);
    }

    /// Whether a request has memory for its next piece, or needs none. If it can it gets some.
    #[inline]
    fn has_memory(&mut self, name: Name) -> bool {
        let queue = self.queues[usize::from(name.place)].as_mut();
        let queue = queue.expect("a request belongs to a queue that is served");
        let slot = queue.slot(name.slot);
        let order = slot.order.expect("a request that was taken has an order");
        slot.piece_bytes = piece_bytes(&order, slot.done_bytes, self.piece_bytes_max);
        if slot.payload.is_some() || !order.has_data() {
            return true;
        }
        let block_bytes = u64::from(slot.piece_bytes).next_power_of_two().max(4096);
        slot.payload = self.memory.allocate(block_bytes).map(|buffer| Payload {
            buffer,
            block_bytes,
        });
        slot.payload.is_some()
    }

    /// Sends a request, or its next piece, to the engine.
    #[inline]
    fn send(&mut self, name: Name, inputs: &mut Vec<Input>) {
        let queue = self.queues[usize::from(name.place)].as_mut();
        let queue = queue.expect("a request belongs to a queue that is served");
        let volume = queue.volume;
        let slot = queue.slot(name.slot);
        let order = slot.order.expect("a request that is ready has an order");
        let request = Request {
            tag: name.number(),
            volume,
            operation: order.operation,
            fua: order.fua,
            offset_bytes: order.offset_bytes + slot.done_bytes,
            length_bytes: slot.piece_bytes,
            buffer: slot.payload.map_or(Buffer(0), |payload| payload.buffer),
        };
        if order.operation == Operation::Write {
            let copied = queue.copy(name.slot, Way::FromGuest, &self.memory);
            if let Err(broken) = copied {
                self.break_off(name.place, broken);
                return self.abandon(name);
            }
        }
        inputs.push(Input::Request(request));
    }

    /// The engine has answered a request.
    ///
    /// # Panics
    /// If there is no such request.
    #[inline]
    pub fn completed(&mut self, completion: Completion) {
        let name = Name::of(completion.tag);
        let slot = self.queue(name.place).slot(name.slot);
        let order = slot.order.expect("the engine answers what it was asked");
        match completion.result {
            Ok(()) => self.piece_done(name, order),
            Err(Failure::BufferHeld) => self.hold(name),
            Err(failure) => {
                self.statistics.requests_failed += 1;
                self.answer(name, failure_status(failure), 0);
            }
        }
    }

    /// A hung drive keeps the memory of a read: it is repeated in other memory.
    #[cold]
    fn hold(&mut self, name: Name) {
        self.let_go(name);
        self.waiting.push_back(name);
        // There may be other memory at once.
        self.freed = true;
    }

    #[inline]
    fn piece_done(&mut self, name: Name, order: Order) {
        let queue = self.queues[usize::from(name.place)].as_mut();
        let queue = queue.expect("a request belongs to a queue that is served");
        if order.operation == Operation::Read && queue.broken.is_none() {
            let copied = queue.copy(name.slot, Way::ToGuest, &self.memory);
            if let Err(broken) = copied {
                self.break_off(name.place, broken);
                return self.abandon(name);
            }
        }
        let slot = queue.slot(name.slot);
        let piece_bytes = u64::from(slot.piece_bytes);
        slot.done_bytes += piece_bytes;
        match order.operation {
            Operation::Read => self.statistics.sent_bytes += piece_bytes,
            Operation::Write => self.statistics.received_bytes += piece_bytes,
            _ => {}
        }
        if slot.done_bytes < order.length_bytes && queue.broken.is_none() {
            return self.next_piece(name);
        }
        let written = queue.slot(name.slot).written();
        self.answer(name, STATUS_OK, written);
    }

    fn next_piece(&mut self, name: Name) {
        let payload = self.queue(name.place).slot(name.slot).payload;
        if payload.is_some_and(|payload| self.pinned.is_used(&payload)) {
            self.let_go(name);
        }
        match self.has_memory(name) {
            true => self.ready.push_back(name),
            false => self.waiting.push_back(name),
        }
    }

    /// Frees the memory of a request.
    fn let_go(&mut self, name: Name) {
        let payload = self.queue(name.place).slot(name.slot).payload.take();
        self.free(payload);
    }

    /// Frees memory that a request has had, unless a drive may still use it.
    #[inline]
    fn free(&mut self, payload: Option<Payload>) {
        if let Some(payload) = payload.and_then(|payload| self.pinned.keep(payload)) {
            self.memory.free(payload.buffer);
            self.freed = true;
        }
    }

    #[inline]
    fn answer(&mut self, name: Name, status: u8, written: u32) {
        let queue = self.queues[usize::from(name.place)].as_mut();
        let queue = queue.expect("a request belongs to a queue that is served");
        if queue.broken.is_some() {
            return self.abandon(name);
        }
        let payload = queue.slot(name.slot).payload.take();
        let answered = queue.answer(name.slot, status, written);
        self.free(payload);
        self.statistics.requests_in_flight -= 1;
        match answered {
            Ok(()) => self.touch(name.place),
            Err(broken) => self.break_off(name.place, broken),
        }
    }

    /// Ends a request without an answer.
    #[cold]
    fn abandon(&mut self, name: Name) {
        self.let_go(name);
        self.statistics.requests_in_flight -= 1;
        self.queue(name.place).forget(name.slot);
    }

    #[inline]
    fn touch(&mut self, place: u16) {
        self.is_busy = true;
        if !self.touched.contains(&place) {
            self.touched.push(place);
        }
    }

    /// The queue does nothing any more; what the engine has of it ends without an answer.
    #[cold]
    pub fn break_off(&mut self, place: u16, broken: Broken) {
        let queue = self.queue(place);
        if queue.broken.is_some() {
            return;
        }
        queue.broken = Some(broken);
        self.statistics.clients_refused += 1;
        self.touch(place);
        let is_other = |name: &Name| name.place != place;
        let (waiting, ready) = (self.waiting.clone(), self.ready.clone());
        self.waiting.retain(is_other);
        self.ready.retain(is_other);
        for name in waiting.into_iter().chain(ready) {
            if name.place == place {
                self.abandon(name);
            }
        }
    }

    /// Lets the drivers see what was given back, and calls `each` with the place of every queue in which something was
    /// given back or that has broken, and with whether its driver wants an interrupt.
    #[inline]
    pub fn publish(&mut self, mut each: impl FnMut(u16, Result<bool, Broken>)) {
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            let queue = self.queue(place);
            let published = match queue.broken {
                Some(broken) => Err(broken),
                None => Ok(queue.publish()),
            };
            // Slots have become free.
            self.kicked(place);
            each(place, published);
        }
        // Put back to keep its capacity.
        self.touched = touched;
    }

    /// A drive that hangs may use the memory at `buffer` until [`Queues::release`].
    #[cold]
    pub fn pin(&mut self, buffer: Buffer) {
        self.pinned.pin(buffer);
    }

    /// See [`Queues::pin`].
    #[cold]
    pub fn release(&mut self, buffer: Buffer) {
        if let Some(payload) = self.pinned.release(buffer) {
            self.memory.free(payload.buffer);
            self.freed = true;
        }
    }

    /// Whether `buffer` is memory of these queues.
    #[must_use]
    pub fn own(&self, buffer: Buffer) -> bool {
        self.memory.holds(buffer)
    }

    /// Payload memory that nothing uses.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.memory.available_bytes()
    }

    /// Where payload lies.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The counters so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            pinned_bytes: self.pinned.bytes(),
            ..self.statistics
        }
    }
}

#[cfg(test)]
mod tests;
