//! `destroy`: removes a volume from its container, and with the last volume the metadata itself.
//!
//! Only the metadata is erased. The volume's data stays on the drives, no longer reachable but not erased. All drives
//! of the container should be named: a drive that is not named keeps a record that still lists the volume. Events and
//! settings that the server has kept ([`container::state_folder`]) stay too, so that the backup can restore the array.

use crate::commands::waiting;
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use container::conflicts;
use container::destroy::plan;
use container::open::for_change;
use container::refusal::refused;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

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
    waiting::refuse(&drives)?;
    if !args.force {
        conflicts::refuse(&drives)?;
    }
    let plan = plan(&args.name, &drives, args.force)?;
    let changed = plan.changed(&drives);
    let names: Vec<String> = changed
        .iter()
        .map(|probed| probed.drive.name().to_owned())
        .collect();
    if !args.yes {
        return Err(refused(format!(
            "this would destroy {} on {}{}; repeat it with --yes",
            plan.what,
            names.join(", "),
            left_in_words(&plan.left)
        )));
    }
    let backup = plan.carry_out(&drives, args.backup.as_deref())?;
    let done = Destroyed {
        version: 1,
        drives: names,
        backup,
        remembered: plan.remembered(&drives),
        destroyed: plan.what,
        left: plan.left,
    };
    if args.json {
        print_json(&done)?;
    } else {
        print_text(&in_words(&done))?;
    }
    Ok(ExitCode::SUCCESS)
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
