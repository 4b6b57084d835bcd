//! Errors of decoding bytes into a record, and of encoding a record into bytes.

use super::RecordIdentity;
use core::fmt;

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer bytes than a header.
    TooShort {
        /// Bytes given.
        bytes: usize,
    },
    /// There is no signature.
    NoSignature,
    /// The header's length field is out of range or not a multiple of 4.
    BadLength {
        /// The value found.
        mpb_size: u32,
    },
    /// The record is longer than the bytes given.
    Incomplete {
        /// Length in the header.
        mpb_size: u32,
        /// Bytes given.
        bytes: usize,
    },
    /// The checksum does not match: the record is torn or damaged.
    Checksum {
        /// Checksum of the bytes.
        computed: u32,
        /// What the header states. It cannot be relied on, but a record torn by an interrupted write usually
        /// has an intact first sector.
        claims: RecordIdentity,
    },
    /// The checksum matches, but the bytes are not those of the record to which the header belongs: one part
    /// is from before an interrupted write, the other from after it.
    Mixed {
        /// What the header states.
        claims: RecordIdentity,
    },
    /// A table reaches past the end of the record.
    Truncated {
        /// Which part.
        part: &'static str,
        /// Offset at which it should start.
        offset: usize,
    },
    /// The migration state byte is neither 0 nor 1.
    BadMigrationState {
        /// Index of the volume.
        volume: usize,
        /// The value found.
        value: u8,
    },
    /// A map has no members.
    NoMembers {
        /// Index of the volume.
        volume: usize,
    },
    /// A slot names a row that the disk table does not have.
    NoSuchDisk {
        /// Index of the volume.
        volume: usize,
        /// Slot in the map.
        slot: usize,
        /// The row named.
        disk_index: u32,
        /// Number of rows.
        disks: usize,
    },
    /// The bad block log has an invalid form.
    BadBlockLog {
        /// Which rule is broken.
        problem: &'static str,
    },
    /// A value overflows when it is scaled to 512-byte sectors.
    ValueTooLarge {
        /// Which field.
        field: &'static str,
        /// The value as stored.
        stored: u64,
    },
}

impl DecodeError {
    /// What the header of a torn record states; `None` if the error does not mean a torn record.
    #[must_use]
    pub fn torn(&self) -> Option<RecordIdentity> {
        match self {
            Self::Checksum { claims, .. } | Self::Mixed { claims } => Some(*claims),
            _ => None,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { bytes } => {
                write!(
                    out,
                    "the record has only {bytes} bytes, less than its header of 216"
                )
            }
            Self::NoSignature => out.write_str("the bytes do not start with the IMSM signature"),
            Self::BadLength { mpb_size } => write!(
                out,
                "the record gives its length as {mpb_size} bytes; it must be a multiple of 4 from \
                 216 to {}",
                crate::imsm::MAX_RECORD_BYTES
            ),
            Self::Incomplete { mpb_size, bytes } => {
                write!(
                    out,
                    "the record is {mpb_size} bytes long but only {bytes} were read"
                )
            }
            Self::Checksum { computed, claims } => write!(
                out,
                "the record is torn or damaged: its checksum is {computed:08x} but it says \
                 {:08x} (header: family {:08x}, generation {})",
                claims.checksum, claims.container_family, claims.generation
            ),
            Self::Mixed { claims } => write!(
                out,
                "the record is torn: parts of it are from another update than its header (family {:08x}, \
                 generation {})",
                claims.container_family, claims.generation
            ),
            Self::Truncated { part, offset } => {
                write!(
                    out,
                    "the {part} at byte {offset} reaches past the end of the record"
                )
            }
            Self::BadMigrationState { volume, value } => {
                write!(
                    out,
                    "volume {volume} has migration state {value}; only 0 and 1 are known"
                )
            }
            Self::NoMembers { volume } => write!(out, "a map of volume {volume} has no members"),
            Self::NoSuchDisk {
                volume,
                slot,
                disk_index,
                disks,
            } => write!(
                out,
                "slot {slot} of volume {volume} names drive {disk_index} but the record lists \
                 {disks}"
            ),
            Self::BadBlockLog { problem } => write!(out, "the bad block log {problem}"),
            Self::ValueTooLarge { field, stored } => {
                write!(out, "the field {field} holds {stored}, which is too large")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a record cannot be written as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// A table has more entries than its counter can express.
    TooMany {
        /// Which table.
        what: &'static str,
        /// Number of entries.
        count: usize,
        /// Maximum number of entries.
        limit: usize,
    },
    /// A number of sectors is not a whole number of 4096-byte units.
    NotAligned {
        /// Which field.
        field: &'static str,
        /// Its value.
        sectors: u64,
    },
    /// A number does not fit its field.
    ValueTooLarge {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The record is longer than [`MAX_RECORD_BYTES`](crate::imsm::MAX_RECORD_BYTES).
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooMany { what, count, limit } => {
                write!(
                    out,
                    "the record has {count} {what}; the format holds at most {limit}"
                )
            }
            Self::NotAligned { field, sectors } => write!(
                out,
                "{field} is {sectors} sectors of 512 bytes, which is not a multiple of the \
                 drive's 4096-byte sectors"
            ),
            Self::ValueTooLarge { field, value } => {
                write!(out, "{field} is {value}, which is too large for its field")
            }
            Self::TooLong { bytes } => write!(
                out,
                "the record would be {bytes} bytes long; the limit is {}",
                crate::imsm::MAX_RECORD_BYTES
            ),
        }
    }
}

impl core::error::Error for EncodeError {}
