//! The RAID levels that the engine knows. `metadata` (the format's levels) and `lab` (those that plans are made for)
//! have types of their own, which are converted from and into this one.

use super::GeometryError;
use crate::limits::VOLUME_MEMBERS_MAX;
use core::fmt;

/// RAID level of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Mirror: every slot holds all data.
    Raid1,
    /// Stripe over pairs of mirrors.
    Raid10,
    /// Rotating parity, survives one lost member.
    Raid5,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Level {
    /// Fewest members of a volume.
    #[must_use]
    pub fn members_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid10 => 4,
            Level::Raid5 => 3,
        }
    }

    /// Checks that a volume of this level can have this many members.
    ///
    /// # Errors
    /// [`GeometryError::Members`], in words that hold for every command that makes or plans an array.
    pub fn check_members(self, members: usize) -> Result<(), GeometryError> {
        let fits = (self.members_min()..=VOLUME_MEMBERS_MAX).contains(&members)
            && (self != Level::Raid10 || members.is_multiple_of(2));
        fits.then_some(()).ok_or(GeometryError::Members {
            level: self,
            members,
        })
    }

    /// What people call it: `RAID 5`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Raid0 => "RAID 0",
            Level::Raid1 => "RAID 1",
            Level::Raid10 => "RAID 10",
            Level::Raid5 => "RAID 5",
        }
    }

    /// The number that people call it by.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid5 => 5,
            Level::Raid10 => 10,
        }
    }

    /// The level that people call by this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Level> {
        let levels = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10];
        let mut levels = levels.into_iter();
        levels.find(|level| u64::from(level.number()) == number)
    }

    /// How many members' worth of data fits on `members` members.
    #[must_use]
    #[inline]
    pub fn data_members(self, members: u8) -> u8 {
        match self {
            Level::Raid0 => members,
            Level::Raid1 => 1,
            Level::Raid10 => members / 2,
            Level::Raid5 => members - 1,
        }
    }
}
