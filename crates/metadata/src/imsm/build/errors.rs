//! Why a change of a record is refused.

use crate::imsm::geometry::{GeometryError, Level};
use crate::imsm::record::{MigrationKind, VolumeName};
use crate::imsm::serial::Serial;
use core::fmt;

/// Why a change of a record is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// There is no such volume.
    NoSuchVolume {
        /// The index given.
        index: usize,
        /// Number of volumes.
        volumes: usize,
    },
    /// There is no such row in the disk table.
    NoSuchDisk {
        /// The index given.
        index: usize,
        /// Number of rows.
        disks: usize,
    },
    /// The volume cannot have this shape or size.
    Geometry(GeometryError),
    /// A drive has no serial number, so the format cannot identify it.
    NoSerial,
    /// Two drives have serials that the format cannot tell apart.
    DuplicateSerial {
        /// The serial as stored.
        serial: Serial,
    },
    /// A volume of that name exists.
    DuplicateName {
        /// The name.
        name: VolumeName,
    },
    /// The change needs a container whose members are all in sync.
    Degraded {
        /// The volume that is not.
        name: VolumeName,
    },
    /// The volume is busy with another background operation.
    Busy {
        /// The volume.
        name: VolumeName,
        /// What it is doing.
        kind: MigrationKind,
    },
    /// The operation that is to be continued or finished is not in progress.
    NotInProgress {
        /// The volume.
        name: VolumeName,
    },
    /// The volume's level has nothing to synchronise or rebuild.
    NotRedundant {
        /// The volume.
        name: VolumeName,
        /// Its level.
        level: Option<Level>,
    },
    /// The volume was never synchronised, so there is nothing to repair.
    NeverSynchronised {
        /// The volume.
        name: VolumeName,
    },
    /// The slot does not exist, or is in sync.
    SlotNotLost {
        /// The volume.
        name: VolumeName,
        /// The slot.
        slot: usize,
    },
    /// The slot does not exist, or has no drive that is in sync.
    NobodyServes {
        /// The volume.
        name: VolumeName,
        /// The slot.
        slot: usize,
    },
    /// The volume has lost more members than its level survives.
    Failed {
        /// The volume.
        name: VolumeName,
    },
    /// The drive cannot take the slot.
    UnfitTarget {
        /// Serial of the drive.
        serial: Serial,
        /// Why.
        problem: &'static str,
    },
    /// The bad block log has no room for another entry.
    BadBlockLogFull,
    /// A bad block range is empty or beyond what the log can express.
    BadBlockRange {
        /// First sector.
        start_sector: u64,
        /// Number of sectors.
        sectors: u64,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchVolume { index, volumes } => {
                write!(
                    out,
                    "there is no volume {index}: the container has {volumes}"
                )
            }
            Self::NoSuchDisk { index, disks } => {
                write!(out, "there is no drive {index}: the container has {disks}")
            }
            Self::Geometry(error) => error.fmt(out),
            Self::NoSerial => {
                out.write_str("a drive reports no serial number, by which it would be recognised")
            }
            Self::DuplicateSerial { serial } => write!(
                out,
                "two drives have the serial {serial} (last 16 characters) and could not be told \
                 apart"
            ),
            Self::DuplicateName { name } => write!(out, "a volume named {name} exists already"),
            Self::UnfitTarget { serial, problem } => {
                write!(out, "drive {serial} cannot take the slot: {problem}")
            }
            Self::BadBlockLogFull => write!(
                out,
                "the bad block log is full ({} entries)",
                crate::imsm::MAX_BAD_BLOCK_ENTRIES
            ),
            Self::BadBlockRange {
                start_sector,
                sectors,
            } => write!(
                out,
                "the bad block log cannot hold {sectors} sectors at sector {start_sector}"
            ),
            _ => self.fmt_about_volume(out),
        }
    }
}

impl BuildError {
    /// The sentences for errors that concern one volume.
    fn fmt_about_volume(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degraded { name } => {
                write!(
                    out,
                    "volume {name} is not complete and in sync; rebuild it first"
                )
            }
            Self::Busy { name, kind } => {
                write!(
                    out,
                    "volume {name} is busy ({kind}); wait until that is finished"
                )
            }
            Self::NotInProgress { name } => {
                write!(out, "volume {name} has no such operation in progress")
            }
            Self::NotRedundant {
                name,
                level: Some(level),
            } => {
                write!(
                    out,
                    "volume {name} is {level} and has nothing to synchronise or rebuild"
                )
            }
            Self::NotRedundant { name, level: None } => {
                write!(out, "volume {name} has a level that is not supported")
            }
            Self::NeverSynchronised { name } => {
                write!(
                    out,
                    "volume {name} was never synchronised; start that instead of a repair"
                )
            }
            Self::SlotNotLost { name, slot } => {
                write!(
                    out,
                    "slot {slot} of volume {name} is not lost, so nothing can replace it"
                )
            }
            Self::NobodyServes { name, slot } => {
                write!(
                    out,
                    "no member in sync serves in slot {slot} of volume {name}; rebuild it instead"
                )
            }
            Self::Failed { name } => {
                write!(
                    out,
                    "volume {name} has lost more members than its level survives"
                )
            }
            _ => Ok(()),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Geometry(error) => Some(error),
            _ => None,
        }
    }
}

impl From<GeometryError> for BuildError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl fmt::Display for MigrationKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InitialSync => out.write_str("initial synchronisation"),
            Self::Rebuild => out.write_str("rebuild"),
            Self::Verify => out.write_str("verify"),
            Self::Repair => out.write_str("repair"),
            Self::General => out.write_str("reshape"),
            Self::StateChange => out.write_str("state change"),
            Self::Unknown(kind) => write!(out, "unknown operation {kind}"),
        }
    }
}
