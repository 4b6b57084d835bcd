//! Sets up a volume's protection against interrupted writes: a write-hole log, a write-intent bitmap, or none.
//!
//! Only a clean volume is switched from one to another: the writes that were under way in a dirty volume are known only
//! to its log or bitmap, if it has one. Empty logs or bitmaps are written to every member before the record enables them.

use crate::backup::Backup;
use crate::backup::place::keep;
use crate::bitmap::{new_bitmap, write_all};
use crate::log::{initialise_all, logged_volume};
use crate::named::{find, no_volume};
use crate::probe::Probed;
use crate::refusal::refused;
use crate::write::{finish_update, write_record};
use anyhow::{Result, bail};
use metadata::imsm::choose::{Assembly, MemberState};
use metadata::imsm::geometry::Level;
use metadata::imsm::{Mpb, WRITE_HOLE_LOG_SECTORS, WriteHolePolicy};
use std::path::{Path, PathBuf};

/// Gives volume number `at` of `mpb` the policy `wanted`, and writes empty logs to `drives`, or its
/// bitmap, with regions of `region_bytes` if that is given. `generation` is that of the record that will contain the
/// policy; the bitmap says nothing about drives with an older record.
///
/// # Errors
/// Only RAID 5 can have a log, only levels with redundancy can have a bitmap, and either needs room after the data; or
/// a drive fails.
pub fn establish(
    wanted: WriteHolePolicy,
    mpb: &mut Mpb,
    at: usize,
    drives: &[&Probed],
    region_bytes: Option<u32>,
    generation: u32,
) -> Result<()> {
    let name = mpb.volumes[at].name;
    let sector = drives[0].sector;
    mpb.set_write_hole_policy(at, wanted)?;
    if let WriteHolePolicy::Off | WriteHolePolicy::OffOld = wanted {
        return Ok(());
    }
    if wanted == WriteHolePolicy::Bitmap {
        let mut bitmap = [new_bitmap(mpb, at, sector, region_bytes)?];
        bitmap[0].header.events_cleared = u64::from(generation);
        return write_all(&mut bitmap, drives, mpb.generation);
    }
    let Some(volume) = logged_volume(mpb, at, sector) else {
        let room = mpb.write_hole_log_room_sectors(at);
        bail!(
            "volume {name} has no room for a log: {room} free sectors lie behind its data on each drive, \
             and a log takes {WRITE_HOLE_LOG_SECTORS}"
        );
    };
    initialise_all(&[volume], drives)
}

/// Gives volume `name`, which nobody serves, the policy `wanted`. The metadata that this changes is saved first, in
/// `backup_folder` or where backups are kept. Returns the backup; none if the volume has that policy already.
///
/// # Errors
/// There is no such volume, its level cannot have this protection, or a drive fails. A container that cannot be
/// assembled, a volume that was not stopped cleanly and one that lacks a member are refusals.
pub fn switch(
    name: &str,
    drives: &[Probed],
    wanted: WriteHolePolicy,
    backup_folder: Option<&Path>,
) -> Result<Option<PathBuf>> {
    let (assembly, at) = find(name, drives).map_err(|why| match why {
        Some(why) => refused(why.to_string()),
        None => no_volume(name, drives),
    })?;
    require_switchable(&assembly, at, wanted)?;
    if is_same(assembly.mpb.volumes[at].write_hole_policy, wanted) {
        return Ok(None);
    }
    let members: Vec<&Probed> = serving(&assembly).map(|at| &drives[at]).collect();
    let copy = Backup::of_metadata("write-hole", &members)?;
    let backup = keep(&copy, backup_folder)?;
    let mut mpb = assembly.mpb.clone();
    let next = mpb.generation.saturating_add(1);
    establish(wanted, &mut mpb, at, &members, None, next)?;
    finish_update(assembly.unfinished.as_ref(), drives)?;
    mpb.bump_generation();
    write_record(&mpb, &members)?;
    Ok(Some(backup))
}

/// Whether a volume with the policy `has` need not be changed to have the policy `wanted`.
fn is_same(has: WriteHolePolicy, wanted: WriteHolePolicy) -> bool {
    has == wanted || wanted == WriteHolePolicy::Off && has == WriteHolePolicy::OffOld
}

fn serving(assembly: &Assembly) -> impl Iterator<Item = usize> {
    assembly.members.iter().filter_map(|state| match *state {
        MemberState::Present { drive } => Some(drive),
        _ => None,
    })
}

fn require_switchable(assembly: &Assembly, at: usize, wanted: WriteHolePolicy) -> Result<()> {
    let volume = &assembly.mpb.volumes[at];
    let name = volume.name;
    match volume.map.level() {
        Some(Level::Raid5) => {}
        Some(Level::Raid1 | Level::Raid10) if wanted != WriteHolePolicy::Log => {}
        level => bail!(
            "volume {name} is a {}, which has no write hole; only a RAID 5 has one, and only levels with \
             redundancy have bitmaps",
            level.map_or("volume of unknown level".to_owned(), |level| level
                .to_string())
        ),
    }
    if volume.is_dirty() {
        return Err(refused(format!(
            "volume {name} was not stopped cleanly; serve it once and stop it, then switch"
        )));
    }
    let here = assembly.slot_drives(volume);
    if let Some(slot) = here.iter().position(Option::is_none) {
        return Err(refused(format!(
            "volume {name} has no drive in slot {slot}; name all drives, or rebuild it first"
        )));
    }
    Ok(())
}
