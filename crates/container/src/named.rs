//! Volumes by their names.

use crate::probe::Probed;
use metadata::imsm::Mpb;

/// The number of volume `name` in a record.
#[must_use]
pub fn volume_index(mpb: &Mpb, name: &str) -> Option<usize> {
    mpb.volumes
        .iter()
        .position(|volume| volume.name.to_string() == name)
}

/// The error that says that no drive of these has volume `name`.
#[must_use]
pub fn no_volume(name: &str, drives: &[Probed]) -> anyhow::Error {
    let drives: Vec<&str> = drives.iter().map(|probed| probed.drive.name()).collect();
    anyhow::anyhow!(
        "no volume {name} on {}; `fullstripe list` shows what is there",
        drives.join(", ")
    )
}
