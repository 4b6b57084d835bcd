//! The write-intent bitmap of a volume (policy 6): which regions may have been in the middle of a write.
//!
//! A bit is durable on every member before anything in its region is written, and cleared some time after
//! the last write there is durable. So after a crash only the regions of set bits have to be synchronised,
//! and a member that comes back after an absence lacks only those, as long as none has been cleared since it
//! left.
//!
//! # On the drive
//!
//! The bitmap lies in the MiB behind the volume's data on each member, where a RAID 5 without one would have
//! its log ([`Volume::write_hole_log_sector`](super::Volume::write_hole_log_sector)). Offsets from there:
//!
//! | byte | what |
//! |---|---|
//! | 0 | nothing, 8 KiB |
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
//! the size of regions from here, reads and writes bits, and never touches the header again, so both event
//! counters stay as they are while md runs. Here they count generations of the record; who relies on them
//! has to know that nobody else has written since.
//!
//! # What a region is
//!
//! A range of every member's part of the volume on RAID 1 and 5, and a range of the volume itself on RAID 10:
//! that is what md numbers.

use super::geometry::{Level, check_volume};
use super::record::{Mpb, SectorSize};
use super::uuid::Uuid;
use super::{SECTOR_BYTES, WRITE_HOLE_LOG_SECTORS};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

#[cfg(test)]
mod tests;

/// From the end of the volume's data on a member to the header.
pub const HEADER_OFFSET_BYTES: u64 = 8192;
/// From there to the bits.
pub const BITS_OFFSET_BYTES: u64 = 12288;
/// Room for bits.
pub const BITS_BYTES_MAX: u64 = WRITE_HOLE_LOG_SECTORS * SECTOR_BYTES - BITS_OFFSET_BYTES;
/// Bytes that are written for a header: what lies between it and the bits.
pub const HEADER_BYTES: usize = (BITS_OFFSET_BYTES - HEADER_OFFSET_BYTES) as usize;
/// Bytes of a region unless something else is asked for: what mdadm takes for this format.
pub const REGION_BYTES_DEFAULT: u32 = 64 << 20;
/// The smallest region that is taken: no bitmap is worth less.
pub const REGION_BYTES_MIN: u32 = 64 << 10;
/// The largest, as a power of two in the header's 32 bits.
pub const REGION_BYTES_MAX: u32 = 1 << 31;

const MAGIC: [u8; 4] = *b"bitm";
const VERSION: u32 = 4;
const DAEMON_SLEEP_SECONDS: u32 = 5;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The volume it belongs to.
    pub uuid: Uuid,
    /// Generation of the record that the last writer of the header knew.
    pub events: u64,
    /// A member whose record is older than this generation may lack regions whose bits have been cleared.
    pub events_cleared: u64,
    /// Bytes of a region, a power of two.
    pub region_bytes: u32,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProblem {
    /// Not enough bytes, or not the magic.
    Absent,
    /// Another version.
    Version(u32),
    /// That of another volume.
    OtherVolume(Uuid),
    /// A region's size that makes no sense or needs more bits than there is room.
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
    /// The header in the form on the drive, up to the bits.
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

    /// The header of the bitmap of `volume`, from its bytes.
    ///
    /// # Errors
    /// It is not one, or cannot be that volume's.
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

/// What has to be known of a volume to keep its bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapVolume {
    /// Where the area begins on every member: the end of the volume's data.
    pub area_sector: u64,
    /// What regions are counted over: a member's part of the volume, on RAID 10 the volume.
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
    /// Too few sectors lie behind the volume.
    Room {
        /// How many.
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
    /// Volume number `index` of `mpb`, whatever its policy is now.
    ///
    /// # Errors
    /// It cannot have a bitmap.
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

    /// Where the header lies on every member.
    #[must_use]
    pub fn header_offset_bytes(&self) -> u64 {
        self.area_sector * SECTOR_BYTES + HEADER_OFFSET_BYTES
    }

    /// Where the bits lie on every member.
    #[must_use]
    pub fn bits_offset_bytes(&self) -> u64 {
        self.area_sector * SECTOR_BYTES + BITS_OFFSET_BYTES
    }

    /// Number of regions of `region_bytes`.
    #[must_use]
    pub fn regions(&self, region_bytes: u32) -> u64 {
        self.covered_bytes.div_ceil(u64::from(region_bytes.max(1)))
    }

    /// Whether regions may have this size.
    #[must_use]
    pub fn takes(&self, region_bytes: u32) -> bool {
        region_bytes.is_power_of_two()
            && (REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&region_bytes)
            && self.regions(region_bytes) <= BITS_BYTES_MAX * 8
    }

    /// Bytes of the bits on the drive, whole sectors.
    #[must_use]
    pub fn bits_bytes(&self, region_bytes: u32) -> usize {
        let bytes = self.regions(region_bytes).div_ceil(8);
        bytes.next_multiple_of(SECTOR_BYTES) as usize
    }

    /// The size of regions of a new bitmap: mdadm's, or the next larger one for which there is room.
    #[must_use]
    pub fn region_bytes_default(&self) -> u32 {
        let mut bytes = REGION_BYTES_DEFAULT;
        while !self.takes(bytes) && bytes < REGION_BYTES_MAX {
            bytes *= 2;
        }
        bytes
    }
}

/// A set of regions, as words of 64; bit `n % 64` of word `n / 64` is region `n`. Bits beyond the last region
/// do not count.
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

/// The bits on the drive of a set of regions, `length_bytes` of them. What is behind the last region is set, as
/// mdadm leaves it.
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

/// How many regions are in a set.
#[must_use]
pub fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
