//! `list`: the arrays on some drives, or on every block device of the machine.

use super::describe::{self, text};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::Result;
use container::machine::{SYSFS_BLOCK, block_devices, container_of, look_at};
use container::probe::Probed;
use metadata::imsm::Uuid;
use metadata::imsm::start::StartOptions;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `list`.
#[derive(clap::Args, Debug)]
pub struct ListArgs {
    /// Drives to look at: PATH[,serial=S][,sector=N]. Without any: every block device.
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    #[serde(flatten)]
    report: describe::DrivesReport,
    /// Drives that could not be read, a sentence each.
    unreadable: Vec<String>,
}

/// Runs `list`.
///
/// # Errors
/// The machine's block devices cannot be listed, or standard output cannot be written.
pub fn run(args: &ListArgs) -> Result<ExitCode> {
    list(args)
}

fn list(args: &ListArgs) -> Result<ExitCode> {
    let everywhere = args.drives.is_empty();
    let specs = if everywhere {
        block_devices(Path::new(SYSFS_BLOCK))?
    } else {
        args.drives.clone()
    };
    let (drives, unreadable) = look_at(&specs);
    let failed = !everywhere && !unreadable.is_empty();
    let report = if everywhere {
        by_container(drives)
    } else {
        describe::report(&drives, StartOptions::default())
    };
    if args.json {
        print_json(&Listing { report, unreadable })?;
    } else {
        let nothing = report.containers.is_empty() && report.spares.is_empty();
        print_text(&text::of_report(&report, Paper::output()))?;
        if nothing && report.damaged.is_empty() && report.empty.is_empty() {
            print_text("No array found.\n")?;
        }
        for sentence in &unreadable {
            print_note(&format!("fullstripe: {sentence}"));
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The report of all drives of a machine. Each container is described separately, because drives of different
/// containers may have the same serial, as loop devices over files of the same name do. Drives without metadata are
/// left out.
fn by_container(drives: Vec<Probed>) -> describe::DrivesReport {
    let mut groups: BTreeMap<Option<Uuid>, Vec<Probed>> = BTreeMap::new();
    for probed in drives {
        let container = container_of(&probed);
        if container.is_some() || !matches!(probed.found, Ok(None)) {
            groups.entry(container).or_default().push(probed);
        }
    }
    let mut all = describe::report(&[], StartOptions::default());
    for group in groups.into_values() {
        let report = describe::report(&group, StartOptions::default());
        all.containers.extend(report.containers);
        all.spares.extend(report.spares);
        all.damaged.extend(report.damaged);
    }
    all
}
