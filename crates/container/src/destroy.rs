//! Removes a volume from its container, and with the last volume the metadata itself.
//!
//! A [`Plan`] is made first, so that the user can be shown what it changes, and then carried out.

use crate::backup::Backup;
use crate::backup::place::keep;
use crate::named::{find, no_volume, volume_index};
use crate::probe::Probed;
use crate::refusal::refused;
use crate::state_folder;
use crate::write::{erase_shadow, finish_update, write_record};
use anyhow::{Context, Result};
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::choose::{Assembly, MemberState, Unfinished};
use metadata::imsm::place::{Found, encode_image};
use metadata::imsm::{Mpb, Uuid, notes};
use std::path::{Path, PathBuf};
use words::size;

/// What is to be done.
#[derive(Debug)]
enum Task {
    /// Finish the last update if it was interrupted, then write this record, which lacks the volume, to
    /// these drives.
    Rewrite {
        unfinished: Option<Unfinished>,
        mpb: Box<Mpb>,
        drives: Vec<usize>,
    },
    /// Erase the records of these drives.
    Erase { drives: Vec<usize> },
}

/// What destroying a volume changes.
#[derive(Debug)]
pub struct Plan {
    task: Task,
    /// What will be destroyed, in words.
    pub what: String,
    /// Serial numbers of members that are not here.
    pub left: Vec<String>,
}

impl Plan {
    /// The drives that are changed.
    #[must_use]
    pub fn changed<'drives>(&self, drives: &'drives [Probed]) -> Vec<&'drives Probed> {
        let (Task::Rewrite {
            drives: changed, ..
        }
        | Task::Erase { drives: changed }) = &self.task;
        changed.iter().map(|&at| &drives[at]).collect()
    }

    /// Saves the metadata of `drives`, those that the plan was made of, in `backup_folder` or where backups are kept, and
    /// changes it. Returns the file with what was changed.
    ///
    /// # Errors
    /// A drive or the backup fails.
    pub fn carry_out(&self, drives: &[Probed], backup_folder: Option<&Path>) -> Result<PathBuf> {
        let changed = self.changed(drives);
        let backup = keep(&Backup::of_metadata("destroy", &changed)?, backup_folder)?;
        match &self.task {
            Task::Rewrite {
                unfinished, mpb, ..
            } => {
                finish_update(unfinished.as_ref(), drives)?;
                write_record(mpb, &changed)?;
            }
            Task::Erase { .. } => changed.iter().try_for_each(|probed| erase(probed))?,
        }
        Ok(backup)
    }

    /// Folders with the events and settings that servers have kept for the containers that end with this.
    #[must_use]
    pub fn remembered(&self, drives: &[Probed]) -> Vec<PathBuf> {
        match &self.task {
            Task::Rewrite { .. } => Vec::new(),
            Task::Erase { .. } => remembered(&self.changed(drives)),
        }
    }
}

/// Serial numbers of the members that are not among the drives.
fn absent(assembly: &Assembly) -> Vec<String> {
    let rows = assembly.members.iter().zip(&assembly.mpb.disks);
    let away =
        rows.filter(|(state, _)| matches!(state, MemberState::Missing | MemberState::MarkedFailed));
    away.map(|(_, disk)| disk.serial.without_failed_mark().to_string())
        .collect()
}

/// Folders with the events and settings that servers have kept for the containers of `drives`.
fn remembered(drives: &[&Probed]) -> Vec<PathBuf> {
    let Ok(program_folder) = state_folder::choose() else {
        return Vec::new();
    };
    let folder = |probed: &&Probed| {
        let found = probed.found.as_ref().ok()?.as_ref()?;
        let uuid = Uuid::of_container(&found.mpb).to_string();
        Some(state_folder::of_array(&program_folder, &uuid)).filter(|folder| folder.is_dir())
    };
    let mut folders: Vec<PathBuf> = drives.iter().filter_map(folder).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Decides what destroying volume `name` changes on `drives`, all those that the user named. With `force`, a container
/// that cannot be assembled loses all its records.
///
/// # Errors
/// There is no such volume. A container that cannot be assembled is a refusal without `force`, and so is a drive of a
/// container that lacks the volume.
pub fn plan(name: &str, drives: &[Probed], force: bool) -> Result<Plan> {
    let refusal = match find(name, drives) {
        Ok((assembly, index)) => return remove(name, drives, &assembly, index),
        Err(refusal) => refusal,
    };
    let has_volume = |mpb: &Mpb| volume_index(mpb, name).is_some();
    let named_here = drives
        .iter()
        .any(|probed| matches!(&probed.found, Ok(Some(found)) if has_volume(&found.mpb)));
    let damaged = drives.iter().any(|probed| probed.found.is_err());
    let may_be_here = named_here || (force && damaged);
    if !may_be_here {
        return Err(no_volume(name, drives));
    }
    if force {
        return erase_all(name, drives);
    }
    let why = refusal.map_or(String::new(), |refusal| format!(": {refusal}"));
    Err(refused(format!(
        "the container of volume {name} cannot be assembled{why}; --force erases the metadata of all \
         drives named"
    )))
}

fn remove(name: &str, drives: &[Probed], assembly: &Assembly, index: usize) -> Result<Plan> {
    let mut mpb = assembly.mpb.clone();
    let volume = &mpb.volumes[index];
    let level = volume
        .map
        .level()
        .map_or("unknown level".to_owned(), |level| level.to_string());
    let mut what = format!(
        "volume {} ({level}, {})",
        name,
        size(volume.size_sectors.saturating_mul(SECTOR_BYTES))
    );
    let left = mpb.delete_volume(index)?;
    let serving = assembly.members.iter().filter_map(|state| match *state {
        MemberState::Present { drive } => Some(drive),
        _ => None,
    });
    let serving: Vec<usize> = serving.collect();
    if left > 0 {
        mpb.bump_generation();
        let mpb = Box::new(mpb);
        let task = Task::Rewrite {
            unfinished: assembly.unfinished.clone(),
            mpb,
            drives: serving,
        };
        let left = Vec::new();
        return Ok(Plan { task, what, left });
    }
    let evicted = assembly.members.iter().filter_map(|state| match *state {
        MemberState::Evicted { drive, .. } => Some(drive),
        _ => None,
    });
    let outsiders = assembly.outsiders.iter().map(|(drive, _)| *drive);
    let family = assembly.mpb.container_family();
    // Records of other containers are not erased.
    let ours = |drive: &usize| match &drives[*drive].found {
        Ok(Some(found)) => found.mpb.is_spare() || found.mpb.container_family() == family,
        Ok(None) => false,
        Err(_) => true,
    };
    let all = serving
        .into_iter()
        .chain(evicted)
        .chain(outsiders)
        .chain(assembly.spares.iter().copied());
    let drives = all.filter(ours).collect();
    what.push_str(", the last of its container,");
    Ok(Plan {
        task: Task::Erase { drives },
        what,
        left: absent(assembly),
    })
}

/// Erases the record of each drive, after checking that none belongs to a container that lacks the volume.
fn erase_all(name: &str, drives: &[Probed]) -> Result<Plan> {
    for probed in drives {
        if let Ok(Some(found)) = &probed.found
            && !found.mpb.is_spare()
            && volume_index(&found.mpb, name).is_none()
        {
            return Err(refused(format!(
                "{} belongs to a container without a volume {}; leave it out",
                probed.drive.name(),
                name
            )));
        }
    }
    let drives: Vec<usize> = (0..drives.len())
        .filter(|&at| !matches!(drives[at].found, Ok(None)))
        .collect();
    let what = format!(
        "all RAID metadata, that of volume {} and of every other of its container,",
        name
    );
    Ok(Plan {
        task: Task::Erase { drives },
        what,
        left: Vec::new(),
    })
}

/// Overwrites notes, the shadow, the record and the migration record with zeros.
fn erase(probed: &Probed) -> Result<()> {
    erase_notes(probed)?;
    erase_shadow(probed)?;
    let sector = probed.sector.bytes();
    // Of a damaged record only the first sector certainly belongs to the record.
    let image_bytes = match &probed.found {
        Ok(Some(found)) => encode_image(&found.mpb, probed.sector)?.len(),
        _ => sector,
    };
    let at = probed.placement.image(image_bytes).offset_bytes;
    let zeros = vec![0; image_bytes + sector];
    probed
        .drive
        .write_at(at, &zeros)
        .and_then(|()| probed.drive.flush())
        .with_context(|| format!("{}: cannot erase the metadata", probed.drive.name()))
}

/// Overwrites the first sector of the notes that a serving process left, unless user data lies there according to the
/// record.
fn erase_notes(probed: &Probed) -> Result<()> {
    let has_room = |found: &Found| notes::has_room(&probed.placement, &found.mpb);
    if !matches!(&probed.found, Ok(Some(found)) if has_room(found)) {
        return Ok(());
    }
    let sector = probed.sector.bytes();
    for place in probed.placement.notes() {
        let first = probed.drive.read_at(place.offset_bytes, sector);
        if first.is_ok_and(|first| notes::has_mark(&first)) {
            let erased = probed.drive.write_at(place.offset_bytes, &vec![0; sector]);
            erased.with_context(|| format!("{}: cannot erase notes", probed.drive.name()))?;
        }
    }
    Ok(())
}
