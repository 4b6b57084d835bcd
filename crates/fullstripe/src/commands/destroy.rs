//! `destroy`: removes a volume from its container, and with the last volume the metadata itself.
//!
//! Only the metadata is erased. The volume's data stays on the drives, no longer reachable but not erased. All drives
//! of the container should be named: a drive that is not named keeps a record that still lists the volume. Events and
//! settings that the server has kept ([`container::state_folder`]) stay too, so that the backup can restore the array.

use crate::terminal::print::{print_json, print_text};
use anyhow::{Context, Result, bail};
use container::backup::Backup;
use container::backup::place::keep;
use container::conflicts;
use container::open::for_change;
use container::probe::{Member, Probed};
use container::refusal::refused;
use container::state_folder;
use container::write::{erase_shadow, finish_update, write_record};
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::choose::{Assembly, MemberState, Unfinished, choose};
use metadata::imsm::place::{Found, encode_image};
use metadata::imsm::{Mpb, Uuid, notes};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use words::size;

/// Arguments of `destroy`.
#[derive(clap::Args, Debug)]
pub struct DestroyArgs {
    /// Name of the volume.
    name: String,
    /// All drives of its container: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    /// Delete it; without this option nothing is changed and what would be deleted is printed.
    #[arg(long)]
    yes: bool,
    /// If the container cannot be assembled, erase the records of all these drives.
    #[arg(long)]
    force: bool,
    /// Folder for the backup of the metadata.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is to be done.
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

#[derive(Serialize)]
struct Destroyed {
    /// Version of this schema: 1.
    version: u32,
    /// What was destroyed, in words.
    destroyed: String,
    /// Drives whose metadata is changed.
    drives: Vec<String>,
    /// Serial numbers of members that are not here and keep their records.
    left: Vec<String>,
    /// Copy of the metadata.
    backup: PathBuf,
    /// Folders with events and settings of the destroyed containers.
    remembered: Vec<PathBuf>,
}

/// Runs `destroy`.
///
/// # Errors
/// There is no such volume, or a drive fails. A drive in use, a container that cannot be assembled and
/// a missing `--yes` are refusals.
pub fn run(args: &DestroyArgs) -> Result<ExitCode> {
    destroy(args)
}

fn destroy(args: &DestroyArgs) -> Result<ExitCode> {
    let drives = for_change(&args.drives)?;
    if !args.force {
        conflicts::refuse(&drives)?;
    }
    let Plan { task, what, left } = plan(args, &drives)?;
    let changed = match &task {
        Task::Rewrite { drives, .. } | Task::Erase { drives } => drives,
    };
    let changed: Vec<&Probed> = changed.iter().map(|&at| &drives[at]).collect();
    let names: Vec<String> = changed
        .iter()
        .map(|probed| probed.drive.name().to_owned())
        .collect();
    if !args.yes {
        return Err(refused(format!(
            "this would destroy {what} on {}{}; repeat it with --yes",
            names.join(", "),
            left_in_words(&left)
        )));
    }
    let copy = Backup::of_metadata("destroy", &changed)?;
    let backup = keep(&copy, args.backup.as_deref())?;
    match &task {
        Task::Rewrite {
            unfinished, mpb, ..
        } => {
            finish_update(unfinished.as_ref(), &drives)?;
            write_record(mpb, &changed)?;
        }
        Task::Erase { .. } => changed.iter().try_for_each(|probed| erase(probed))?,
    }
    let remembered = match &task {
        Task::Rewrite { .. } => Vec::new(),
        Task::Erase { .. } => remembered(&changed),
    };
    let done = Destroyed {
        version: 1,
        destroyed: what,
        drives: names,
        left,
        backup,
        remembered,
    };
    if args.json {
        print_json(&done)?;
    } else {
        print_text(&in_words(&done))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be done.
struct Plan {
    task: Task,
    /// What will be destroyed, in words.
    what: String,
    /// Serial numbers of members that are not here.
    left: Vec<String>,
}

/// Serial numbers of the members that are not among the drives.
fn absent(assembly: &Assembly) -> Vec<String> {
    let rows = assembly.members.iter().zip(&assembly.mpb.disks);
    let away =
        rows.filter(|(state, _)| matches!(state, MemberState::Missing | MemberState::MarkedFailed));
    away.map(|(_, disk)| disk.serial.without_failed_mark().to_string())
        .collect()
}

fn left_in_words(left: &[String]) -> String {
    match left {
        [] => String::new(),
        [one] => format!(" (the drive with serial {one} is not named and keeps its record)"),
        several => format!(
            " (the drives with serials {} are not named and keep their records)",
            several.join(", ")
        ),
    }
}

fn in_words(done: &Destroyed) -> String {
    let mut text = format!(
        "Destroyed {} on {}{}.\n  backup of the metadata: {}\n",
        done.destroyed,
        done.drives.join(", "),
        left_in_words(&done.left),
        done.backup.display()
    );
    for folder in &done.remembered {
        text += &format!(
            "  its events and settings are still in {}; remove that folder unless you want the array back\n",
            folder.display()
        );
    }
    text
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

fn plan(args: &DestroyArgs, drives: &[Probed]) -> Result<Plan> {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let choice = choose(&candidates);
    let has_volume = |mpb: &Mpb| volume_index(mpb, &args.name).is_some();
    let assembled = choice.containers.iter().find_map(|found| {
        found
            .outcome
            .as_ref()
            .ok()
            .filter(|found| has_volume(&found.mpb))
    });
    if let Some(assembly) = assembled {
        return remove(args, drives, assembly);
    }
    let named_here = drives
        .iter()
        .any(|probed| matches!(&probed.found, Ok(Some(found)) if has_volume(&found.mpb)));
    let damaged = drives.iter().any(|probed| probed.found.is_err());
    let may_be_here = named_here || (args.force && damaged);
    if !may_be_here {
        bail!(
            "no volume {} on {}; `fullstripe list` shows what is there",
            args.name,
            args.drives.join(", ")
        );
    }
    if args.force {
        return erase_all(args, drives);
    }
    let refusal = choice
        .containers
        .iter()
        .find_map(|found| found.outcome.as_ref().err());
    let why = refusal.map_or(String::new(), |refusal| format!(": {refusal}"));
    Err(refused(format!(
        "the container of volume {} cannot be assembled{why}; --force erases the metadata of all \
         drives named",
        args.name
    )))
}

fn volume_index(mpb: &Mpb, name: &str) -> Option<usize> {
    mpb.volumes
        .iter()
        .position(|volume| volume.name.to_string() == name)
}

fn remove(args: &DestroyArgs, drives: &[Probed], assembly: &Assembly) -> Result<Plan> {
    let mut mpb = assembly.mpb.clone();
    let index = volume_index(&mpb, &args.name).context("the volume has gone")?;
    let volume = &mpb.volumes[index];
    let level = volume
        .map
        .level()
        .map_or("unknown level".to_owned(), |level| level.to_string());
    let mut what = format!(
        "volume {} ({level}, {})",
        args.name,
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
fn erase_all(args: &DestroyArgs, drives: &[Probed]) -> Result<Plan> {
    for probed in drives {
        if let Ok(Some(found)) = &probed.found
            && !found.mpb.is_spare()
            && volume_index(&found.mpb, &args.name).is_none()
        {
            return Err(refused(format!(
                "{} belongs to a container without a volume {}; leave it out",
                probed.drive.name(),
                args.name
            )));
        }
    }
    let drives: Vec<usize> = (0..drives.len())
        .filter(|&at| !matches!(drives[at].found, Ok(None)))
        .collect();
    let what = format!(
        "all RAID metadata, that of volume {} and of every other of its container,",
        args.name
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
