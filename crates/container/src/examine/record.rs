//! One record in printable form, with every field that has a meaning.

use super::bitmap::{self, BitmapReport};
use super::log::{self, LogReport};
use crate::probe::Probed;
use crate::shape::{chunk_bytes, level_number};
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::place::{Found, encode_image};
use metadata::imsm::{Disk, Map, MapState, Mpb, Uuid, Volume, WriteHolePolicy};
use serde::Serialize;

/// A record.
#[derive(Serialize)]
pub struct RecordReport {
    /// Version string of the signature.
    pub format_version: String,
    /// UUID of the container as mdadm prints it.
    pub container_uuid: String,
    /// Changes when a spare is activated.
    pub family: String,
    /// Stable identity of the container.
    pub original_family: String,
    /// Number of the metadata update.
    pub generation: u32,
    /// Seconds since 1970; 0 where firmware made the container.
    pub created_unix_s: u64,
    /// Features in use.
    pub attributes: Vec<String>,
    /// Features that forbid starting any volume here.
    pub unsupported: Vec<String>,
    /// Length of the record on the drive, in whole sectors.
    pub image_bytes: usize,
    /// The drive's own row in the table; absent if it is not listed.
    pub own_row: Option<usize>,
    /// The disk table.
    pub disks: Vec<DiskReport>,
    /// The volumes; none in the record of a spare.
    pub volumes: Vec<VolumeRecord>,
    /// Sectors that could not be read and not be recovered.
    pub bad_blocks: Vec<BadBlocks>,
    /// The state of a reshape, if there is one.
    pub reshape: Option<Reshape>,
}

/// A row of the disk table.
#[derive(Serialize)]
pub struct DiskReport {
    /// Serial in the table.
    pub serial: String,
    /// Size in the table.
    pub size_bytes: u64,
    /// `member`, `spare`, `failed`, `missing`, `journal` or `unused`.
    pub state: &'static str,
}

/// A volume as its record says.
#[derive(Serialize)]
pub struct VolumeRecord {
    /// Its name.
    pub name: String,
    /// UUID as mdadm prints it.
    pub uuid: String,
    /// RAID level.
    pub level: u8,
    /// Number of slots.
    pub members: usize,
    /// Usable size.
    pub size_bytes: u64,
    /// Chunk per member; 0 for RAID 1.
    pub chunk_bytes: u64,
    /// Where its data starts on every member.
    pub start_bytes: u64,
    /// Data on each member.
    pub component_bytes: u64,
    /// State of the map: the state of the volume once the operation in progress has ended.
    pub state: String,
    /// Writes may have been under way.
    pub dirty: bool,
    /// What protects parity against a crash.
    pub write_hole_policy: String,
    /// The log that the policy keeps on this drive.
    pub write_hole_log: Option<LogReport>,
    /// The bitmap that the policy keeps on this drive.
    pub bitmap: Option<BitmapReport>,
    /// For each slot, the row of the disk table that serves it.
    pub slots: Vec<SlotRecord>,
    /// The operation in progress.
    pub migration: Option<MigrationReport>,
}

/// A slot.
#[derive(Serialize)]
pub struct SlotRecord {
    /// Row of the disk table.
    pub row: u32,
    /// Serial in that row.
    pub serial: String,
    /// Whether its content is valid now.
    pub in_sync: bool,
}

/// An operation in progress.
#[derive(Serialize)]
pub struct MigrationReport {
    /// What is done.
    pub kind: String,
    /// State of the volume before.
    pub state: String,
    /// Bytes certainly done, from the start of each member's data; absent if fullstripe cannot compute them.
    pub done_bytes: Option<u64>,
}

/// A range of the bad block log.
#[derive(Serialize)]
pub struct BadBlocks {
    /// Row of the disk table.
    pub row: u8,
    /// First byte on that drive.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

/// The migration record.
#[derive(Serialize)]
pub struct Reshape {
    /// Unit being moved.
    pub current_unit: u64,
    /// Units in all.
    pub units: u64,
}

/// Describes what was found on `probed`.
#[must_use]
pub fn of(probed: &Probed, found: &Found) -> RecordReport {
    let mpb = &found.mpb;
    let names = |attributes: metadata::imsm::Attributes| {
        let names = attributes.names();
        names.iter().map(ToString::to_string).collect()
    };
    let reshaping = mpb
        .volumes
        .iter()
        .any(|volume| matches!(&volume.migration, Some(m) if m.kind == metadata::imsm::MigrationKind::General));
    RecordReport {
        format_version: format_version(mpb),
        container_uuid: Uuid::of_container(mpb).to_string(),
        family: format!("{:08x}", mpb.family_num),
        original_family: format!("{:08x}", mpb.orig_family_num),
        generation: mpb.generation,
        created_unix_s: mpb.creation_time,
        attributes: names(mpb.attributes),
        unsupported: names(mpb.attributes.unsupported()),
        image_bytes: encode_image(mpb, probed.sector).map_or(0, |image| image.len()),
        own_row: mpb.disk_index_of(&probed.serial),
        disks: mpb.disks.iter().map(disk).collect(),
        volumes: (0..mpb.volumes.len())
            .map(|at| volume(probed, mpb, at))
            .collect(),
        bad_blocks: bad_blocks(mpb),
        reshape: found
            .migration_record
            .filter(|_| reshaping)
            .map(|record| Reshape {
                current_unit: record.current_unit,
                units: record.unit_count,
            }),
    }
}

fn format_version(mpb: &Mpb) -> String {
    mpb.signature[24..]
        .iter()
        .take_while(|&&byte| byte != 0)
        .map(|&byte| {
            if byte.is_ascii_graphic() {
                char::from(byte)
            } else {
                '?'
            }
        })
        .collect()
}

fn disk(disk: &Disk) -> DiskReport {
    let has = |bit: u32| disk.status & bit != 0;
    let state = if disk.is_failed() && disk.scsi_id == Disk::SCSI_ID_MISSING {
        "missing"
    } else if disk.is_failed() {
        "failed"
    } else if has(Disk::CONFIGURED) {
        "member"
    } else if has(Disk::SPARE) {
        "spare"
    } else if has(Disk::JOURNAL) {
        "journal"
    } else {
        "unused"
    };
    DiskReport {
        serial: disk.serial.to_string(),
        size_bytes: disk.total_sectors.saturating_mul(SECTOR_BYTES),
        state,
    }
}

fn volume(probed: &Probed, mpb: &Mpb, at: usize) -> VolumeRecord {
    let volume = &mpb.volumes[at];
    let map = &volume.map;
    let slot = |entry: &metadata::imsm::SlotEntry| SlotRecord {
        row: entry.disk_index,
        serial: mpb
            .disks
            .get(entry.disk_index as usize)
            .map_or(String::new(), |disk| disk.serial.to_string()),
        in_sync: !entry.out_of_sync,
    };
    VolumeRecord {
        name: volume.name.to_string(),
        uuid: Uuid::of_volume(mpb, at).map_or(String::new(), |uuid| uuid.to_string()),
        level: map.level().map_or(map.stored_level, level_number),
        members: map.members(),
        size_bytes: volume.size_sectors.saturating_mul(SECTOR_BYTES),
        chunk_bytes: chunk_bytes(volume),
        start_bytes: map.start_sector.saturating_mul(SECTOR_BYTES),
        component_bytes: volume.component_sectors().saturating_mul(SECTOR_BYTES),
        state: state(map),
        dirty: volume.is_dirty(),
        write_hole_policy: policy(volume.write_hole_policy),
        write_hole_log: log::of(probed, mpb, at),
        bitmap: bitmap::of(probed, mpb, at),
        slots: volume.current_map().order.iter().map(slot).collect(),
        migration: migration(volume),
    }
}

fn migration(volume: &Volume) -> Option<MigrationReport> {
    let migration = volume.migration.as_ref()?;
    Some(MigrationReport {
        kind: migration.kind.to_string(),
        state: state(&migration.second_map),
        done_bytes: volume
            .checkpoint_sector()
            .map(|sector| sector.saturating_mul(SECTOR_BYTES)),
    })
}

fn state(map: &Map) -> String {
    match map.state {
        MapState::Normal => "normal".to_owned(),
        MapState::Uninitialised => "uninitialised".to_owned(),
        MapState::Degraded => "degraded".to_owned(),
        MapState::Failed => "failed".to_owned(),
        MapState::Unknown(value) => format!("unknown ({value})"),
    }
}

fn policy(policy: WriteHolePolicy) -> String {
    match policy {
        WriteHolePolicy::Off | WriteHolePolicy::OffOld => "off".to_owned(),
        WriteHolePolicy::LogSingle => "log on the members, one entry".to_owned(),
        WriteHolePolicy::Log => "log on the members (PPL)".to_owned(),
        WriteHolePolicy::JournalDrive | WriteHolePolicy::JournalDriveMultiple => {
            "log on a journal drive".to_owned()
        }
        WriteHolePolicy::Bitmap => "write-intent bitmap".to_owned(),
        WriteHolePolicy::Unknown(value) => format!("unknown ({value})"),
    }
}

fn bad_blocks(mpb: &Mpb) -> Vec<BadBlocks> {
    let entry = |entry: &metadata::imsm::BadBlockEntry| BadBlocks {
        row: entry.disk_index,
        offset_bytes: entry.start_sector.saturating_mul(SECTOR_BYTES),
        length_bytes: u64::from(entry.sectors) * SECTOR_BYTES,
    };
    mpb.bad_blocks.iter().map(entry).collect()
}
