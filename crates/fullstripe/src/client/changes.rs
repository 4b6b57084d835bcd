//! The changes between two statuses, a line each: for logs and pipes, where a panel cannot be redrawn in place.

use super::health::{in_words, is_told};
use super::panel::{member_state, reached};
use crate::terminal::Paper;
use server::status::{JobStatus, Status};
use std::collections::BTreeMap;

/// A line for each fact that differs between `before` and `now`, or for every fact of `now` if there is no `before`.
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

/// All facts that are reported, by their subject.
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
            facts.insert(
                format!("volume {} {}", volume.name, job.kind),
                course(job).to_owned(),
            );
        }
    }
    for member in &status.members {
        facts.insert(
            format!("drive {}", member.name),
            member_state(member, Paper::PLAIN),
        );
        if is_told(&member.health) {
            facts.insert(
                format!("drive {} health", member.name),
                in_words(&member.health, Paper::PLAIN),
            );
        }
    }
    facts
}

/// A word for the state of a job.
fn course(job: &JobStatus) -> &'static str {
    match (job.paused, job.running) {
        (true, _) => "paused",
        (false, true) => "under way",
        (false, false) => "waiting",
    }
}

/// The progress of running jobs, a line for each volume.
#[must_use]
pub fn reached_lines(status: &Status) -> Vec<String> {
    let running = status.volumes.iter().filter_map(|volume| {
        let job = volume.job.as_ref().filter(|job| job.running)?;
        Some(format!(
            "volume {} {}: {}",
            volume.name,
            job.kind,
            reached(job)
        ))
    });
    running.collect()
}
