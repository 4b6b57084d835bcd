//! `write-hole`: switches the protection of writes that a crash interrupts, while the volume is not being served: a
//! write-hole log, a write-intent bitmap, or nothing.
//!
//! Only a clean volume is switched: the writes that were under way in a dirty volume are known only to its log or
//! bitmap, if it has one. Empty logs or bitmaps are written to every member before the record enables them.

use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use container::backup::Backup;
use container::backup::place::keep;
use container::conflicts;
use container::open::for_change;
use container::probe::{Member, Probed};
use container::refusal::refused;
use container::write::{finish_update, write_record};
use container::write_hole::establish;
use metadata::imsm::choose::{Assembly, MemberState, choose};
use metadata::imsm::geometry::Level;
use metadata::imsm::{Mpb, WriteHolePolicy};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Protection of writes that a crash interrupts.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteHole {
    /// A log on the members of a RAID 5 (PPL in mdadm): no resync after a crash, and losing a drive in the
    /// crash damages no data on the other drives
    Log,
    /// A write-intent bitmap on the members of a RAID 1, 10 or 5: after a crash only regions that were being
    /// written are resynchronised, and a drive that returns is rebuilt only where it missed writes
    Bitmap,
    /// No protection: after a crash the whole volume is resynchronised
    Off,
}

impl WriteHole {
    /// The policy as the record stores it.
    #[must_use]
    pub fn policy(self) -> WriteHolePolicy {
        match self {
            Self::Log => WriteHolePolicy::Log,
            Self::Bitmap => WriteHolePolicy::Bitmap,
            Self::Off => WriteHolePolicy::Off,
        }
    }

    fn is(self, policy: WriteHolePolicy) -> bool {
        policy == self.policy() || self == Self::Off && policy == WriteHolePolicy::OffOld
    }
}

/// Arguments of `write-hole`.
#[derive(clap::Args, Debug)]
pub struct WriteHoleArgs {
    /// Name of the volume.
    name: String,
    /// The protection to use from now on.
    #[arg(value_enum)]
    protection: WriteHole,
    /// All drives of its container: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    /// Folder for the backup of the metadata.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Switched {
    /// Version of this schema: 1.
    version: u32,
    name: String,
    /// `log`, `bitmap` or `off`.
    write_hole: &'static str,
    /// Backup of the metadata; none if nothing was changed.
    backup: Option<PathBuf>,
}

/// Runs `write-hole`.
///
/// # Errors
/// There is no such volume, its level cannot have this protection, or a drive fails. A drive in use, a volume that was
/// not stopped cleanly and one that lacks a member are refusals.
pub fn run(args: &WriteHoleArgs) -> Result<ExitCode> {
    switch(args)
}

fn switch(args: &WriteHoleArgs) -> Result<ExitCode> {
    let drives = for_change(&args.drives)?;
    conflicts::refuse(&drives)?;
    let assembly = find(args, &drives)?;
    let at = index(&assembly.mpb, &args.name).unwrap_or_default();
    require_switchable(&assembly, at, args.protection)?;
    let mut backup = None;
    if !args
        .protection
        .is(assembly.mpb.volumes[at].write_hole_policy)
    {
        let members: Vec<&Probed> = serving(&assembly).map(|at| &drives[at]).collect();
        let copy = Backup::of_metadata("write-hole", &members)?;
        backup = Some(keep(&copy, args.backup.as_deref())?);
        let mut mpb = assembly.mpb.clone();
        let next = mpb.generation.saturating_add(1);
        establish(args.protection.policy(), &mut mpb, at, &members, None, next)?;
        finish_update(assembly.unfinished.as_ref(), &drives)?;
        mpb.bump_generation();
        write_record(&mpb, &members)?;
    }
    let done = Switched {
        version: 1,
        name: args.name.clone(),
        write_hole: args.protection.policy().word(),
        backup,
    };
    if args.json {
        print_json(&done)?;
    } else {
        let (now, backup) = match &done.backup {
            Some(path) => (
                "now",
                format!("  backup of the metadata: {}\n", path.display()),
            ),
            None => ("already", String::new()),
        };
        print_text(&format!(
            "The write-hole protection of volume {} is {now} {}.\n{backup}",
            done.name, done.write_hole
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn find(args: &WriteHoleArgs, drives: &[Probed]) -> Result<Assembly> {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let mut refusal = None;
    for found in choose(&candidates).containers {
        match found.outcome {
            Ok(assembly) if index(&assembly.mpb, &args.name).is_some() => return Ok(assembly),
            Ok(_) => {}
            Err(why) => refusal = Some(why),
        }
    }
    if let Some(why) = refusal {
        return Err(refused(why.to_string()));
    }
    bail!(
        "no volume {} on {}; `fullstripe list` shows what is there",
        args.name,
        args.drives.join(", ")
    )
}

fn index(mpb: &Mpb, name: &str) -> Option<usize> {
    mpb.volumes
        .iter()
        .position(|volume| volume.name.to_string() == name)
}

fn serving(assembly: &Assembly) -> impl Iterator<Item = usize> {
    assembly.members.iter().filter_map(|state| match *state {
        MemberState::Present { drive } => Some(drive),
        _ => None,
    })
}

fn require_switchable(assembly: &Assembly, at: usize, wanted: WriteHole) -> Result<()> {
    let volume = &assembly.mpb.volumes[at];
    let name = volume.name;
    match volume.map.level() {
        Some(Level::Raid5) => {}
        Some(Level::Raid1 | Level::Raid10) if wanted != WriteHole::Log => {}
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
