//! What a row holds beside its data: the one description of redundancy.
//!
//! Planners, locks, logs and bitmaps use these functions and never match on a level. A level with a second parity
//! would be described here; ARCHITECTURE.md, "A level is described in one place", lists what else it needs.

use super::{Geometry, Level};
use crate::units::{Slot, SlotSet};

/// How a row survives the loss of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// Not at all.
    None,
    /// Each data chunk is on several slots.
    Copies,
    /// The row has parity, which is computed from all its data.
    Parity,
}

impl Geometry {
    /// How each row survives the loss of members.
    #[must_use]
    #[inline]
    pub fn redundancy(&self) -> Redundancy {
        match self.level {
            Level::Raid0 => Redundancy::None,
            Level::Raid1 | Level::Raid10 => Redundancy::Copies,
            Level::Raid5 => Redundancy::Parity,
        }
    }

    /// Whether the volume survives the loss of a member.
    #[must_use]
    #[inline]
    pub fn redundant(&self) -> bool {
        self.redundancy() != Redundancy::None
    }

    /// Whether each data chunk is on several slots.
    #[must_use]
    #[inline]
    pub fn has_copies(&self) -> bool {
        self.redundancy() == Redundancy::Copies
    }

    /// Whether rows have parity. Then all writes to a row change the same blocks: they have to be ordered, are
    /// cheaper when merged, and can leave parity wrong when a crash interrupts them, which a write-hole log
    /// repairs.
    #[must_use]
    #[inline]
    pub fn has_parity(&self) -> bool {
        self.redundancy() == Redundancy::Parity
    }

    /// How many slots of each row hold parity; a row survives as many losses.
    #[must_use]
    #[inline]
    pub fn parity_count(&self) -> u8 {
        u8::from(self.has_parity())
    }

    /// Whether every byte can still be read or computed from the `present` slots alone.
    #[must_use]
    pub fn survives(&self, present: SlotSet) -> bool {
        let missing =
            u32::from(self.members) - (present.0 & SlotSet::all(self.members).0).count_ones();
        match self.level {
            Level::Raid0 => missing == 0,
            Level::Raid1 => missing < u32::from(self.members),
            Level::Raid5 => missing <= u32::from(self.parity_count()),
            Level::Raid10 => (0..self.members / 2).all(|pair| present.0 >> (pair * 2) & 0b11 != 0),
        }
    }

    /// The slot with the parity of `row`, where rows have parity.
    #[must_use]
    #[inline]
    pub fn parity_slot(&self, row: u64) -> Option<Slot> {
        self.has_parity().then(|| {
            let members = u64::from(self.members);
            let turn = if row <= u64::from(u32::MAX) {
                u64::from(row as u32 % members as u32)
            } else {
                row % members
            };
            Slot((members - 1 - turn) as u8)
        })
    }

    /// The slots with the parity of `row`; none where rows have no parity.
    #[must_use]
    #[inline]
    pub fn parity_slots(&self, row: u64) -> SlotSet {
        let parity = self.parity_slot(row);
        parity.map_or(SlotSet(0), |slot| SlotSet(0).with(slot))
    }

    /// Whether writes need a write-hole log to survive a crash and the loss of a member together.
    #[must_use]
    pub fn may_have_log(&self) -> bool {
        self.has_parity()
    }

    /// Length of the address space that a write-intent bitmap divides into regions: the volume for RAID 10, else
    /// each member's extent. The format defines it so.
    #[must_use]
    pub fn bitmap_bytes(&self) -> u64 {
        if self.is_bitmap_of_volume() {
            self.size_bytes
        } else {
            self.component_bytes
        }
    }

    fn is_bitmap_of_volume(&self) -> bool {
        self.level == Level::Raid10
    }

    /// The first and the last byte, in the address space of [`Geometry::bitmap_bytes`], that a write of a range
    /// of the volume may leave in doubt.
    #[must_use]
    pub fn bitmap_range(&self, offset_bytes: u64, length_bytes: u32) -> (u64, u64) {
        let last_byte = offset_bytes + u64::from(length_bytes.max(1)) - 1;
        if !self.has_parity() {
            return (offset_bytes, last_byte);
        }
        // The write changes parity in all its rows, so whole rows are in doubt.
        let (from, to) = (
            offset_bytes / self.row_bytes(),
            last_byte / self.row_bytes(),
        );
        let chunk = u64::from(self.chunk_bytes);
        let end = ((to + 1) * chunk).min(self.component_bytes);
        (from * chunk, end - 1)
    }

    /// As [`Geometry::bitmap_range`], for a range of offsets in all chunks of a row.
    #[must_use]
    pub fn bitmap_range_of_row(&self, row: u64, (low, high): (u32, u32)) -> (u64, u64) {
        if self.is_bitmap_of_volume() {
            return (row * self.row_bytes(), (row + 1) * self.row_bytes() - 1);
        }
        let first = row * u64::from(self.chunk_bytes) + u64::from(low);
        (first, first + u64::from(high - low) - 1)
    }

    /// The row, and the offset in its chunks, of a byte in the address space of [`Geometry::bitmap_bytes`].
    #[must_use]
    pub fn bitmap_place(&self, byte: u64) -> (u64, u32) {
        if self.is_bitmap_of_volume() {
            return (byte / self.row_bytes(), 0);
        }
        let chunk = u64::from(self.chunk_bytes);
        (byte / chunk, (byte % chunk) as u32)
    }
}
