//! Decodes records from bytes and encodes them again.
//!
//! A record starts with a 216-byte header that carries its length and a checksum. The disk table,
//! the volumes (each with one or two maps of variable length) and the bad block log follow without
//! padding. All integers are little-endian.
//!
//! Decoding trusts nothing: first the length is checked against its bounds, then the
//! checksum is verified, and every table is checked against the length. It allocates at most in proportion
//! to the bytes it was given. Encoding refuses values that do not fit their fields, so that a record is
//! never silently truncated.
//!
//! On drives with 4096-byte sectors, sector numbers are stored in units of 4096 bytes; here, and
//! only here, they are scaled to the 512-byte sectors used in memory.

pub(super) mod decode;
mod encode;
mod errors;
mod identity;
pub(super) mod layout;
mod values;

#[cfg(test)]
mod tests;

pub use errors::{DecodeError, EncodeError};
pub use identity::{RecordIdentity, RecordPrint};

use super::record::SectorSize;

/// Sum, modulo 2^32, of the little-endian words of a record, without the checksum word itself.
///
/// `record` is the whole record; a remainder of fewer than four bytes is ignored.
#[must_use]
pub fn checksum(record: &[u8]) -> u32 {
    let sum = record.chunks_exact(4).fold(0u32, |sum, word| {
        sum.wrapping_add(word_at(word, 0).unwrap_or_default())
    });
    sum.wrapping_sub(word_at(record, layout::CHECKSUM_OFFSET).unwrap_or_default())
}

/// The little-endian word at `offset`, if there are four bytes.
pub(super) fn word_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// Scales between stored units and 512-byte sectors.
#[derive(Clone, Copy)]
pub(super) struct Units(u64);

impl Units {
    pub(super) fn of(sector: SectorSize) -> Self {
        Self(sector.scale())
    }

    /// Stored units as sectors.
    pub(super) fn to_sectors(self, stored: u64, field: &'static str) -> Result<u64, DecodeError> {
        stored
            .checked_mul(self.0)
            .ok_or(DecodeError::ValueTooLarge { field, stored })
    }

    /// Sectors as stored units; they must be whole units.
    pub(super) fn to_stored(self, sectors: u64, field: &'static str) -> Result<u64, EncodeError> {
        if sectors.is_multiple_of(self.0) {
            Ok(sectors / self.0)
        } else {
            Err(EncodeError::NotAligned { field, sectors })
        }
    }

    /// Sectors as stored units, rounded down.
    pub(super) fn to_stored_floor(self, sectors: u64) -> u64 {
        sectors / self.0
    }

    /// Sectors as stored units, rounded up.
    pub(super) fn to_stored_ceiling(self, sectors: u64) -> u64 {
        sectors.div_ceil(self.0)
    }
}
