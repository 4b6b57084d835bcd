//! The write-intent bitmap of a volume (policy 6): which regions may have been in the middle of a write.
//!
//! A bit is durable on every member before anything in its region is written, and cleared some time after
//! the last write to the region is durable. So after a crash only the regions of set bits have to be synchronised. A
//! member that comes back after an absence lacks only the regions that are marked, as long as no bit has been cleared
//! since it left.
//!
//! # On the drive
//!
//! The bitmap is in the MiB after the volume's data on each member, where a RAID 5 without a bitmap would have
//! its log ([`Volume::write_hole_log_sector`](super::Volume::write_hole_log_sector)). Offsets from its start:
//!
//! | byte | what |
//! |---|---|
//! | 0 | not used, 8 KiB |
//! | 8192 | header, 256 bytes; the rest of its 4 KiB is zero |
//! | 12288 | the bits: region `n` is bit `n % 8` of byte `n / 8`; up to the end of the MiB |
//!
//! The header is the superblock of md's bitmaps, version 4, little-endian:
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `bitm` |
//! | 4 | 4 | version, 4 |
//! | 8 | 16 | UUID of the volume ([`Uuid::of_volume`]) |
//! | 24 | 8 | event counter |
//! | 32 | 8 | event counter at which bits may last have been cleared |
//! | 40 | 8 | mdadm writes the length of the bits here (0xFD000), not that of the volume |
//! | 48 | 4 | state, 0 |
//! | 52 | 4 | bytes of a region; mdadm's choice is 64 MiB |
//! | 56 | 4 | seconds until md clears bits, 5 |
//! | 60 | 196 | zero |
//!
//! Verified against what mdadm 4.2 writes: see the tests. md calls such a bitmap external: it takes
//! the size of regions from its header, reads and writes bits, and never touches the header again, so both event
//! counters stay unchanged while md runs. Here they are generations of the record; they can be used only
//! if it is known that no other program has written since.
//!
//! # What a region is
//!
//! On RAID 1 and 5, a range of every member's part of the volume; on RAID 10, a range of the volume itself.
//! md numbers regions in this way.

use super::geometry::{Level, check_volume};
use super::record::{Mpb, SectorSize};
use super::uuid::Uuid;
use super::{SECTOR_BYTES, WRITE_HOLE_LOG_SECTORS};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

#[cfg(test)]
mod tests;

/// Distance from the end of the volume's data on a member to the header.
pub const HEADER_OFFSET_BYTES: u64 = 8192;
/// Distance from the end of the volume's data to the bits.
pub const BITS_OFFSET_BYTES: u64 = 12288;
/// Space for bits.
pub const BITS_BYTES_MAX: u64 = WRITE_HOLE_LOG_SECTORS * SECTOR_BYTES - BITS_OFFSET_BYTES;
/// Bytes written for a header: everything from its start to the bits.
pub const HEADER_BYTES: usize = (BITS_OFFSET_BYTES - HEADER_OFFSET_BYTES) as usize;
/// Default size of a region: the size that mdadm chooses for this format.
pub const REGION_BYTES_DEFAULT: u32 = 64 << 20;
/// Smallest size of a region; with smaller ones a bitmap costs more than it saves.
pub const REGION_BYTES_MIN: u32 = 64 << 10;
/// Largest size of a region: the largest power of two that fits the header's 32 bits.
pub const REGION_BYTES_MAX: u32 = 1 << 31;

const MAGIC: [u8; 4] = *b"bitm";
const VERSION: u32 = 4;
const DAEMON_SLEEP_SECONDS: u32 = 5;

/// The content of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The volume it belongs to.
    pub uuid: Uuid,
    /// Generation of the record when the header was last written.
    pub events: u64,
    /// A member whose record is older than this generation may lack regions whose bits have been cleared.
    pub events_cleared: u64,
    /// Bytes of a region, a power of two.
    pub region_bytes: u32,
}

/// Why bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProblem {
    /// There are too few bytes, or the magic is missing.
    Absent,
    /// Another version.
    Version(u32),
    /// The UUID is that of another volume.
    OtherVolume(Uuid),
    /// The region size is impossible, or needs more bits than there is space for.
    Region(u32),
}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => out.write_str("no header"),
            Self::Version(version) => write!(out, "version {version} is not supported"),
            Self::OtherVolume(uuid) => write!(out, "it belongs to volume {uuid}"),
            Self::Region(bytes) => write!(out, "a region of {bytes} bytes is not possible"),
        }
    }
}

impl Header {
    /// The header in its form on the drive, up to the bits.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(4, &VERSION.to_le_bytes());
        put(8, &self.uuid.0);
        put(24, &self.events.to_le_bytes());
        put(32, &self.events_cleared.to_le_bytes());
        put(40, &BITS_BYTES_MAX.to_le_bytes());
        put(52, &self.region_bytes.to_le_bytes());
        put(56, &DAEMON_SLEEP_SECONDS.to_le_bytes());
        bytes
    }

    /// Decodes the header of the bitmap of `volume`.
    ///
    /// # Errors
    /// The bytes are not a header, or not one for that volume.
    pub fn decode(bytes: &[u8], volume: &BitmapVolume) -> Result<Self, HeaderProblem> {
        if bytes.len() < 64 || bytes[..4] != MAGIC {
            return Err(HeaderProblem::Absent);
        }
        let word = |at: usize| {
            let mut field = [0; 4];
            field.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(field)
        };
        let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
        if word(4) != VERSION {
            return Err(HeaderProblem::Version(word(4)));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[8..24]);
        if Uuid(uuid) != volume.uuid {
            return Err(HeaderProblem::OtherVolume(Uuid(uuid)));
        }
        let region_bytes = word(52);
        if !volume.takes(region_bytes) {
            return Err(HeaderProblem::Region(region_bytes));
        }
        Ok(Self {
            uuid: volume.uuid,
            events: long(24),
            events_cleared: long(32),
            region_bytes,
        })
    }
}

/// The properties of a volume that determine its bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapVolume {
    /// Where the area begins on every member: the end of the volume's data.
    pub area_sector: u64,
    /// The bytes that are divided into regions: a member's part of the volume; on RAID 10, the volume.
    pub covered_bytes: u64,
    /// Identity of the volume.
    pub uuid: Uuid,
}

/// Why a volume cannot have a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBitmap {
    /// Only RAID 1, 10 and 5 have redundancy to synchronise.
    Level,
    /// On drives with sectors of 4096 bytes mdadm's bitmap code mixes both units.
    SectorSize,
    /// There are too few free sectors after the volume.
    Room {
        /// Number of free sectors.
        free_sectors: u64,
    },
}

impl fmt::Display for NoBitmap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level => out.write_str("only RAID 1, 10 and 5 can have a write-intent bitmap"),
            Self::SectorSize => out.write_str(
                "the format has no write-intent bitmap on drives with sectors of 4096 bytes",
            ),
            Self::Room { free_sectors } => write!(
                out,
                "a write-intent bitmap takes {WRITE_HOLE_LOG_SECTORS} sectors behind the volume's data \
                 on each drive, and {free_sectors} are free"
            ),
        }
    }
}

impl BitmapVolume {
    /// The properties of volume number `index` of `mpb`, whatever its present policy is.
    ///
    /// # Errors
    /// The volume cannot have a bitmap.
    pub fn of(mpb: &Mpb, index: usize, sector: SectorSize) -> Result<Self, NoBitmap> {
        let volume = mpb.volumes.get(index).ok_or(NoBitmap::Level)?;
        let level = check_volume(mpb, index).map_err(|_| NoBitmap::Level)?;
        let covered_sectors = match level {
            Level::Raid0 => return Err(NoBitmap::Level),
            Level::Raid1 | Level::Raid5 => volume.component_sectors(),
            Level::Raid10 => volume.size_sectors,
        };
        if sector != SectorSize::Bytes512 {
            return Err(NoBitmap::SectorSize);
        }
        let free_sectors = mpb.write_hole_log_room_sectors(index);
        if free_sectors < WRITE_HOLE_LOG_SECTORS {
            return Err(NoBitmap::Room { free_sectors });
        }
        Ok(Self {
            area_sector: volume.write_hole_log_sector(),
            covered_bytes: covered_sectors * SECTOR_BYTES,
            uuid: Uuid::of_volume(mpb, index).ok_or(NoBitmap::Level)?,
        })
    }

    /// Offset of the header on every member.
    #[must_use]
    pub fn header_offset_bytes(&self) -> u64 {
        self.area_sector * SECTOR_BYTES + HEADER_OFFSET_BYTES
    }

    /// Offset of the bits on every member.
    #[must_use]
    pub fn bits_offset_bytes(&self) -> u64 {
        self.area_sector * SECTOR_BYTES + BITS_OFFSET_BYTES
    }

    /// Number of regions of `region_bytes`.
    #[must_use]
    pub fn regions(&self, region_bytes: u32) -> u64 {
        self.covered_bytes.div_ceil(u64::from(region_bytes.max(1)))
    }

    /// Whether a bitmap can have regions of this size.
    #[must_use]
    pub fn takes(&self, region_bytes: u32) -> bool {
        region_bytes.is_power_of_two()
            && (REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&region_bytes)
            && self.regions(region_bytes) <= BITS_BYTES_MAX * 8
    }

    /// Bytes of the bits on the drive, rounded up to whole sectors.
    #[must_use]
    pub fn bits_bytes(&self, region_bytes: u32) -> usize {
        let bytes = self.regions(region_bytes).div_ceil(8);
        bytes.next_multiple_of(SECTOR_BYTES) as usize
    }

    /// The region size of a new bitmap: mdadm's, or the smallest larger one whose bits fit.
    #[must_use]
    pub fn region_bytes_default(&self) -> u32 {
        let mut bytes = REGION_BYTES_DEFAULT;
        while !self.takes(bytes) && bytes < REGION_BYTES_MAX {
            bytes *= 2;
        }
        bytes
    }
}

/// Converts bits to a set of regions in 64-bit words: bit `n % 64` of word `n / 64` is region `n`. Bits beyond the last
/// region are ignored.
#[must_use]
pub fn words_of(bits: &[u8], regions: u64) -> Vec<u64> {
    let mut words = vec![0u64; regions.div_ceil(64) as usize];
    for (word, bytes) in words.iter_mut().zip(bits.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(eight);
    }
    trim(&mut words, regions);
    words
}

/// All regions.
#[must_use]
pub fn all_words(regions: u64) -> Vec<u64> {
    let mut words = vec![u64::MAX; regions.div_ceil(64) as usize];
    trim(&mut words, regions);
    words
}

fn trim(words: &mut [u64], regions: u64) {
    if let Some(last) = words.last_mut()
        && !regions.is_multiple_of(64)
    {
        *last &= (1 << (regions % 64)) - 1;
    }
}

/// Converts a set of regions to `length_bytes` bytes of bits on the drive. Bits beyond the last region are set, as
/// mdadm leaves them.
#[must_use]
pub fn bits_of(words: &[u64], regions: u64, length_bytes: usize) -> Vec<u8> {
    let mut bits = vec![0xFF; length_bytes];
    for (place, word) in bits.chunks_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
    }
    for region in regions..(regions.next_multiple_of(64)).min(length_bytes as u64 * 8) {
        bits[(region / 8) as usize] |= 1 << (region % 8);
    }
    bits
}

/// Number of regions in a set.
#[must_use]
pub fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
