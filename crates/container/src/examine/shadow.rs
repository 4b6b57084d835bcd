//! The shadow copy of a drive's record ([`metadata::imsm::shadow`]), for people and for programs.

use crate::probe::{FoundShadow, Probed};
use metadata::imsm::{Shadow, Uuid};
use serde::Serialize;

/// A shadow that was found.
#[derive(Serialize)]
pub struct ShadowReport {
    /// `whole`, `damaged` or `unreadable`; the other fields are known of a whole one only.
    pub state: &'static str,
    /// Why it is not whole.
    pub reason: Option<String>,
    /// Container that its record belongs to, as mdadm prints it.
    pub container_uuid: Option<String>,
    /// Number of the metadata update that it holds.
    pub generation: Option<u32>,
    /// Number of the update that it was written over.
    pub replaced_generation: Option<u32>,
    /// Whether it holds the same as the drive's own record; absent if that is not whole.
    pub same_as_record: Option<bool>,
    /// Names of the volumes in it.
    pub volumes: Vec<String>,
}

/// Describes the shadow of `probed`; `None` if it has none.
#[must_use]
pub fn of(probed: &Probed) -> Option<ShadowReport> {
    let without = |state, reason| ShadowReport {
        state,
        reason: Some(reason),
        container_uuid: None,
        generation: None,
        replaced_generation: None,
        same_as_record: None,
        volumes: Vec::new(),
    };
    match &probed.shadow {
        FoundShadow::Nothing => None,
        FoundShadow::Unreadable => {
            Some(without("unreadable", "its place cannot be read".to_owned()))
        }
        FoundShadow::Damaged(error) => Some(without("damaged", error.to_string())),
        FoundShadow::Whole(shadow) => Some(of_whole(shadow, probed)),
    }
}

fn of_whole(shadow: &Shadow, probed: &Probed) -> ShadowReport {
    let own = probed.found.as_ref().ok().and_then(Option::as_ref);
    let names = shadow.mpb.volumes.iter();
    ShadowReport {
        state: "whole",
        reason: None,
        container_uuid: Some(Uuid::of_container(&shadow.mpb).to_string()),
        generation: Some(shadow.print.identity.generation),
        replaced_generation: shadow.replaced.map(|replaced| replaced.identity.generation),
        same_as_record: own.map(|found| found.mpb == shadow.mpb),
        volumes: names.map(|volume| volume.name.to_string()).collect(),
    }
}
