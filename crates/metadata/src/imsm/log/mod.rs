//! The write-hole log of a RAID 5: what the format's other writers call PPL, partial parity log.
//!
//! A crash in the middle of a write can leave a row whose parity does not fit its data. If a member is lost
//! then, what is computed for it is wrong, also where nobody wrote. So before a write touches a row, the
//! member that holds the row's **parity** gets an entry in its log: which chunks the write changes, and the
//! xor of those that it does not change, the *partial parity*. After a crash, partial parity xor the changed
//! chunks, be they old or new or half of each, is parity that fits. A write of all data chunks needs no
//! partial parity: parity is the xor of the row.
//!
//! # The area
//!
//! Each member keeps its log right behind its part of the volume
//! ([`Volume::write_hole_log_sector`](super::Volume::write_hole_log_sector)): 1 MiB (policy 3) or 264 sectors
//! (policy 1). A *unit* is a header of 4 KiB and, right behind it, the partial parity of its entries in their
//! order. Units lie behind each other from the area's start; when one does not fit any more, the next lies
//! at the start again. Generations grow, so [`walk`](walk::walk) finds the newest: the last of the chain.
//! **Only that one is replayed.** The writer submits a unit when all writes of the one before are durable.
//! Older units are not merely needless, but wrong: their partial parity may be outdated.
//!
//! # Rules for a writer
//!
//! * A unit is durable before any write that it covers begins; it retires when all of those are durable;
//!   only then may the next unit of that member be submitted.
//! * Behind the header at the area's start older units may lie. Whoever overwrites that start with a longer
//!   unit must not let the unit land without its header: a chain would be left that ends early, at an
//!   outdated unit. So either every unit lies at the area's start, where only the one before it can be left,
//!   or the header there is made invalid, durably, before a chain begins anew.
//! * [`initialise`](replay::initialise) makes an area empty in the same way: first no header, then nothing
//!   behind it, then the empty header.
//!
//! # How this module is laid out
//!
//! * [`codec`]: header to bytes and back;
//! * [`walk`]: finding the newest unit of an area;
//! * [`rows`]: which sectors an entry is about, checked against the volume;
//! * [`replay`]: making parity fit again, over any members that can be read and written.

pub mod codec;
mod exercise;
pub mod replay;
pub mod rows;
pub mod walk;

#[cfg(test)]
mod tests;

pub use codec::{HeaderProblem, encode_header};
pub(super) use exercise::exercise;
pub use replay::{Members, Report, initialise, replay};
pub use rows::LoggedVolume;
pub use walk::{AreaStart, Newest, Walk, walk};

use super::SECTOR_BYTES;
use alloc::vec::Vec;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;

/// Most entries that a header holds: what is left of it, in 24-byte entries.
pub const ENTRIES_MAX: usize = 148;

/// Most bytes of partial parity that other readers accept behind one header.
pub const PARTIAL_PARITY_BYTES_MAX: u32 = 128 * 1024;

/// One write, or several consecutive ones, to one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// First changed sector, in the volume. Of several chunks the lowest.
    pub data_sector: u64,
    /// Bytes of partial parity; 0 if all data chunks of the row are changed.
    pub partial_parity_bytes: u32,
    /// Bytes that are changed, all chunks together.
    pub data_bytes: u32,
    /// The slot that holds the row's parity.
    pub parity_slot: u32,
    /// CRC-32C of the partial parity; 0 if there is none.
    pub checksum: u32,
}

impl Entry {
    /// Sectors that its partial parity takes behind the header; a rest is not counted, as md does not.
    #[must_use]
    pub fn partial_parity_sectors(&self) -> u32 {
        self.partial_parity_bytes / SECTOR_BYTES as u32
    }
}

/// The beginning of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whose log it is: [`Mpb::container_family`](super::Mpb::container_family).
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

    /// Bytes of partial parity behind the header.
    #[must_use]
    pub fn partial_parity_bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| u64::from(entry.partial_parity_sectors()) * SECTOR_BYTES)
            .sum()
    }
}
