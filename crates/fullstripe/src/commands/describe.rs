//! The description of a container that `list`, `assemble` and `create` share, as JSON and as text ([`text`]).

pub mod text;
mod volume;

use container::busy::users;
use container::decide::decide;
use container::probe::{Member, Probed};
use drives::holders::process_in_words;
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::Uuid;
use metadata::imsm::choose::{Assembly, Found, MemberState, choose};
use metadata::imsm::start::StartOptions;
use serde::Serialize;

/// Everything found on a set of drives.
#[derive(Clone, Debug, Serialize)]
pub struct DrivesReport {
    /// Version of this schema: 1.
    pub version: u32,
    /// The containers.
    pub containers: Vec<ContainerReport>,
    /// Drives with the record of a spare that no container here could use.
    pub spares: Vec<String>,
    /// Drives with a damaged record that no container lists, and why.
    pub damaged: Vec<DamagedReport>,
    /// Drives without metadata.
    pub empty: Vec<String>,
}

/// A drive with a damaged record.
#[derive(Clone, Debug, Serialize)]
pub struct DamagedReport {
    /// What the user called it.
    pub name: String,
    /// What is wrong with the record.
    pub reason: String,
}

/// One container.
#[derive(Clone, Debug, Serialize)]
pub struct ContainerReport {
    /// UUID as mdadm prints it; absent when no copy of the record could be chosen.
    pub uuid: Option<String>,
    /// Number of the last metadata update.
    pub generation: Option<u32>,
    /// Why the container is not assembled at all.
    pub refused: Option<String>,
    /// Its drives, in the order of the disk table, then those that no longer belong to it.
    pub members: Vec<MemberReport>,
    /// Spares that fit.
    pub spares: Vec<String>,
    /// The processes that have its drives open: what is reported of the volumes may change while they run.
    pub in_use_by: Vec<String>,
    /// Its volumes.
    pub volumes: Vec<VolumeReport>,
    /// The record must be written again before the first volume is started.
    pub rewrite_needed: bool,
    /// Every member's record is torn, and this report was read from their shadow copies.
    pub from_shadows: bool,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

/// A drive of a container.
#[derive(Clone, Debug, Serialize)]
pub struct MemberReport {
    /// What the user called it, if it is here.
    pub name: Option<String>,
    /// Serial in the metadata.
    pub serial: String,
    /// Size in the metadata.
    pub size_bytes: u64,
    /// `present`, `evicted`, `failed` or `missing`.
    pub state: &'static str,
    /// Why it is evicted.
    pub reason: Option<String>,
}

/// A volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeReport {
    /// Its name.
    pub name: String,
    /// UUID as mdadm prints it.
    pub uuid: String,
    /// RAID level, or what the record says instead of one.
    pub level: u8,
    /// Usable size.
    pub size_bytes: u64,
    /// Chunk per member; 0 for RAID 1.
    pub chunk_bytes: u64,
    /// `optimal`, `degraded`, `not protected` (redundancy is not established) or `failed`.
    pub state: &'static str,
    /// Whether it was not stopped cleanly.
    pub dirty: bool,
    /// The slots.
    pub slots: Vec<SlotReport>,
    /// How `serve` would start it.
    pub start: StartReport,
}

/// A slot of a volume.
#[derive(Clone, Debug, Serialize)]
pub struct SlotReport {
    /// The drive, if it is here.
    pub drive: Option<String>,
    /// `in sync`, `rebuilding`, `failed` or `missing`.
    pub state: &'static str,
}

/// How a volume would be started.
#[derive(Clone, Debug, Serialize)]
pub struct StartReport {
    /// `read-write`, `read-only` or `refused`.
    pub mode: &'static str,
    /// Why it is started read-only or not at all.
    pub reason: Option<String>,
    /// The option of `serve` with which it would start.
    pub option: Option<&'static str>,
    /// What would run in the background.
    pub work: Option<String>,
    /// What a replay of its write-hole log would do first, if the volume was not stopped cleanly.
    pub replay: Option<ReplayReport>,
}

/// What a replay of a write-hole log would do.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Entries whose parity would be written.
    pub entries: u32,
    /// Entries that would be left out.
    pub skipped: u32,
    /// Whether parity would be valid everywhere afterwards.
    pub settles_everything: bool,
}

/// Groups `drives` into containers and describes each as it would be started with `options`.
#[must_use]
pub fn report(drives: &[Probed], options: StartOptions) -> DrivesReport {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let choice = choose(&candidates);
    let name = |drive: usize| drives[drive].drive.name().to_owned();
    let taken: Vec<usize> = choice
        .containers
        .iter()
        .filter_map(|found| found.outcome.as_ref().ok())
        .flat_map(|assembly| assembly.spares.iter().copied())
        .collect();
    let damaged = |&drive: &usize| DamagedReport {
        name: name(drive),
        reason: drives[drive]
            .found
            .as_ref()
            .err()
            .map_or(String::new(), ToString::to_string),
    };
    let used = |drive: usize| {
        choice.containers.iter().any(|found| {
            found
                .outcome
                .as_ref()
                .is_ok_and(|assembly| place_of(assembly, drive).is_some())
        })
    };
    DrivesReport {
        version: 1,
        containers: choice
            .containers
            .iter()
            .map(|found| container(drives, found, options))
            .collect(),
        spares: choice
            .spares
            .iter()
            .filter(|drive| !taken.contains(drive))
            .map(|&drive| name(drive))
            .collect(),
        damaged: choice.damaged.iter().map(damaged).collect(),
        empty: (0..drives.len())
            .filter(|&drive| matches!(drives[drive].found, Ok(None)) && !used(drive))
            .map(name)
            .collect(),
    }
}

/// The drive's row in the disk table.
fn place_of(assembly: &Assembly, drive: usize) -> Option<usize> {
    assembly.members.iter().position(|state| match state {
        MemberState::Present { drive: here } | MemberState::Evicted { drive: here, .. } => {
            *here == drive
        }
        MemberState::MarkedFailed | MemberState::Missing => false,
    })
}

fn container(drives: &[Probed], found: &Found, options: StartOptions) -> ContainerReport {
    let assembly = match &found.outcome {
        Ok(assembly) => assembly,
        Err(refusal) => return refused_container(drives, found.container_family, refusal),
    };
    let decision = decide(drives, assembly, options, false);
    let assembly = &decision.assembly;
    let mpb = &assembly.mpb;
    let volumes = (0..mpb.volumes.len()).map(|at| volume::describe(drives, &decision, at));
    let name = |drive: &usize| drives[*drive].drive.name().to_owned();
    ContainerReport {
        uuid: Some(Uuid::of_container(mpb).to_string()),
        generation: Some(mpb.generation),
        refused: None,
        members: members(drives, assembly),
        spares: assembly.spares.iter().map(name).collect(),
        in_use_by: in_use_by(assembly.present_drives().map(|drive| &drives[drive])),
        volumes: volumes.collect(),
        rewrite_needed: assembly.rewrite_needed,
        from_shadows: assembly
            .unfinished
            .as_ref()
            .is_some_and(|unfinished| unfinished.from_shadows),
        notes: notes(drives, assembly),
    }
}

/// The processes that have any of the drives open, in words.
fn in_use_by<'a>(drives: impl Iterator<Item = &'a Probed>) -> Vec<String> {
    let users = users(drives.filter_map(Probed::path));
    users.into_iter().map(process_in_words).collect()
}

fn refused_container(
    drives: &[Probed],
    family: u32,
    refusal: &metadata::imsm::choose::Refusal,
) -> ContainerReport {
    let record = |probed: &&Probed| {
        matches!(&probed.found, Ok(Some(found)) if !found.mpb.is_spare()
            && found.mpb.container_family() == family)
    };
    let member = |probed: &Probed| MemberReport {
        name: Some(probed.drive.name().to_owned()),
        serial: probed.serial.to_string(),
        size_bytes: probed.drive.size_bytes(),
        state: "evicted",
        reason: None,
    };
    ContainerReport {
        uuid: None,
        generation: None,
        refused: Some(refusal.to_string()),
        members: drives.iter().filter(record).map(member).collect(),
        spares: Vec::new(),
        in_use_by: in_use_by(drives.iter().filter(record)),
        volumes: Vec::new(),
        rewrite_needed: false,
        from_shadows: false,
        notes: Vec::new(),
    }
}

fn members(drives: &[Probed], assembly: &Assembly) -> Vec<MemberReport> {
    let name = |drive: usize| Some(drives[drive].drive.name().to_owned());
    let listed = assembly.mpb.disks.iter().zip(&assembly.members);
    let listed = listed.map(|(disk, state)| {
        let (name, state, reason) = match *state {
            MemberState::Present { drive } => (name(drive), "present", None),
            MemberState::Evicted { drive, reason } => {
                (name(drive), "evicted", Some(reason.to_string()))
            }
            MemberState::MarkedFailed => (None, "failed", None),
            MemberState::Missing => (None, "missing", None),
        };
        MemberReport {
            name,
            serial: disk.serial.without_failed_mark().to_string(),
            size_bytes: disk.total_sectors.saturating_mul(SECTOR_BYTES),
            state,
            reason,
        }
    });
    let outsiders = assembly
        .outsiders
        .iter()
        .map(|&(drive, reason)| MemberReport {
            name: name(drive),
            serial: drives[drive].serial.to_string(),
            size_bytes: drives[drive].drive.size_bytes(),
            state: "evicted",
            reason: Some(reason.to_string()),
        });
    listed.chain(outsiders).collect()
}

/// The warnings from choosing the record, and drives that are smaller than the record says.
fn notes(drives: &[Probed], assembly: &Assembly) -> Vec<String> {
    let mut notes = assembly.warnings.clone();
    for probed in drives {
        let listed = assembly.mpb.disk_index_of(&probed.serial);
        let Some(disk) = listed.and_then(|row| assembly.mpb.disks.get(row)) else {
            continue;
        };
        let (now, recorded) = (probed.placement.total_sectors(), disk.total_sectors);
        if now < recorded && matches!(probed.found, Ok(None)) {
            notes.push(format!(
                "{} has {} bytes but had {} when it joined: it was truncated, and its metadata is lost",
                probed.drive.name(),
                now * SECTOR_BYTES,
                recorded.saturating_mul(SECTOR_BYTES)
            ));
        }
    }
    notes
}
