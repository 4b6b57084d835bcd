//! Requests on their way in: those under way, those that wait for room, and how many there may be.
//!
//! Requests of ports and pieces of other shards' requests have room of their own, because requests that wait for each
//! other's room would wait for ever.

use crate::control::message::Forward;
use crate::limits::{FORWARDED_MAX, REQUESTS_MAX};
use crate::pool::Pool;
use crate::request::{Failure, Operation, Request};
use crate::units::{MemberId, ShardId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Why a slot can be expected: at most as many requests are under way as there are slots.
const SLOT_FOR_EACH: &str = "a slot is kept for every request under way";

/// The shard that has forwarded a request, and what it asks for. See [`Forward`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub shard: ShardId,
    pub ticket: u32,
    pub repairs: bool,
    pub tried: Option<MemberId>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct RequestState {
    request: Request,
    /// Another shard's request.
    origin: Option<Origin>,
    /// Bytes that have been turned into work.
    cursor: u64,
    /// Plans, parts and forwards that have not come back.
    outstanding: u32,
    failure: Option<Failure>,
    /// Counted among the running writes of its volume.
    writing: bool,
    /// All of it has been turned into work.
    issued: bool,
}

impl Default for RequestState {
    fn default() -> RequestState {
        RequestState::new(Request::NONE, None)
    }
}

impl RequestState {
    /// One that has not begun.
    #[inline]
    pub fn new(request: Request, origin: Option<Origin>) -> RequestState {
        RequestState {
            request,
            origin,
            cursor: 0,
            outstanding: 0,
            failure: None,
            writing: false,
            issued: false,
        }
    }

    /// One that has run without a slot, and has been turned into one plan.
    pub fn under_way(request: Request, origin: Option<Origin>) -> RequestState {
        RequestState {
            cursor: u64::from(request.length_bytes),
            outstanding: 1,
            writing: request.operation != Operation::Read,
            issued: true,
            ..RequestState::new(request, origin)
        }
    }

    /// What was asked for.
    #[inline]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The shard that asked, if it was another one.
    #[inline]
    pub fn origin(&self) -> &Option<Origin> {
        &self.origin
    }

    /// Bytes that have been turned into work.
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Bytes that have not been turned into work.
    #[inline]
    pub fn rest(&self) -> u64 {
        u64::from(self.request.length_bytes) - self.cursor
    }

    /// So many more bytes have been turned into work.
    #[inline]
    pub fn advance(&mut self, bytes: u32) {
        self.cursor += u64::from(bytes);
    }

    /// All of it has been turned into work.
    #[inline]
    pub fn is_issued(&self) -> bool {
        self.issued
    }

    /// Notes that all of it has been turned into work.
    #[inline]
    pub fn set_issued(&mut self) {
        self.issued = true;
    }

    /// Plans, parts and forwards that have not come back.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// A plan, part or forward of it begins.
    #[inline]
    pub fn piece_begins(&mut self) {
        self.outstanding += 1;
    }

    /// A plan, part or forward of it has ended, or the issuing of the request, which counts as a piece meanwhile.
    #[inline]
    pub fn piece_ends(&mut self) {
        self.outstanding -= 1;
    }

    /// Whether the request has begun, and all of it has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.outstanding == 0 && self.issued
    }

    /// Whether nothing of it has been turned into work.
    pub fn is_untouched(&self) -> bool {
        self.cursor == 0 && self.outstanding == 0
    }

    /// What it will be answered by, if it has failed.
    #[inline]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Some of it has failed: the first failure is the answer.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Nothing more of it is done: this is the answer.
    pub fn give_up(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    /// Whether it is counted among the requests that write to its volume.
    #[inline]
    pub fn counts_as_write(&self) -> bool {
        self.writing
    }

    /// Sets whether it is counted there.
    #[inline]
    pub fn count_as_write(&mut self, counts: bool) {
        self.writing = counts;
    }

    /// Whether it modifies its volume, has begun to and has not ended.
    pub fn is_writing(&self) -> bool {
        self.writing && !self.is_over()
    }
}

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Admission {
    requests: Pool<RequestState>,
    /// Requests that a pool was too small for; served in order.
    stalled: VecDeque<u32>,
    /// Requests of ports for which not even a request slot was free.
    backlog: VecDeque<Request>,
    /// The same for pieces of other shards' requests.
    forward_backlog: VecDeque<Forward>,
    /// Requests that wait until fewer pieces are with other shards.
    waiting_forward: VecDeque<u32>,
    forwards: usize,
    local_requests: usize,
    forwarded_requests: usize,
}

/// Requests that wait, by what they wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// For a slot: requests of ports, and pieces of other shards' requests.
    pub slots: usize,
    pub forwarded_slots: usize,
    /// For plans or pieces of work.
    pub stalled: usize,
    /// For answers of other shards.
    pub forwards: usize,
}

impl Admission {
    /// No request is under way; there are so many `shards`.
    pub fn new(shards: u8) -> Admission {
        Admission {
            requests: Pool::new(REQUESTS_MAX + FORWARDED_MAX, RequestState::default),
            stalled: VecDeque::with_capacity(REQUESTS_MAX + FORWARDED_MAX),
            backlog: VecDeque::with_capacity(REQUESTS_MAX),
            forward_backlog: VecDeque::with_capacity(
                FORWARDED_MAX * usize::from(shards.saturating_sub(1)),
            ),
            waiting_forward: VecDeque::with_capacity(REQUESTS_MAX),
            forwards: 0,
            local_requests: 0,
            forwarded_requests: 0,
        }
    }

    /// How many requests have a slot.
    #[inline]
    pub fn slots_used(&self) -> usize {
        self.requests.used()
    }

    /// The slots that requests have.
    ///
    /// # Panics
    /// The pool of slots is not in order.
    pub fn slots_in_use(&self) -> Vec<u32> {
        self.requests.in_use("request")
    }

    /// Requests that have a slot and write, with what they asked for.
    pub fn writes(&self) -> impl Iterator<Item = &Request> {
        let states = (0..self.requests.capacity() as u32).map(|index| &self.requests[index]);
        let writes = states.filter(|state| {
            let is_write = !matches!(state.request.operation, Operation::Read | Operation::Flush);
            is_write && state.is_writing()
        });
        writes.map(|state| &state.request)
    }

    /// A request of a port waits for a slot.
    pub fn queue(&mut self, request: Request) {
        self.backlog.push_back(request);
    }

    /// A piece of another shard's request waits for a slot.
    pub fn queue_forwarded(&mut self, forward: Forward) {
        self.forward_backlog.push_back(forward);
    }

    /// The request of a port that gets a slot next, if one is free and no request that has a slot waits.
    pub fn next_queued(&mut self) -> Option<Request> {
        let may_begin = self.has_room_for_port() && self.stalled.is_empty();
        if may_begin {
            self.backlog.pop_front()
        } else {
            None
        }
    }

    /// The same for pieces of other shards' requests.
    pub fn next_queued_forwarded(&mut self) -> Option<Forward> {
        let may_begin = self.has_room_for_forward() && self.stalled.is_empty();
        if may_begin {
            self.forward_backlog.pop_front()
        } else {
            None
        }
    }

    /// A request waits for plans or pieces of work, behind all others.
    pub fn stall(&mut self, index: u32) {
        self.stalled.push_back(index);
    }

    /// How many wait for that.
    #[inline]
    pub fn stalled(&self) -> usize {
        self.stalled.len()
    }

    /// The request that has waited longest for that.
    pub fn first_stalled(&self) -> Option<u32> {
        self.stalled.front().copied()
    }

    /// That request waits no longer.
    pub fn first_goes_on(&mut self) {
        let first = self.stalled.pop_front();
        assert!(first.is_some(), "no request waits for room");
    }

    /// The request that has come to the end of that queue goes back to its head.
    pub fn last_was_first(&mut self) {
        self.stalled.rotate_right(1);
    }

    /// A request waits until fewer of its pieces are with other shards.
    pub fn wait_to_forward(&mut self, index: u32) {
        self.waiting_forward.push_back(index);
    }

    /// Whether a request waits for that.
    #[inline]
    pub fn waits_to_forward(&self) -> bool {
        !self.waiting_forward.is_empty()
    }

    /// The request that may send another piece, if one may.
    pub fn next_to_forward(&mut self) -> Option<u32> {
        if self.may_forward() {
            self.waiting_forward.pop_front()
        } else {
            None
        }
    }

    /// Whether no request waits for a slot, or with one for plans or pieces of work.
    #[inline]
    pub fn nobody_waits_for_room(&self) -> bool {
        self.stalled.is_empty() && self.forward_backlog.is_empty() && self.backlog.is_empty()
    }

    /// How many requests wait, and for what.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            slots: self.backlog.len(),
            forwarded_slots: self.forward_backlog.len(),
            stalled: self.stalled.len(),
            forwards: self.waiting_forward.len(),
        }
    }

    /// Requests with a slot that wait.
    pub fn waiting_with_slots(&self) -> impl Iterator<Item = u32> {
        self.stalled.iter().chain(&self.waiting_forward).copied()
    }

    /// Items for which all queues have memory.
    pub fn room(&self) -> usize {
        let waiting = self.backlog.capacity() + self.forward_backlog.capacity();
        waiting + self.waiting_forward.capacity() + self.stalled.capacity()
    }

    /// Requests of ports and of other shards under way, those without a plan included.
    #[inline]
    pub fn under_way(&self) -> (usize, usize) {
        (self.local_requests, self.forwarded_requests)
    }

    /// Whether another request of a port may begin.
    #[inline]
    pub fn has_room_for_port(&self) -> bool {
        self.local_requests < REQUESTS_MAX
    }

    /// Whether another piece of another shard's request may begin.
    #[inline]
    pub fn has_room_for_forward(&self) -> bool {
        self.forwarded_requests < FORWARDED_MAX
    }

    /// A slot for a request; requests of ports leave the share of forwarded pieces alone.
    #[inline]
    pub fn take(&mut self, forwarded: bool) -> u32 {
        assert!(
            !forwarded || self.has_room_for_forward(),
            "too many forwards were let in"
        );
        self.begun(forwarded);
        self.take_counted()
    }

    /// A slot for a request that has begun without one.
    #[inline]
    pub fn take_counted(&mut self) -> u32 {
        self.requests.take().expect(SLOT_FOR_EACH)
    }

    /// Gives the slot of a request back that has ended.
    #[inline]
    pub fn give(&mut self, index: u32, forwarded: bool) {
        self.requests.give(index);
        self.ended(forwarded);
    }

    /// A request has begun, `forwarded` by another shard or of a port.
    #[inline]
    pub fn begun(&mut self, forwarded: bool) {
        if forwarded {
            self.forwarded_requests += 1;
        } else {
            self.local_requests += 1;
        }
    }

    /// A request has ended.
    #[inline]
    pub fn ended(&mut self, forwarded: bool) {
        if forwarded {
            self.forwarded_requests -= 1;
        } else {
            self.local_requests -= 1;
        }
    }

    /// Pieces of requests that are with other shards.
    pub fn forwards(&self) -> usize {
        self.forwards
    }

    /// Whether another piece may go to another shard.
    #[inline]
    pub fn may_forward(&self) -> bool {
        self.forwards < FORWARDED_MAX
    }

    /// A piece has gone to another shard.
    #[inline]
    pub fn piece_sent(&mut self) {
        self.forwards += 1;
    }

    /// A piece has come back from another shard.
    #[inline]
    pub fn piece_came_back(&mut self) {
        self.forwards -= 1;
    }
}

impl Index<u32> for Admission {
    type Output = RequestState;

    #[inline]
    fn index(&self, slot: u32) -> &RequestState {
        &self.requests[slot]
    }
}

impl IndexMut<u32> for Admission {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut RequestState {
        &mut self.requests[slot]
    }
}
