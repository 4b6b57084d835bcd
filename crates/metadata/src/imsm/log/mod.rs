//! The write-hole log of a RAID 5, which other programs for this format call PPL (partial parity log).
//!
//! A crash in the middle of a write can leave a row whose parity does not match its data. If a member is lost
//! then, the content computed for it is wrong, even in chunks that were not written. So before a write changes a row,
//! the member that holds the row's **parity** gets an entry in its log: which chunks the write changes, and the
//! XOR of the chunks that it does not change, the *partial parity*. After a crash, partial parity XOR the changed
//! chunks gives matching parity, whether each of these chunks is old, new or partly written. A write of all data chunks
//! needs no partial parity: parity is then the XOR of all of them.
//!
//! # The area
//!
//! Each member keeps its log right after its part of the volume
//! ([`Volume::write_hole_log_sector`](super::Volume::write_hole_log_sector)): 1 MiB (policy 3) or 264 sectors
//! (policy 1). A *unit* is a header of 4 KiB followed by the partial parity of its entries in their
//! order. Units follow each other from the area's start; when the next one does not fit any more, it is
//! written at the start again. Generations grow, so [`walk`](walk::walk) finds the newest: the last of the chain.
//! **Only that one is replayed.** The writer submits a unit when all writes of the one before are durable.
//! Replaying older units would not merely be needless, but wrong: their partial parity may be outdated.
//!
//! # Rules for a writer
//!
//! * A unit is durable before any write that it covers begins. It retires when all of those writes are durable;
//!   only then may the next unit of that member be submitted.
//! * After the unit at the area's start there may be older units. A writer that overwrites the start with a longer
//!   unit must not let a part of that unit reach the drive without its header: this would leave a chain that ends
//!   early, at an outdated unit. So either every unit is written at the area's start, where only the unit before it can
//!   be left, or the header there is made invalid, durably, before a new chain begins.
//! * [`initialise`](replay::initialise) empties an area by the same rule: it removes the header first, then everything
//!   after it, and then writes the empty header.
//!
//! # How this module is laid out
//!
//! * [`codec`]: header to bytes and back;
//! * [`walk`]: finding the newest unit of an area;
//! * [`rows`]: which sectors an entry covers, checked against the volume;
//! * [`replay`]: recomputes parity, on any members that can be read and written.

pub mod codec;
mod exercise;
pub mod replay;
pub mod rows;
pub mod walk;

#[cfg(test)]
mod tests;

pub use codec::{HeaderProblem, encode_header};
pub(super) use exercise::exercise;
pub use replay::{LogReport, Members, initialise, replay};
pub use rows::LoggedVolume;
pub use walk::{AreaStart, Newest, Walk, walk};

use super::SECTOR_BYTES;
use alloc::vec::Vec;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;

/// Maximum number of entries in a header: 24-byte entries in the rest of its space.
pub const ENTRIES_MAX: usize = 148;

/// Maximum length of the partial parity after one header that other readers accept.
pub const PARTIAL_PARITY_BYTES_MAX: u32 = 128 * 1024;

/// One write, or several consecutive ones, to one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// First changed sector, in the volume. If several chunks are changed, the lowest.
    pub data_sector: u64,
    /// Bytes of partial parity; 0 if all data chunks of the row are changed.
    pub partial_parity_bytes: u32,
    /// Number of changed bytes, in all chunks together.
    pub data_bytes: u32,
    /// The slot that holds the row's parity.
    pub parity_slot: u32,
    /// CRC-32C of the partial parity; 0 if there is none.
    pub checksum: u32,
}

impl Entry {
    /// Sectors of its partial parity after the header; an incomplete sector is not counted, as in md.
    #[must_use]
    pub fn partial_parity_sectors(&self) -> u32 {
        self.partial_parity_bytes / SECTOR_BYTES as u32
    }
}

/// The beginning of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The container to which the log belongs: [`Mpb::container_family`](super::Mpb::container_family).
    pub signature: u32,
    /// Grows from unit to unit, over all members of the volume; 0 in the empty header.
    pub generation: u64,
    /// At most [`ENTRIES_MAX`].
    pub entries: Vec<Entry>,
}

impl Header {
    /// The header of an area without a unit: generation 0, no entries.
    #[must_use]
    pub fn empty(signature: u32) -> Self {
        Self {
            signature,
            ..Self::default()
        }
    }

    /// Bytes of partial parity after the header.
    #[must_use]
    pub fn partial_parity_bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| u64::from(entry.partial_parity_sectors()) * SECTOR_BYTES)
            .sum()
    }
}
