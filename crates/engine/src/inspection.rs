//! What is known of a stripe that stands still: see [`crate::shard::jobs::inspect`].

use crate::order::ranges::Part;
use crate::units::{Buffer, Nanos};

/// In place of a job's number, which has 32 bits.
pub(crate) const INSPECTS: Buffer = Buffer(1 << 63);

/// Whether a part of background work is for looking only.
pub(crate) fn is_inspection(part: &Part) -> bool {
    part.buffer == INSPECTS
}

/// See the module's prose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspection {
    pub(super) ticket: u64,
    /// The plan that holds the lock; none while it waits for that.
    pub(super) held_by: Option<u32>,
    /// Nobody waits for it any more.
    pub(super) abandoned: bool,
    pub(super) until: Nanos,
}

impl Inspection {
    /// The plan that holds the lock, if it is held.
    pub fn held_by(&self) -> Option<u32> {
        self.held_by
    }
}
