//! Answers the questions in [`start`](super), in their order.

use super::{
    ACCEPT_UNSYNCED_FLAG, ACCEPT_WRITE_HOLE_FLAG, DEGRADED_FLAG, ReadOnlyReason, RefusedReason,
    StartMode, StartOptions, SyncWork,
};
use crate::imsm::attributes::Attributes;
use crate::imsm::geometry::{Level, check_volume};
use crate::imsm::record::{MapState, MigrationKind, Mpb, Volume, WriteHolePolicy};
use crate::imsm::{SINGLE_WRITE_HOLE_LOG_SECTORS, WRITE_HOLE_LOG_SECTORS};
use alloc::vec::Vec;

/// Decides how volume number `index` of `mpb` may be started.
///
/// `present[row]` says whether the drive of that row of the disk table is here and serves
/// ([`Assembly::present`](crate::imsm::choose::Assembly::present)); rows beyond its end are absent.
/// If a write-hole log is to be replayed first, this is the mode once that has succeeded. The content of a write-intent
/// bitmap ([`crate::imsm::bitmap`]) is not considered here: it narrows what is synchronised.
#[must_use]
pub fn start_mode(mpb: &Mpb, index: usize, present: &[bool], options: StartOptions) -> StartMode {
    mode(mpb, index, present, options, LogTrust::Trusted)
}

/// As [`start_mode`], after a replay that did not settle everything
/// ([`LogReport::is_conclusive`](crate::imsm::log::LogReport::is_conclusive)): the log is disregarded.
#[must_use]
pub fn start_mode_without_log(
    mpb: &Mpb,
    index: usize,
    present: &[bool],
    options: StartOptions,
) -> StartMode {
    mode(mpb, index, present, options, LogTrust::Useless)
}

/// Whether a log is relied on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogTrust {
    Trusted,
    Useless,
}

fn mode(
    mpb: &Mpb,
    index: usize,
    present: &[bool],
    options: StartOptions,
    log: LogTrust,
) -> StartMode {
    match decide(mpb, index, present, options, log) {
        Ok(mode) => mode,
        Err((reason, override_flag)) => StartMode::Refused {
            reason,
            override_flag,
        },
    }
}

type Refused = (RefusedReason, Option<&'static str>);

fn decide(
    mpb: &Mpb,
    index: usize,
    present: &[bool],
    options: StartOptions,
    log: LogTrust,
) -> Result<StartMode, Refused> {
    let volume = mpb
        .volumes
        .get(index)
        .ok_or((RefusedReason::NoSuchVolume, None))?;
    let level = require_understood(mpb, index, volume)?;
    let slots = Slots::of(mpb, volume, present);
    require_members(volume, level, &slots, options)?;
    let progress = Progress::of(volume);
    let lost_slots = slots.lost();
    let (replay, switch_policy) = match level {
        Level::Raid5 => match check_policy(mpb, index) {
            Ok((has_log, switch)) => {
                let replay = has_log && volume.is_dirty() && log == LogTrust::Trusted;
                (replay, switch)
            }
            Err(reason) => return Ok(StartMode::ReadOnly { reason, lost_slots }),
        },
        Level::Raid0 | Level::Raid1 | Level::Raid10 => (false, None),
    };
    if level == Level::Raid5 && !slots.all_in_sync() {
        require_valid_parity(volume, &progress, replay, options)?;
        if let Progress::InitialSync { from_sector } = progress {
            let reason = ReadOnlyReason::UnsyncedParity { from_sector };
            return Ok(StartMode::ReadOnly { reason, lost_slots });
        }
    }
    Ok(StartMode::ReadWrite {
        sync: required_sync(volume, level, &slots, &progress, replay),
        lost_slots,
        replay,
        switch_policy,
    })
}

/// Questions 1 and 2: features, reshapes, and valid maps.
fn require_understood(mpb: &Mpb, index: usize, volume: &Volume) -> Result<Level, Refused> {
    let unsupported = mpb.attributes.unsupported();
    if unsupported != Attributes::default() {
        return Err((RefusedReason::Attributes(unsupported), None));
    }
    if let Some(migration) = &volume.migration {
        match migration.kind {
            MigrationKind::General | MigrationKind::StateChange | MigrationKind::Unknown(_) => {
                return Err((RefusedReason::Migrating(migration.kind), None));
            }
            MigrationKind::InitialSync
            | MigrationKind::Rebuild
            | MigrationKind::Verify
            | MigrationKind::Repair => {}
        }
    }
    let level = check_volume(mpb, index).map_err(|e| (RefusedReason::Geometry(e), None))?;
    for map in volume.maps() {
        if let MapState::Unknown(value) = map.state {
            return Err((RefusedReason::UnknownState(value), None));
        }
    }
    Ok(level)
}

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Its member is here and in sync.
    InSync,
    /// Its member is here and being rebuilt.
    Rebuilding,
    /// No drive serves in it, and the record says so.
    Lost,
    /// Its member is healthy but not here.
    MissingUnmarked,
}

struct Slots(Vec<Slot>);

impl Slots {
    fn of(mpb: &Mpb, volume: &Volume, present: &[bool]) -> Self {
        let targets: Vec<usize> = volume.rebuild_targets().collect();
        let slot_state = |(slot, entry): (usize, &crate::imsm::record::SlotEntry)| {
            let row = entry.disk_index as usize;
            let is_failed = mpb.disks.get(row).is_none_or(|disk| disk.is_failed());
            let is_here = present.get(row).copied().unwrap_or(false) && !is_failed;
            match (entry.out_of_sync, is_here) {
                (false, true) => Slot::InSync,
                (true, true) if targets.contains(&slot) => Slot::Rebuilding,
                (false, false) if !is_failed => Slot::MissingUnmarked,
                _ => Slot::Lost,
            }
        };
        Self(
            volume
                .current_map()
                .order
                .iter()
                .enumerate()
                .map(slot_state)
                .collect(),
        )
    }

    fn which(&self, wanted: impl Fn(Slot) -> bool) -> Vec<usize> {
        (0..self.0.len())
            .filter(|&slot| wanted(self.0[slot]))
            .collect()
    }

    fn lost(&self) -> Vec<usize> {
        self.which(|slot| matches!(slot, Slot::Lost | Slot::MissingUnmarked))
    }

    fn rebuilding(&self) -> Vec<usize> {
        self.which(|slot| slot == Slot::Rebuilding)
    }

    fn all_in_sync(&self) -> bool {
        self.0.iter().all(|&slot| slot == Slot::InSync)
    }

    /// Whether at least one mirror has both its members in sync.
    fn has_whole_pair(&self) -> bool {
        self.0
            .chunks_exact(2)
            .any(|pair| pair == [Slot::InSync, Slot::InSync])
    }
}

/// Question 3: whether there are enough members, and whether missing ones have been accepted.
fn require_members(
    volume: &Volume,
    level: Level,
    slots: &Slots,
    options: StartOptions,
) -> Result<(), Refused> {
    let in_sync = slots.0.iter().map(|&slot| slot == Slot::InSync);
    if level.state_with(in_sync) == MapState::Failed {
        let lost_slots = slots.which(|slot| slot != Slot::InSync);
        return Err((RefusedReason::NotEnoughMembers { level, lost_slots }, None));
    }
    if volume.maps().any(|map| map.state == MapState::Failed) {
        return Err((RefusedReason::RecordedAsFailed, None));
    }
    let missing = slots.which(|slot| slot == Slot::MissingUnmarked);
    if !missing.is_empty() && !options.degraded {
        let reason = RefusedReason::MissingMembers { slots: missing };
        return Err((reason, Some(DEGRADED_FLAG)));
    }
    Ok(())
}

/// What is in progress, or was never done, according to the record.
enum Progress {
    Done,
    InitialSync { from_sector: u64 },
    Repair { from_sector: u64 },
    Rebuild { from_sector: u64 },
}

impl Progress {
    fn of(volume: &Volume) -> Self {
        // If the position is unknown, everything is done again.
        let from_sector = volume.checkpoint_sector().unwrap_or_default();
        match volume.migration.as_ref().map(|migration| migration.kind) {
            Some(MigrationKind::InitialSync) => Self::InitialSync { from_sector },
            Some(MigrationKind::Repair) => Self::Repair { from_sector },
            Some(MigrationKind::Rebuild) => Self::Rebuild { from_sector },
            None if volume.map.state == MapState::Uninitialised => {
                Self::InitialSync { from_sector: 0 }
            }
            // A verify changes nothing, so nothing is left to do if it is unfinished.
            _ => Self::Done,
        }
    }
}

/// Question 4, for a RAID 5 with a slot that is not in sync. Replaying a log settles the writes that a crash
/// interrupted. It settles neither the rows that a repair has not reached nor parity that was never computed; in these
/// cases nothing may be written, not even by the replay.
fn require_valid_parity(
    volume: &Volume,
    progress: &Progress,
    replay: bool,
    options: StartOptions,
) -> Result<(), Refused> {
    if !options.accept_write_hole {
        let flag = Some(ACCEPT_WRITE_HOLE_FLAG);
        let unsynced = matches!(progress, Progress::InitialSync { .. });
        let unknown = volume.is_dirty() && (!replay || unsynced);
        if unknown {
            return Err((RefusedReason::DirtyAndDegraded, flag));
        }
        if matches!(progress, Progress::Repair { .. }) {
            return Err((RefusedReason::InterruptedRepair, flag));
        }
    }
    if matches!(progress, Progress::InitialSync { .. }) && !options.accept_unsynced {
        return Err((
            RefusedReason::UnsyncedAndDegraded,
            Some(ACCEPT_UNSYNCED_FLAG),
        ));
    }
    Ok(())
}

/// Question 5: whether there is a log, and to which policy to switch; or why the volume may not be written.
fn check_policy(
    mpb: &Mpb,
    index: usize,
) -> Result<(bool, Option<WriteHolePolicy>), ReadOnlyReason> {
    let room_sectors = mpb.write_hole_log_room_sectors(index);
    let with_room = |sectors: u64| room_sectors >= sectors;
    // Without room for a log of the present format there is no log.
    let current = if with_room(WRITE_HOLE_LOG_SECTORS) {
        WriteHolePolicy::Log
    } else {
        WriteHolePolicy::Off
    };
    match mpb.volumes[index].write_hole_policy {
        WriteHolePolicy::OffOld | WriteHolePolicy::Off => Ok((false, None)),
        WriteHolePolicy::Log => {
            let switch = (current == WriteHolePolicy::Off).then_some(current);
            Ok((switch.is_none(), switch))
        }
        WriteHolePolicy::LogSingle => Ok((with_room(SINGLE_WRITE_HOLE_LOG_SECTORS), Some(current))),
        // If there is no room to maintain the bitmap, its old content would mislead the next reader.
        WriteHolePolicy::Bitmap => {
            let is_kept = with_room(WRITE_HOLE_LOG_SECTORS);
            Ok((false, (!is_kept).then_some(WriteHolePolicy::Off)))
        }
        policy @ (WriteHolePolicy::JournalDrive
        | WriteHolePolicy::JournalDriveMultiple
        | WriteHolePolicy::Unknown(_)) => Err(ReadOnlyReason::Policy(policy)),
    }
}

/// Question 6. A dirty volume is synchronised from sector 0, whatever its checkpoint says, because writes may
/// have been interrupted anywhere. If its log is replayed and nothing was in progress, nothing has to be synchronised.
fn required_sync(
    volume: &Volume,
    level: Level,
    slots: &Slots,
    progress: &Progress,
    replay: bool,
) -> SyncWork {
    if !level.is_redundant() {
        return SyncWork::None;
    }
    let dirty = volume.is_dirty();
    let from = |sector: u64| if dirty { 0 } else { sector };
    let targets = slots.rebuilding();
    if let (Progress::Rebuild { from_sector }, false) = (progress, targets.is_empty()) {
        return SyncWork::Rebuild {
            slots: targets,
            from_sector: from(*from_sector),
            then_resync: dirty && level == Level::Raid10 && slots.has_whole_pair(),
        };
    }
    let something_to_compare = match level {
        Level::Raid5 => slots.all_in_sync(),
        Level::Raid0 | Level::Raid1 | Level::Raid10 => slots.has_whole_pair(),
    };
    if !something_to_compare {
        return SyncWork::None;
    }
    match *progress {
        Progress::InitialSync { from_sector } => SyncWork::InitialSync {
            from_sector: from(from_sector),
        },
        Progress::Repair { from_sector } => SyncWork::Resync {
            from_sector: from(from_sector),
        },
        Progress::Rebuild { .. } | Progress::Done if dirty && !replay => {
            SyncWork::Resync { from_sector: 0 }
        }
        Progress::Rebuild { .. } | Progress::Done => SyncWork::None,
    }
}
