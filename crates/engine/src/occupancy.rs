//! How full a shard's queues are: for tests of limits, and for finding out why an array is slow. Nothing on the path
//! of a request looks at this.

/// Items in each queue and pool of a shard. The limits are in [`crate::limits`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Occupancy {
    /// Requests of ports with a slot, at most `REQUESTS_MAX`.
    pub requests: usize,
    /// Requests of ports that wait for one; a port bounds how many it offers.
    pub requests_waiting: usize,
    /// Pieces of other shards' requests with a slot, at most `FORWARDED_MAX`.
    pub forwarded: usize,
    /// Such pieces that wait for one, at most `FORWARDED_MAX` of each other shard, and reads to reconstruct.
    pub forwarded_waiting: usize,
    /// Pieces that other shards work on, at most `FORWARDED_MAX`, and reads to reconstruct.
    pub forwards: usize,
    /// Requests that wait until other shards have answered some of those.
    pub forwards_waiting: usize,
    /// Plans, at most `PLANS_MAX`.
    pub plans: usize,
    /// Requests without a plan, at most `PLANS_MAX`.
    pub singles: usize,
    /// Pieces of work under bands, at most `PARTS_MAX`.
    pub parts: usize,
    /// Requests that wait for plans or pieces of work.
    pub stalled: usize,
    /// Requests that wait until their volume may be written to.
    pub blocked: usize,
    /// Requests that modify a volume, under way.
    pub writes: usize,
    /// Plans that wait for scratch memory.
    pub scratch_waiting: usize,
    /// Plans that wait for the next unit of a write-hole log.
    pub log_waiting: usize,
    /// Plans whose acknowledgement waits for a failure to be on record.
    pub acknowledgements: usize,
    /// Direct reads that wait to be reconstructed.
    pub recoveries: usize,
}

impl Occupancy {
    /// Of each figure the larger one.
    #[must_use]
    pub fn most(self, other: Occupancy) -> Occupancy {
        Occupancy {
            requests: self.requests.max(other.requests),
            requests_waiting: self.requests_waiting.max(other.requests_waiting),
            forwarded: self.forwarded.max(other.forwarded),
            forwarded_waiting: self.forwarded_waiting.max(other.forwarded_waiting),
            forwards: self.forwards.max(other.forwards),
            forwards_waiting: self.forwards_waiting.max(other.forwards_waiting),
            plans: self.plans.max(other.plans),
            singles: self.singles.max(other.singles),
            parts: self.parts.max(other.parts),
            stalled: self.stalled.max(other.stalled),
            blocked: self.blocked.max(other.blocked),
            writes: self.writes.max(other.writes),
            scratch_waiting: self.scratch_waiting.max(other.scratch_waiting),
            log_waiting: self.log_waiting.max(other.log_waiting),
            acknowledgements: self.acknowledgements.max(other.acknowledgements),
            recoveries: self.recoveries.max(other.recoveries),
        }
    }
}
