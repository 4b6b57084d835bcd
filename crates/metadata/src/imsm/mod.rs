//! IMSM: the on-disk metadata of Intel's storage firmware family, which Linux `mdadm` also speaks.
//!
//! # The format in one page
//!
//! Every member drive ends with a complete copy of one record, the *metadata parameter block*
//! ([`Mpb`]). It lists all drives of the container ([`Disk`]), identified by serial number, and
//! the volumes on them ([`Volume`]). A volume's [`Map`] says which drive serves which slot, where
//! the data starts, and in which state it is; while a volume is being synchronised, rebuilt or
//! reshaped there is a second map. A log of unreadable sectors may follow ([`BadBlockEntry`]).
//! There is no per-drive identity: a drive finds its own row by its serial number.
//!
//! # How this module is laid out
//!
//! In a sensible order for reading:
//!
//! * [`record`], [`attributes`]: the values, as typed fields;
//! * [`codec`]: bytes to values and back; [`migration_record`]: the separate record of a reshape;
//! * [`place`]: where on a drive these bytes are, and the image to write; [`shadow`]: a private second copy,
//!   used if every first one is torn; [`notes`]: what a serving process keeps across restarts;
//! * [`serial`], [`uuid`]: identities;
//! * [`geometry`]: levels, sizes, and what stays readable by firmware;
//! * [`build`]: new containers and every change of an existing record;
//! * [`choose`]: which copy is used when an array is assembled;
//! * [`start`]: whether and how each volume may then be started;
//! * [`log`]: the write-hole log of a RAID 5, and its replay after a crash;
//! * [`bitmap`]: the write-intent bitmap, which says what a crash has left in doubt.
//!
//! # Units
//!
//! In memory **every** sector number and count is in units of 512 bytes, also for drives with
//! 4096-byte sectors. Only [`codec`] knows that such drives store most fields in 4096-byte units;
//! [`SectorSize`] selects the unit. The constants below are in 512-byte sectors unless named
//! otherwise.

pub mod attributes;
pub mod bitmap;
pub mod build;
pub mod choose;
pub mod codec;
mod exercise;
pub mod geometry;
pub mod log;
pub mod migration_record;
pub mod notes;
pub mod place;
pub mod record;
pub mod serial;
pub mod shadow;
pub mod start;
pub mod uuid;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use attributes::Attributes;
pub use codec::{DecodeError, EncodeError, RecordIdentity, RecordPrint};
#[doc(hidden)]
pub use exercise::fuzz_one;
pub use geometry::Level;
pub use record::{
    BadBlockEntry, Disk, Map, MapState, Migration, MigrationKind, Mpb, SectorSize, SlotEntry,
    Volume, VolumeName, WriteHolePolicy,
};
pub use serial::Serial;
pub use shadow::Shadow;
pub use uuid::Uuid;

/// Bytes in the unit of every sector number in this module.
pub const SECTOR_BYTES: u64 = 512;

/// Sectors in 1 MiB. The data a volume keeps on each member is a multiple of this.
pub const SECTORS_PER_MIB: u64 = 2048;

/// Sectors after each member's data that hold the write-hole log (1 MiB: policy 3). They are
/// counted in a map's `sectors_per_member` whether a log is in use or not.
pub const WRITE_HOLE_LOG_SECTORS: u64 = 2048;

/// Size of the older write-hole log with a single slot (policy 1): 4 KiB header and 128 KiB data.
pub const SINGLE_WRITE_HOLE_LOG_SECTORS: u64 = 264;

/// Distance from the end of one volume's data to the start of the next on the same member. The
/// write-hole log lies in the first part of it.
pub const VOLUME_GAP_SECTORS: u64 = 8192;

/// Sectors kept free at the end of each drive when a volume is laid out: 2210 for the metadata
/// and the reshape copy area, and a reserve of 8192.
pub const RESERVED_AT_END_SECTORS: u64 = 2210 + 8192;

/// Largest record accepted, in bytes. It is larger than 255 drives with several volumes and a full
/// bad block log need, and such a record still ends before the reshape copy area, with both sector sizes.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Maximum number of entries in the bad block log.
pub const MAX_BAD_BLOCK_ENTRIES: usize = 254;

/// Maximum number of sectors in one entry of the bad block log, in records that this program writes.
pub const MAX_BAD_BLOCK_SECTORS: u32 = 256;
