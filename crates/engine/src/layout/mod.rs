//! Where the bytes of a volume lie on its members: pure arithmetic, no state.
//!
//! A volume is a stack of *rows*. A row takes one chunk from every slot, at the same offset on each.
//! The data chunks of a row are numbered by *data index*, in volume order. RAID 1 has no chunks;
//! its rows are [`MIRROR_ROW_BYTES`] high, which gives locks and ownership their granularity. Placement follows
//! the IMSM format: RAID 10 keeps each chunk on a pair of neighbouring slots, RAID 5 is left-asymmetric (parity
//! moves down by one slot a row, data fills the others in order).

mod level;
mod redundancy;
#[cfg(test)]
mod tests;

pub use level::Level;
pub use redundancy::Redundancy;

use crate::limits::{
    BAND_BYTES_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, MIRROR_ROW_BYTES, MIRROR_STEP_BYTES_MAX,
    VOLUME_MEMBERS_MAX,
};
use crate::units::{ShardId, Slot, SlotSet};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// How many drives an array needs, in the one wording that all messages use: `3 to 64 drives`.
#[must_use]
pub fn drives_in_words(least: usize, is_even: bool) -> String {
    if is_even {
        format!("an even number of drives from {least} to {VOLUME_MEMBERS_MAX}")
    } else {
        format!("{least} to {VOLUME_MEMBERS_MAX} drives")
    }
}

/// Why a geometry is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// The level does not work with this many members.
    Members {
        /// The level.
        level: Level,
        /// The requested number of members.
        members: usize,
    },
    /// The chunk is not a power of two from 4 KiB to 1 MiB.
    Chunk,
    /// Block size is neither 512 nor 4096.
    Block,
    /// Component or volume size is zero, misaligned, or the volume is larger than its members.
    Size,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GeometryError::Members { level, members } => {
                let needed = drives_in_words(level.members_min(), *level == Level::Raid10);
                return write!(f, "{level} needs {needed}, not {members}");
            }
            GeometryError::Chunk => "the chunk must be a power of two from 4 KiB to 1 MiB",
            GeometryError::Block => "the block size must be 512 or 4096 bytes",
            GeometryError::Size => "the volume size does not fit its members",
        })
    }
}

/// The shape of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// RAID level.
    pub level: Level,
    /// Number of slots.
    pub members: u8,
    /// Bytes of one chunk; [`MIRROR_ROW_BYTES`] for RAID 1.
    pub chunk_bytes: u32,
    /// First byte of the volume's extent on every member.
    pub start_bytes: u64,
    /// Bytes of the extent on every member.
    pub component_bytes: u64,
    /// Size that clients see.
    pub size_bytes: u64,
    /// Smallest addressable unit: 512 or 4096 bytes.
    pub block_bytes: u32,
}

/// A place in a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// Row number.
    pub row: u64,
    /// Which data chunk of the row.
    pub data_index: u8,
    /// Offset in the chunk.
    pub in_chunk_bytes: u32,
}

impl Geometry {
    /// Checks every limit and returns the geometry; RAID 1 ignores `chunk_bytes`.
    pub fn new(mut shape: Geometry) -> Result<Geometry, GeometryError> {
        shape.level.check_members(usize::from(shape.members))?;
        if shape.block_bytes != 512 && shape.block_bytes != 4096 {
            return Err(GeometryError::Block);
        }
        if shape.level == Level::Raid1 {
            shape.chunk_bytes = MIRROR_ROW_BYTES;
        }
        let chunk = shape.chunk_bytes;
        if !chunk.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk) {
            return Err(GeometryError::Chunk);
        }
        let grain = if shape.level == Level::Raid1 {
            shape.block_bytes
        } else {
            chunk
        };
        let block = u64::from(shape.block_bytes);
        let room = shape
            .component_bytes
            .checked_mul(u64::from(shape.data_members()));
        if shape.size_bytes == 0
            || !shape.size_bytes.is_multiple_of(block)
            || !shape.start_bytes.is_multiple_of(block)
            || !shape.component_bytes.is_multiple_of(u64::from(grain))
            || room.is_none_or(|room| shape.size_bytes > room)
            || shape
                .start_bytes
                .checked_add(shape.component_bytes)
                .is_none()
        {
            return Err(GeometryError::Size);
        }
        Ok(shape)
    }

    /// How many data chunks a row holds.
    #[must_use]
    #[inline]
    pub fn data_members(&self) -> u8 {
        self.level.data_members(self.members)
    }

    /// Bytes of data in one full row.
    #[must_use]
    #[inline]
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.chunk_bytes) * u64::from(self.data_members())
    }

    /// Number of rows; the last row of a RAID 1 may be short ([`Geometry::row_height_bytes`]).
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.component_bytes.div_ceil(u64::from(self.chunk_bytes))
    }

    /// The *band*, how much of a chunk is locked and planned together: a power of two. Parity plans hold scratch
    /// memory for most of a row's band; mirror plans hold some only in background work.
    #[must_use]
    pub fn band_bytes(&self) -> u32 {
        let limit = match self.level {
            Level::Raid5 => BAND_BYTES_MAX,
            Level::Raid0 | Level::Raid1 | Level::Raid10 => {
                let share = MIRROR_STEP_BYTES_MAX / u32::from(self.members);
                (1 << share.ilog2()).max(BAND_BYTES_MAX)
            }
        };
        self.chunk_bytes.min(limit)
    }

    /// Number of bands of the volume.
    #[must_use]
    pub fn bands(&self) -> u64 {
        self.rows() * u64::from(self.chunk_bytes / self.band_bytes())
    }

    /// Bytes that `row` takes on each member.
    #[must_use]
    pub fn row_height_bytes(&self, row: u64) -> u32 {
        let from = row * u64::from(self.chunk_bytes);
        (self.component_bytes - from).min(u64::from(self.chunk_bytes)) as u32
    }

    /// Where byte `offset_bytes` of the volume lies.
    #[must_use]
    #[inline]
    pub fn locate(&self, offset_bytes: u64) -> Location {
        let shift = self.chunk_bytes.trailing_zeros();
        let chunk = offset_bytes >> shift;
        let in_chunk_bytes = (offset_bytes & u64::from(self.chunk_bytes - 1)) as u32;
        let data_members = u64::from(self.data_members());
        // Powers of two are common, and a 64-bit division is the most expensive instruction of the data path.
        let (row, data_index) = if data_members.is_power_of_two() {
            (
                chunk >> data_members.trailing_zeros(),
                chunk & (data_members - 1),
            )
        } else if chunk <= u64::from(u32::MAX) {
            let (chunk, data_members) = (chunk as u32, data_members as u32);
            (
                u64::from(chunk / data_members),
                u64::from(chunk % data_members),
            )
        } else {
            (chunk / data_members, chunk % data_members)
        };
        Location {
            row,
            data_index: data_index as u8,
            in_chunk_bytes,
        }
    }

    /// The volume offset of a place: the inverse of [`Geometry::locate`].
    #[must_use]
    pub fn volume_offset_bytes(&self, place: Location) -> u64 {
        (place.row * u64::from(self.data_members()) + u64::from(place.data_index))
            * u64::from(self.chunk_bytes)
            + u64::from(place.in_chunk_bytes)
    }

    /// Byte offset on the member of a place in `row`.
    #[must_use]
    #[inline]
    pub fn member_offset_bytes(&self, row: u64, in_chunk_bytes: u32) -> u64 {
        self.start_bytes + row * u64::from(self.chunk_bytes) + u64::from(in_chunk_bytes)
    }

    /// The slots that hold data chunk `data_index` of `row`: one, a pair, or all of a RAID 1.
    #[must_use]
    #[inline]
    pub fn data_slots(&self, row: u64, data_index: u8) -> SlotSet {
        match self.level {
            Level::Raid0 => SlotSet(1 << data_index),
            Level::Raid1 => SlotSet::all(self.members),
            Level::Raid10 => SlotSet(0b11 << (data_index * 2)),
            Level::Raid5 => SlotSet(1 << self.raid5_data_slot(row, data_index).0),
        }
    }

    fn raid5_data_slot(&self, row: u64, data_index: u8) -> Slot {
        let parity = self.parity_slot(row).map_or(self.members, |slot| slot.0);
        Slot(if data_index < parity {
            data_index
        } else {
            data_index + 1
        })
    }

    /// Which data chunk of `row` a slot holds; `None` for parity.
    #[must_use]
    pub fn data_index(&self, row: u64, slot: Slot) -> Option<u8> {
        match self.level {
            Level::Raid0 => Some(slot.0),
            Level::Raid1 => Some(0),
            Level::Raid10 => Some(slot.0 / 2),
            Level::Raid5 => {
                let parity = self.parity_slot(row)?;
                match slot.0.cmp(&parity.0) {
                    core::cmp::Ordering::Less => Some(slot.0),
                    core::cmp::Ordering::Equal => None,
                    core::cmp::Ordering::Greater => Some(slot.0 - 1),
                }
            }
        }
    }

    /// The shard that plans writes, degraded reads and repairs of `row`.
    ///
    /// RAID 5 assigns rows by parity slot, so that a member's write-hole log has exactly one writer.
    #[must_use]
    #[inline]
    pub fn owner(&self, row: u64, shards: u8) -> ShardId {
        if shards == 1 {
            return ShardId(0);
        }
        match self.parity_slot(row) {
            Some(slot) => Self::log_owner(slot, shards),
            None => ShardId((row % u64::from(shards)) as u8),
        }
    }

    /// The shard that owns the rows whose parity is on `slot`, and so writes that slot's log.
    #[must_use]
    #[inline]
    pub fn log_owner(slot: Slot, shards: u8) -> ShardId {
        ShardId(slot.0 % shards)
    }
}
