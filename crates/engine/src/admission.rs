//! Requests on their way in: those under way, those that wait for room, and how many there may be.
//!
//! Requests of ports and pieces of other shards' requests have room of their own, because requests that wait for each
//! other's room would wait for ever.

use crate::control::message::Forward;
use crate::pool::Pool;
use crate::request::Request;
use crate::route::RequestState;
use alloc::collections::VecDeque;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) requests: Pool<RequestState>,
    /// Requests that a pool was too small for; served in order.
    pub(crate) stalled: VecDeque<u32>,
    /// Requests of ports for which not even a request slot was free.
    pub(crate) backlog: VecDeque<Request>,
    /// The same for pieces of other shards' requests.
    pub(crate) forward_backlog: VecDeque<Forward>,
    /// Pieces of requests that are with other shards.
    pub(crate) forwards: usize,
    /// Requests of which no more may be.
    pub(crate) waiting_forward: VecDeque<u32>,
    /// Requests of ports under way, those without a plan included.
    pub(crate) local_requests: usize,
    /// Pieces of other shards' requests under way.
    pub(crate) forwarded_requests: usize,
}
