//! The RAID levels and how the format stores them.

use crate::imsm::record::MapState;
use core::fmt;

/// A RAID level the format has.
///
/// RAID 5 is left-asymmetric: with `m` members, row `r` has its parity in slot
/// `m - 1 - (r mod m)` and its data in the other slots in ascending order. RAID 10 stripes over
/// pairs of neighbouring slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Two mirrored members.
    Raid1,
    /// Striping over mirrored pairs: slots 0 and 1, 2 and 3, and so on.
    Raid10,
    /// Striping with one rotating parity.
    Raid5,
}

impl Level {
    /// The level stored as `stored` in a map of `members` members; `None` if there is no such level.
    ///
    /// Stored level 1 is RAID 1 with two members and RAID 10 with more. Stored level 10 is RAID
    /// 10, also for four members, although nobody should write that.
    #[must_use]
    pub fn from_stored(stored: u8, members: usize) -> Option<Self> {
        match (stored, members) {
            (0, 1..) => Some(Self::Raid0),
            (1, 2) => Some(Self::Raid1),
            (1 | 10, 4..) if members.is_multiple_of(2) => Some(Self::Raid10),
            (5, 3..) => Some(Self::Raid5),
            _ => None,
        }
    }

    /// The level byte for a map of `members` members. RAID 10 of four is stored as 1: writing 10
    /// there breaks the platform's firmware.
    #[must_use]
    pub fn stored(self, members: usize) -> u8 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid10 if members > 4 => 10,
            Self::Raid10 => 1,
            Self::Raid5 => 5,
        }
    }

    /// The `domains` byte of a map: 2 for mirrored levels, else 1.
    #[must_use]
    pub fn domains(self) -> u8 {
        match self {
            Self::Raid1 | Self::Raid10 => 2,
            Self::Raid0 | Self::Raid5 => 1,
        }
    }

    /// The capacity of a volume with `members` members, in units of one member's component.
    #[must_use]
    pub fn data_members(self, members: usize) -> u64 {
        let members = members as u64;
        match self {
            Self::Raid0 => members,
            Self::Raid1 => 1,
            Self::Raid10 => members / 2,
            Self::Raid5 => members.saturating_sub(1),
        }
    }

    /// Whether the level keeps data when a member is lost.
    #[must_use]
    pub fn is_redundant(self) -> bool {
        self != Self::Raid0
    }

    /// The state of a volume whose slots are usable as given: [`MapState::Normal`],
    /// [`MapState::Degraded`] or [`MapState::Failed`].
    pub fn state_with(self, usable: impl ExactSizeIterator<Item = bool>) -> MapState {
        let mut lost = 0usize;
        let mut lost_pair = false;
        let mut even_slot_lost = false;
        for (slot, usable) in usable.enumerate() {
            lost += usize::from(!usable);
            if slot.is_multiple_of(2) {
                even_slot_lost = !usable;
            } else {
                lost_pair |= even_slot_lost && !usable;
            }
        }
        let failed = match self {
            Self::Raid0 => lost > 0,
            Self::Raid1 | Self::Raid10 => lost_pair,
            Self::Raid5 => lost > 1,
        };
        match (failed, lost) {
            (true, _) => MapState::Failed,
            (false, 0) => MapState::Normal,
            (false, _) => MapState::Degraded,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Raid0 => "RAID 0",
            Self::Raid1 => "RAID 1",
            Self::Raid10 => "RAID 10",
            Self::Raid5 => "RAID 5",
        })
    }
}
