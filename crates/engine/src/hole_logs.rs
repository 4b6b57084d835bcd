//! The write-hole logs that a shard writes, and the plans that wait for one: see [`crate::log`].

use crate::log::SlotLog;
use crate::units::MemberSet;
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Logs {
    /// The write-hole logs that this shard writes.
    pub(crate) logs: Vec<SlotLog>,
    /// Pieces of plans that have left a log, and members that missed them and whose failure is not on record.
    pub(crate) owing_logs: Vec<(u32, MemberSet)>,
    /// Plans that wait for members' failures to be on record: see [`crate::log`].
    pub(crate) unlogged: Vec<u32>,
    /// Plans that wait for the next unit of one.
    pub(crate) logs_waiting: usize,
}
