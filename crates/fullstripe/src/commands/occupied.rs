//! What the drives for a new container, or a new spare, hold; metadata of our own format included. By `--force`
//! it goes: both ends of each drive are saved first, then the marks are removed by which programs know it.

use super::backup::place::keep;
use super::backup::{Backup, shadow_place};
use super::exit_codes::refused;
use super::foreign::{Ends, Finding, in_words, search};
use crate::container::probe::Probed;
use anyhow::{Context, Result};
use metadata::imsm::place::ByteRange;
use metadata::imsm::{Mpb, Uuid};
use std::path::{Path, PathBuf};

/// Both ends of each drive, and what was found there.
///
/// # Errors
/// A drive cannot be read.
pub fn occupied(drives: &[Probed]) -> Result<Vec<(Ends, Vec<Finding>)>> {
    drives
        .iter()
        .map(|probed| {
            let ends = Ends::read(probed)?;
            let mut findings = search(&ends);
            findings.extend(own_format(probed));
            Ok((ends, findings))
        })
        .collect()
}

/// IMSM metadata. It has no marks to clear: the new record takes its place.
fn own_format(probed: &Probed) -> Option<Finding> {
    let what = match &probed.found {
        Ok(None) => return None,
        Ok(Some(found)) => of_record(&found.mpb),
        Err(_) => "a damaged record of an IMSM array".to_owned(),
    };
    Some(Finding {
        what,
        marks: Vec::new(),
    })
}

fn of_record(mpb: &Mpb) -> String {
    if mpb.is_spare() {
        return "the IMSM record of a spare drive".to_owned();
    }
    let names: Vec<String> = mpb
        .volumes
        .iter()
        .map(|volume| volume.name.to_string())
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!(
        "a member of the IMSM container {} (volume{plural} {})",
        Uuid::of_container(mpb),
        names.join(", ")
    )
}

/// A sentence for each drive that holds something.
#[must_use]
pub fn sentences(drives: &[Probed], occupied: &[(Ends, Vec<Finding>)]) -> Vec<String> {
    drives
        .iter()
        .zip(occupied)
        .filter(|(_, (_, findings))| !findings.is_empty())
        .map(|(probed, (_, findings))| {
            format!("{} holds {}", probed.drive.name(), in_words(findings))
        })
        .collect()
}

/// Refuses drives that hold something.
///
/// # Errors
/// The refusal, which names everything that was found.
pub fn refuse(drives: &[Probed], occupied: &[(Ends, Vec<Finding>)]) -> Result<()> {
    let found = sentences(drives, occupied);
    if found.is_empty() {
        return Ok(());
    }
    let what = if found.len() == 1 { "it" } else { "them" };
    Err(refused(format!(
        "{}; --force destroys {what} (a backup of both ends of the drives is kept)",
        found.join("; ")
    )))
}

/// Saves both ends of every drive that holds something, and its shadow, for `reason`; `None` if none does.
///
/// # Errors
/// A drive cannot be read, or the file in `folder` not be written; then nothing may be changed.
pub fn save(
    reason: &str,
    drives: &[Probed],
    occupied: &[(Ends, Vec<Finding>)],
    folder: Option<&Path>,
) -> Result<Option<PathBuf>> {
    let mut backup = Backup::new(reason);
    for (probed, (ends, findings)) in drives.iter().zip(occupied) {
        if !findings.is_empty() {
            let ends = ends
                .areas()
                .into_iter()
                .map(|(offset_bytes, bytes)| ByteRange {
                    offset_bytes,
                    length_bytes: bytes.len() as u64,
                });
            backup.add_places(probed, ends.chain(shadow_place(probed)))?;
        }
    }
    if backup.header.drives.is_empty() {
        return Ok(None);
    }
    keep(&backup, folder).map(Some)
}

/// Removes the marks of everything that was found.
///
/// # Errors
/// A drive cannot be written.
pub fn clear(drives: &[Probed], occupied: &[(Ends, Vec<Finding>)]) -> Result<()> {
    for (probed, (_, findings)) in drives.iter().zip(occupied) {
        for mark in findings.iter().flat_map(|finding| &finding.marks) {
            let zeros = vec![0; (mark.end - mark.start) as usize];
            probed
                .drive
                .write_at(mark.start, &zeros)
                .with_context(|| format!("{}: cannot remove what it held", probed.drive.name()))?;
        }
    }
    Ok(())
}
