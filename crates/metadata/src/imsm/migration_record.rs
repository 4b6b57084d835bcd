//! The migration record: the state of a reshape, in the last logical sector of the drives in
//! slots 0 and 1.
//!
//! It is all zero when no reshape is in progress, and mdadm rewrites it with every record. It has
//! no checksum. Volumes that are being reshaped are not started read-write here, so the record is
//! only displayed to the user and, if there is no reshape, written as zeros.

use super::codec::{DecodeError, Units, word_at};
use super::record::SectorSize;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes at the start of the sector that are used.
const RECORD_BYTES: usize = 128;

/// State of a reshape. Sector numbers are in 512-byte sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationRecord {
    /// Whether the data of the current unit is in the copy area (1) or in place (0).
    pub status: u32,
    /// The unit being moved.
    pub current_unit: u64,
    /// `family_num` of the container.
    pub family_num: u32,
    /// Units are moved in ascending order (1); always so in known records.
    pub ascending: u32,
    /// Sectors of the volume in a unit.
    pub sectors_per_unit: u64,
    /// Sectors on each member in a unit, after the reshape.
    pub depth_sectors_per_unit: u64,
    /// Start of the copy area on each member.
    pub copy_area_start_sector: u64,
    /// First sector on the members.
    pub first_member_sector: u64,
    /// Number of units.
    pub unit_count: u64,
    /// Size of the volume after the reshape.
    pub volume_size_sectors: u64,
    /// The drive from which the record was read.
    pub read_from_disk: u32,
}

impl MigrationRecord {
    /// The record at the start of `sector_bytes`, the last logical sector of a drive; `None` if
    /// it is all zero.
    ///
    /// # Errors
    /// [`DecodeError::TooShort`] below 128 bytes, [`DecodeError::ValueTooLarge`] if a number
    /// overflows when it is scaled to 512-byte sectors.
    pub fn decode(sector_bytes: &[u8], sector: SectorSize) -> Result<Option<Self>, DecodeError> {
        let too_short = DecodeError::TooShort {
            bytes: sector_bytes.len(),
        };
        let bytes = sector_bytes.get(..RECORD_BYTES).ok_or(too_short)?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let word = |index: usize| u64::from(word_at(bytes, index * 4).unwrap_or_default());
        let wide = |low: usize, high: usize| word(high) << 32 | word(low);
        let units = Units::of(sector);
        Ok(Some(Self {
            status: word(0) as u32,
            current_unit: wide(1, 12),
            family_num: word(2) as u32,
            ascending: word(3) as u32,
            sectors_per_unit: units.to_sectors(word(4), "reshape unit")?,
            depth_sectors_per_unit: units.to_sectors(word(5), "reshape depth")?,
            copy_area_start_sector: units.to_sectors(wide(6, 13), "reshape copy area")?,
            first_member_sector: units.to_sectors(wide(7, 14), "reshape first sector")?,
            unit_count: wide(8, 15),
            volume_size_sectors: units.to_sectors(wide(9, 10), "size after reshape")?,
            read_from_disk: word(11) as u32,
        }))
    }

    /// The last logical sector of a drive without a reshape: zeros.
    #[must_use]
    pub fn none(sector: SectorSize) -> Vec<u8> {
        vec![0; sector.bytes()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen while mdadm grew a RAID 0 from two to three drives.
    #[test]
    fn record_of_a_grow_is_understood() {
        let words: [u32; 10] = [
            0,
            11,
            0x1234_5678,
            1,
            6144,
            2048,
            128_863,
            22528,
            24,
            147_456,
        ];
        let mut bytes = MigrationRecord::none(SectorSize::Bytes512);
        for (index, word) in words.iter().enumerate() {
            bytes[index * 4..index * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        let record = MigrationRecord::decode(&bytes, SectorSize::Bytes512)
            .unwrap()
            .unwrap();
        assert_eq!(record.current_unit, 11);
        assert_eq!(
            (record.sectors_per_unit, record.depth_sectors_per_unit),
            (6144, 2048)
        );
        // The copy area lies 2209 sectors before the end of a 64 MiB drive.
        assert_eq!(record.copy_area_start_sector, 131_072 - 2209);
        assert_eq!(record.unit_count, 24);
        assert_eq!(record.volume_size_sectors, 147_456);

        let scaled = MigrationRecord::decode(&bytes, SectorSize::Bytes4096)
            .unwrap()
            .unwrap();
        assert_eq!(scaled.unit_count, 24);
        assert_eq!(scaled.volume_size_sectors, 147_456 * 8);
    }

    #[test]
    fn zeros_mean_none_and_short_is_an_error() {
        let none = MigrationRecord::none(SectorSize::Bytes4096);
        assert_eq!(none.len(), 4096);
        assert_eq!(
            MigrationRecord::decode(&none, SectorSize::Bytes4096),
            Ok(None)
        );
        assert_eq!(
            MigrationRecord::decode(&none[..100], SectorSize::Bytes512),
            Err(DecodeError::TooShort { bytes: 100 })
        );
    }
}
