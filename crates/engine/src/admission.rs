//! Requests on their way in: those under way, those that wait for room, and how many there may be.
//!
//! Requests of ports and pieces of other shards' requests have room of their own, because requests that wait for each
//! other's room would wait for ever.

use crate::control::message::Forward;
use crate::limits::{FORWARDED_MAX, REQUESTS_MAX};
use crate::pool::Pool;
use crate::request::{Failure, Request};
use crate::units::{MemberId, ShardId};
use alloc::collections::VecDeque;

/// What a request without a slot would break: as many are under way as there are slots, at most.
const SLOT_FOR_EACH: &str = "a slot is kept for every request under way";

/// What another shard wants of this one. See [`Forward`].
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
    pub request: Request,
    /// Another shard's request.
    pub origin: Option<Origin>,
    /// Bytes that have been turned into work.
    pub cursor: u64,
    /// Plans, parts and forwards that have not come back.
    pub outstanding: u32,
    pub failure: Option<Failure>,
    /// Counted in its volume's `writes_running`.
    pub writing: bool,
    /// All of it has been turned into work.
    pub issued: bool,
}

impl RequestState {
    /// Whether it modifies its volume, has begun to and has not ended.
    pub fn is_writing(&self) -> bool {
        self.writing && (self.outstanding > 0 || !self.issued)
    }
}

impl Default for RequestState {
    fn default() -> RequestState {
        RequestState::new(Request::NONE, None)
    }
}

impl RequestState {
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
}

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Admission {
    pub requests: Pool<RequestState>,
    /// Requests that a pool was too small for; served in order.
    pub stalled: VecDeque<u32>,
    /// Requests of ports for which not even a request slot was free.
    pub backlog: VecDeque<Request>,
    /// The same for pieces of other shards' requests.
    pub forward_backlog: VecDeque<Forward>,
    /// Requests of which no more pieces may be with other shards.
    pub waiting_forward: VecDeque<u32>,
    forwards: usize,
    local_requests: usize,
    forwarded_requests: usize,
}

impl Admission {
    /// Nobody is under way; there are so many `shards`.
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

    /// It has ended.
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

    /// It has come back.
    #[inline]
    pub fn piece_came_back(&mut self) {
        self.forwards -= 1;
    }
}
