//! What has changed between two looks at a status, a line each: for logs and pipes, where a panel
//! cannot be drawn over.

use super::panel::member_state;
use crate::serve::status::Status;
use std::collections::BTreeMap;

/// Background work is told in steps of this many percent.
const STEP_PERCENT: u64 = 10;

/// Lines about everything in `now` that is not as it was in `before`; all of it when there is no
/// before.
#[must_use]
pub fn changes(before: Option<&Status>, now: &Status) -> Vec<String> {
    let known = before.map(facts).unwrap_or_default();
    let facts = facts(now);
    let ended = known.keys().filter(|name| !facts.contains_key(*name));
    let ended: Vec<String> = ended.map(|name| format!("{name}: ended")).collect();
    let changed = facts
        .iter()
        .filter(|(name, state)| known.get(*name) != Some(state));
    let changed = changed.map(|(name, state)| format!("{name}: {state}"));
    ended.into_iter().chain(changed).collect()
}

/// Everything that is told, by what it is told about.
fn facts(status: &Status) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for volume in &status.volumes {
        facts.insert(format!("volume {}", volume.name), volume.state.clone());
        for (at, slot) in volume.slots.iter().enumerate() {
            facts.insert(
                format!("volume {} slot {at}", volume.name),
                slot.state.clone(),
            );
        }
        if let Some(job) = &volume.job {
            let percent = u128::from(job.done_bytes) * 100 / u128::from(job.total_bytes.max(1));
            let step = percent as u64 / STEP_PERCENT * STEP_PERCENT;
            let halted = if job.paused { ", paused" } else { "" };
            facts.insert(
                format!("volume {} {}", volume.name, job.kind),
                format!("{step} %{halted}"),
            );
        }
    }
    for member in &status.members {
        facts.insert(format!("drive {}", member.name), member_state(member));
    }
    facts
}
