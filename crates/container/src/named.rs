//! Volumes and drives by their names.

use crate::probe::Probed;
use metadata::imsm::Mpb;

/// The number of volume `name` in a record.
#[must_use]
pub fn volume_index(mpb: &Mpb, name: &str) -> Option<usize> {
    mpb.volumes
        .iter()
        .position(|volume| volume.name.to_string() == name)
}

/// What messages call the drives.
#[must_use]
pub fn names(drives: &[Probed]) -> Vec<&str> {
    drives.iter().map(|probed| probed.drive.name()).collect()
}
