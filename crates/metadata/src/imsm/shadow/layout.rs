//! The shadow's header as bytes; the parent module has the table.

use super::{PLACE_BYTES, ShadowError};
use crate::crc32c::crc32c;
use crate::imsm::codec::{RecordIdentity, RecordPrint};
use alloc::vec::Vec;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MAGIC: &[u8; 16] = b"fullstripeShadow";
pub const VERSION: u32 = 1;
const HEADER_BYTES: usize = size_of::<RawHeader>();

const CRC_OFFSET: usize = 20;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawIdentity {
    container_family: U32,
    generation: U32,
    checksum: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 16],
    version: U32,
    crc: U32,
    length_bytes: U32,
    identity: RawIdentity,
    has_replaced: U32,
    replaced: RawIdentity,
    has_replaced_crc: U32,
    replaced_crc: U32,
}

/// The content of the header.
pub struct Header {
    pub identity: RecordIdentity,
    pub replaced: Option<RecordPrint>,
}

/// The header followed by the record, with the checksum over both.
pub fn seal(header: &Header, record: &[u8]) -> Vec<u8> {
    let replaced = header.replaced.unwrap_or_default();
    let raw = RawHeader {
        magic: *MAGIC,
        version: U32::new(VERSION),
        crc: U32::ZERO,
        length_bytes: U32::new(record.len() as u32),
        identity: to_raw(header.identity),
        has_replaced: U32::new(header.replaced.is_some().into()),
        replaced: to_raw(replaced.identity),
        has_replaced_crc: U32::new(replaced.crc.is_some().into()),
        replaced_crc: U32::new(replaced.crc.unwrap_or_default()),
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + record.len());
    bytes.extend_from_slice(raw.as_bytes());
    bytes.extend_from_slice(record);
    let crc = crc32c(&bytes);
    bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads and checks the output of [`seal`] at the start of `region`.
pub fn open(region: &[u8]) -> Result<(Header, &[u8]), ShadowError> {
    let (raw, rest) = RawHeader::read_from_prefix(region).map_err(|_| ShadowError::TooShort)?;
    let found = raw.version.get();
    if found != VERSION {
        return Err(ShadowError::Version { found });
    }
    let length_bytes = raw.length_bytes.get();
    let record = rest
        .get(..length_bytes as usize)
        .filter(|record| HEADER_BYTES + record.len() <= PLACE_BYTES)
        .ok_or(ShadowError::Length { length_bytes })?;
    let mut sealed = region[..HEADER_BYTES + record.len()].to_vec();
    sealed[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
    if crc32c(&sealed) != raw.crc.get() {
        return Err(ShadowError::Checksum);
    }
    let header = Header {
        identity: from_raw(raw.identity),
        replaced: (raw.has_replaced.get() == 1).then(|| RecordPrint {
            identity: from_raw(raw.replaced),
            crc: (raw.has_replaced_crc.get() == 1).then(|| raw.replaced_crc.get()),
        }),
    };
    Ok((header, record))
}

fn to_raw(identity: RecordIdentity) -> RawIdentity {
    RawIdentity {
        container_family: U32::new(identity.container_family),
        generation: U32::new(identity.generation),
        checksum: U32::new(identity.checksum),
    }
}

fn from_raw(raw: RawIdentity) -> RecordIdentity {
    RecordIdentity {
        container_family: raw.container_family.get(),
        generation: raw.generation.get(),
        checksum: raw.checksum.get(),
    }
}
