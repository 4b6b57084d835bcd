//! `list`: the arrays on some drives, or on every block device of the machine.

use super::describe::{self, text};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::{Context, Result};
use container::open::one_to_look;
use container::probe::Probed;
use metadata::imsm::start::StartOptions;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use words::without_error_number;

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
        block_devices(Path::new("/sys/block"))?
    } else {
        args.drives.clone()
    };
    let mut drives: Vec<Probed> = Vec::new();
    let mut unreadable = Vec::new();
    for spec in &specs {
        match one_to_look(spec) {
            Ok(probed) => drives.push(probed),
            Err(error) => unreadable.push(without_error_number(&format!("{error:#}"))),
        }
    }
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
    let mut groups: BTreeMap<Option<u32>, Vec<Probed>> = BTreeMap::new();
    for probed in drives {
        let family = family_of(&probed);
        if family.is_some() || !matches!(probed.found, Ok(None)) {
            groups.entry(family).or_default().push(probed);
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

/// The container that a drive's record belongs to, or claims to belong to if it is torn.
fn family_of(probed: &Probed) -> Option<u32> {
    match &probed.found {
        Ok(Some(found)) if !found.mpb.is_spare() => Some(found.mpb.container_family()),
        Ok(_) => None,
        Err(error) => error.torn().map(|claims| claims.container_family),
    }
}

/// Paths of the block devices that can be members: no RAM disks, no optical or floppy drives, no device stacked on
/// other devices, no loop device without a file, no device of size 0.
fn block_devices(folder: &Path) -> Result<Vec<String>> {
    const OTHERS: [&str; 7] = ["ram", "zram", "sr", "fd", "md", "dm-", "nbd"];
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot list the block devices in {}", folder.display()))?;
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let has_size = fs::read_to_string(path.join("size")).is_ok_and(|text| text.trim() != "0");
        let is_other = OTHERS.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let is_bare_loop = name.starts_with("loop") && !path.join("loop/backing_file").exists();
        if has_size && !is_other && !is_bare_loop {
            // In sysfs a slash in a device's name is written as an exclamation mark.
            names.insert(format!("/dev/{}", name.replace('!', "/")));
        }
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_can_hold_members_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in [
            ("nvme0n1", "100"),
            ("sda", "0"),
            ("sdb", "8"),
            ("loop0", "8"),
            ("loop1", "8"),
            ("md127", "8"),
            ("dm-0", "8"),
            ("ram0", "8"),
            ("cciss!c0d0", "8"),
        ] {
            let device = folder.path().join(name);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("size"), format!("{size}\n")).unwrap();
        }
        fs::create_dir(folder.path().join("loop1/loop")).unwrap();
        fs::write(folder.path().join("loop1/loop/backing_file"), "/f\n").unwrap();
        assert_eq!(
            block_devices(folder.path()).unwrap(),
            ["/dev/cciss/c0d0", "/dev/loop1", "/dev/nvme0n1", "/dev/sdb"]
        );
    }
}
