//! The values of a record, owned and in convenient units.
//!
//! Field names follow the format's own terms. Fields that no rule here interprets but that could
//! mean something to another reader are kept as raw bytes (`uninterpreted`), so that a record made
//! by another program is preserved when it is decoded, changed and encoded again.

mod map;

pub use map::{Map, MapBytes, MapState, SlotEntry};

use super::attributes::Attributes;
use super::serial::Serial;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Logical sector size of a drive. All members of a container have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectorSize {
    /// 512-byte sectors.
    Bytes512,
    /// 4096-byte sectors ("4Kn"): most numbers are stored in 4096-byte units.
    Bytes4096,
}

impl SectorSize {
    /// The sector size of `bytes` bytes, or `None` if the format does not know that size.
    #[must_use]
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            512 => Some(Self::Bytes512),
            4096 => Some(Self::Bytes4096),
            _ => None,
        }
    }

    /// Bytes per logical sector.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Bytes512 => 512,
            Self::Bytes4096 => 4096,
        }
    }

    /// 512-byte sectors per stored unit.
    #[must_use]
    pub fn scale(self) -> u64 {
        match self {
            Self::Bytes512 => 1,
            Self::Bytes4096 => 8,
        }
    }
}

/// The metadata parameter block: one record that describes a whole container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpb {
    /// The 32 signature bytes, version string included, verbatim.
    pub signature: [u8; 32],
    /// Changes when a spare is activated, so that drives of the same container that were used separately can be told
    /// apart.
    pub family_num: u32,
    /// Goes up by one with every write of the record.
    pub generation: u32,
    /// Stable identity of the container; 0 on spares and on some old records.
    pub orig_family_num: u32,
    /// Features in use.
    pub attributes: Attributes,
    /// Seconds since 1970; 0 on containers that firmware made.
    pub creation_time: u64,
    /// Power cycle counter; mdadm writes 1.
    pub power_cycle_count: u32,
    /// Counter from which volume ids are taken. It can be outdated, and is not the number of volumes.
    pub num_raid_devs_created: u16,
    /// Cache size in MB; 0.
    pub cache_size: u32,
    /// Bytes of error log; 0.
    pub error_log_size: u32,
    /// Position in the error log; 0.
    pub error_log_position: u8,
    /// The disk table. Slots and bad blocks refer to it by index.
    pub disks: Vec<Disk>,
    /// The volumes. None means that this is the record of a spare.
    pub volumes: Vec<Volume>,
    /// The bad block log.
    pub bad_blocks: Vec<BadBlockEntry>,
    /// Header bytes that nothing here interprets.
    pub uninterpreted: HeaderBytes,
    /// Bytes between the last volume and the bad block log (or the end); normally none.
    pub trailing: Vec<u8>,
}

/// Header bytes that this crate does not interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Byte 0x3B.
    pub after_error_log_position: u8,
    /// Bytes 0x4E to 0x4F.
    pub after_volumes_created: [u8; 2],
    /// Bytes 0x58 to 0xD7.
    pub tail: [u8; 128],
}

impl Default for HeaderBytes {
    fn default() -> Self {
        Self {
            after_error_log_position: 0,
            after_volumes_created: [0; 2],
            tail: [0; 128],
        }
    }
}

/// One row of the disk table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Serial number by which a drive finds its row; changed when the drive is marked failed.
    pub serial: Serial,
    /// Size of the drive.
    pub total_sectors: u64,
    /// SCSI address; 0 for NVMe, [`Disk::SCSI_ID_MISSING`] for a missing drive.
    pub scsi_id: u32,
    /// Status bits, see the constants of this type.
    pub status: u32,
    /// Owner configuration number; 0.
    pub owner_cfg_num: u32,
    /// Bytes that nothing here interprets.
    pub uninterpreted: [u8; 12],
}

impl Disk {
    /// Status bit: spare.
    pub const SPARE: u32 = 0x1;
    /// Status bit: member of a volume.
    pub const CONFIGURED: u32 = 0x2;
    /// Status bit: failed.
    pub const FAILED: u32 = 0x4;
    /// Status bit: journal drive.
    pub const JOURNAL: u32 = 0x0200_0000;
    /// `scsi_id` of a drive that was missing when the container was assembled.
    pub const SCSI_ID_MISSING: u32 = 0xFFFF_FFFF;

    /// A row for a healthy member.
    #[must_use]
    pub fn member(serial: Serial, total_sectors: u64) -> Self {
        Self {
            serial,
            total_sectors,
            scsi_id: 0,
            status: Self::CONFIGURED,
            owner_cfg_num: 0,
            uninterpreted: [0; 12],
        }
    }

    /// Whether the drive is marked failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.status & Self::FAILED != 0
    }
}

/// One volume of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Name, unique in the container.
    pub name: VolumeName,
    /// Usable size.
    pub size_sectors: u64,
    /// Status bits, see the constants of this type.
    pub status: u32,
    /// 1, 2, ... in order of creation.
    pub volume_id: u16,
    /// How parity is protected against a crash.
    pub write_hole_policy: WriteHolePolicy,
    /// Serial of a journal drive; zeros when there is none.
    pub journal_serial: Serial,
    /// Present while the volume is synchronised, rebuilt or reshaped.
    pub migration: Option<Migration>,
    /// Bit 0: dirty. Bit 1: the write-hole log is valid. See [`Volume::is_dirty`].
    pub dirty: u8,
    /// Mismatches that a verify has counted.
    pub verify_errors: u16,
    /// Bad blocks that a verify has counted (not the bad block log).
    pub verify_bad_blocks: u16,
    /// Layout and state. During a migration: the state after it.
    pub map: Map,
    /// Bytes that nothing here interprets.
    pub uninterpreted: VolumeBytes,
}

impl Volume {
    /// Status mdadm gives new volumes: read and write coalescing.
    pub const STATUS_NEW: u32 = 0xC;
    /// Status bit: the verify in progress also repairs.
    pub const VERIFY_AND_FIX: u32 = 0x80;
    /// Dirty bit: writes may be in flight.
    pub const DIRTY: u8 = 1;
    /// Dirty bit: the writes in flight are described in the write-hole log.
    pub const LOG_VALID: u8 = 2;

    /// Whether writes may have been in flight when this record was last written.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty & Self::DIRTY != 0
    }

    /// The map, then the second map if there is one.
    pub fn maps(&self) -> impl Iterator<Item = &Map> {
        core::iter::once(&self.map).chain(self.migration.as_ref().map(|m| &m.second_map))
    }

    /// Like [`Volume::maps`], but mutable.
    pub fn maps_mut(&mut self) -> impl Iterator<Item = &mut Map> {
        core::iter::once(&mut self.map).chain(self.migration.as_mut().map(|m| &mut m.second_map))
    }

    /// The map that says which slots are in sync **now**: the second one during a migration.
    #[must_use]
    pub fn current_map(&self) -> &Map {
        self.migration
            .as_ref()
            .map_or(&self.map, |migration| &migration.second_map)
    }
}

/// Volume bytes that nothing here interprets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeBytes {
    /// Bytes 28 to 39: reserved blocks, priorities, cloning, cache policy.
    pub reserved_to_cloning: [u8; 12],
    /// Bytes 42 to 49: caching on another device.
    pub caching: [u8; 8],
    /// Bytes 67 to 79.
    pub device_tail: [u8; 13],
    /// Bytes 84 to 87.
    pub checkpoint_id: [u8; 4],
    /// Byte 91.
    pub file_system_state: u8,
    /// Bytes 100 to 111.
    pub volume_tail: [u8; 12],
    /// The migration type field while no migration is in progress, where it has no meaning.
    pub idle_migration_type: u8,
    /// The checkpoint field while no migration is in progress, where it has no meaning.
    pub idle_checkpoint: u64,
}

/// A background operation that the record describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The kind of operation.
    pub kind: MigrationKind,
    /// Progress, in units that depend on level and kind: see
    /// [`build::checkpoint`](super::build::checkpoint).
    pub checkpoint_unit: u64,
    /// The state before the operation; says which slots are in sync now.
    pub second_map: Map,
}

/// What a migration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MigrationKind {
    /// First synchronisation of a new volume (type 0).
    InitialSync,
    /// Rebuilding a member (type 1).
    Rebuild,
    /// Verify without repair (type 2).
    Verify,
    /// Resynchronisation after a crash: type 2 with status bit 0x80.
    Repair,
    /// Change of level, size or number of members (type 3).
    General,
    /// State change (type 4).
    StateChange,
    /// A type that is not known here.
    Unknown(u8),
}

/// How parity is protected when a crash interrupts a write (the "write hole").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteHolePolicy {
    /// No protection, old value (0).
    OffOld,
    /// Log on the members, one slot each (1).
    LogSingle,
    /// Log on a journal drive (2).
    JournalDrive,
    /// Log on the members, several slots each: what mdadm calls PPL (3).
    Log,
    /// Several logs on a journal drive (4).
    JournalDriveMultiple,
    /// No protection, current value (5).
    Off,
    /// mdadm's write-intent bitmap (6).
    Bitmap,
    /// A value that is not known here.
    Unknown(u8),
}

impl WriteHolePolicy {
    /// The policy as a word, the one that the command line accepts if the policy can be chosen there.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Log | Self::LogSingle => "log",
            Self::JournalDrive | Self::JournalDriveMultiple => "journal",
            Self::Bitmap => "bitmap",
            Self::Off | Self::OffOld => "off",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether the policy keeps a log on the members.
    #[must_use]
    pub fn is_member_log(self) -> bool {
        matches!(self, Self::LogSingle | Self::Log)
    }
}

/// One entry of the bad block log: sectors of one drive that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BadBlockEntry {
    /// Row of the disk table.
    pub disk_index: u8,
    /// First sector on the drive (not relative to a volume); 48 bits.
    pub start_sector: u64,
    /// Number of sectors, at least 1.
    pub sectors: u32,
}

/// Name of a volume: up to 16 bytes, padded with NUL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeName(pub [u8; 16]);

impl VolumeName {
    /// The name `text`, or `None` unless it is 1 to 16 letters, digits, `.`, `_` or `-` without a
    /// leading `.` or `-` (what mdadm accepts, and what is safe on a command line).
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        if bytes.is_empty()
            || bytes.len() > 16
            || matches!(bytes[0], b'.' | b'-')
            || !bytes.iter().all(allowed)
        {
            return None;
        }
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(Self(padded))
    }

    /// The name as text; bytes that are not printable ASCII appear as `?`.
    #[must_use]
    pub fn text(&self) -> String {
        super::serial::printable(&self.0)
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text())
    }
}

impl fmt::Debug for VolumeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "VolumeName({:?})", self.text())
    }
}

impl Mpb {
    /// Identity of the container: `orig_family_num`, or if that is 0, `family_num`.
    #[must_use]
    pub fn container_family(&self) -> u32 {
        if self.orig_family_num == 0 {
            self.family_num
        } else {
            self.orig_family_num
        }
    }

    /// Whether this is the record of a spare, which has no volume.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        self.volumes.is_empty()
    }

    /// Row of the disk table with exactly this serial.
    #[must_use]
    pub fn disk_index_of(&self, serial: &Serial) -> Option<usize> {
        self.disks.iter().position(|disk| disk.serial == *serial)
    }
}
