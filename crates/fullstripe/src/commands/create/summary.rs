//! What `create` says when it is done.

use crate::commands::vroc::in_one_sentence;
use container::create::Created;
use container::probe::Probed;
use container::shape::{chunk_bytes, level_number};
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::geometry::{Level, Shape};
use metadata::imsm::{Uuid, Volume};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use vroc::Answer;
use words::{count, size};

/// The result of `create`.
#[derive(Serialize)]
pub struct Summary {
    /// Version of this schema: 1.
    version: u32,
    name: String,
    uuid: String,
    container_uuid: String,
    level: u8,
    members: Vec<String>,
    size_bytes: u64,
    /// 0 for RAID 1.
    chunk_bytes: u64,
    /// Whether mirrors or parity are valid already; true for RAID 0.
    in_sync: bool,
    /// Why not.
    unsynced_because: Option<String>,
    /// Which firmware and programs can or cannot read the array.
    readability: Vec<String>,
    /// What Intel VROC would say of it, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    vroc: Option<Answer>,
    /// What was destroyed.
    destroyed: Vec<String>,
    /// Copy of what was overwritten.
    backup: Option<PathBuf>,
    /// What the user should know, a sentence each.
    notes: Vec<String>,
    /// The command that serves the array.
    next: String,
}

/// The summary of `created`; `specs` is how the user called the drives, and `vroc` what Intel VROC would say.
pub fn of(created: &Created, drives: &[Probed], specs: &[String], vroc: Option<Answer>) -> Summary {
    let mpb = &created.mpb;
    let volume = &mpb.volumes[created.volume];
    Summary {
        version: 1,
        name: volume.name.to_string(),
        uuid: Uuid::of_volume(mpb, created.volume).map_or(String::new(), |uuid| uuid.to_string()),
        container_uuid: Uuid::of_container(mpb).to_string(),
        level: volume.map.level().map_or(0, level_number),
        members: members(created, drives),
        size_bytes: volume.size_sectors * SECTOR_BYTES,
        chunk_bytes: chunk_bytes(volume),
        in_sync: created.unsynced.is_none(),
        unsynced_because: created.unsynced.clone(),
        readability: readability(volume, mpb.volumes.len()),
        vroc,
        destroyed: created.destroyed.clone(),
        backup: created.backup.clone(),
        notes: notes(drives),
        next: format!("fullstripe serve {}", specs.join(" ")),
    }
}

/// The drives in slot order.
fn members(created: &Created, drives: &[Probed]) -> Vec<String> {
    let volume = &created.mpb.volumes[created.volume];
    let name = |entry: &metadata::imsm::SlotEntry| {
        let disk = created.mpb.disks.get(entry.disk_index as usize);
        let drive = drives
            .iter()
            .find(|probed| Some(probed.serial) == disk.map(|disk| disk.serial));
        drive.map_or(String::new(), |probed| probed.drive.name().to_owned())
    };
    volume.map.order.iter().map(name).collect()
}

fn readability(volume: &Volume, volumes: usize) -> Vec<String> {
    let Some(level) = volume.map.level() else {
        return Vec::new();
    };
    let shape = Shape {
        level,
        members: volume.map.members(),
        strip_sectors: volume.map.sectors_per_strip,
    };
    let reasons = shape.reasons_wide(volumes);
    if reasons.is_empty() {
        vec![
            "IMSM-compatible: mdadm reads it; firmware (RST, VROC) should by the format's rules, \
             which nobody has confirmed yet"
                .to_owned(),
        ]
    } else {
        reasons.iter().map(ToString::to_string).collect()
    }
}

/// Unused space on drives that are larger than the smallest, and notes from opening the drives.
fn notes(drives: &[Probed]) -> Vec<String> {
    let mut notes: Vec<String> = drives
        .iter()
        .flat_map(|probed| probed.drive.notes().iter().cloned())
        .collect();
    let smallest = drives.iter().min_by_key(|probed| probed.drive.size_bytes());
    for probed in drives {
        let unused = smallest.map_or(0, |smallest| {
            probed.drive.size_bytes() - smallest.drive.size_bytes()
        });
        if unused > 0 {
            notes.push(format!(
                "{} of {} stay unused: {} is smaller",
                size(unused),
                probed.drive.name(),
                smallest.map_or("another drive", |smallest| smallest.drive.name())
            ));
        }
    }
    notes
}

/// The summary for people.
pub fn text(summary: &Summary) -> String {
    let chunk = match summary.chunk_bytes {
        0 => String::new(),
        bytes => format!(", chunk {}", size(bytes)),
    };
    let mut text = format!(
        "Created volume {}: RAID {} of {}, {} usable{chunk}.\n",
        summary.name,
        summary.level,
        count(summary.members.len(), "drive"),
        size(summary.size_bytes)
    );
    let _ = writeln!(text, "  uuid: {}", summary.uuid);
    let _ = writeln!(text, "  container: {}", summary.container_uuid);
    let _ = writeln!(text, "  slots: {}", slots(&summary.members));
    match &summary.unsynced_because {
        Some(reason) => {
            let _ = writeln!(
                text,
                "  NOT PROTECTED until its first synchronisation, which runs while it is served: {reason}"
            );
        }
        None if summary.level == level_number(Level::Raid0) => {
            text.push_str("  RAID 0 has no redundancy: losing any drive loses the volume\n");
        }
        None => text.push_str("  redundancy is established: the members are zeroed\n"),
    }
    for sentence in &summary.readability {
        let _ = writeln!(text, "  {sentence}");
    }
    if let Some(answer) = &summary.vroc {
        let _ = writeln!(text, "  as Intel VROC: {}", in_one_sentence(answer));
        for rule in &answer.broken {
            let _ = writeln!(text, "  as Intel VROC: {}: {}", rule.because, rule.rule);
        }
    }
    for sentence in &summary.destroyed {
        let _ = writeln!(
            text,
            "  destroyed: {}",
            sentence.replacen(" holds ", " held ", 1)
        );
    }
    if let Some(backup) = &summary.backup {
        let _ = writeln!(
            text,
            "  backup of what was overwritten: {}",
            backup.display()
        );
    }
    for note in &summary.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let _ = writeln!(text, "Next: {}", summary.next);
    text
}

fn slots(members: &[String]) -> String {
    let slots: Vec<String> = members
        .iter()
        .enumerate()
        .map(|(slot, name)| format!("{slot}: {name}"))
        .collect();
    slots.join(", ")
}
