//! The attribute word of a record, and the version string next to it.
//!
//! Attributes say which features a reader must know. A reader that finds a bit it does not know
//! must not start any volume of the container. The version string serves the same purpose in an
//! older form. It can be outdated, so it is ignored when reading. But all members must carry the
//! same signature bytes, so a record that is rewritten keeps the string it was read with. Records
//! made here have version 1.3.00 (attributes in use) and set one bit per RAID level present.

use super::geometry::Level;
use super::record::Mpb;
use alloc::vec::Vec;
use core::fmt;

/// Signature and version string of the records we create: 24 fixed bytes, then `1.3.00`.
pub const SIGNATURE_1_3_00: [u8; 32] = *b"Intel Raid ISM Cfg Sig. 1.3.00\0\0";

/// The fixed part that identifies a record.
pub const SIGNATURE_PREFIX: [u8; 24] = *b"Intel Raid ISM Cfg Sig. ";

/// Largest number of sectors that fits the 32-bit fields.
const LARGEST_32_BIT: u64 = u32::MAX as u64;

/// Strips above this many sectors (128 KiB) need [`Attributes::LARGE_STRIP`].
const LARGEST_COMMON_STRIP_SECTORS: u32 = 256;

/// The set of features a record uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub u32);

impl Attributes {
    /// A RAID 0 volume is present.
    pub const RAID0: Self = Self(0x0000_0001);
    /// A RAID 1 volume is present.
    pub const RAID1: Self = Self(0x0000_0002);
    /// A RAID 10 volume is present.
    pub const RAID10: Self = Self(0x0000_0004);
    /// A RAID 1E volume is present (not supported).
    pub const RAID1E: Self = Self(0x0000_0008);
    /// A RAID 5 volume is present.
    pub const RAID5: Self = Self(0x0000_0010);
    /// Clone-and-go is in use (not supported).
    pub const CLONE_AND_GO: Self = Self(0x0000_0020);
    /// A volume has a strip of 256 KiB, 512 KiB or 1 MiB.
    pub const LARGE_STRIP: Self = Self(0x0000_0040);
    /// A RAID 10 volume has more than four drives.
    pub const RAID10_WIDE: Self = Self(0x0000_0080);
    /// Caching on another device, first form (not supported).
    pub const CACHING: Self = Self(0x0200_0000);
    /// A drive has more than 2^32 sectors; without this bit the high words are ignored.
    pub const LARGE_DISK: Self = Self(0x0400_0000);
    /// A bad block log is present.
    pub const BAD_BLOCK_LOG: Self = Self(0x0800_0000);
    /// Caching on another device, second form (not supported).
    pub const CACHING_EXTENDED: Self = Self(0x1000_0000);
    /// A volume has more than 2^32 sectors.
    pub const LARGE_VOLUME: Self = Self(0x2000_0000);
    /// Historic mark for port multipliers; ignored.
    pub const PORT_MULTIPLIER: Self = Self(0x4000_0000);
    /// The checksum must be verified. Always set in what we create.
    pub const CHECKSUM: Self = Self(0x8000_0000);

    /// Bits that say which levels and shapes are present; recomputed when volumes are added or deleted.
    const SHAPE_BITS: u32 = Self::RAID0.0
        | Self::RAID1.0
        | Self::RAID10.0
        | Self::RAID5.0
        | Self::LARGE_STRIP.0
        | Self::RAID10_WIDE.0;

    /// All bits with which this program still starts a volume.
    const SUPPORTED: u32 = Self::SHAPE_BITS
        | Self::LARGE_DISK.0
        | Self::BAD_BLOCK_LOG.0
        | Self::LARGE_VOLUME.0
        | Self::PORT_MULTIPLIER.0
        | Self::CHECKSUM.0;

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These bits except those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits that forbid starting any volume: features that are not supported, and unknown ones.
    #[must_use]
    pub fn unsupported(self) -> Self {
        Self(self.0 & !Self::SUPPORTED)
    }

    /// Names of the bits, for messages. An unknown bit appears as its value.
    #[must_use]
    pub fn names(self) -> Vec<AttributeName> {
        (0..32)
            .map(|bit| 1u32 << bit)
            .filter(|bit| self.0 & bit != 0)
            .map(AttributeName)
            .collect()
    }
}

/// One attribute bit; it is printed as a name that a person can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeName(u32);

impl fmt::Display for AttributeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match Attributes(self.0) {
            Attributes::RAID0 => "RAID 0",
            Attributes::RAID1 => "RAID 1",
            Attributes::RAID10 => "RAID 10",
            Attributes::RAID1E => "RAID 1E",
            Attributes::RAID5 => "RAID 5",
            Attributes::CLONE_AND_GO => "clone-and-go",
            Attributes::LARGE_STRIP => "strip above 128 KiB",
            Attributes::RAID10_WIDE => "RAID 10 of more than 4 drives",
            Attributes::CACHING => "caching",
            Attributes::LARGE_DISK => "drive above 2^32 sectors",
            Attributes::BAD_BLOCK_LOG => "bad block log",
            Attributes::CACHING_EXTENDED => "extended caching",
            Attributes::LARGE_VOLUME => "volume above 2^32 sectors",
            Attributes::PORT_MULTIPLIER => "port multiplier",
            Attributes::CHECKSUM => "checksum",
            Attributes(bit) => return write!(out, "unknown bit {bit:#010x}"),
        };
        out.write_str(name)
    }
}

impl Mpb {
    /// The attributes to be written: the record's own, with the bits that follow from its content.
    ///
    /// The bad block log bit is set exactly if there is a log. The bits for large drives and volumes are added
    /// when a number needs its high word, because a reader would otherwise ignore that word; they are
    /// never removed.
    #[must_use]
    pub fn attributes_on_disk(&self) -> Attributes {
        let mut attributes = self.attributes.without(Attributes::BAD_BLOCK_LOG);
        if !self.bad_blocks.is_empty() {
            attributes = attributes.with(Attributes::BAD_BLOCK_LOG);
        }
        if self
            .disks
            .iter()
            .any(|disk| disk.total_sectors > LARGEST_32_BIT)
            || self
                .volumes
                .iter()
                .flat_map(|volume| volume.maps())
                .any(map_needs_high_words)
        {
            attributes = attributes.with(Attributes::LARGE_DISK);
        }
        if self
            .volumes
            .iter()
            .any(|volume| volume.size_sectors > LARGEST_32_BIT)
        {
            attributes = attributes.with(Attributes::LARGE_VOLUME);
        }
        attributes
    }

    /// Changes signature and attributes to the form in which this program creates records: version 1.3.00 and one bit
    /// per level present. Called when volumes are added or deleted, never for a mere change of state.
    pub(super) fn restyle(&mut self) {
        self.signature = SIGNATURE_1_3_00;
        let mut attributes =
            Attributes(self.attributes.0 & !Attributes::SHAPE_BITS).with(Attributes::CHECKSUM);
        for map in self.volumes.iter().flat_map(|volume| volume.maps()) {
            attributes = attributes.with(shape_of(map));
        }
        self.attributes = attributes;
        self.attributes = self.attributes_on_disk();
    }
}

fn map_needs_high_words(map: &super::record::Map) -> bool {
    map.start_sector > LARGEST_32_BIT
        || map.sectors_per_member > LARGEST_32_BIT
        || map.data_stripes > LARGEST_32_BIT
}

fn shape_of(map: &super::record::Map) -> Attributes {
    let level = match map.level() {
        Some(Level::Raid0) => Attributes::RAID0,
        Some(Level::Raid1) => Attributes::RAID1,
        Some(Level::Raid10) if map.members() > 4 => {
            Attributes::RAID10.with(Attributes::RAID10_WIDE)
        }
        Some(Level::Raid10) => Attributes::RAID10,
        Some(Level::Raid5) => Attributes::RAID5,
        None => Attributes::default(),
    };
    if map.sectors_per_strip > LARGEST_COMMON_STRIP_SECTORS {
        level.with(Attributes::LARGE_STRIP)
    } else {
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn unsupported_bits_are_named() {
        let attributes = Attributes(0x8000_0100 | Attributes::RAID1E.0);
        let names: Vec<_> = attributes
            .unsupported()
            .names()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["RAID 1E", "unknown bit 0x00000100"]);
    }

    #[test]
    fn everything_mdadm_accepts_is_supported() {
        // The bits mdadm 4.6 starts volumes with.
        for bit in [
            0x1u32,
            0x2,
            0x4,
            0x10,
            0x40,
            0x80,
            0x0400_0000,
            0x0800_0000,
            0x2000_0000,
            0x4000_0000,
            0x8000_0000,
        ] {
            assert_eq!(Attributes(bit).unsupported(), Attributes(0), "{bit:#x}");
        }
        for bit in [0x8u32, 0x20, 0x100, 0x0200_0000, 0x1000_0000] {
            assert_eq!(Attributes(bit).unsupported(), Attributes(bit), "{bit:#x}");
        }
    }
}
