//! The state of a serving process: the one set of types that `status`, the API, the metrics
//! and the web console.

use self::causes::why_failed;
pub use self::drive_health::DriveHealth;
use super::commands::Commands;
use super::health::Health;
use super::nvmet::NvmetStatus;
use super::scrub::kept::ScrubStatus;
use super::snapshot::Snapshot;
use container::persist::Persister;
use drives::drive::IoPath;
use engine::control::bad_blocks::BadRange;
use engine::control::record::{MemberState, SlotRecord, SyncKind};
use engine::event::JobName;
use engine::layout::Level;
use engine::policy::MemberKind;
use engine::stats::Stats;
use engine::units::{MemberId, Nanos, Slot, SlotSet};
use metadata::imsm::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// State of a serving process. `version` changes when a field changes its meaning or is removed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of this schema: 1.
    pub version: u32,
    /// The health of the array, in a word and a sentence.
    #[serde(default)]
    pub health: Health,
    /// UUID of the container, as mdadm prints it.
    pub container_uuid: String,
    /// Number of the last metadata update.
    pub generation: u64,
    /// Drives, in order of their number.
    pub members: Vec<MemberStatus>,
    /// Volumes.
    pub volumes: Vec<VolumeStatus>,
    /// Where volumes can be reached: URIs, and paths of block devices.
    pub exports: Vec<String>,
    /// Limit of background work, bytes of each member per second; 0 is unlimited.
    pub rate_bytes_per_s: u64,
    /// The limit with which the next `serve` begins, if an operator has set one with `rate`.
    #[serde(default)]
    pub remembered_rate_bytes_per_s: Option<u64>,
    /// Shards (data threads).
    pub shards: u8,
    /// How data threads learn of completed I/O: `interrupt`, `polling`, or `hybrid:` and microseconds.
    pub completion: String,
    /// What the kernel granted the data threads' rings.
    pub ring: String,
    /// Process number.
    pub pid: u32,
    /// Work counters since start, summed over the shards.
    pub counters: BTreeMap<String, u64>,
}

/// A drive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    /// Its number.
    pub id: u8,
    /// What the user called it.
    pub name: String,
    /// Serial number in the metadata.
    pub serial: String,
    /// Capacity.
    pub size_bytes: u64,
    /// `active`, `spare`, `failed` or `removed`.
    pub state: String,
    /// Why it has failed, if that was in this process.
    #[serde(default)]
    pub cause: Option<String>,
    /// How its I/O reaches the kernel: `ring`, `inline` (on the data thread) or `helpers` (on threads of
    /// its own).
    pub io_path: String,
    /// It is a file that has been deleted: its content is lost when the process ends.
    #[serde(default)]
    pub deleted: bool,
    /// Ranges of it that are on record as lost: until they are written, reads of them are answered from other drives,
    /// or fail.
    #[serde(default)]
    pub bad_blocks: Vec<BadBlocks>,
    /// Total length of these ranges.
    #[serde(default)]
    pub bad_block_bytes: u64,
    /// What it reports about its health, if it is in use.
    #[serde(default)]
    pub health: DriveHealth,
}

/// A range of a drive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BadBlocks {
    /// First byte on the drive.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// UUID, as mdadm prints it.
    pub uuid: String,
    /// RAID level: 0, 1, 5 or 10.
    pub level: u8,
    /// Usable size.
    pub size_bytes: u64,
    /// Chunk per member.
    pub chunk_bytes: u32,
    /// `optimal`, `degraded`, `not protected` (redundancy not established yet), `writes stopped` (the metadata
    /// cannot express what they depend on), `failed` or `not started`.
    pub state: String,
    /// Why it is not started and what to do, in a sentence; a volume that is not started is not served and not changed.
    #[serde(default)]
    pub not_started: Option<String>,
    /// Why it has failed, its writes are stopped or its last rebuild was given up, and what to do; absent otherwise.
    #[serde(default)]
    pub cause: Option<String>,
    /// Whether the metadata says that writes may be under way.
    pub dirty: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The slots.
    pub slots: Vec<SlotStatus>,
    /// Background work, if there is any.
    pub job: Option<JobStatus>,
    /// Its scrubs: the schedule, the last one, the unfinished one.
    #[serde(default)]
    pub scrub: Option<ScrubStatus>,
    /// The block device that it is, if it is one.
    #[serde(default)]
    pub device: Option<DeviceStatus>,
}

/// How a block device reaches the serving process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// By the kernel's ublk.
    Ublk,
    /// By the kernel's NBD client.
    Nbd,
}

impl DeviceKind {
    /// All, the best first.
    pub const ALL: [DeviceKind; 2] = [DeviceKind::Ublk, DeviceKind::Nbd];

    /// Its name, which is that of the export that makes such devices.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Ublk => "ublk",
            DeviceKind::Nbd => "nbd",
        }
    }
}

/// A block device of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceStatus {
    /// How it reaches the serving process.
    pub kind: DeviceKind,
    /// Its lasting name: `/dev/fullstripe/` and the volume's name.
    pub path: String,
    /// The kernel's name, which the next start may change.
    pub node: String,
    /// How the kernel exports it to other machines, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvmet: Option<NvmetStatus>,
}

/// A slot of a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SlotStatus {
    /// Number of the drive in it.
    pub member: Option<u8>,
    /// `in sync`, `rebuilding`, `failed` or `missing`.
    pub state: String,
    /// Whether the volume can work without this slot's drive.
    #[serde(default)]
    pub can_be_lost: bool,
}

/// Background work.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobStatus {
    /// `initial sync`, `resync`, `rebuild`, `replace`, `check` or `repair`.
    pub kind: String,
    /// The slot that is rebuilt or replaced.
    pub slot: Option<u8>,
    /// Number of the drive that is being rebuilt or copied to.
    pub member: Option<u8>,
    /// Whether it runs now; otherwise it is paused or waits for another job.
    pub running: bool,
    /// Paused by an operator.
    pub paused: bool,
    /// Bytes of each member that are complete.
    pub done_bytes: u64,
    /// Bytes of each member in all.
    pub total_bytes: u64,
    /// Bytes of each member per second, since it started in this process, was resumed, or had its limit changed.
    pub rate_bytes_per_s: u64,
    /// Seconds until it is done at this rate; absent while unknown.
    pub remaining_s: Option<u64>,
    /// Stripes whose redundancy did not match.
    pub mismatches: u64,
    /// Stripes that could not be processed.
    pub failures: u64,
}

/// What is known about a drive beside the engine's record.
#[derive(Clone, Debug)]
pub struct DriveName {
    /// What the user called it.
    pub name: String,
    /// Serial in the metadata.
    pub serial: String,
    /// How its I/O reaches the kernel.
    pub io_path: IoPath,
    /// Whether it is a file or a device, which decides what its errors mean.
    pub kind: MemberKind,
    /// It is a file that has been deleted since.
    pub is_deleted: bool,
    /// Why it has failed in this process.
    pub failure: Option<String>,
    /// What it reports about its health.
    pub health: DriveHealth,
}

/// Everything that does not change while the array runs, names, and what events have said.
#[derive(Debug, Default)]
pub struct Facts {
    /// UUID of the container.
    pub container_uuid: String,
    /// Names of volumes.
    pub volume_names: Vec<String>,
    /// Why volumes are not started, by volume.
    pub not_started: Vec<Option<String>>,
    /// UUIDs of volumes.
    pub volume_uuids: Vec<String>,
    /// By [`MemberId`].
    pub drives: Vec<DriveName>,
    /// URIs at which volumes can be reached, and paths of block devices.
    pub exports: Vec<String>,
    /// Volumes that are block devices, by name.
    pub devices: Vec<(String, DeviceStatus)>,
    /// Number of data threads.
    pub shards: u8,
    /// How they learn of completions.
    pub completion: String,
    /// What the kernel granted their rings.
    pub ring: String,
    /// What the metadata could not express most recently.
    pub not_expressible: Option<String>,
    /// Why the last rebuild was given up, by volume.
    pub given_up: Vec<Option<String>>,
    /// The drive for whose bad blocks the log has had no room, since the last rebuild began.
    pub bad_block_log_full: Option<MemberId>,
    /// The limit of background work with which the next server begins, if one is stored.
    pub remembered_rate_bytes_per_s: Option<u64>,
    /// How commands reach this server.
    pub commands: Commands,
}

impl Facts {
    /// The facts of an array that starts with the metadata of `persister`.
    #[must_use]
    pub fn new(persister: &Persister, volume_names: Vec<String>, drives: Vec<DriveName>) -> Facts {
        let mpb = persister.mpb();
        let uuid =
            |at| Uuid::of_volume(mpb, at).map_or(String::new(), |uuid: Uuid| uuid.to_string());
        Facts {
            container_uuid: Uuid::of_container(mpb).to_string(),
            volume_uuids: (0..volume_names.len()).map(uuid).collect(),
            volume_names,
            drives,
            ..Facts::default()
        }
    }
}

impl Status {
    /// Puts the socket of `commands` into the sentences.
    pub fn address(&mut self, commands: &Commands) {
        let volumes = self.volumes.iter_mut();
        let of_volumes = volumes.flat_map(|volume| [&mut volume.cause, &mut volume.not_started]);
        for text in of_volumes.flatten().chain([&mut self.health.text]) {
            *text = commands.in_text(text);
        }
    }
}

/// Describes a snapshot in words.
#[must_use]
pub fn describe(snapshot: &Snapshot, facts: &Facts, stats: &Stats) -> Status {
    let record = &snapshot.record;
    Status {
        version: 1,
        // Computed by the caller, because it depends on the status of scrubs too.
        health: Health::default(),
        container_uuid: facts.container_uuid.clone(),
        generation: record.generation,
        members: members(snapshot, facts),
        volumes: (0..record.volumes.len())
            .map(|at| volume(snapshot, facts, at))
            .collect(),
        exports: facts.exports.clone(),
        rate_bytes_per_s: snapshot.rate_bytes_per_s,
        remembered_rate_bytes_per_s: facts.remembered_rate_bytes_per_s,
        shards: facts.shards,
        completion: facts.completion.clone(),
        ring: facts.ring.clone(),
        pid: std::process::id(),
        counters: stats
            .fields()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
    }
}

/// The present state of a drive; a drive whose failure made a volume fail is still in use on record.
fn state_of(snapshot: &Snapshot, id: MemberId) -> MemberState {
    let member = snapshot.record.members.get(id.0 as usize);
    match member.map_or(MemberState::Absent, |member| member.state) {
        MemberState::Active | MemberState::Spare if snapshot.failed.has(id) => MemberState::Failed,
        state => state,
    }
}

fn members(snapshot: &Snapshot, facts: &Facts) -> Vec<MemberStatus> {
    let record = &snapshot.record;
    let member =
        |(id, (member, drive)): (usize, (&engine::control::record::MemberRecord, &DriveName))| {
            let state = state_of(snapshot, MemberId(id as u8));
            let range = |range: &BadRange| BadBlocks {
                offset_bytes: range.offset_bytes,
                length_bytes: range.length_bytes,
            };
            let is_used = matches!(state, MemberState::Spare | MemberState::Active);
            let bad_blocks = record.bad_blocks.of(MemberId(id as u8)).iter();
            let bad_blocks: Vec<_> = bad_blocks.filter(|_| is_used).map(range).collect();
            MemberStatus {
                id: id as u8,
                name: drive.name.clone(),
                serial: drive.serial.clone(),
                size_bytes: member.size_bytes,
                state: match state {
                    MemberState::Absent => "removed",
                    MemberState::Spare => "spare",
                    MemberState::Active => "active",
                    MemberState::Failed => "failed",
                }
                .to_owned(),
                cause: drive
                    .failure
                    .clone()
                    .filter(|_| state == MemberState::Failed),
                io_path: drive.io_path.to_string(),
                deleted: drive.is_deleted,
                bad_block_bytes: bad_blocks.iter().map(|range| range.length_bytes).sum(),
                bad_blocks,
                health: match is_used {
                    true => drive.health.clone(),
                    false => DriveHealth::default(),
                },
            }
        };
    record
        .members
        .iter()
        .zip(&facts.drives)
        .enumerate()
        .map(member)
        .collect()
}

/// The block device that a volume is.
fn device(facts: &Facts, at: usize) -> Option<DeviceStatus> {
    let name = facts.volume_names.get(at)?;
    let mut devices = facts.devices.iter();
    devices.find_map(|(of, device)| (of == name).then(|| device.clone()))
}

fn volume(snapshot: &Snapshot, facts: &Facts, at: usize) -> VolumeStatus {
    let record = &snapshot.record;
    let volume = &record.volumes[at];
    let (failed, background) = snapshot.volumes[at];
    let slot_state = |slot: &SlotRecord| match slot.member.map(|id| state_of(snapshot, id)) {
        None | Some(MemberState::Absent) => "missing",
        Some(MemberState::Failed) => "failed",
        Some(_) if slot.current => "in sync",
        Some(_) => "rebuilding",
    };
    let unsynced = volume
        .sync
        .is_some_and(|sync| !matches!(sync.kind, SyncKind::Rebuild(_)));
    let numbered = || (0u8..).map(Slot).zip(&volume.slots);
    let in_sync = numbered()
        .filter(|(_, slot)| slot_state(slot) == "in sync")
        .fold(SlotSet(0), |set, (at, _)| set.with(at));
    let is_computed = volume.geometry.level == Level::Raid5;
    let slots: Vec<SlotStatus> = numbered()
        .map(|(at, slot)| SlotStatus {
            member: slot.member.map(|member| member.0),
            state: slot_state(slot).to_owned(),
            can_be_lost: !in_sync.has(at)
                || (volume.geometry.survives(in_sync.without(at)) && !(unsynced && is_computed)),
        })
        .collect();
    let whole = in_sync == SlotSet::all(volume.geometry.members);
    let not_started = facts.not_started.get(at).cloned().flatten();
    let writes_stopped = snapshot.writes_stopped[at];
    let state = match (failed, whole, unsynced) {
        _ if not_started.is_some() => "not started",
        (true, _, _) => "failed",
        _ if writes_stopped => "writes stopped",
        (_, false, _) => "degraded",
        (_, _, true) => "not protected",
        _ => "optimal",
    };
    VolumeStatus {
        name: facts.volume_names[at].clone(),
        uuid: facts.volume_uuids[at].clone(),
        level: volume.geometry.level.number(),
        size_bytes: volume.geometry.size_bytes,
        chunk_bytes: if volume.geometry.level == Level::Raid1 {
            0
        } else {
            volume.geometry.chunk_bytes
        },
        state: state.to_owned(),
        not_started,
        dirty: volume.dirty,
        read_only: volume.read_only || writes_stopped,
        cause: match (failed, writes_stopped) {
            (true, _) => Some(why_failed(snapshot, facts, volume)),
            (false, true) => facts.not_expressible.clone(),
            (false, false) if !whole => facts.given_up.get(at).cloned().flatten(),
            (false, false) => None,
        },
        slots,
        job: background.map(|status| job(&status, &volume.slots, snapshot.now)),
        scrub: None,
        device: device(facts, at),
    }
}

fn job(status: &engine::control::jobs::JobStatus, slots: &[SlotRecord], now: Nanos) -> JobStatus {
    let in_slot = |slot: Slot| slots.get(usize::from(slot.0)).and_then(|slot| slot.member);
    let filled = status.copied_to.or_else(|| in_slot(status.slot?));
    let elapsed_ns = now.since(status.paced_since).0;
    let moved = status.done_bytes - status.paced_from_bytes;
    let rate = (u128::from(moved) * 1_000_000_000 / u128::from(elapsed_ns.max(1))) as u64;
    let left = status.total_bytes - status.done_bytes;
    JobStatus {
        kind: job_name(status.name).to_owned(),
        slot: status.slot.map(|slot| slot.0),
        member: filled.map(|member| member.0),
        running: status.running,
        paused: status.paused,
        done_bytes: status.done_bytes,
        total_bytes: status.total_bytes,
        rate_bytes_per_s: if status.running { rate } else { 0 },
        remaining_s: (status.running && rate > 0).then(|| left / rate),
        mismatches: status.mismatches,
        failures: status.failures,
    }
}

/// What people call a job.
#[must_use]
pub fn job_name(name: JobName) -> &'static str {
    match name {
        JobName::InitialSync => "initial sync",
        JobName::Resync => "resync",
        JobName::Rebuild => "rebuild",
        JobName::Replace => "replace",
        JobName::Check => "check",
        JobName::Repair => "repair",
    }
}

mod causes;
pub mod drive_health;
mod heard;
