//! Converts bytes with a meaning to enums and back. Unknown values are preserved.

use crate::imsm::record::{MapState, MigrationKind, Volume, WriteHolePolicy};

impl MapState {
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Normal,
            1 => Self::Uninitialised,
            2 => Self::Degraded,
            3 => Self::Failed,
            other => Self::Unknown(other),
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Uninitialised => 1,
            Self::Degraded => 2,
            Self::Failed => 3,
            Self::Unknown(other) => other,
        }
    }
}

impl WriteHolePolicy {
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::OffOld,
            1 => Self::LogSingle,
            2 => Self::JournalDrive,
            3 => Self::Log,
            4 => Self::JournalDriveMultiple,
            5 => Self::Off,
            6 => Self::Bitmap,
            other => Self::Unknown(other),
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::OffOld => 0,
            Self::LogSingle => 1,
            Self::JournalDrive => 2,
            Self::Log => 3,
            Self::JournalDriveMultiple => 4,
            Self::Off => 5,
            Self::Bitmap => 6,
            Self::Unknown(other) => other,
        }
    }
}

impl MigrationKind {
    /// The kind from the type byte and the volume's status bits.
    pub(super) fn from_stored(kind: u8, status: u32) -> Self {
        match kind {
            0 => Self::InitialSync,
            1 => Self::Rebuild,
            2 if status & Volume::VERIFY_AND_FIX != 0 => Self::Repair,
            2 => Self::Verify,
            3 => Self::General,
            4 => Self::StateChange,
            other => Self::Unknown(other),
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::InitialSync => 0,
            Self::Rebuild => 1,
            Self::Verify | Self::Repair => 2,
            Self::General => 3,
            Self::StateChange => 4,
            Self::Unknown(other) => other,
        }
    }

    /// The volume status to store: a verify and a repair differ only in a status bit.
    pub(super) fn status_with(self, status: u32) -> u32 {
        match self {
            Self::Repair => status | Volume::VERIFY_AND_FIX,
            Self::Verify => status & !Volume::VERIFY_AND_FIX,
            _ => status,
        }
    }
}
