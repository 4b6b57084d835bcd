//! A container as text.

use super::{ContainerReport, DrivesReport, MemberReport, VolumeReport};
use crate::terminal::table::{Give, table};
use crate::terminal::{Paper, Tone};
use std::fmt::Write as _;
use words::{count, size};

/// Everything found, a paragraph for each container.
#[must_use]
pub fn of_report(report: &DrivesReport, paper: Paper) -> String {
    let mut text = String::new();
    for container in &report.containers {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&of_container(container, paper));
    }
    let mut rest = String::new();
    for name in &report.spares {
        let _ = writeln!(rest, "{name} holds the record of a spare.");
    }
    for damaged in &report.damaged {
        let _ = writeln!(rest, "{}: {}.", damaged.name, damaged.reason);
    }
    for name in &report.empty {
        let _ = writeln!(rest, "{name} holds no RAID metadata.");
    }
    text + &paper.fold(&rest, INDENT)
}

/// Blanks before the continuation of a folded line.
const INDENT: usize = 4;

/// A container: head, volumes, drives, notes.
#[must_use]
pub fn of_container(container: &ContainerReport, paper: Paper) -> String {
    let mut head = String::new();
    match (&container.uuid, container.generation) {
        (Some(uuid), Some(generation)) => {
            let _ = writeln!(
                head,
                "container {uuid}: {}, generation {generation}",
                count(container.members.len(), "drive")
            );
        }
        _ => head.push_str("container that is not assembled\n"),
    }
    if let Some(refused) = &container.refused {
        let _ = writeln!(head, "  {}: {refused}", paper.state("refused"));
    }
    let is_used = !container.in_use_by.is_empty();
    if is_used {
        let _ = writeln!(
            head,
            "  in use by {}: its own `fullstripe status` shows its state, this is what its record says",
            container.in_use_by.join(", ")
        );
    }
    let mut rest = String::new();
    for volume in container.volumes.iter().filter(|_| !is_used) {
        rest.push_str(&start(volume, paper));
    }
    let is_refused = container.refused.is_some();
    rest.push_str(&members(&container.members, is_refused, paper));
    if !container.spares.is_empty() {
        let _ = writeln!(rest, "  spare: {}", container.spares.join(", "));
    }
    for note in &container.notes {
        let _ = writeln!(rest, "  {}: {note}", paper.paint(Tone::Warning, "note"));
    }
    let fold = |text: &str| paper.fold(text, INDENT);
    fold(&head) + &volumes(&container.volumes, is_used, paper) + &fold(&rest)
}

/// The table of volumes. A dirty volume is shown as in use while its array is served, because the mark is normal then.
fn volumes(volumes: &[VolumeReport], is_used: bool, paper: Paper) -> String {
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
            format!("{}{dirty}", paper.state(volume.state)),
            volume.uuid.clone(),
        ]);
    }
    let give = [Give::Shorten];
    table(2, &rows, &give, paper.columns)
}

/// How a volume would be started; empty if it starts read-write, with no replay and no background work.
fn start(volume: &VolumeReport, paper: Paper) -> String {
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
            ", which cannot repair everything"
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
            let state = paper.state("not started");
            format!("  {name} is {state}: {reason}{option}\n")
        }
        ("read-only", _) => {
            let state = paper.state("read-only");
            format!("  {name} is started {state}: {reason}\n")
        }
        (_, Some(work)) => format!("  {name} is started with {work}\n"),
        _ => String::new(),
    };
    replay + &then
}

/// Members that are present, and those whose failure is on record. Other problems of a member are in the notes. If no
/// copy of the record could be chosen, all drives that were found are listed.
fn members(members: &[MemberReport], refused: bool, paper: Paper) -> String {
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
        let failed = paper.state("failed");
        let _ = writeln!(text, "  {failed}: the drive with serial {}", member.serial);
    }
    text
}
