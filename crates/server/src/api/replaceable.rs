//! Whether the drive in a slot can be replaced now.

use super::errors::ApiError;
use crate::status::{Status, VolumeStatus};

/// Refuses, before a drive is added for a replacement, what the controller would refuse anyway. A drive added to a
/// degraded array would be taken at once, perhaps for another slot.
pub(crate) fn check_replaceable(
    status: &Status,
    volume: &VolumeStatus,
    slot: u8,
) -> Result<(), ApiError> {
    let name = &volume.name;
    let Some(place) = volume.slots.get(usize::from(slot)) else {
        let last = volume.slots.len() - 1;
        return Err(ApiError::unknown(format!(
            "volume {name} has no slot {slot}; it has 0 to {last}"
        )));
    };
    if place.state != "in sync" {
        return Err(ApiError::conflict(format!(
            "slot {slot} of {name} is {}; there is nothing to copy, `add-spare` has it rebuilt",
            place.state
        )));
    }
    let broken = status
        .volumes
        .iter()
        .find(|volume| volume.slots.iter().any(|slot| slot.state != "in sync"));
    if let Some(broken) = broken {
        return Err(ApiError::conflict(format!(
            "volume {} is {}; a drive can be replaced after that is repaired",
            broken.name, broken.state
        )));
    }
    // A replacement changes the drive in all volumes or in none.
    if let Some(fixed) = status.volumes.iter().find(|volume| volume.read_only) {
        return Err(ApiError::conflict(format!(
            "volume {} is read-only, so its part of a drive cannot be copied",
            fixed.name
        )));
    }
    let busy = |volume: &VolumeStatus| Some((volume.name.clone(), volume.job.clone()?));
    if let Some((name, job)) = status.volumes.iter().find_map(busy) {
        return Err(ApiError::conflict(format!(
            "volume {name} has a {} under way; wait for it or `cancel` it",
            job.kind
        )));
    }
    Ok(())
}
