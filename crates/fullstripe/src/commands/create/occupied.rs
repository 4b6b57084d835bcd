//! What the drives for a new container hold, metadata of our own format included.

use super::super::exit_codes::refused;
use super::super::foreign::{Ends, Finding, in_words, search};
use crate::container::probe::Probed;
use anyhow::Result;
use metadata::imsm::{Mpb, Uuid};

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
