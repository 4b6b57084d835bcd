//! Writes what must be on the drives before the first volume of a container starts: absences that the operator has
//! accepted, parity restored from a write-hole log, empty logs, bitmaps that are equal on all members, and in the
//! record the resync that a crash made necessary and changes of write-hole policies.

use crate::assemble::bitmap::{FoundBitmap, follow, write_all};
use crate::assemble::{active_drives, drive_order};
use crate::log::{initialise_all, logged_volume, replay_all};
use crate::member::Member;
use crate::write::{finish_update, write_record};
use anyhow::Result;
use metadata::imsm::Mpb;
use metadata::imsm::choose::{Assembly, Eviction, MemberState};
use metadata::imsm::start::{StartMode, StartOptions, SyncWork};

/// Makes durable, on the drives and in `mpb`, what must be so before anything starts; returns notes for
/// the user. Absences are recorded before a replay: a member that was missing from a replay must not come back as if
/// it had taken part. The results of the replay are recorded after it.
///
/// # Errors
/// A drive fails, or a volume must not be started without the log that could not be replayed.
pub fn prepare<M: Member>(
    mpb: &mut Mpb,
    assembly: &Assembly,
    drives: &[M],
    (modes, bitmaps): (&mut [StartMode], &mut [FoundBitmap]),
    options: StartOptions,
) -> Result<Vec<String>> {
    let mut unfinished = assembly.unfinished.as_ref();
    // If a volume is only read, its missing drives are not recorded as lost, so that they serve again when they
    // come back.
    let is_written = |mode: &StartMode| matches!(mode, StartMode::ReadWrite { .. });
    let written: Vec<bool> = modes.iter().map(is_written).collect();
    let actives: Vec<&M> = active_drives(assembly).map(|at| &drives[at]).collect();
    let is_back = |at: &usize| assembly.taken_back.contains(at);
    let (back, others): (Vec<_>, Vec<_>) = active_drives(assembly).partition(is_back);
    let [back, others] =
        [back, others].map(|of| of.iter().map(|&at| &drives[at]).collect::<Vec<_>>());
    let mut write = |mpb: &mut Mpb| -> Result<()> {
        finish_update(unfinished.take(), drives)?;
        mpb.bump_generation();
        // A record that takes a drive back names one that is missing until that has it.
        write_record(mpb, &back)?;
        write_record(mpb, &others)?;
        Ok(())
    };
    if has_old_copy(assembly) && written.contains(&true) {
        // Nobody knows what it was away for: it must not come back by the bitmap once it is marked failed.
        for bitmap in bitmaps.iter_mut() {
            bitmap.header.events_cleared = u64::from(mpb.generation) + 1;
        }
        write_all(bitmaps.iter_mut(), &actives, mpb.generation)?;
    }
    let mut absences = Assembly {
        mpb: mpb.clone(),
        ..assembly.clone()
    };
    let absent = absences.record_absences(|at| written[at])?;
    let changed = absent | assembly.rewrite_needed;
    *mpb = absences.mpb;
    if changed {
        write(mpb)?;
    }
    let notes = replay_all(drives, assembly, mpb, modes, options)?;
    let before = mpb.clone();
    for (at, mode) in modes.iter().enumerate() {
        settle(mpb, at, mode)?;
    }
    let with_log: Vec<_> = (0..modes.len())
        .filter(|&at| written[at])
        .filter_map(|at| logged_volume(mpb, at, assembly.sector))
        .collect();
    let all: Vec<&M> = drive_order(assembly)
        .into_iter()
        .map(|at| &drives[at])
        .collect();
    initialise_all(&with_log, &all)?;
    follow(bitmaps, mpb, modes);
    let kept = |bitmap: &&mut FoundBitmap| written[bitmap.at];
    write_all(bitmaps.iter_mut().filter(kept), &actives, mpb.generation)?;
    if *mpb != before {
        write(mpb)?;
    }
    Ok(notes)
}

/// Whether a drive was left out because its record is old, rather than because it is marked failed.
fn has_old_copy(assembly: &Assembly) -> bool {
    let is_old = |state: &MemberState| {
        matches!(
            state,
            MemberState::Evicted {
                reason: Eviction::Stale { .. },
                ..
            }
        )
    };
    assembly.members.iter().any(is_old)
}

/// Applies to `mpb` what follows from the mode in which volume number `at` starts.
fn settle(mpb: &mut Mpb, at: usize, mode: &StartMode) -> Result<()> {
    let StartMode::ReadWrite {
        sync,
        replay,
        switch_policy,
        ..
    } = mode
    else {
        return Ok(());
    };
    if let Some(policy) = switch_policy {
        mpb.set_write_hole_policy(at, *policy)?;
        // The dirty mark also says whether there is a log.
        mpb.set_dirty(at, mpb.volumes[at].is_dirty())?;
    }
    if *replay && *sync == SyncWork::None {
        mpb.set_dirty(at, false)?;
    }
    let recorded = mpb.volumes[at].migration.is_some();
    if matches!(sync, SyncWork::Resync { .. }) && !recorded {
        mpb.start_repair(at)?;
    }
    if matches!(sync, SyncWork::InitialSync { .. }) && !recorded {
        mpb.start_initial_sync(at)?;
    }
    Ok(())
}
