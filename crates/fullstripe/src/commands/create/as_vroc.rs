//! `create --as-vroc`: refuses an array that Intel VROC would refuse, before anything is written.

use crate::commands::vroc::members::members;
use anyhow::{Result, bail};
use container::create::NewVolume;
use container::probe::Probed;
use container::shape::level_number;
use machine::files::Files;
use metadata::imsm::geometry::Level;
use metadata::imsm::{SECTOR_BYTES, Uuid};
use std::path::Path;
use vroc::{Answer, Array, Policy, Purpose};

/// What publications say of the volume that is to be created on `drives`.
///
/// # Errors
/// One of them says that Intel VROC refuses such an array.
pub fn answer(wanted: &NewVolume, drives: &[Probed], purpose: Purpose) -> Result<Answer> {
    let paths: Vec<Option<&Path>> = drives.iter().map(Probed::path).collect();
    let array = Array {
        level: level_number(wanted.spec.level),
        chunk_kib: (wanted.spec.level != Level::Raid1)
            .then_some(wanted.spec.strip_sectors * SECTOR_BYTES as u32 / 1024),
        volumes: 1 + volumes_there(drives),
        purpose,
        members: members(&Files::below("/"), &paths),
    };
    let answer = Answer::of(&Policy::built_in(), &array);
    if let Some(rule) = answer.refused() {
        let publication = &answer.publications[&rule.publication];
        bail!(
            "Intel VROC would refuse this array: {}, and {} ({publication}); change that, or leave out --as-vroc",
            rule.rule,
            rule.because
        );
    }
    Ok(answer)
}

/// The volumes beside which the new one would be: those of a container whose drives these are, all of them. Volumes of other
/// containers would be destroyed, if at all.
fn volumes_there(drives: &[Probed]) -> usize {
    let records = drives.iter().map(|drive| match &drive.found {
        Ok(Some(found)) => Some(&found.mpb),
        _ => None,
    });
    let Some(records) = records.collect::<Option<Vec<_>>>() else {
        return 0;
    };
    let Some((first, others)) = records.split_first() else {
        return 0;
    };
    let uuid = Uuid::of_container(first);
    let is_all = others.iter().all(|mpb| Uuid::of_container(mpb) == uuid)
        && first.disks.len() == drives.len();
    if is_all { first.volumes.len() } else { 0 }
}
