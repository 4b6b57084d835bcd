//! Which record a header belongs to.

use super::decode::has_signature;
use super::layout::RawHeader;
use crate::crc32c::crc32c;
use zerocopy::FromBytes;

/// What tells a record from every other one: two updates of a container never agree in all of it.
///
/// It is in the first sector of a record, so it can be known of a record whose rest is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordIdentity {
    /// Container identity, as [`Mpb::container_family`](crate::imsm::Mpb::container_family).
    pub container_family: u32,
    /// Generation.
    pub generation: u32,
    /// The checksum that the header gives.
    pub checksum: u32,
}

impl RecordIdentity {
    /// What the header at the start of `bytes` says, whole record or not; `None` without a signature.
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

/// A record by its header and, where it is known whole, by a checksum that notices what the record's own
/// cannot: that is a sum of words, and the same when some of them change places. Half of an update of which
/// the other half is not on the drive may be such an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPrint {
    /// What the header says.
    pub identity: RecordIdentity,
    /// CRC-32C of the record's bytes, if they are known.
    pub crc: Option<u32>,
}

impl RecordPrint {
    /// That of `record`, which is whole and nothing but a record.
    #[must_use]
    pub fn of(record: &[u8]) -> Option<Self> {
        let crc = Some(crc32c(record));
        RecordIdentity::of_header(record).map(|identity| Self { identity, crc })
    }

    /// Whether `found` has the header of this record and other bytes.
    #[must_use]
    pub fn is_mixed(&self, found: &Self) -> bool {
        let differs = |(known, other)| known != other;
        self.identity == found.identity && self.crc.zip(found.crc).is_some_and(differs)
    }
}
