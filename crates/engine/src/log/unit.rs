//! What is written to a write-hole log at once: see [`crate::log`].

use crate::limits::{LOG_HEADER_BYTES, LOG_PARTIAL_PARITY_BYTES_MAX};
use crate::units::{Slot, VolumeId};
use alloc::vec::Vec;

/// A range of one row that a plan changes: the same offsets of neighbouring data chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// First byte of it in the volume, in the lowest of the chunks.
    pub data_offset_bytes: u64,
    /// Bytes of it in all chunks together.
    pub data_bytes: u32,
    /// Bytes of its partial parity; zero when all data chunks of the row are changed.
    pub partial_parity_bytes: u32,
}

/// What is written to a log at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogUnit {
    /// The volume.
    pub volume: VolumeId,
    /// The slot whose drive holds the log. That drive holds the parity of all rows in the unit.
    pub slot: Slot,
    /// Grows with every unit of a log.
    pub generation: u64,
    /// What is about to change.
    pub entries: Vec<LogEntry>,
}

/// Memory of a log: a header and all partial parities of a unit, a power of two because scratch is given
/// out so.
pub(crate) const LOG_BUFFER_BYTES: u32 =
    (LOG_HEADER_BYTES + LOG_PARTIAL_PARITY_BYTES_MAX).next_power_of_two();
