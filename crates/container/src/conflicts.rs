//! Other RAID metadata on the members of an array.
//!
//! The content of the array's own extents is its user's data and is not examined. After them a drive has
//! room for the metadata of only one owner: if two records are there, two programs may each consider the drive theirs,
//! and it cannot be decided which of them is right. So such drives are neither served nor changed.

use crate::foreign::structures::raid_and_volumes;
use crate::foreign::{Ends, Finding};
use crate::probe::Probed;
use crate::refusal::refused;
use anyhow::Result;
use metadata::imsm::Mpb;
use metadata::imsm::SECTOR_BYTES;

/// Refuses members of an array on which other metadata claims the drive as well.
///
/// # Errors
/// The refusal, with a sentence for each such drive; or a drive cannot be read.
pub fn refuse(drives: &[Probed]) -> Result<()> {
    let mut found = Vec::new();
    for probed in drives {
        let Ok(Some(record)) = &probed.found else {
            continue;
        };
        let Some(end_bytes) = data_end_bytes(&record.mpb) else {
            continue;
        };
        let others = raid_and_volumes(&Ends::read(probed)?);
        found.extend(
            others
                .iter()
                .filter_map(|other| sentence(probed, other, end_bytes)),
        );
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(found.join("; ")))
}

/// The end of the last volume's data; `None` on a spare.
fn data_end_bytes(mpb: &Mpb) -> Option<u64> {
    let ends = mpb.volumes.iter().map(|volume| volume.extent().end);
    Some(ends.max()?.saturating_mul(SECTOR_BYTES))
}

fn sentence(probed: &Probed, other: &Finding, end_bytes: u64) -> Option<String> {
    let mark = other.marks.iter().find(|mark| mark.start >= end_bytes)?;
    let name = probed.drive.name();
    Some(format!(
        "{name} is in an array, but also holds {} behind its data, at byte {}; if that is left over, \
         remove it (wipefs --backup --offset {:#x} {name})",
        other.what, mark.start, mark.start
    ))
}
