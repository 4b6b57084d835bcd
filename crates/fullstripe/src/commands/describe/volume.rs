//! A volume in its present state, and how it would be started.

use super::{ReplayReport, SlotReport, StartReport, VolumeReport};
use container::decide::Decision;
use container::probe::Probed;
use container::shape::{chunk_bytes, level_number};
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::choose::Assembly;
use metadata::imsm::geometry::Level;
use metadata::imsm::start::{StartMode, SyncWork};
use metadata::imsm::{MapState, Mpb, Uuid, Volume};

/// Describes volume number `at`, as it would be started.
pub(super) fn describe(drives: &[Probed], decision: &Decision, at: usize) -> VolumeReport {
    let mode = decision.outlook(at);
    let mpb = &decision.assembly.mpb;
    let volume = &mpb.volumes[at];
    let slots = slots(drives, &decision.assembly, volume);
    let level = volume.map.level();
    VolumeReport {
        name: volume.name.to_string(),
        uuid: Uuid::of_volume(mpb, at).map_or(String::new(), |uuid| uuid.to_string()),
        level: level.map_or(volume.map.stored_level, level_number),
        size_bytes: volume.size_sectors.saturating_mul(SECTOR_BYTES),
        chunk_bytes: chunk_bytes(volume),
        state: state(level, &slots, &mode),
        dirty: volume.is_dirty(),
        slots,
        start: start(
            volume,
            &mode,
            decision.refusal(drives, at),
            replay(decision, at),
        ),
    }
}

/// The replay of the volume's write-hole log that would precede its start.
fn replay(decision: &Decision, at: usize) -> Option<ReplayReport> {
    let report = decision.replays[at].as_ref()?;
    Some(ReplayReport {
        entries: report.entries_replayed,
        skipped: report.entries_skipped(),
        settles_everything: report.is_conclusive(),
    })
}

fn slots(drives: &[Probed], assembly: &Assembly, volume: &Volume) -> Vec<SlotReport> {
    let here = assembly.slot_drives(volume);
    let current = &volume.current_map().order;
    let slot = |(entry, drive): (&metadata::imsm::SlotEntry, &Option<usize>)| SlotReport {
        drive: drive.map(|drive| drives[drive].drive.name().to_owned()),
        state: match drive {
            Some(_) if !entry.out_of_sync => "in sync",
            Some(_) => "rebuilding",
            None if is_failed(&assembly.mpb, entry.disk_index) => "failed",
            None => "missing",
        },
    };
    current.iter().zip(&here).map(slot).collect()
}

fn is_failed(mpb: &Mpb, row: u32) -> bool {
    mpb.disks
        .get(row as usize)
        .is_none_or(metadata::imsm::Disk::is_failed)
}

fn state(level: Option<Level>, slots: &[SlotReport], mode: &StartMode) -> &'static str {
    let usable = slots.iter().map(|slot| slot.state == "in sync");
    let unsynced = matches!(
        mode,
        StartMode::ReadWrite {
            sync: SyncWork::InitialSync { .. } | SyncWork::Resync { .. },
            ..
        }
    );
    match level.map_or(MapState::Failed, |level| level.state_with(usable)) {
        MapState::Failed => "failed",
        MapState::Degraded => "degraded",
        _ if unsynced => "not protected",
        _ => "optimal",
    }
}

fn start(
    volume: &Volume,
    mode: &StartMode,
    refusal: Option<(String, Option<&'static str>)>,
    replay: Option<ReplayReport>,
) -> StartReport {
    let mut report = StartReport {
        mode: "read-write",
        reason: None,
        option: None,
        work: None,
        replay,
    };
    match mode {
        StartMode::ReadWrite { sync, .. } => report.work = work(volume, sync),
        StartMode::ReadOnly { reason, .. } => {
            report.mode = "read-only";
            report.reason = Some(reason.to_string());
        }
        StartMode::Refused { .. } => {
            report.mode = "refused";
            if let Some((why, option)) = refusal {
                (report.reason, report.option) = (Some(why), option);
            }
        }
    }
    report
}

fn work(volume: &Volume, sync: &SyncWork) -> Option<String> {
    let (what, from_sector) = match sync {
        SyncWork::None => return None,
        SyncWork::InitialSync { from_sector } => ("initial sync".to_owned(), *from_sector),
        SyncWork::Resync { from_sector } => ("resync".to_owned(), *from_sector),
        SyncWork::Rebuild {
            slots, from_sector, ..
        } => {
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            (
                format!("rebuild of slot {}", slots.join(", ")),
                *from_sector,
            )
        }
    };
    let percent = from_sector.saturating_mul(100) / volume.component_sectors().max(1);
    Some(if from_sector == 0 {
        format!("{what} from the start")
    } else {
        format!("{what} from {percent} %")
    })
}
