//! Slots that are to take several drives: a plan for more drives than an unsplit slot takes is refused, and one that needs a
//! setting of the firmware says so.

use crate::predict::library::Library;
use lab::schema::setup::Setup;
use models::platform::slot::FilledSlot;
use models::platform::{Graph, Split};

/// The slots of a machine that `drives` drives would share, with how many would be in each.
fn shared(graph: &Graph, drives: u32) -> impl Iterator<Item = (&FilledSlot, usize)> {
    let slots = graph.slots.iter();
    let filled = slots.map(move |slot| (slot, slot.drives_of(drives as usize)));
    filled.filter(|(_, inside)| *inside > 1)
}

/// Why a machine cannot have so many drives: a slot that is not split would have several, without a switch.
#[must_use]
pub fn unsplit(graph: &Graph, drives: u32) -> Option<String> {
    let mut crowded = shared(graph, drives).filter(|(slot, _)| slot.split == Split::No);
    let (slot, inside) = crowded.next()?;
    Some(format!(
        "the slot \"{}\" of {} is not split, so it takes one drive without a switch, and {inside} would be in it",
        slot.name, graph.name
    ))
}

/// What has to be set before a setup's slots take its drives, as sentences.
#[must_use]
pub fn settings(setup: &Setup, library: &Library) -> Vec<String> {
    // A platform that is not modelled has no slots that could be set, and its points say that they have no figures.
    let Ok(graph) = library.platform(&setup.platform) else {
        return Vec::new();
    };
    let set = shared(graph, setup.count).filter(|(slot, _)| slot.split == Split::BySetting);
    set.map(|(slot, _)| {
        format!(
            "the slot \"{}\" of {} has to be split among its drives by a setting of the firmware",
            slot.name, graph.name
        )
    })
    .collect()
}
