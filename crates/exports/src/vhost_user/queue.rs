//! One queue of a guest: its ring, and the requests that were taken from it.

use super::chain::Chain;
use super::guest::{self, Broken, Guest};
use super::in_flight::InFlight;
use super::looking::Looking;
use super::memory::{CopiedMemory, Way};
use super::request::{Asked, Beginning, Order, Refusal, Rules};
use super::split_ring::SplitRing;
use super::wire::*;
use crate::pinned::Payload;
use engine::request::Operation;
use engine::units::{Nanos, VolumeId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests of a queue in the engine at a time; others wait in the guest's ring.
pub const REQUESTS_MAX: u16 = 128;
/// How many are taken in a turn if all before were answered and the guest runs beside the thread. With 4 and 8 a request
/// takes half the processor time that it takes with 128, because neither side sleeps (`benchmarks/run vhost_user`); with 1
/// each has the cost of a turn.
const FEW: u16 = 4;
/// No chain.
const NONE: u16 = u16::MAX;

/// What is needed to serve a queue.
#[derive(Debug)]
pub struct Opening {
    /// The engine's volume.
    pub volume: VolumeId,
    /// What requests have to keep.
    pub rules: Rules,
    /// The guest's memory.
    pub guest: Arc<Guest>,
    /// Where the chains come from.
    pub ring: SplitRing,
    /// The area of requests in flight, if the front end has one.
    pub in_flight: Option<InFlight>,
    /// Chains that an earlier server has taken and not given back: they come first.
    pub again: Vec<u16>,
}

/// A request that was taken.
#[derive(Debug)]
pub struct Slot {
    head: u16,
    chain: Chain,
    /// What the guest asks for, if the engine is to carry it out.
    pub order: Option<Order>,
    /// How much of it has been carried out.
    pub done_bytes: u64,
    /// The length of the piece that the engine has.
    pub piece_bytes: u32,
    /// Memory of the piece.
    pub payload: Option<Payload>,
}

/// What became of a look for the next chain.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// This slot has a request for the engine.
    Order(u16),
    /// A request was answered at once; this is why, if it was refused.
    Answered(Option<Refusal>),
    /// There is none, and the driver will tell of the next.
    Nothing,
    /// There is none, and the queue is to be looked at again at once.
    NothingYet,
}

/// A queue that the shard serves.
#[derive(Debug)]
pub struct Queue {
    /// The engine's volume.
    pub volume: VolumeId,
    rules: Rules,
    guest: Arc<Guest>,
    ring: SplitRing,
    in_flight: Option<InFlight>,
    again: VecDeque<u16>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// For each descriptor, the slot of the request that begins there.
    busy: Vec<u16>,
    looking: Looking,
    /// Whether something was given back and not published, or an earlier server may not have told the driver of answers.
    is_touched: bool,
    /// Nothing more is taken from the ring.
    pub is_ending: bool,
    /// Why the queue does nothing any more.
    pub broken: Option<Broken>,
}

impl Queue {
    /// Begins to serve a queue.
    #[must_use]
    pub fn new(opening: Opening) -> Queue {
        let size = opening.ring.size();
        let slots = size.min(REQUESTS_MAX);
        let slot = |_| Slot {
            head: NONE,
            chain: Chain::new(),
            order: None,
            done_bytes: 0,
            piece_bytes: 0,
            payload: None,
        };
        Queue {
            volume: opening.volume,
            rules: opening.rules,
            guest: opening.guest,
            ring: opening.ring,
            in_flight: opening.in_flight,
            again: opening.again.into(),
            slots: (0..slots).map(slot).collect(),
            free: (0..slots).rev().collect(),
            busy: vec![NONE; usize::from(size)],
            looking: Looking::new(),
            is_touched: true,
            is_ending: false,
            broken: None,
        }
    }

    /// A slot.
    #[inline]
    pub fn slot(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[usize::from(slot)]
    }

    /// How many requests are not given back.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether all that was taken is given back, and the driver can see it; or nothing more will be given back.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let is_empty = self.requests() == 0 && !self.is_touched && self.again.is_empty();
        is_empty || self.broken.is_some() && self.requests() == 0
    }

    /// The index of the next chain to take from the ring.
    #[must_use]
    pub fn next_available(&self) -> u16 {
        self.ring.next_available()
    }

    /// Takes the next chain. There must be a free slot ([`Queue::has_room`]). `was_busy` says that the thread has served requests
    /// since the turn before.
    ///
    /// # Errors
    /// [`Broken`] if the queue makes no sense.
    #[inline]
    pub fn take(&mut self, now: Nanos, was_busy: bool) -> Result<Taken, Broken> {
        let Some(head) = self.next_head(now, was_busy)? else {
            return Ok(match self.looking.is_on() && !self.is_ending {
                true => Taken::NothingYet,
                false => Taken::Nothing,
            });
        };
        if self.busy[usize::from(head)] != NONE {
            return Err(Broken::Twice(head));
        }
        let slot = self.free.pop().expect("the caller sees that there is room");
        self.busy[usize::from(head)] = slot;
        let one = &mut self.slots[usize::from(slot)];
        (one.head, one.order, one.done_bytes) = (head, None, 0);
        let walked = {
            let (table, count) = (self.ring.table(), self.ring.size());
            one.chain.walk(&self.guest, table, count, head)
        };
        let begun = walked.and_then(|()| self.begin(slot));
        if begun.is_err() && self.busy[usize::from(head)] == slot {
            self.forget(slot);
        }
        begun
    }

    fn next_head(&mut self, now: Nanos, was_busy: bool) -> Result<Option<u16>, Broken> {
        if let Some(head) = self.again.pop_front() {
            return Ok(Some(head));
        }
        if self.is_ending {
            return Ok(None);
        }
        let mut head = self.ring.take()?;
        if head.is_none() {
            if self.looking.goes_on(now) {
                return Ok(None);
            }
            if self.ring.await_more() {
                head = self.ring.take()?;
            }
        }
        if head.is_some() {
            self.looking.found(now, was_busy);
        }
        if let (Some(head), Some(area)) = (head, &mut self.in_flight) {
            area.taken(head);
        }
        Ok(head)
    }

    /// How many chains are taken in a turn at most. If the engine has requests left, its drives need time, and it gets all
    /// that there is at once.
    #[inline]
    #[must_use]
    pub fn turn_max(&self) -> u16 {
        match self.requests() == 0 && self.looking.runs_beside() {
            true => FEW,
            false => REQUESTS_MAX,
        }
    }

    /// Whether another request can be taken.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.broken.is_none() && !self.free.is_empty()
    }

    /// Reads a request's head, and answers what need not go to the engine.
    #[inline]
    fn begin(&mut self, slot: u16) -> Result<Taken, Broken> {
        let chain = &self.slots[usize::from(slot)].chain;
        let mut beginning = Beginning {
            bytes: [0; HEADER_BYTES + RANGE_BYTES],
            data_bytes: chain.readable_bytes - HEADER_BYTES as u64,
            room_bytes: chain.writable_bytes,
        };
        let judged = if chain.is_too_long {
            Err(Refusal::TooLong)
        } else {
            let head = &mut beginning.bytes[..HEADER_BYTES];
            guest::gather(&self.guest, &chain.readable, 0, head)?;
            // A range of another length is refused without a look at it.
            if beginning.has_range() && beginning.data_bytes == RANGE_BYTES as u64 {
                let range = &mut beginning.bytes[HEADER_BYTES..];
                guest::gather(&self.guest, &chain.readable, HEADER_BYTES as u64, range)?;
            }
            self.rules.judge(&beginning)
        };
        match judged {
            Ok(Asked::Engine(order)) => {
                self.slots[usize::from(slot)].order = Some(order);
                Ok(Taken::Order(slot))
            }
            Ok(Asked::Identity) => {
                guest::scatter(&self.guest, &chain.writable, &self.rules.identity)?;
                self.answer(slot, STATUS_OK, IDENTITY_BYTES as u32)?;
                Ok(Taken::Answered(None))
            }
            Err(refusal) => {
                self.answer(slot, refusal.status(), 0)?;
                Ok(Taken::Answered(Some(refusal)))
            }
        }
    }

    /// Copies the data of the piece of a slot between the guest and payload memory.
    ///
    /// # Errors
    /// [`Broken`] if the guest's memory is not what it was.
    #[inline]
    pub fn copy(&self, slot: u16, way: Way, memory: &impl CopiedMemory) -> Result<(), Broken> {
        let one = &self.slots[usize::from(slot)];
        let payload = one.payload.expect("a piece with data has memory");
        let (segments, head_bytes) = match way {
            Way::FromGuest => (&one.chain.readable, HEADER_BYTES as u64),
            Way::ToGuest => (&one.chain.writable, 0),
        };
        let from = (&segments[..], head_bytes + one.done_bytes);
        guest::copy(
            &self.guest,
            way,
            from,
            memory,
            (payload.buffer, one.piece_bytes),
        )
    }

    /// Answers a request; `written` bytes of data were written to the guest. The slot is free afterwards, also after an
    /// error, and its memory must have been taken before.
    ///
    /// # Errors
    /// [`Broken`] if the guest's memory is not what it was.
    #[inline]
    pub fn answer(&mut self, slot: u16, status: u8, written: u32) -> Result<(), Broken> {
        let one = &self.slots[usize::from(slot)];
        let (head, at) = (one.head, one.chain.status);
        self.forget(slot);
        guest::write_byte(&self.guest, at, status)?;
        if let Some(area) = &mut self.in_flight {
            area.given_back(head);
        }
        self.is_touched = true;
        self.ring.give_back(head, written + 1);
        Ok(())
    }

    /// Frees the slot of a request that is not answered.
    pub fn forget(&mut self, slot: u16) {
        let one = &mut self.slots[usize::from(slot)];
        assert!(one.payload.is_none(), "the memory of {one:?} is not freed");
        self.busy[usize::from(one.head)] = NONE;
        one.order = None;
        self.free.push(slot);
    }

    /// Lets the driver see what was given back. True if it wants an interrupt for that.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if !std::mem::take(&mut self.is_touched) {
            return false;
        }
        self.ring.publish();
        if let Some(area) = &mut self.in_flight {
            area.published(self.ring.next_used());
        }
        self.ring.wants_call()
    }
}

impl Slot {
    /// How many bytes of data a request that was carried out has written to the guest.
    #[must_use]
    pub fn written(&self) -> u32 {
        let read = self
            .order
            .filter(|order| order.operation == Operation::Read);
        // The length of what was used is only a hint where it does not fit.
        read.map_or(0, |order| {
            order.length_bytes.min(u64::from(u32::MAX) - 1) as u32
        })
    }
}
