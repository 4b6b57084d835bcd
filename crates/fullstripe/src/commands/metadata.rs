//! `metadata save` and `metadata restore`: a copy of the drives' RAID metadata in a file, and back.
//!
//! The file's format is that of [`container::backup`]; backups of other commands are restored the same way. A copy is
//! written back only to the drive from which it was made, identified by serial and size.

use crate::commands::waiting;
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use container::backup::Backup;
use container::backup::restore::Restore;
use container::open::{for_change, to_look};
use container::probe::Probed;
use container::refusal::refused;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use words::count;

/// Arguments of `metadata`.
#[derive(clap::Args, Debug)]
pub struct MetadataArgs {
    #[command(subcommand)]
    command: MetadataCommand,
}

#[derive(clap::Subcommand, Debug)]
enum MetadataCommand {
    /// Copy the metadata of drives into a new file.
    Save(SaveArgs),
    /// Write the metadata in a file back to its drives.
    Restore(RestoreArgs),
}

#[derive(clap::Args, Debug)]
struct SaveArgs {
    /// The file; it must not exist.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Drives: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct RestoreArgs {
    /// A file made by `metadata save`, or the backup of another command.
    file: PathBuf,
    /// The drives in it: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    /// Restore; without this option nothing is changed and what would be overwritten is printed.
    #[arg(long)]
    yes: bool,
    /// Restore only some of the drives in the file; the records of the others will be older or newer.
    #[arg(long)]
    partial: bool,
    /// Folder for the backup of what is overwritten.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Done {
    /// Version of this schema: 1.
    version: u32,
    /// The file written or read.
    file: PathBuf,
    /// Drives copied or overwritten.
    drives: Vec<String>,
    /// Copy of what was overwritten.
    backup: Option<PathBuf>,
}

/// Runs `metadata save` or `metadata restore`.
///
/// # Errors
/// A drive or the file fails. A copy that does not fit its drive, and a missing `--yes`, are refusals.
pub fn run(args: &MetadataArgs) -> Result<ExitCode> {
    match &args.command {
        MetadataCommand::Save(args) => save(args),
        MetadataCommand::Restore(args) => restore(args),
    }
}

fn save(args: &SaveArgs) -> Result<ExitCode> {
    let drives = to_look(&args.drives)?;
    let all: Vec<&Probed> = drives.iter().collect();
    Backup::of_metadata("save", &all)?.write_new(&args.output)?;
    let names = |probed: &Probed| probed.drive.name().to_owned();
    let done = Done {
        version: 1,
        file: args.output.clone(),
        drives: drives.iter().map(names).collect(),
        backup: None,
    };
    if args.json {
        print_json(&done)?;
    } else {
        print_text(&format!(
            "Saved the metadata of {} to {}.\n",
            count(drives.len(), "drive"),
            args.output.display()
        ))?;
        for probed in drives
            .iter()
            .filter(|probed| matches!(probed.found, Ok(None)))
        {
            print_text(&format!(
                "  note: {} holds no RAID metadata\n",
                probed.drive.name()
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(args: &RestoreArgs) -> Result<ExitCode> {
    let file = Backup::read(&args.file)?;
    let drives = for_change(&args.drives)?;
    waiting::refuse(&drives)?;
    let restore = Restore::new(&file, &args.file, &drives, args.partial)?;
    if !args.yes {
        return Err(refused(format!(
            "this would overwrite {}; repeat it with --yes",
            restore.overwritten()
        )));
    }
    let backup = restore.carry_out(args.backup.as_deref())?;
    let done = Done {
        version: 1,
        file: args.file.clone(),
        drives: restore.names(),
        backup: Some(backup.clone()),
    };
    if args.json {
        print_json(&done)?;
    } else {
        print_text(&format!(
            "Restored the metadata of {} from {}.\n  backup of what was overwritten: {}\n",
            done.drives.join(", "),
            args.file.display(),
            backup.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
