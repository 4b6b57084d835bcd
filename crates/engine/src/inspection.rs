//! The state of a stripe's inspection: see [`crate::shard::jobs::inspect`].

use crate::order::ranges::Part;
use crate::units::{Buffer, Nanos};

/// Stands in place of a job's number in the parts of an inspection. No job has it: their numbers have 32 bits.
pub(crate) const INSPECTS: Buffer = Buffer(1 << 63);

/// Whether a part of background work is an inspection.
pub(crate) fn is_inspection(part: &Part) -> bool {
    part.buffer == INSPECTS
}

/// See the module's prose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspection {
    pub(super) ticket: u64,
    /// The plan that holds the lock; none while it waits for that.
    pub(super) held_by: Option<u32>,
    /// The tool does not wait for it any more: the lock is released as soon as it is held.
    pub(super) abandoned: bool,
    pub(super) until: Nanos,
}

impl Inspection {
    /// A plan holds the lock now. Returns the ticket of the tool that waits for it; none if no tool does any more, so
    /// that the lock is to be released.
    pub fn hold(inspection: &mut Option<Inspection>, plan: u32) -> Option<u64> {
        *inspection = inspection.filter(|one| !one.abandoned);
        let one = inspection.as_mut()?;
        one.held_by = Some(plan);
        Some(one.ticket)
    }

    /// The plan that holds the lock, if it is held.
    pub fn held_by(&self) -> Option<u32> {
        self.held_by
    }
}
