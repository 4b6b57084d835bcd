//! The shadow: a second copy of the record on each member, which only fullstripe writes and reads.
//!
//! # Why there is one
//!
//! The format keeps one copy of the record on each drive and overwrites it in place. A container that
//! is down to one live drive (a mirror after a failure) has one copy in all, and a power cut while it
//! is written leaves none. The shadow is there for that moment. It serves only when every member's own
//! record is torn; [`choose`](super::choose) has the rules. Whenever a record is whole, the shadow is
//! not even looked at, so a reader that knows nothing of it agrees with one that does.
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
//! mdadm leaves everything between the last volume's log and the copy area alone: it is what its
//! 8192 sectors of reserve are for. The place is as near to the end as the copy area allows, because
//! firmware is known to reserve less than mdadm (about 5800 sectors on a 4 TB drive). Where a volume or
//! its log reaches into the place, or a reshape is on record (on a drive larger than the smallest the
//! copy area lies elsewhere), [`has_room`] says no and the drive goes without a shadow. It starts and ends on a
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
//! On each drive before the record itself, and durable before that is touched. So at any instant each
//! member has a whole record or a whole shadow, and neither is older than what has been acknowledged:
//! while the shadow is being written, the record of the update before is whole; while the record is
//! being written, the shadow of this update is whole. And a record torn that way shows, in its first
//! sector, the header of one of the two records that the shadow names. Any other header was written by
//! a program that does not keep shadows, later than the shadow, which is then outdated and ignored.
//!
//! # A record that is torn and does not show it
//!
//! The format's checksum is a sum of words. Where an update lets words of one sector change places, such as a
//! table in which two drives do, the new sector beside the old rest has the sum that the old header
//! names. The shadow knows better: it has a CRC of both records, and a record whose header is that of one
//! of them and whose bytes are not is torn like any other ([`Shadow::disproves`]).

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
/// Sectors kept for it: a header and the longest record, in whole 4096-byte sectors.
pub(super) const SECTORS: u64 = 136;

/// A shadow that was found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The record it holds.
    pub mpb: Mpb,
    /// What tells that record from others.
    pub print: RecordPrint,
    /// The record that the drive's own copy held when the shadow was written; none on a drive that had
    /// no record then.
    pub replaced: Option<RecordPrint>,
}

impl Shadow {
    /// Whether `found`, the header of a torn record on the same drive, is what an update leaves that
    /// was interrupted after this shadow had been written.
    #[must_use]
    pub fn explains(&self, found: &RecordIdentity) -> bool {
        self.print_of(found).is_some()
    }

    /// Of the record held or the one replaced, whichever has this header, what is known.
    #[must_use]
    pub fn print_of(&self, header: &RecordIdentity) -> Option<RecordPrint> {
        let known = [Some(self.print), self.replaced].into_iter().flatten();
        known.into_iter().find(|print| print.identity == *header)
    }

    /// Whether `found`, a record on the same drive that looks whole, has the header of one that this shadow
    /// knows, and other bytes.
    #[must_use]
    pub fn disproves(&self, found: &RecordPrint) -> bool {
        self.print_of(&found.identity)
            .is_some_and(|known| known.is_mixed(found))
    }
}

/// Whether a drive whose places are `placement` has room for a shadow beside what `mpb` puts on it.
#[must_use]
pub fn has_room(placement: &Placement, mpb: &Mpb) -> bool {
    is_free(placement, mpb, START_SECTORS_FROM_END, SECTORS)
}

/// Whether nothing that `mpb` puts on a drive reaches into the `sectors` that begin `from_end` sectors
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

/// The shadow of `mpb` as it lies on a drive, in whole sectors, for [`Placement::shadow`]. `replaced`
/// is what the drive's own copy holds now.
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

/// A record's bytes behind the header that belongs to them.
pub(super) fn seal(record: &[u8], replaced: Option<RecordPrint>) -> Vec<u8> {
    let header = Header {
        identity: RecordIdentity::of_header(record).unwrap_or_default(),
        replaced,
    };
    layout::seal(&header, record)
}

/// Looks for a shadow in `region`, the bytes of [`Placement::shadow`] of the same drive. `None` if there
/// is none.
///
/// # Errors
/// A [`ShadowError`] if there is the mark of one but not a whole one behind it.
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

/// Whether `region` starts like a shadow, whole or not.
#[must_use]
pub fn has_mark(region: &[u8]) -> bool {
    region.starts_with(MAGIC)
}

/// Why bytes with the mark of a shadow are none that could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowError {
    /// The header is cut off.
    TooShort,
    /// Written by a newer version of this program.
    Version {
        /// The version found.
        found: u32,
    },
    /// The length is more than there is room for.
    Length {
        /// The value found.
        length_bytes: u32,
    },
    /// It is torn or damaged.
    Checksum,
    /// The record in it is not valid.
    Record(DecodeError),
    /// The record in it is not the one that its header names.
    Contradiction,
    /// The record in it puts data where the shadow lies: what was read is somebody's data.
    Misplaced,
}

impl ShadowError {
    /// Whether a newer version of this program wrote it, which may know what to do with it when it comes back:
    /// then the place is not written to, and the drive goes without a shadow of ours. An old shadow does no
    /// harm beside newer records, whoever wrote those: that is what its header is for.
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
