//! The shadow: a second copy of the record on each member, which only fullstripe writes and reads.
//!
//! # Why there is one
//!
//! The format keeps one copy of the record on each drive and overwrites it in place. A container that
//! has only one live drive left (a mirror after a failure) has only one copy in all, and a power cut while that
//! is being written leaves none. The shadow is for this case. It is used only if every member's own
//! record is torn; [`choose`](super::choose) has the rules. If any record is whole, the shadow is
//! not even considered, so a reader that does not know shadows comes to the same result as one that does.
//!
//! # Where it lies
//!
//! Sectors of 512 bytes, counted from the end of the drive:
//!
//! ```text
//!   -10402  end of the data of any volume that mdadm or this crate lays out
//!   -10402 .. -8354   at most: write-hole log or write-intent bitmap of the last volume
//!    -2608 .. -2352   the notes of a serving process ([`notes`](super::notes))
//!    -2352 .. -2216   the shadow
//!    -2209 ..  -161   copy area of a reshape (from -2216 on drives with 4096-byte sectors)
//!     -129 ..    -1   the longest record          -1   migration record
//! ```
//!
//! mdadm does not use the space between the last volume's log and the copy area: it is what its
//! 8192 sectors of reserve are for. The shadow is as near to the end as the copy area allows, because
//! firmware is known to reserve less than mdadm (about 5800 sectors on a 4 TB drive). If a volume or
//! its log reaches into the place, or a reshape is on record (on drives larger than the smallest one the
//! copy area is elsewhere), [`has_room`] is false and the drive has no shadow. The place starts and ends at a
//! multiple of 4096 bytes from the end.
//!
//! # What it holds
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | `fullstripeShadow` |
//! | 16 | 4 | version of this layout: 1 |
//! | 20 | 4 | CRC-32C of this header, with zeros here, and the record |
//! | 24 | 4 | length of the record |
//! | 28 | 12 | identity of the record: container family, generation, checksum |
//! | 40 | 4 | 1 if the next field is valid, else 0 |
//! | 44 | 12 | identity of the record that the drive's own copy held before: the *replaced* one |
//! | 56 | 4 | 1 if the next field is valid, else 0 |
//! | 60 | 4 | CRC-32C of the replaced record |
//! | 64 | .. | the record, byte for byte as the drive's own copy holds it, but contiguous |
//!
//! All integers are little-endian.
//!
//! # When it is written
//!
//! On each drive it is written before the record itself, and is durable before the record is changed. So at any time
//! each member has a whole record or a whole shadow, and neither is older than what has been acknowledged:
//! while the shadow is being written, the record of the update before is whole; while the record is
//! being written, the shadow of this update is whole. A record torn in this way has, in its first
//! sector, the header of one of the two records that the shadow names. Any other header was written
//! later than the shadow, by a program that does not keep shadows; the shadow is then outdated and ignored.
//!
//! # Torn records with a correct checksum
//!
//! The format's checksum is a sum of words. If an update only exchanges words of one sector, for example the
//! rows of two drives in a table, the new sector together with the rest of the old record has the sum in the old
//! header. The shadow can detect this: it has a CRC of both records. A record with the header of one
//! of them but other bytes counts as torn ([`Shadow::disproves`]).

mod layout;
#[cfg(test)]
mod tests;

use super::codec::{DecodeError, EncodeError, RecordIdentity, RecordPrint};
use super::geometry::Extent;
use super::place::Placement;
use super::record::{MigrationKind, Mpb, SectorSize};
use super::{SECTOR_BYTES, WRITE_HOLE_LOG_SECTORS};
use crate::crc32c::crc32c;
use alloc::vec::Vec;
use core::fmt;
use layout::{Header, VERSION};

pub(super) use layout::MAGIC;

/// First sector of the shadow, from the end of the drive.
pub(super) const START_SECTORS_FROM_END: u64 = 2352;
/// Sectors reserved for it: a header and the longest record, in whole 4096-byte sectors.
pub(super) const SECTORS: u64 = 136;

/// A shadow that was read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The record in it.
    pub mpb: Mpb,
    /// Distinguishes that record from others.
    pub print: RecordPrint,
    /// The record that the drive's own copy held when the shadow was written; `None` if the drive had
    /// no record then.
    pub replaced: Option<RecordPrint>,
}

impl Shadow {
    /// Whether `found`, the header of a torn record on the same drive, can be the result of an update that
    /// was interrupted after this shadow had been written.
    #[must_use]
    pub fn explains(&self, found: &RecordIdentity) -> bool {
        self.print_of(found).is_some()
    }

    /// The print of the record held or of the one replaced, whichever has this header.
    #[must_use]
    pub fn print_of(&self, header: &RecordIdentity) -> Option<RecordPrint> {
        let known = [Some(self.print), self.replaced].into_iter().flatten();
        known.into_iter().find(|print| print.identity == *header)
    }

    /// Whether `found`, a record on the same drive that looks whole, has the header of a record that this shadow
    /// names, but other bytes.
    #[must_use]
    pub fn disproves(&self, found: &RecordPrint) -> bool {
        self.print_of(&found.identity)
            .is_some_and(|known| known.is_mixed(found))
    }
}

/// Whether a drive with the places `placement` has room for a shadow beside everything that `mpb` puts on it.
#[must_use]
pub fn has_room(placement: &Placement, mpb: &Mpb) -> bool {
    is_free(placement, mpb, START_SECTORS_FROM_END, SECTORS)
}

/// Whether nothing that `mpb` puts on a drive reaches into the `sectors` sectors that begin `from_end` sectors
/// before its end, in the reserve.
pub(super) fn is_free(placement: &Placement, mpb: &Mpb, from_end: u64, sectors: u64) -> bool {
    let start = placement.total_sectors() - from_end;
    let place = Extent {
        start,
        end: start + sectors,
    };
    mpb.volumes.iter().all(|volume| {
        let data = volume.extent();
        let used = Extent {
            start: data.start,
            end: data.end.saturating_add(WRITE_HOLE_LOG_SECTORS),
        };
        let may_use_copy_area = volume.migration.as_ref().is_some_and(|migration| {
            matches!(
                migration.kind,
                MigrationKind::General | MigrationKind::StateChange | MigrationKind::Unknown(_)
            )
        });
        !used.overlaps(&place) && !may_use_copy_area
    })
}

/// The shadow of `mpb` in its form on a drive, in whole sectors, for [`Placement::shadow`]. `replaced`
/// is the record that the drive's own copy holds now.
///
/// # Errors
/// Those of [`Mpb::encode`].
pub fn encode(
    mpb: &Mpb,
    replaced: Option<RecordPrint>,
    sector: SectorSize,
) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = seal(&mpb.encode(sector)?, replaced);
    bytes.resize(bytes.len().next_multiple_of(sector.bytes()), 0);
    Ok(bytes)
}

/// The header that belongs to a record's bytes, followed by these bytes.
pub(super) fn seal(record: &[u8], replaced: Option<RecordPrint>) -> Vec<u8> {
    let header = Header {
        identity: RecordIdentity::of_header(record).unwrap_or_default(),
        replaced,
    };
    layout::seal(&header, record)
}

/// Decodes the shadow in `region`, the bytes of [`Placement::shadow`] of the same drive. `None` if there
/// is none.
///
/// # Errors
/// A [`ShadowError`] if there is the mark of a shadow but no whole one.
pub fn decode(
    region: &[u8],
    placement: &Placement,
    sector: SectorSize,
) -> Result<Option<Shadow>, ShadowError> {
    if !has_mark(region) {
        return Ok(None);
    }
    let (header, record) = layout::open(region)?;
    let mpb = Mpb::decode(record, sector).map_err(ShadowError::Record)?;
    if RecordIdentity::of_header(record) != Some(header.identity) || mpb.is_spare() {
        return Err(ShadowError::Contradiction);
    }
    if !has_room(placement, &mpb) {
        return Err(ShadowError::Misplaced);
    }
    Ok(Some(Shadow {
        mpb,
        print: RecordPrint {
            identity: header.identity,
            crc: Some(crc32c(record)),
        },
        replaced: header.replaced,
    }))
}

/// Whether `region` starts with the mark of a shadow, whole or not.
#[must_use]
pub fn has_mark(region: &[u8]) -> bool {
    region.starts_with(MAGIC)
}

/// Why bytes with the mark of a shadow cannot be used as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowError {
    /// The header is cut off.
    TooShort,
    /// Written by a newer version of this program.
    Version {
        /// The version found.
        found: u32,
    },
    /// The length is more than the reserved space.
    Length {
        /// The value found.
        length_bytes: u32,
    },
    /// It is torn or damaged.
    Checksum,
    /// The record in it is not valid.
    Record(DecodeError),
    /// The record in it is not the one named in its header.
    Contradiction,
    /// By the record in it, the place of the shadow is part of a volume: what was read is a user's data.
    Misplaced,
}

impl ShadowError {
    /// Whether a newer version of this program wrote it. Such a shadow may be needed when that version runs again, so
    /// the place is not written to, and the drive has no shadow of this version. An outdated shadow does no harm beside
    /// newer records, whichever program wrote those, because its header names the records to which it applies.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Version { found } if *found > VERSION)
    }
}

impl fmt::Display for ShadowError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => out.write_str("it is cut off"),
            Self::Version { found } => write!(
                out,
                "it has version {found} of the layout, and this program reads version {VERSION}"
            ),
            Self::Length { length_bytes } => write!(
                out,
                "it gives its record's length as {length_bytes} bytes, more than there is room for"
            ),
            Self::Checksum => out.write_str("it is torn or damaged: its checksum is wrong"),
            Self::Record(error) => write!(out, "its record is not valid: {error}"),
            Self::Contradiction => {
                out.write_str("its header names another record than the one it holds")
            }
            Self::Misplaced => {
                out.write_str("by its own record a volume's data lies there: it is user data")
            }
        }
    }
}

impl core::error::Error for ShadowError {}

/// Bytes of the place, on drives of both sector sizes.
pub(super) const PLACE_BYTES: usize = (SECTORS * SECTOR_BYTES) as usize;
