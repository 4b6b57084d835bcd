//! Volumes by their names.
//!
//! A name is looked for in the containers that can be assembled. What follows if it is in none of them, each command
//! decides: a container that cannot be assembled may be the one with the volume, so its refusal is handed back.

use crate::probe::{Member, Probed};
use metadata::imsm::Mpb;
use metadata::imsm::choose::{Assembly, Refusal, choose};

/// The number of volume `name` in a record.
#[must_use]
pub fn volume_index(mpb: &Mpb, name: &str) -> Option<usize> {
    mpb.volumes
        .iter()
        .position(|volume| volume.name.to_string() == name)
}

/// The container of volume `name` on `drives`, and the number of the volume in it.
///
/// # Errors
/// No container that can be assembled has the volume. The error is why a container cannot be assembled, of several the
/// last; none if all can.
pub fn find(name: &str, drives: &[Probed]) -> Result<(Assembly, usize), Option<Refusal>> {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let mut refusal = None;
    for found in choose(&candidates).containers {
        match found.outcome {
            Ok(assembly) => {
                if let Some(at) = volume_index(&assembly.mpb, name) {
                    return Ok((assembly, at));
                }
            }
            Err(why) => refusal = Some(why),
        }
    }
    Err(refusal)
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
