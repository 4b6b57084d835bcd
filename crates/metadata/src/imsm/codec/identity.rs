//! Identifies the record to which a header belongs.

use super::decode::has_signature;
use super::layout::RawHeader;
use crate::crc32c::crc32c;
use zerocopy::FromBytes;

/// Distinguishes a record from every other one: two updates of a container never agree in all of it.
///
/// It is in the first sector of a record, so it can be read even if the rest of the record is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordIdentity {
    /// Container identity, as [`Mpb::container_family`](crate::imsm::Mpb::container_family).
    pub container_family: u32,
    /// Generation.
    pub generation: u32,
    /// The checksum in the header.
    pub checksum: u32,
}

impl RecordIdentity {
    /// What the header at the start of `bytes` states, whether the record is whole or not; `None` without a signature.
    #[must_use]
    pub fn of_header(bytes: &[u8]) -> Option<Self> {
        let (header, _) = RawHeader::read_from_prefix(bytes).ok()?;
        has_signature(bytes).then(|| Self::of(&header))
    }

    pub(super) fn of(header: &RawHeader) -> Self {
        let (family, original) = (header.family_num.get(), header.orig_family_num.get());
        Self {
            container_family: if original == 0 { family } else { original },
            generation: header.generation.get(),
            checksum: header.checksum.get(),
        }
    }
}

/// Identifies a record by its header and, if it is known to be whole, by a CRC. The record's own checksum is a sum of
/// words, which stays the same when words change places. If only half of an update is on the drive, exactly that
/// may have happened; the CRC detects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPrint {
    /// What the header states.
    pub identity: RecordIdentity,
    /// CRC-32C of the record's bytes, if they are known.
    pub crc: Option<u32>,
}

impl RecordPrint {
    /// The print of `record`, which must be whole and contain nothing else.
    #[must_use]
    pub fn of(record: &[u8]) -> Option<Self> {
        let crc = Some(crc32c(record));
        RecordIdentity::of_header(record).map(|identity| Self { identity, crc })
    }

    /// Whether `found` has the same header as this record but other bytes.
    #[must_use]
    pub fn is_mixed(&self, found: &Self) -> bool {
        let differs = |(known, other)| known != other;
        self.identity == found.identity && self.crc.zip(found.crc).is_some_and(differs)
    }
}
