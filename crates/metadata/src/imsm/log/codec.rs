//! Encodes and decodes a header of the log. All numbers are little-endian.
//!
//! ```text
//!  offset  bytes
//!       0    512  all ones
//!     512      4  signature: the container's family number
//!     516      4  0
//!     520      8  generation
//!     528      4  number of entries
//!     532      4  CRC-32C of the 4096 bytes, with this field 0
//!     536  24 each  entries:
//!             0      8  first changed sector of the volume (4096-byte units on such drives)
//!             8      4  bytes of partial parity
//!            12      4  bytes changed
//!            16      4  parity slot
//!            20      4  CRC-32C of the partial parity
//!    then         zeros
//! ```

use super::{ENTRIES_MAX, Entry, HEADER_BYTES, Header};
use crate::crc32c::crc32c;
use crate::imsm::SectorSize;
use alloc::vec::Vec;
use core::fmt;

/// Bytes of ones at the start.
pub(super) const RESERVED_BYTES: usize = 512;
pub(super) const SIGNATURE_AT: usize = 512;
const GENERATION_AT: usize = 520;
pub(super) const COUNT_AT: usize = 528;
const CHECKSUM_AT: usize = 532;
const ENTRIES_AT: usize = 536;
const ENTRY_BYTES: usize = 24;

const _: () = assert!(ENTRIES_AT + ENTRIES_MAX * ENTRY_BYTES <= HEADER_BYTES);

/// Why bytes are not a header of this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProblem {
    /// The checksum is wrong: no header, a torn one, or damage.
    Checksum,
    /// It is the header of another container's log.
    Signature {
        /// The signature found.
        found: u32,
    },
    /// It claims more entries than fit.
    TooManyEntries {
        /// The number found.
        entries: u32,
    },
}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => out.write_str("its checksum is wrong"),
            Self::Signature { found } => {
                write!(out, "it belongs to another container, {found:08x}")
            }
            Self::TooManyEntries { entries } => write!(
                out,
                "it claims {entries} entries, more than the {ENTRIES_MAX} that fit"
            ),
        }
    }
}

impl core::error::Error for HeaderProblem {}

/// Encodes a header into `bytes` without allocating; all of `bytes` is overwritten. [`Entry::data_sector`] must be a
/// multiple of the drives' sector size. `checksum_of` computes CRC-32C: [`crc32c`], or a function that uses the
/// processor's instructions.
///
/// # Panics
/// If there are more than [`ENTRIES_MAX`] entries.
pub fn encode_header(
    bytes: &mut [u8; HEADER_BYTES],
    signature: u32,
    generation: u64,
    entries: impl IntoIterator<Item = Entry>,
    sector: SectorSize,
    checksum_of: impl FnOnce(&[u8]) -> u32,
) {
    bytes[..RESERVED_BYTES].fill(0xFF);
    bytes[RESERVED_BYTES..].fill(0);
    put(bytes, SIGNATURE_AT, signature);
    bytes[GENERATION_AT..][..8].copy_from_slice(&generation.to_le_bytes());
    let mut count = 0;
    for entry in entries {
        assert!(count < ENTRIES_MAX, "a header holds {ENTRIES_MAX} entries");
        let at = ENTRIES_AT + count * ENTRY_BYTES;
        let stored_sector = entry.data_sector / sector.scale();
        bytes[at..][..8].copy_from_slice(&stored_sector.to_le_bytes());
        put(bytes, at + 8, entry.partial_parity_bytes);
        put(bytes, at + 12, entry.data_bytes);
        put(bytes, at + 16, entry.parity_slot);
        put(bytes, at + 20, entry.checksum);
        count += 1;
    }
    put(bytes, COUNT_AT, count as u32);
    let sum = checksum_of(bytes);
    put(bytes, CHECKSUM_AT, sum);
}

impl Header {
    /// Encodes the header.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`] entries.
    #[must_use]
    pub fn encode(&self, sector: SectorSize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let entries = self.entries.iter().copied();
        encode_header(
            &mut bytes,
            self.signature,
            self.generation,
            entries,
            sector,
            crc32c,
        );
        bytes
    }

    /// Decodes a header of the log that has `signature`.
    ///
    /// # Errors
    /// A [`HeaderProblem`].
    pub fn decode(
        bytes: &[u8; HEADER_BYTES],
        signature: u32,
        sector: SectorSize,
    ) -> Result<Self, HeaderProblem> {
        let mut summed = *bytes;
        put(&mut summed, CHECKSUM_AT, 0);
        if crc32c(&summed) != get(bytes, CHECKSUM_AT) {
            return Err(HeaderProblem::Checksum);
        }
        let found = get(bytes, SIGNATURE_AT);
        if found != signature {
            return Err(HeaderProblem::Signature { found });
        }
        let entries = get(bytes, COUNT_AT);
        if entries as usize > ENTRIES_MAX {
            return Err(HeaderProblem::TooManyEntries { entries });
        }
        let entry = |at: usize| {
            let at = ENTRIES_AT + at * ENTRY_BYTES;
            Entry {
                // A sector beyond every volume must stay beyond it, so the product saturates.
                data_sector: get_long(bytes, at).saturating_mul(sector.scale()),
                partial_parity_bytes: get(bytes, at + 8),
                data_bytes: get(bytes, at + 12),
                parity_slot: get(bytes, at + 16),
                checksum: get(bytes, at + 20),
            }
        };
        Ok(Self {
            signature,
            generation: get_long(bytes, GENERATION_AT),
            entries: (0..entries as usize).map(entry).collect::<Vec<_>>(),
        })
    }
}

fn put(bytes: &mut [u8; HEADER_BYTES], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn get(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn get_long(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(get(bytes, at)) | u64::from(get(bytes, at + 4)) << 32
}
