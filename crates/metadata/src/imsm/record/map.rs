//! Maps: which drive serves which slot of a volume, where the data is, and the volume's state.

use crate::imsm::geometry::Level;
use alloc::vec::Vec;

/// How one volume is laid out on its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First sector of the data, the same on every member.
    pub start_sector: u64,
    /// Data plus write-hole log area on each member. Informative: see
    /// [`Map::component_sectors`].
    pub sectors_per_member: u64,
    /// Number of rows of strips; for mirrored levels half of it.
    pub data_stripes: u64,
    /// Sectors of a strip (chunk).
    pub sectors_per_strip: u32,
    /// State of the volume.
    pub state: MapState,
    /// Level byte as stored. RAID 10 of four drives is stored as 1: use [`Map::level`].
    pub stored_level: u8,
    /// 2 for mirrored levels, else 1.
    pub domains: u8,
    /// Lowest failed slot, if any.
    pub failed_slot: Option<u8>,
    /// The drive in each slot.
    pub order: Vec<SlotEntry>,
    /// Bytes that nothing here interprets.
    pub uninterpreted: MapBytes,
}

impl Map {
    /// Number of slots.
    #[must_use]
    pub fn members(&self) -> usize {
        self.order.len()
    }

    /// The RAID level, or `None` if the format has no such level with this number of members.
    ///
    /// Stored level 1 with two members is RAID 1, with any other number RAID 10.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        Level::from_stored(self.stored_level, self.members())
    }
}

/// Map bytes that nothing here interprets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapBytes {
    /// Byte 19, always 1 in known records.
    pub ddf: u8,
    /// Bytes 32 to 47.
    pub tail: [u8; 16],
}

impl Default for MapBytes {
    fn default() -> Self {
        Self {
            ddf: 1,
            tail: [0; 16],
        }
    }
}

/// State of a volume as its map records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapState {
    /// All members in sync (0).
    Normal,
    /// Never synchronised (1).
    Uninitialised,
    /// Works without redundancy (2).
    Degraded,
    /// Too many members lost (3).
    Failed,
    /// A value that is not known here.
    Unknown(u8),
}

/// One slot of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotEntry {
    /// Row of the disk table.
    pub disk_index: u32,
    /// The drive's content is not (yet) valid for this slot.
    pub out_of_sync: bool,
    /// The other bits of the entry's high byte, kept as read.
    pub other_flags: u8,
}

impl SlotEntry {
    /// An in-sync slot served by row `disk_index` of the disk table.
    #[must_use]
    pub fn in_sync(disk_index: u32) -> Self {
        Self {
            disk_index,
            out_of_sync: false,
            other_flags: 0,
        }
    }
}
