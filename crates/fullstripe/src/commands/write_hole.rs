//! `write-hole`: switches the protection of writes that a crash interrupts, while the volume is not being served: a
//! write-hole log, a write-intent bitmap, or nothing ([`container::write_hole`]).

use crate::commands::waiting;
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use container::conflicts;
use container::open::for_change;
use container::write_hole;
use metadata::imsm::WriteHolePolicy;
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
    waiting::refuse(&drives)?;
    conflicts::refuse(&drives)?;
    let wanted = args.protection.policy();
    let backup = write_hole::switch(&args.name, &drives, wanted, args.backup.as_deref())?;
    let done = Switched {
        version: 1,
        name: args.name.clone(),
        write_hole: wanted.word(),
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
