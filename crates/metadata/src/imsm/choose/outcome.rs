//! The result of choosing: what an assembly consists of, or why there is none.

use super::{Candidate, Returned};
use crate::imsm::build::BuildError;
use crate::imsm::record::{Mpb, SectorSize, Volume};
use crate::imsm::serial::Serial;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A container that can be assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The chosen record, with the dirty marks of all copies. Its generation is the highest seen.
    pub mpb: Mpb,
    /// Sector size of all members.
    pub sector: SectorSize,
    /// For each row of the disk table, the drive in it and whether it serves.
    pub members: Vec<MemberState>,
    /// Drives with a record of this container that its disk table no longer lists.
    pub outsiders: Vec<(usize, Eviction)>,
    /// Evicted drives for which volumes have waited ([`Assembly::take_back`]).
    pub returned: Vec<Returned>,
    /// Drives that were in `returned` and have been taken back.
    pub taken_back: Vec<usize>,
    /// Spares that are large enough and have the right sector size.
    pub spares: Vec<usize>,
    /// The last update, if it has not reached every member that serves. It must be completed before the
    /// next one begins. Otherwise two updates in a row could be interrupted and leave copies two generations apart.
    pub unfinished: Option<Unfinished>,
    /// The record must be written to all members before the first volume is started.
    pub rewrite_needed: bool,
    /// Notes for the user, a sentence each.
    pub warnings: Vec<String>,
}

/// An update of the record that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The record as the update wrote it.
    pub record: Box<Mpb>,
    /// Drives that serve but do not have this record.
    pub drives: Vec<usize>,
    /// The record was found in the shadows only, so these must stay until the drives' own copies are whole.
    pub from_shadows: bool,
}

/// The drive of a row of the disk table, and whether it serves. Drives are indexes into the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The drive is here and serves.
    Present {
        /// The drive.
        drive: usize,
    },
    /// The drive is here but must not serve.
    Evicted {
        /// The drive.
        drive: usize,
        /// Why.
        reason: Eviction,
    },
    /// The row is marked failed; its drive is not here.
    MarkedFailed,
    /// The row is healthy but its drive is not here.
    Missing,
}

/// Why a drive that is here must not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The chosen record marks it failed.
    MarkedFailed,
    /// Its record is outdated although it was never marked failed.
    Stale {
        /// Its generation.
        generation: u32,
        /// The generation of the chosen record.
        newest: u32,
    },
    /// Another drive has taken its place.
    Replaced,
    /// Its own record does not list its serial: it is a copy of a drive, or behind an adapter that changes serials.
    NotInOwnRecord,
    /// It has no record.
    NoRecord,
    /// It has the record of a spare.
    SpareRecord,
    /// It has the record of another container.
    OtherContainer,
    /// Its record is damaged and does not look like an interrupted update.
    DamagedRecord,
    /// It is smaller than the record says, and too small for the volumes.
    TooSmall,
}

impl fmt::Display for Eviction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MarkedFailed => out.write_str("it is marked failed"),
            Self::Stale { generation, newest } => write!(
                out,
                "its record is outdated (generation {generation}, the others have {newest})"
            ),
            Self::Replaced => out.write_str("another drive has taken its place"),
            Self::NotInOwnRecord => out.write_str(
                "its own record does not list its serial: it is a copy of another drive, a file \
                 with a new name, or connected through something that changes serials; a member \
                 that is missing under this name serves if its old serial is given, as in \
                 DRIVE,serial=OLD",
            ),
            Self::NoRecord => out.write_str("it carries no RAID record"),
            Self::SpareRecord => out.write_str("it carries the record of a spare"),
            Self::OtherContainer => out.write_str("it carries the record of another container"),
            Self::DamagedRecord => out.write_str("its record is damaged"),
            Self::TooSmall => out.write_str("it is too small"),
        }
    }
}

impl Assembly {
    /// For each row of the disk table whether its drive serves: the argument of
    /// [`start_mode`](crate::imsm::start::start_mode).
    #[must_use]
    pub fn present(&self) -> Vec<bool> {
        self.members
            .iter()
            .map(|state| matches!(state, MemberState::Present { .. }))
            .collect()
    }

    /// The drives that serve, in the order of the disk table.
    pub fn present_drives(&self) -> impl Iterator<Item = usize> {
        self.members.iter().filter_map(|state| match state {
            MemberState::Present { drive } => Some(*drive),
            _ => None,
        })
    }

    /// The drive in each slot of a volume's map; `None` if no drive serves there. Slots that are out of
    /// sync are included: see [`Volume::current_map`].
    #[must_use]
    pub fn slot_drives(&self, volume: &Volume) -> Vec<Option<usize>> {
        let drive_of = |row: u32| match self.members.get(row as usize) {
            Some(MemberState::Present { drive }) => Some(*drive),
            _ => None,
        };
        volume
            .map
            .order
            .iter()
            .map(|slot| drive_of(slot.disk_index))
            .collect()
    }

    /// Marks in the record every listed drive that does not serve: missing ones as missing, evicted
    /// ones as failed. This must be done and durable before a volume is started without them.
    /// Returns whether anything changed.
    ///
    /// `starts` says by number which volumes start. The record of the other volumes is not changed, nor are drives
    /// marked that only those use: nothing is written to these volumes, so an absent drive misses nothing. The
    /// exception is a drive that is here with an outdated record and that a starting volume uses: it is not known what
    /// has been written without it, so it is marked out of sync in all volumes.
    ///
    /// # Errors
    /// None in a record that was chosen; the type comes from the operations used.
    pub fn record_absences(&mut self, starts: impl Fn(usize) -> bool) -> Result<bool, BuildError> {
        let before = self.mpb.clone();
        for row in 0..self.members.len() {
            let is_used = |volume: &Volume| {
                let mut entries = volume.maps().flat_map(|map| &map.order);
                entries.any(|entry| entry.disk_index as usize == row)
            };
            let mut users = (0..before.volumes.len()).filter(|&at| is_used(&before.volumes[at]));
            let is_needed_only = users.clone().next().is_some() && !users.any(&starts);
            match self.members[row] {
                MemberState::Present { .. } => {}
                _ if is_needed_only => {}
                MemberState::Missing => self.mpb.mark_missing_in(row, &starts)?,
                MemberState::Evicted {
                    reason: Eviction::Stale { .. },
                    ..
                } => self.mpb.mark_failed(row)?,
                MemberState::Evicted { .. } => self.mpb.mark_failed_in(row, &starts)?,
                MemberState::MarkedFailed => self.lose_row(row, &starts)?,
            }
        }
        let changed = self.mpb != before;
        self.rewrite_needed |= changed;
        Ok(changed)
    }

    /// Marks a drive lost in volumes that have waited for it and now start without it.
    fn lose_row(&mut self, row: usize, starts: impl Fn(usize) -> bool) -> Result<(), BuildError> {
        let waits = |volume: &Volume| {
            let mut entries = volume.maps().flat_map(|map| &map.order);
            entries.any(|entry| entry.disk_index as usize == row && !entry.out_of_sync)
        };
        let waiting: Vec<bool> = self.mpb.volumes.iter().map(waits).collect();
        self.mpb.mark_failed_in(row, |at| waiting[at] && starts(at))
    }

    /// Whether a drive belongs to this container, serving or not.
    pub(super) fn lists(&self, wanted: usize) -> bool {
        self.outsiders.iter().any(|(drive, _)| *drive == wanted)
            || self.members.iter().any(|state| match state {
                MemberState::Present { drive } | MemberState::Evicted { drive, .. } => {
                    *drive == wanted
                }
                MemberState::MarkedFailed | MemberState::Missing => false,
            })
    }

    pub(super) fn offer_spares(&mut self, candidates: &[Candidate], spares: &[usize]) {
        let end = self
            .mpb
            .volumes
            .iter()
            .map(|volume| volume.extent().end)
            .max();
        let behind = crate::imsm::SECTORS_PER_MIB + crate::imsm::WRITE_HOLE_LOG_SECTORS;
        let needed = end.unwrap_or_default().saturating_add(behind);
        let fits = |candidate: &Candidate| {
            candidate.sector == self.sector && candidate.total_sectors >= needed
        };
        self.spares = spares
            .iter()
            .copied()
            .filter(|&drive| fits(&candidates[drive]))
            .collect();
    }
}

/// One side of a container whose halves were used separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// Drives that carry this side's record.
    pub drives: Vec<String>,
    /// Generation of that record.
    pub generation: u32,
}

impl fmt::Display for Half {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} at generation {}",
            self.drives.join(", "),
            self.generation
        )
    }
}

/// Why a container is not assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Two drives have the same stored serial.
    DuplicateSerial {
        /// The serial.
        serial: Serial,
        /// The drives.
        drives: Vec<String>,
    },
    /// Members have different sector sizes.
    MixedSectorSizes {
        /// A drive of each size.
        drives: Vec<String>,
    },
    /// No drive's record lists the drive itself as a healthy member.
    NoUsableRecord {
        /// The drives.
        drives: Vec<String>,
    },
    /// The two sides were each used without the other.
    SplitHalves {
        /// The side with the higher generation.
        first: Half,
        /// The other side.
        second: Half,
    },
    /// Records contradict each other about which drives have failed, in a way that no crash explains.
    Contradiction {
        /// One side.
        first: Half,
        /// The other.
        second: Half,
    },
    /// Two records have the same generation but different content.
    DifferentContent {
        /// One side.
        first: Half,
        /// The other.
        second: Half,
    },
    /// A damaged record claims to be newer than every readable one.
    DamagedIsNewer {
        /// The drive.
        drive: String,
        /// The generation in its header.
        claimed: u32,
        /// The highest readable generation.
        newest: u32,
    },
    /// Every member's record is torn, and the shadows cannot be used.
    ShadowsInDoubt {
        /// Drives with a whole shadow.
        drives: Vec<String>,
        /// Why they cannot be used.
        why: ShadowDoubt,
    },
}

/// Why the shadows of a container cannot be used although no member's record is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShadowDoubt {
    /// The shadows, or the copies on a lost drive, contradict each other.
    Disagree {
        /// The side with the newest shadow.
        first: Half,
        /// The other side.
        second: Half,
    },
    /// A member's record is not torn, but missing or that of another container.
    NotTorn {
        /// The drive.
        drive: String,
    },
    /// A member's torn record is not one that the newest shadow names.
    Overtaken {
        /// The drive.
        drive: String,
        /// The generation in the torn record's header.
        generation: u32,
        /// Generation of the newest shadow.
        shadow_generation: u32,
    },
}

impl fmt::Display for ShadowDoubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disagree { first, second } => write!(
                out,
                "they are not of one update: {first}, and {second}; decide which to keep and remove \
                 the other's drives"
            ),
            Self::NotTorn { drive } => write!(
                out,
                "{drive} should be a member but its record is not torn: the drive has none, or another \
                 container's; leave that drive out"
            ),
            Self::Overtaken {
                drive,
                generation,
                shadow_generation,
            } => write!(
                out,
                "the torn record of {drive}, generation {generation}, is not one that the shadow copy \
                 of generation {shadow_generation} knows, so another program wrote it later; \
                 `metadata restore` puts back a saved copy"
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateSerial { serial, drives } => write!(
                out,
                "the drives {} have the same serial {serial} and cannot be told apart; is one a \
                 copy, or seen twice? Remove one of them",
                drives.join(", ")
            ),
            Self::MixedSectorSizes { drives } => write!(
                out,
                "members have different sector sizes: {}; bring them all to the size they were \
                 made with",
                drives.join(", ")
            ),
            Self::NoUsableRecord { drives } => write!(
                out,
                "no record lists the drive it was found on as a healthy member: {}",
                drives.join(", ")
            ),
            Self::SplitHalves { first, second } => write!(
                out,
                "the container diverged into two states, each without the other's drives: {first}, and \
                 {second}; decide which to keep and remove the other's drives"
            ),
            Self::Contradiction { first, second } => write!(
                out,
                "the records contradict each other about which drive failed: {first}, and \
                 {second}; decide which to keep and remove the other's drives"
            ),
            Self::DifferentContent { first, second } => write!(
                out,
                "two records of the same generation differ: {first}, and {second}; decide which \
                 to keep and remove the other's drives"
            ),
            Self::DamagedIsNewer {
                drive,
                claimed,
                newest,
            } => write!(
                out,
                "the damaged record of {drive} claims generation {claimed}, newer than every \
                 readable one ({newest}); remove that drive to go on without it"
            ),
            Self::ShadowsInDoubt { drives, why } => write!(
                out,
                "every member's record is torn, and the shadow copies on {} do not serve: {why}",
                drives.join(", ")
            ),
        }
    }
}

impl core::error::Error for Refusal {}
