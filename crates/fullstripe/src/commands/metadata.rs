//! `metadata save` and `metadata restore`: a copy of the drives' RAID metadata in a file, and back.
//!
//! The file's format is that of [`container::backup`]; backups of other commands are restored the same way. A copy is
//! written back only to the drive from which it was made, identified by serial and size.

use crate::terminal::print::{print_json, print_text};
use anyhow::{Context, Result, bail};
use container::backup::place::keep;
use container::backup::{Area, Backup, shadow_place};
use container::open::{for_change, to_look};
use container::probe::Probed;
use container::refusal::refused;
use container::write::erase_shadow;
use metadata::imsm::place::ByteRange;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use words::{count, size};

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
    let pairs = pairs(args, &file, &drives)?;
    if !args.yes {
        return Err(refused(format!(
            "this would overwrite {}; repeat it with --yes",
            overwritten(&file, &drives, &pairs)
        )));
    }
    let mut before = Backup::new("restore");
    for &(copy, drive) in &pairs {
        let probed = &drives[drive];
        let areas = file.header.drives[copy].areas.iter().map(Area::place);
        before.add_places(probed, areas.chain(shadow_left(&file, copy, probed)))?;
    }
    let backup = keep(&before, args.backup.as_deref())?;
    for &(copy, drive) in &pairs {
        put_back(&file, copy, &drives[drive])?;
        if shadow_left(&file, copy, &drives[drive]).is_some() {
            // The old shadow would not match the restored record.
            erase_shadow(&drives[drive])?;
        }
    }
    let names = |&(_, drive): &(usize, usize)| drives[drive].drive.name().to_owned();
    let done = Done {
        version: 1,
        file: args.file.clone(),
        drives: pairs.iter().map(names).collect(),
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

/// For each drive, the number of its copy in the file and the number of the drive.
fn pairs(args: &RestoreArgs, file: &Backup, drives: &[Probed]) -> Result<Vec<(usize, usize)>> {
    let shown = args.file.display();
    let copies = &file.header.drives;
    let mut pairs = Vec::new();
    for (at, probed) in drives.iter().enumerate() {
        let (name, serial) = (probed.drive.name(), probed.serial.to_string());
        let Some(copy) = copies.iter().position(|copy| copy.serial == serial) else {
            return Err(refused(format!(
                "{shown} has no copy of {name} (serial {serial}); it has those of {}",
                copies
                    .iter()
                    .map(|copy| copy.serial.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        };
        let (then, now) = (copies[copy].size_bytes, probed.drive.size_bytes());
        let sectors = (copies[copy].sector_bytes, probed.drive.sector_bytes());
        if then != now || sectors.0 != sectors.1 {
            return Err(refused(format!(
                "{name} has {now} bytes in sectors of {}, but had {then} in sectors of {} when {shown} \
                 was made; its metadata belongs to the end of a drive of that size",
                sectors.1, sectors.0
            )));
        }
        let inside = |area: &Area| {
            area.offset_bytes
                .checked_add(area.length_bytes)
                .is_some_and(|end| end <= now)
        };
        if !copies[copy].areas.iter().all(inside) {
            bail!("{shown} has bytes for {name} that lie past its end; the file is damaged");
        }
        pairs.push((copy, at));
    }
    let absent: Vec<&str> = (0..copies.len())
        .filter(|copy| pairs.iter().all(|(paired, _)| paired != copy))
        .map(|copy| copies[copy].name.as_str())
        .collect();
    if !absent.is_empty() && !args.partial {
        return Err(refused(format!(
            "{shown} also has the metadata of {}, and a container is restored as a whole; name these \
             drives too, or use --partial",
            absent.join(", ")
        )));
    }
    Ok(pairs)
}

fn overwritten(file: &Backup, drives: &[Probed], pairs: &[(usize, usize)]) -> String {
    let one = |&(copy, drive): &(usize, usize)| {
        let areas: Vec<String> = file.header.drives[copy]
            .areas
            .iter()
            .map(|area| format!("{} at byte {}", size(area.length_bytes), area.offset_bytes))
            .collect();
        format!("{} ({})", drives[drive].drive.name(), areas.join(", "))
    };
    pairs.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The place of the drive's shadow, if the copy does not cover it.
fn shadow_left(file: &Backup, copy: usize, probed: &Probed) -> Option<ByteRange> {
    let areas = &file.header.drives[copy].areas;
    shadow_place(probed).filter(|place| areas.iter().all(|area| area.place() != *place))
}

fn put_back(file: &Backup, copy: usize, probed: &Probed) -> Result<()> {
    let areas = file.header.drives[copy].areas.iter();
    for (area, bytes) in areas.zip(&file.content[copy]) {
        probed
            .drive
            .write_at(area.offset_bytes, bytes)
            .with_context(|| format!("{}: cannot write the copy back", probed.drive.name()))?;
    }
    probed
        .drive
        .flush()
        .with_context(|| format!("{}: cannot flush", probed.drive.name()))
}
