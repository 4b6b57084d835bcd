//! Where the metadata lies on a drive, measured from its end in logical sectors.
//!
//! ```text
//!   ... data ... | rest of the record (0 or more sectors) | first sector | migration record |
//!                  extension, ascending                     anchor         last sector
//! ```
//!
//! The first logical sector of the record (the *anchor*) is the second last sector of the drive;
//! the rest of the record, the *extension*, is in the sectors just before. So the extension followed by the anchor
//! is one contiguous range, the *image*, and is written with a single write. The format has only one
//! copy per drive and no journal: a torn write is detected by its checksum, and then the other drives'
//! copies are used, or if there are none, the [`shadow`] further in front.

use super::codec::decode::{has_signature, record_length};
use super::codec::{DecodeError, EncodeError, RecordPrint};
use super::migration_record::MigrationRecord;
use super::record::{Mpb, SectorSize};
use super::{MAX_RECORD_BYTES, RESERVED_AT_END_SECTORS, SECTOR_BYTES, notes, shadow};
use alloc::vec::Vec;
use core::fmt;

/// A range of bytes on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset from the start of the drive.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

/// The drive is too small to hold metadata and at least some data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveTooSmall {
    /// Size of the drive.
    pub drive_bytes: u64,
}

impl DriveTooSmall {
    /// Size up to which a drive is too small for metadata: the sectors reserved at the end.
    pub const LIMIT_BYTES: u64 = RESERVED_AT_END_SECTORS * SECTOR_BYTES;
}

impl fmt::Display for DriveTooSmall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the drive has {} bytes; RAID metadata needs more than {}",
            self.drive_bytes,
            Self::LIMIT_BYTES
        )
    }
}

impl core::error::Error for DriveTooSmall {}

/// Places on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Size in whole logical sectors.
    drive_bytes: u64,
    sector: SectorSize,
}

impl Placement {
    /// Places on a drive of `drive_bytes` bytes. An incomplete last sector is not used.
    ///
    /// # Errors
    /// [`DriveTooSmall`] unless the drive is larger than the space reserved at its end.
    pub fn new(drive_bytes: u64, sector: SectorSize) -> Result<Self, DriveTooSmall> {
        let whole = drive_bytes - drive_bytes % sector.bytes() as u64;
        if whole <= DriveTooSmall::LIMIT_BYTES {
            return Err(DriveTooSmall { drive_bytes });
        }
        Ok(Self {
            drive_bytes: whole,
            sector,
        })
    }

    /// Size of the drive as records state it, in 512-byte sectors.
    #[must_use]
    pub fn total_sectors(&self) -> u64 {
        self.drive_bytes / SECTOR_BYTES
    }

    /// Offset of the migration record: the last logical sector.
    #[must_use]
    pub fn migration_record_offset_bytes(&self) -> u64 {
        self.drive_bytes - self.sector.bytes() as u64
    }

    /// Offset of the anchor: the second last logical sector.
    #[must_use]
    pub fn anchor_offset_bytes(&self) -> u64 {
        self.drive_bytes - 2 * self.sector.bytes() as u64
    }

    /// Where an image of `image_bytes` bytes, made by [`encode_image`], is to be written.
    #[must_use]
    pub fn image(&self, image_bytes: usize) -> ByteRange {
        let length_bytes = image_bytes as u64;
        ByteRange {
            offset_bytes: self
                .migration_record_offset_bytes()
                .saturating_sub(length_bytes),
            length_bytes,
        }
    }

    /// Where the [`shadow`] is: all the space reserved for it.
    #[must_use]
    pub fn shadow(&self) -> ByteRange {
        ByteRange {
            offset_bytes: self.drive_bytes - shadow::START_SECTORS_FROM_END * SECTOR_BYTES,
            length_bytes: shadow::SECTORS * SECTOR_BYTES,
        }
    }

    /// Where the [`notes`](super::notes) are: two places of the same length, used in turn.
    #[must_use]
    pub fn notes(&self) -> [ByteRange; 2] {
        [0, 1].map(|copy| ByteRange {
            offset_bytes: self.drive_bytes
                - (notes::START_SECTORS_FROM_END - copy * notes::COPY_SECTORS) * SECTOR_BYTES,
            length_bytes: notes::COPY_SECTORS * SECTOR_BYTES,
        })
    }

    /// The range at the end of the drive that certainly contains the record and the migration
    /// record, however long the record is; for [`decode_region`].
    #[must_use]
    pub fn region_to_read(&self) -> ByteRange {
        let length_bytes = (MAX_RECORD_BYTES + self.sector.bytes()) as u64;
        ByteRange {
            offset_bytes: self.drive_bytes - length_bytes,
            length_bytes,
        }
    }
}

/// The record in its form on a drive: the extension sectors, then the anchor, in one buffer whose
/// length is a multiple of the logical sector size. [`Placement::image`] gives its place.
///
/// # Errors
/// Those of [`Mpb::encode`].
pub fn encode_image(mpb: &Mpb, sector: SectorSize) -> Result<Vec<u8>, EncodeError> {
    let mut record = mpb.encode(sector)?;
    let sector_bytes = sector.bytes();
    record.resize(record.len().next_multiple_of(sector_bytes), 0);
    // All sectors but the first move in front of it.
    record.rotate_left(sector_bytes);
    Ok(record)
}

/// Metadata found on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record.
    pub mpb: Mpb,
    /// Distinguishes its bytes from those of every other record.
    pub print: RecordPrint,
    /// The migration record, if there is one that can be read. It has no checksum: it is valid
    /// only while a volume of the record is being reshaped.
    pub migration_record: Option<MigrationRecord>,
}

/// Looks for a record in `region`, the last bytes of a drive ([`Placement::region_to_read`]).
///
/// Returns `None` if there is no IMSM signature.
///
/// # Errors
/// A [`DecodeError`] if there is a signature but no valid record; a torn record is
/// [`DecodeError::Checksum`].
pub fn decode_region(region: &[u8], sector: SectorSize) -> Result<Option<Found>, DecodeError> {
    let sector_bytes = sector.bytes();
    let too_short = DecodeError::TooShort {
        bytes: region.len(),
    };
    let anchor_start = region
        .len()
        .checked_sub(2 * sector_bytes)
        .ok_or(too_short)?;
    let (before, end) = region.split_at(anchor_start);
    let (anchor, last) = end.split_at(sector_bytes);
    if !has_signature(anchor) {
        return Ok(None);
    }
    let extension_bytes = record_length(anchor)?
        .saturating_sub(sector_bytes)
        .next_multiple_of(sector_bytes);
    let extension_start =
        before
            .len()
            .checked_sub(extension_bytes)
            .ok_or_else(|| DecodeError::Incomplete {
                mpb_size: (sector_bytes + extension_bytes) as u32,
                bytes: before.len() + sector_bytes,
            })?;
    let mut record = Vec::with_capacity(sector_bytes + extension_bytes);
    record.extend_from_slice(anchor);
    record.extend_from_slice(&before[extension_start..]);
    let mpb = Mpb::decode(&record, sector)?;
    // Only the drives in slots 0 and 1 must have one; on others the sector may contain anything.
    let migration_record = MigrationRecord::decode(last, sector).ok().flatten();
    record.truncate(record_length(anchor)?);
    Ok(Some(Found {
        mpb,
        print: RecordPrint::of(&record).unwrap_or_default(),
        migration_record,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imsm::golden;
    use alloc::vec;

    #[test]
    fn places_are_counted_from_the_end_in_logical_sectors() {
        let drive_bytes = 64 << 20;
        let small = Placement::new(drive_bytes, SectorSize::Bytes512).unwrap();
        assert_eq!(small.anchor_offset_bytes(), drive_bytes - 1024);
        assert_eq!(small.migration_record_offset_bytes(), drive_bytes - 512);
        let large = Placement::new(drive_bytes, SectorSize::Bytes4096).unwrap();
        assert_eq!(large.anchor_offset_bytes(), drive_bytes - 8192);
        assert_eq!(large.image(4096).offset_bytes, drive_bytes - 8192);
        assert_eq!(small.total_sectors(), 131_072);
    }

    #[test]
    fn a_rest_below_one_sector_is_ignored() {
        let place = Placement::new((64 << 20) + 511, SectorSize::Bytes512).unwrap();
        assert_eq!(place.total_sectors(), 131_072);
        assert!(Placement::new(1 << 20, SectorSize::Bytes512).is_err());
    }

    #[test]
    fn the_extension_lies_before_the_anchor() {
        // 584 bytes: one sector and 72 bytes of extension.
        let record = golden::raid5().encode(SectorSize::Bytes512).unwrap();
        let image = encode_image(&golden::raid5(), SectorSize::Bytes512).unwrap();
        assert_eq!(image.len(), 1024);
        assert_eq!(image[512..], record[..512]);
        assert_eq!(image[..72], record[512..]);
        assert!(image[72..512].iter().all(|&byte| byte == 0));
        // On 4096-byte sectors it fits the anchor.
        assert_eq!(
            encode_image(&golden::raid5(), SectorSize::Bytes4096)
                .unwrap()
                .len(),
            4096
        );
    }

    #[test]
    fn an_image_is_found_again() {
        for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
            let drive_bytes = 16u64 << 20;
            let place = Placement::new(drive_bytes, sector).unwrap();
            let range = place.region_to_read();
            let mut drive = vec![0; drive_bytes as usize];
            assert_eq!(
                decode_region(&drive[range.offset_bytes as usize..], sector),
                Ok(None)
            );
            let image = encode_image(&golden::raid5(), sector).unwrap();
            let target = place.image(image.len());
            let start = target.offset_bytes as usize;
            drive[start..start + image.len()].copy_from_slice(&image);
            let found = decode_region(&drive[range.offset_bytes as usize..], sector);
            let found = found.unwrap().unwrap();
            assert_eq!(found.mpb, golden::raid5());
            assert_eq!(found.migration_record, None);
        }
    }

    #[test]
    fn a_meaningless_last_sector_does_not_hide_the_record() {
        let mut region = encode_image(&golden::raid5(), SectorSize::Bytes4096).unwrap();
        region.extend_from_slice(&[0xFF; 4096]);
        let found = decode_region(&region, SectorSize::Bytes4096)
            .unwrap()
            .unwrap();
        assert_eq!(found.mpb, golden::raid5());
        assert_eq!(found.migration_record, None);
    }

    #[test]
    fn a_torn_extension_is_reported_with_the_headers_claims() {
        let mut image = encode_image(&golden::raid5(), SectorSize::Bytes512).unwrap();
        image[10] ^= 0xFF;
        image.extend_from_slice(&[0; 512]);
        match decode_region(&image, SectorSize::Bytes512) {
            Err(DecodeError::Checksum { claims, .. }) => {
                assert_eq!(claims.generation, golden::raid5().generation);
                assert_eq!(claims.container_family, golden::raid5().orig_family_num);
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    #[test]
    fn a_region_that_ends_before_the_extension_is_incomplete() {
        let image = encode_image(&golden::raid5(), SectorSize::Bytes512).unwrap();
        let mut region = image[512..].to_vec();
        region.extend_from_slice(&[0; 512]);
        assert!(matches!(
            decode_region(&region, SectorSize::Bytes512),
            Err(DecodeError::Incomplete { .. })
        ));
    }
}
