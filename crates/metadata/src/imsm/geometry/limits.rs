//! What the format cannot hold at all ([`GeometryError`]), and what it can hold but only some
//! readers accept ([`WideReason`]).
//!
//! The safe set is accepted by firmware and by old and new mdadm: RAID 0 of two or more drives, RAID 1 of
//! two, RAID 10 of four, RAID 5 of three or more; strips of 4 to 128 KiB; at most two volumes; at
//! most twelve drives. For a volume outside of it, each reason says which readers do not accept the array.

use super::level::Level;
use crate::imsm::record::VolumeName;
use alloc::vec::Vec;
use core::fmt;

/// Smallest strip, 4 KiB.
pub const MIN_STRIP_SECTORS: u32 = 8;
/// Largest strip, 1 MiB.
pub const MAX_STRIP_SECTORS: u32 = 2048;
/// Largest strip in the safe set, 128 KiB.
pub const MAX_SAFE_STRIP_SECTORS: u32 = 256;
/// The strip field of every RAID 1, 64 KiB, although a mirror has no strips.
pub const RAID1_STRIP_SECTORS: u32 = 128;
/// Largest number of volumes in the safe set.
pub const MAX_SAFE_VOLUMES: usize = 2;
/// Largest number of drives in one NVMe array on a platform without VMD.
pub const MAX_SAFE_MEMBERS: usize = 12;
/// Largest number of members that a map can hold.
pub const MAX_MEMBERS: usize = 255;

/// The shape of a volume: all its properties except its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// RAID level.
    pub level: Level,
    /// Number of members.
    pub members: usize,
    /// Strip size. Ignored for RAID 1, which always stores 64 KiB.
    pub strip_sectors: u32,
}

impl Shape {
    /// The strip size that is stored.
    #[must_use]
    pub fn stored_strip_sectors(&self) -> u32 {
        if self.level == Level::Raid1 {
            RAID1_STRIP_SECTORS
        } else {
            self.strip_sectors
        }
    }

    /// Checks that the format can hold this shape.
    ///
    /// # Errors
    /// [`GeometryError::MemberCount`] or [`GeometryError::Strip`].
    pub fn check(&self) -> Result<(), GeometryError> {
        let Self { level, members, .. } = *self;
        let possible = members <= MAX_MEMBERS
            && match level {
                Level::Raid0 => members >= 1,
                Level::Raid1 => members == 2,
                Level::Raid10 => members >= 4 && members.is_multiple_of(2),
                Level::Raid5 => members >= 3,
            };
        if !possible {
            return Err(GeometryError::MemberCount { level, members });
        }
        let strip_sectors = self.stored_strip_sectors();
        let range = MIN_STRIP_SECTORS..=MAX_STRIP_SECTORS;
        if !strip_sectors.is_power_of_two() || !range.contains(&strip_sectors) {
            return Err(GeometryError::Strip { strip_sectors });
        }
        Ok(())
    }

    /// Why this shape, as volume number `volumes_with_this` of its container, is outside the safe
    /// set; empty if it is inside.
    #[must_use]
    pub fn reasons_wide(&self, volumes_with_this: usize) -> Vec<WideReason> {
        let mut reasons = Vec::new();
        if self.level == Level::Raid0 && self.members == 1 {
            reasons.push(WideReason::Raid0OfOne);
        }
        if self.level == Level::Raid10 && self.members > 4 {
            reasons.push(WideReason::Raid10AboveFour {
                members: self.members,
            });
        }
        if self.stored_strip_sectors() > MAX_SAFE_STRIP_SECTORS {
            let strip_kib = self.stored_strip_sectors() / 2;
            reasons.push(WideReason::LargeStrip { strip_kib });
        }
        if volumes_with_this > MAX_SAFE_VOLUMES {
            reasons.push(WideReason::ManyVolumes {
                volumes: volumes_with_this,
            });
        }
        if self.members > MAX_SAFE_MEMBERS {
            reasons.push(WideReason::ManyMembers {
                members: self.members,
            });
        }
        reasons
    }
}

/// Why a volume is outside the set that every reader accepts. It is printed as what is unusual and which readers do
/// not accept the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WideReason {
    /// RAID 0 of a single drive.
    Raid0OfOne,
    /// RAID 10 of more than four drives.
    Raid10AboveFour {
        /// Number of members.
        members: usize,
    },
    /// A strip above 128 KiB.
    LargeStrip {
        /// The strip.
        strip_kib: u32,
    },
    /// More than two volumes in the container.
    ManyVolumes {
        /// Number of volumes, including the new one.
        volumes: usize,
    },
    /// More drives than a platform without VMD takes.
    ManyMembers {
        /// Number of members.
        members: usize,
    },
}

impl fmt::Display for WideReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Raid0OfOne => out.write_str(
                "RAID 0 of one drive: mdadm makes this only with --force, firmware may not show it",
            ),
            Self::Raid10AboveFour { members } => write!(
                out,
                "RAID 10 of {members} drives: unreadable for mdadm before 4.4 and for the \
                 platform's UEFI firmware"
            ),
            Self::LargeStrip { strip_kib } => write!(
                out,
                "a strip of {strip_kib} KiB: NVMe firmware takes 4 to 128 KiB and may not read \
                 the array"
            ),
            Self::ManyVolumes { volumes } => write!(
                out,
                "{volumes} volumes on the same drives: firmware, and mdadm on such a platform, \
                 take two"
            ),
            Self::ManyMembers { members } => write!(
                out,
                "{members} drives: a platform without VMD takes 12 NVMe drives in an array"
            ),
        }
    }
}

/// Why a volume cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The level does not exist with this number of members.
    MemberCount {
        /// Level.
        level: Level,
        /// The number of members requested.
        members: usize,
    },
    /// The strip is not a power of two from 4 KiB to 1 MiB.
    Strip {
        /// The strip requested.
        strip_sectors: u32,
    },
    /// The shape is outside the safe set, and the caller has not allowed that.
    Wide {
        /// Volume name.
        name: VolumeName,
        /// Every reason.
        reasons: Vec<WideReason>,
    },
    /// The requested size is below that of the smallest volume.
    TooSmall {
        /// Sectors that the smallest volume takes on each member.
        smallest_sectors: u64,
    },
    /// The drives have no gap of that size.
    NoSpace {
        /// Sectors needed on each member; 0 if the largest possible size was requested.
        needed_sectors: u64,
        /// Sectors of the largest gap, rounded down to 1 MiB.
        largest_gap_sectors: u64,
    },
    /// The volume would be larger than the format can count.
    TooLarge,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemberCount { level, members } => {
                if *members > MAX_MEMBERS {
                    return write!(
                        out,
                        "the metadata of an array cannot count {members} drives"
                    );
                }
                // Only the format's limits are checked here. The engine checks beforehand how many members it can
                // serve.
                let rule = match level {
                    Level::Raid0 => "at least 1 drive",
                    Level::Raid1 => "exactly 2 drives",
                    Level::Raid10 => "an even number of drives from 4",
                    Level::Raid5 => "at least 3 drives",
                };
                write!(out, "{level} needs {rule}, not {members}")
            }
            Self::Strip { strip_sectors } => write!(
                out,
                "a strip of {} bytes is not possible: use a power of two from 4 KiB to 1 MiB",
                u64::from(*strip_sectors) * crate::imsm::SECTOR_BYTES
            ),
            Self::Wide { name, reasons } => {
                write!(
                    out,
                    "volume {name} would not be readable everywhere (allow with --wide)"
                )?;
                for (position, reason) in reasons.iter().enumerate() {
                    write!(out, "{}{reason}", if position == 0 { ": " } else { "; " })?;
                }
                Ok(())
            }
            Self::TooSmall { smallest_sectors } => write!(
                out,
                "the size asked for is too small: a volume takes at least {} MiB of each drive",
                smallest_sectors / crate::imsm::SECTORS_PER_MIB
            ),
            Self::NoSpace {
                needed_sectors: 0, ..
            } => out.write_str("the drives have no room for a volume of 1 MiB per drive"),
            Self::NoSpace {
                needed_sectors,
                largest_gap_sectors,
            } => write!(
                out,
                "the volume needs {needed_sectors} sectors on each drive but the largest free gap \
                 has {largest_gap_sectors}"
            ),
            Self::TooLarge => out.write_str("the volume would be larger than 2^64 sectors"),
        }
    }
}

impl core::error::Error for GeometryError {}
