//! What the drives for a new container, or a new spare, hold already, including metadata of our own format. With
//! `--force` it is removed: both ends of each drive are saved first, then the marks by which programs recognise it are
//! cleared.

use crate::backup::place::keep;
use crate::backup::{Backup, shadow_place};
use crate::foreign::{Ends, Finding, in_words, search};
use crate::probe::Probed;
use crate::refusal::refused;
use anyhow::{Context, Result};
use assembly::member::of_array;
use metadata::imsm::place::ByteRange;
use std::path::{Path, PathBuf};
use words::and;

/// Both ends of each drive, and what was found there.
///
/// # Errors
/// A drive cannot be read.
pub fn occupied(drives: &[Probed]) -> Result<Vec<(Ends, Vec<Finding>)>> {
    let both = |probed| {
        let ends = Ends::read(probed)?;
        let findings = held(probed, &ends);
        Ok((ends, findings))
    };
    drives.iter().map(both).collect()
}

/// Everything found at the ends of a drive, metadata of our own format last.
pub fn held(probed: &Probed, ends: &Ends) -> Vec<Finding> {
    let own = own_format(probed);
    search(ends).into_iter().chain(own).collect()
}

/// IMSM metadata. It has no marks to clear: the new record overwrites it.
fn own_format(probed: &Probed) -> Option<Finding> {
    let what = match &probed.found {
        Ok(None) => probed.shadow.remains()?,
        Ok(Some(found)) if found.mpb.is_spare() => "the IMSM record of a spare drive".to_owned(),
        Ok(Some(found)) => format!("the record of {}", of_array(&found.mpb)),
        Err(error) => format!("a damaged record of an IMSM array ({error})"),
    };
    Some(Finding {
        what,
        marks: Vec::new(),
    })
}

/// A sentence for each kind of content, which names the drives that hold it.
#[must_use]
pub fn sentences(drives: &[Probed], occupied: &[(Ends, Vec<Finding>)]) -> Vec<String> {
    let mut holders: Vec<(String, Vec<&str>)> = Vec::new();
    let holding = drives.iter().zip(occupied);
    for (probed, (_, findings)) in holding.filter(|(_, (_, findings))| !findings.is_empty()) {
        let (name, held) = (probed.drive.name(), in_words(findings));
        match holders.iter_mut().find(|(other, _)| *other == held) {
            Some((_, names)) => names.push(name),
            None => holders.push((held, vec![name])),
        }
    }
    let sentence = |(held, names): &(String, Vec<&str>)| match names.len() {
        1 => format!("{} holds {held}", names[0]),
        _ => format!("{} each hold {held}", and(names)),
    };
    holders.iter().map(sentence).collect()
}

/// Refuses drives that hold something already.
///
/// # Errors
/// The refusal, which names everything that was found.
pub fn refuse(drives: &[Probed], occupied: &[(Ends, Vec<Finding>)]) -> Result<()> {
    let found = sentences(drives, occupied);
    if found.is_empty() {
        return Ok(());
    }
    let holders = occupied.iter().filter(|(_, findings)| !findings.is_empty());
    let what = if holders.count() == 1 { "it" } else { "them" };
    Err(refused(format!(
        "{}; --force destroys {what} (a backup of both ends of the drives is kept)",
        found.join("; ")
    )))
}

/// Saves both ends and the shadow of every drive that holds something, for `reason`; `None` if no drive does.
///
/// # Errors
/// A drive cannot be read, or the file in `folder` cannot be written; then nothing may be changed.
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

/// Clears the marks of everything that was found.
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
