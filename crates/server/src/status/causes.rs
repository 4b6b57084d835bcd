//! Why a volume has failed, in words.

use super::{Facts, state_of};
use crate::snapshot::Snapshot;
use engine::control::record::{MemberState, VolumeRecord};
use words::and;

/// Which drives a failed volume lacks, grouped by cause, and what to do. Drives that were in use when the volume failed
/// are still in use on record: their data are valid when they come back.
pub(super) fn why_failed(snapshot: &Snapshot, facts: &Facts, volume: &VolumeRecord) -> String {
    let mut lost: Vec<(&str, Vec<String>)> = Vec::new();
    let mut needed = Vec::new();
    let mut lose = |why, name: String| match lost.iter_mut().find(|(other, _)| *other == why) {
        Some((_, names)) => names.push(name),
        None => lost.push((why, vec![name])),
    };
    for (at, slot) in volume.slots.iter().enumerate() {
        let drive = slot.member.and_then(|id| facts.drives.get(id.0 as usize));
        match (slot.member.map(|id| state_of(snapshot, id)), drive) {
            (Some(MemberState::Failed), Some(drive)) => {
                let why = drive.failure.as_deref().unwrap_or("on record as failed");
                lose(why, drive.name.clone());
                if slot.current {
                    needed.push(drive.name.clone());
                }
            }
            (None | Some(MemberState::Absent), _) | (_, None) => {
                lose("no drive", format!("slot {at}"));
            }
            (Some(MemberState::Active | MemberState::Spare), Some(_)) => {}
        }
    }
    let lost = lost
        .iter()
        .map(|(why, names)| format!("{} ({why})", and(names)));
    let lost: Vec<String> = lost.collect();
    format!(
        "it has lost {}; bring {} back, then `fullstripe stop` and serve again",
        lost.join(" and "),
        and(&needed)
    )
}
