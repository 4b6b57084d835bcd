//! Why background work cannot start now, in as much detail as the status gives.

use crate::status::{Status, VolumeStatus};

/// Why `volume` cannot be scrubbed, and what to do; `None` if the status shows no obstacle.
pub(super) fn why_busy(status: &Status, volume: &VolumeStatus) -> Option<String> {
    if volume.read_only {
        return Some("it is served read-only".to_owned());
    }
    let working = status
        .volumes
        .iter()
        .find_map(|other| Some((&other.name, other.job.as_ref()?)));
    if let Some((name, job)) = working {
        return Some(format!(
            "the {} of {name} on these drives has to end first, see `fullstripe status`",
            job.kind
        ));
    }
    let slots = volume.slots.iter().enumerate();
    let (at, slot) = slots
        .into_iter()
        .find(|(_, slot)| slot.state != "in sync")?;
    Some(format!(
        "its slot {at} is {}; `fullstripe rebuild {} --wait` brings redundancy back first",
        slot.state, volume.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::{job, slot, volume};

    fn said(change: impl FnOnce(&mut VolumeStatus)) -> Option<String> {
        let slots = vec![slot(Some(0), "in sync"), slot(Some(1), "in sync")];
        let mut volume = volume("data", slots);
        change(&mut volume);
        let status = Status {
            volumes: vec![volume.clone()],
            ..Status::default()
        };
        why_busy(&status, &volume)
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        assert_eq!(said(|_| ()), None);
        assert_eq!(
            said(|volume| volume.read_only = true).unwrap(),
            "it is served read-only"
        );
        assert_eq!(
            said(|volume| volume.job = Some(job("rebuild"))).unwrap(),
            "the rebuild of data on these drives has to end first, see `fullstripe status`"
        );
        assert_eq!(
            said(|volume| volume.slots[1].state = "failed".to_owned()).unwrap(),
            "its slot 1 is failed; `fullstripe rebuild data --wait` brings redundancy back first"
        );
    }
}
