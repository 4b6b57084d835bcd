//! A container as text.

use super::super::words::{count, size, table};
use super::{ContainerReport, MemberReport, Report, VolumeReport};
use std::fmt::Write as _;

/// Everything found, a paragraph for each container.
#[must_use]
pub fn of_report(report: &Report) -> String {
    let mut text = String::new();
    for container in &report.containers {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&of_container(container));
    }
    for name in &report.spares {
        let _ = writeln!(text, "{name} holds the record of a spare.");
    }
    for damaged in &report.damaged {
        let _ = writeln!(text, "{}: {}.", damaged.name, damaged.reason);
    }
    for name in &report.empty {
        let _ = writeln!(text, "{name} holds no RAID metadata.");
    }
    text
}

/// A container: head, volumes, drives that are not simply present, notes.
#[must_use]
pub fn of_container(container: &ContainerReport) -> String {
    let mut text = String::new();
    match (&container.uuid, container.generation) {
        (Some(uuid), Some(generation)) => {
            let _ = writeln!(
                text,
                "container {uuid}: {}, generation {generation}",
                count(container.members.len(), "drive")
            );
        }
        _ => text.push_str("container that is not assembled\n"),
    }
    if let Some(refused) = &container.refused {
        let _ = writeln!(text, "  refused: {refused}");
    }
    let is_used = !container.in_use_by.is_empty();
    if is_used {
        let _ = writeln!(
            text,
            "  in use by {}: its own `fullstripe status` says how it is, this is what its record says",
            container.in_use_by.join(", ")
        );
    }
    text.push_str(&volumes(&container.volumes, is_used));
    for volume in container.volumes.iter().filter(|_| !is_used) {
        text.push_str(&start(volume));
    }
    text.push_str(&members(&container.members, container.refused.is_some()));
    if !container.spares.is_empty() {
        let _ = writeln!(text, "  spare: {}", container.spares.join(", "));
    }
    for note in &container.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text
}

/// A table. The mark of a volume that was not stopped cleanly means nothing while it is used.
fn volumes(volumes: &[VolumeReport], is_used: bool) -> String {
    if volumes.is_empty() {
        return String::new();
    }
    let head = [
        "VOLUME", "LEVEL", "SIZE", "CHUNK", "DRIVES", "STATE", "UUID",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for volume in volumes {
        let present = volume.slots.iter().filter(|slot| slot.drive.is_some());
        let dirty = match (volume.dirty, is_used) {
            (true, false) => ", dirty",
            (true, true) => ", in use",
            (false, _) => "",
        };
        rows.push(vec![
            volume.name.clone(),
            format!("RAID {}", volume.level),
            size(volume.size_bytes),
            match volume.chunk_bytes {
                0 => "-".to_owned(),
                bytes => size(bytes),
            },
            format!("{} of {}", present.count(), volume.slots.len()),
            format!("{}{dirty}", volume.state),
            volume.uuid.clone(),
        ]);
    }
    table(2, &rows)
}

/// Nothing for a volume that simply starts.
fn start(volume: &VolumeReport) -> String {
    let name = &volume.name;
    let start = &volume.start;
    let reason = start.reason.clone().unwrap_or_default();
    let replay = start.replay.as_ref().map_or(String::new(), |replay| {
        let skipped = match replay.skipped {
            0 => String::new(),
            some => format!(", {some} skipped"),
        };
        let enough = if replay.settles_everything {
            ""
        } else {
            ", which does not settle everything"
        };
        format!(
            "  {name} starts with a replay of its write-hole log: {}{skipped}{enough}\n",
            count(replay.entries as usize, "write")
        )
    });
    let then = match (start.mode, &start.work) {
        ("refused", _) => {
            let option = start.option.map_or(String::new(), |option| {
                format!("; {option} starts it all the same")
            });
            format!("  {name} is not started: {reason}{option}\n")
        }
        ("read-only", _) => format!("  {name} is started read-only: {reason}\n"),
        (_, Some(work)) => format!("  {name} is started with {work}\n"),
        _ => String::new(),
    };
    replay + &then
}

/// Members that are here, and those whose loss is on record. What else is wrong with one is in the notes;
/// where the truth could not be chosen, all that was found is listed.
fn members(members: &[MemberReport], refused: bool) -> String {
    let mut text = String::new();
    let names: Vec<&str> = members
        .iter()
        .filter(|member| member.state == "present" || refused)
        .filter_map(|member| member.name.as_deref())
        .collect();
    if !names.is_empty() {
        let _ = writeln!(text, "  drives: {}", names.join(", "));
    }
    for member in members.iter().filter(|member| member.state == "failed") {
        let _ = writeln!(text, "  failed: the drive with serial {}", member.serial);
    }
    text
}
