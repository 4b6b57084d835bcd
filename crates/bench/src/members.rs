//! Opens and prepares the members, and builds the record that the metadata of a real array would contain.
//!
//! The array's data is at the start of each member. A reserve of [`RESERVE_BYTES`] at the end receives the record
//! whenever the controller wants it durable. What is written there is a real block with the record's generation, so
//! that dirty marks and failures have their usual cost; it is never read back. The write-hole log or bitmap, if there
//! is one, is between data and reserve.

use super::config::Config;
use super::modelled::ModelledMember;
use anyhow::ensure;
use container::busy;
use doctor::available_memory_bytes;
use drives::drive::{Access, Drive};
use drives::spec::{Limits, Model, Target};
use drives::world::{Encoder, LogEncoder};
use engine::control::bad_blocks::BadBlocks;
use engine::control::record::{
    BitmapRecord, LogArea, MemberRecord, MemberState, Record, SlotRecord, VolumeRecord,
};
use engine::layout::{Geometry, Level};
use engine::limits::MIRROR_ROW_BYTES;
use engine::units::{MemberId, Slot};
use metadata::imsm::SectorSize;
use metadata::imsm::WriteHolePolicy;
use metadata::imsm::bitmap::{BITS_OFFSET_BYTES, REGION_BYTES_DEFAULT};
use std::sync::Arc;

/// Size of the reserve behind the data on every member.
const RESERVE_BYTES: u64 = 1 << 20;
/// Size of a write-hole log or a bitmap, as in the metadata format.
const AREA_BYTES: u32 = 1 << 20;
/// Size of one record: whole sectors on every drive.
const RECORD_BYTES: usize = 4096;
/// First bytes of a record, so that it can be recognised on a drive.
const RECORD_MAGIC: &[u8; 16] = b"fullstripe bench";
/// Length of the start and of the end of a file or device that must be zeros. Otherwise it may hold somebody's data.
const LOOKED_AT_BYTES: usize = 1 << 20;
/// Size of one write when a RAM member is filled.
const FILL_BYTES: usize = 1 << 20;

/// The opened members and the array over them.
pub(super) struct Members {
    /// By member number; `None` for the missing slot.
    pub drives: Vec<Option<Arc<Drive>>>,
    /// The member that is measured without an array.
    pub bare: Arc<Drive>,
    /// The array.
    pub geometry: Geometry,
    /// Its write-hole log.
    pub log: Option<LogArea>,
    /// Its write-intent bitmap.
    pub bitmap: Option<BitmapRecord>,
    /// The members' common limits.
    pub limits: Limits,
    /// The members' common drive model.
    pub modelled: Option<ModelledMember>,
    /// Whether the members are files or block devices. Their speed has to be measured, unless they have a model.
    pub hardware: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Members {
    /// Opens the members that `config` names.
    ///
    /// # Errors
    ///
    /// If a member cannot be used, or such an array cannot be made of the members: one sentence.
    pub fn open(config: &Config) -> anyhow::Result<Members> {
        let first = config.spec(0)?;
        check_memory(config, &first.target)?;
        let mut drives = Vec::new();
        let mut notes = Vec::new();
        for index in 0..config.count {
            let drive = if config.failed == Some(index) {
                None
            } else {
                Some(open(config, index)?)
            };
            notes.extend(drive.iter().flat_map(|drive| drive.notes().to_vec()));
            drives.push(drive);
        }
        let hardware = matches!(first.target, Target::Path(_));
        let bare = match drives.iter().flatten().next() {
            Some(drive) if hardware => drive.clone(),
            _ => open(config, 0)?,
        };
        if hardware
            && drives
                .iter()
                .flatten()
                .any(|drive| drive.block_device().is_none())
        {
            notes.push(
                "files on one drive share its speed; the roofline takes each for a drive"
                    .to_owned(),
            );
        }
        let geometry = geometry(config, &drives)?;
        let limits = first.limits;
        let modelled = modelled(first.model, geometry.component_bytes)?;
        if modelled.is_some() {
            notes.push(format!(
                "R and W are those of the model, alone in a closed loop of depth {} in virtual time",
                ModelledMember::depth(config)
            ));
        }
        let log = (config.write_hole == WriteHolePolicy::Log).then_some(LogArea {
            offset_bytes: geometry.component_bytes,
            length_bytes: AREA_BYTES,
        });
        let bitmap = (config.write_hole == WriteHolePolicy::Bitmap).then(|| BitmapRecord {
            bits_offset_bytes: geometry.component_bytes + BITS_OFFSET_BYTES,
            region_bytes: u64::from(REGION_BYTES_DEFAULT),
            marked: [].into(),
            cleared_generation: 0,
        });
        Ok(Members {
            drives,
            bare,
            geometry,
            log,
            bitmap,
            limits,
            modelled,
            hardware,
            notes,
        })
    }

    /// Whether completions are held back by limits or a model.
    pub fn have_pace(&self) -> bool {
        self.limits.any() || self.modelled.is_some()
    }

    /// The record of a container that contains only this array.
    pub fn record(&self) -> Record {
        let member = |drive: &Option<Arc<Drive>>| match drive {
            Some(drive) => MemberRecord {
                state: MemberState::Active,
                size_bytes: drive.size_bytes(),
                volatile_cache: drive.volatile_cache(),
                kind: drive.kind(),
                discards: drive.discards(),
                returns_to: None,
                behind: false,
            },
            None => MemberRecord::ABSENT,
        };
        let slots = (0u8..).zip(&self.drives).map(|(id, drive)| SlotRecord {
            member: drive.as_ref().map(|_| MemberId(id)),
            current: drive.is_some(),
        });
        let volume = VolumeRecord {
            geometry: self.geometry,
            not_started: false,
            read_only: false,
            dirty: false,
            slots: slots.collect(),
            sync: None,
            then_resync: false,
            log: self.log,
            bitmap: self.bitmap.clone(),
        };
        Record {
            generation: 1,
            members: self.drives.iter().map(member).collect(),
            volumes: vec![volume],
            bad_blocks: BadBlocks::default(),
        }
    }

    /// The encoder of write-hole logs' headers, as for a real array.
    pub fn log_encoder(&self) -> LogEncoder {
        let sector = SectorSize::from_bytes(self.geometry.block_bytes);
        Box::new(assembly::log::encoder(
            1,
            sector.unwrap_or(SectorSize::Bytes512),
        ))
    }

    /// The encoder of records, which go into the reserve.
    pub fn encoder(&self) -> Encoder {
        let offsets: Vec<u64> = self
            .drives
            .iter()
            .map(|drive| drive.as_ref().map_or(0, |drive| reserve_from(drive)))
            .collect();
        Box::new(move |member: MemberId, record: &Record| {
            let mut bytes = vec![0; RECORD_BYTES];
            bytes[..16].copy_from_slice(RECORD_MAGIC);
            bytes[16..24].copy_from_slice(&record.generation.to_le_bytes());
            Ok(vec![(offsets[usize::from(member.0)], bytes)])
        })
    }
}

/// Offset of the reserve.
fn reserve_from(drive: &Drive) -> u64 {
    let from = drive.size_bytes().saturating_sub(RESERVE_BYTES);
    from - from % RECORD_BYTES as u64
}

fn open(config: &Config, index: u8) -> anyhow::Result<Arc<Drive>> {
    let spec = config.spec(index)?;
    let drive = busy::open(&spec, Access::Exclusive)?;
    match spec.target {
        Target::Path(_) if !config.overwrite => ensure!(
            looks_empty(&drive)?,
            "{} holds data, which bench would overwrite; name another, or give --overwrite if it \
             may be lost",
            drive.name()
        ),
        Target::Ram { .. } => fill(&drive)?,
        Target::Path(_) | Target::Null { .. } => {}
    }
    Ok(Arc::new(drive))
}

/// Whether start and end are zeros, so that there is no file system, partition table or array.
fn looks_empty(drive: &Drive) -> anyhow::Result<bool> {
    let length = LOOKED_AT_BYTES.min(drive.size_bytes() as usize);
    let start = drive.read_at(0, length)?;
    let end = drive.read_at(drive.size_bytes() - length as u64, length)?;
    Ok(start.iter().chain(&end).all(|&byte| byte == 0))
}

/// Makes the system allocate all pages of a RAM member before the measurement. All zeros are valid mirrors and valid
/// parity.
fn fill(drive: &Drive) -> anyhow::Result<()> {
    let zeros = vec![0; FILL_BYTES];
    let mut offset_bytes = 0;
    while offset_bytes < drive.size_bytes() {
        let length = (drive.size_bytes() - offset_bytes).min(FILL_BYTES as u64);
        drive.write_at(offset_bytes, &zeros[..length as usize])?;
        offset_bytes += length;
    }
    Ok(())
}

fn geometry(config: &Config, drives: &[Option<Arc<Drive>>]) -> anyhow::Result<Geometry> {
    let present = || drives.iter().flatten();
    ensure!(
        config.write_hole != WriteHolePolicy::Log || config.level == Level::Raid5,
        "--write-hole log: {} has no write hole that a log could close; leave it out",
        config.level
    );
    ensure!(
        config.write_hole != WriteHolePolicy::Bitmap || config.level != Level::Raid0,
        "--write-hole bitmap: {} has no redundancy that a bitmap could help to synchronise; leave it out",
        config.level
    );
    let area_bytes = match config.write_hole {
        WriteHolePolicy::Log | WriteHolePolicy::Bitmap => u64::from(AREA_BYTES),
        _ => 0,
    };
    let room = present()
        .map(|drive| reserve_from(drive).saturating_sub(area_bytes))
        .min()
        .unwrap_or(0);
    let row = if config.level == Level::Raid1 {
        MIRROR_ROW_BYTES
    } else {
        config.chunk_bytes
    };
    let mut shape = Geometry {
        level: config.level,
        members: config.count,
        chunk_bytes: config.chunk_bytes,
        start_bytes: 0,
        component_bytes: room - room % u64::from(row.max(1)),
        size_bytes: 0,
        block_bytes: present()
            .map(|drive| drive.sector_bytes())
            .max()
            .unwrap_or(512),
    };
    // Below their least number of members RAID 10 and 5 may have no data member; `Geometry::new` refuses that later.
    let data_members = match shape.level {
        Level::Raid0 | Level::Raid1 => shape.data_members(),
        Level::Raid10 | Level::Raid5 => shape.data_members().max(1),
    };
    let block_bytes = u64::from(config.block_bytes);
    let reserve_mib = (RESERVE_BYTES + area_bytes) >> 20;
    shape.size_bytes = shape.component_bytes * u64::from(data_members);
    ensure!(
        shape.size_bytes >= block_bytes && shape.component_bytes >= block_bytes,
        "--member {} is too small: behind a reserve of {reserve_mib} MiB it has {room} bytes, and a request of \
         --bs {block_bytes} and a row of {row} bytes have to fit; name larger members",
        config.member
    );
    ensure!(
        config.block_bytes.is_multiple_of(shape.block_bytes),
        "--bs {} is no multiple of the members' sectors of {} bytes; give one",
        config.block_bytes,
        shape.block_bytes
    );
    let shape = Geometry::new(shape).map_err(|error| {
        anyhow::anyhow!(
            "no {} of {} such members: {error}",
            config.level,
            config.count
        )
    })?;
    if let Some(failed) = config.failed {
        let present = engine::units::SlotSet::all(config.count).without(Slot(failed));
        ensure!(
            shape.survives(present),
            "--failed {failed}: {} does not survive the loss of a member; leave it out",
            config.level
        );
    }
    Ok(shape)
}

fn modelled(model: Option<Model>, component_bytes: u64) -> anyhow::Result<Option<ModelledMember>> {
    let Some(model) = model else {
        return Ok(None);
    };
    let profile = model.profile().map_err(anyhow::Error::msg)?;
    Ok(Some(ModelledMember {
        profile,
        model,
        component_bytes,
    }))
}

/// Checks that RAM members fit into memory. Otherwise the system would kill the process without a message.
fn check_memory(config: &Config, target: &Target) -> anyhow::Result<()> {
    let Target::Ram { size_bytes } = target else {
        return Ok(());
    };
    let wanted = size_bytes.saturating_mul(u64::from(config.count) + 1);
    if let Some(available) = available_memory_bytes() {
        ensure!(
            wanted < available,
            "--member {}: {} members and one to compare with take {} MiB, but {} MiB of memory are \
             available; give a smaller ram: size, or null:",
            config.member,
            config.count,
            wanted >> 20,
            available >> 20
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Workload;
    use drives::completion::CompletionMode;
    use std::time::Duration;

    fn config(level: Level, member: &str, count: u8) -> Config {
        Config {
            level,
            member: member.to_owned(),
            count,
            workload: Workload {
                read_percent: 100,
                random: true,
            },
            block_bytes: 4096,
            queue_depth: 4,
            shards: 1,
            failed: None,
            chunk_bytes: 65_536,
            write_hole: WriteHolePolicy::Off,
            time: Duration::from_millis(200),
            completion: CompletionMode::Interrupt,
            overwrite: false,
        }
    }

    fn error(config: &Config) -> String {
        match Members::open(config) {
            Ok(_) => panic!("{config:?} was accepted"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn the_record_leaves_out_the_missing_slot() {
        let config = Config {
            failed: Some(1),
            ..config(Level::Raid5, "null:64m", 3)
        };
        let members = Members::open(&config).unwrap();
        let record = members.record();
        assert_eq!(record.members[1].state, MemberState::Absent);
        assert_eq!(
            record.volumes[0].slots[1],
            SlotRecord {
                member: None,
                current: false
            }
        );
        assert_eq!(members.geometry.component_bytes, 63 << 20);
        let (offset_bytes, bytes) = members
            .encoder()
            .encode(MemberId(2), &record)
            .unwrap()
            .remove(0);
        assert_eq!((offset_bytes, bytes.len()), (63 << 20, 4096));
        assert_eq!(bytes[16], 1);
    }

    #[test]
    fn impossible_arrays_are_refused() {
        for (config, wanted) in [
            (
                config(Level::Raid5, "null:64m", 2),
                "no RAID 5 of 2 such members: RAID 5 needs 3 to 64 drives",
            ),
            (
                config(Level::Raid10, "null:64m", 1),
                "no RAID 10 of 1 such members",
            ),
            (
                config(Level::Raid1, "null:64m", 1),
                "no RAID 1 of 1 such members",
            ),
            (
                config(Level::Raid0, "null:1m", 2),
                "--member null:1m is too small: behind",
            ),
            (
                config(Level::Raid0, "ram:512k", 2),
                "--member ram:512k is too small",
            ),
            (
                config(Level::Raid0, "ram:999g", 64),
                "give a smaller ram: size, or null:",
            ),
            (
                Config {
                    chunk_bytes: 5000,
                    ..config(Level::Raid0, "null:64m", 2)
                },
                "the chunk must be a power of two",
            ),
            (
                Config {
                    block_bytes: 512,
                    ..config(Level::Raid0, "null:64m,sector=4096", 2)
                },
                "--bs 512 is no multiple of the members' sectors of 4096 bytes",
            ),
            (
                Config {
                    failed: Some(0),
                    ..config(Level::Raid0, "null:64m", 2)
                },
                "RAID 0 does not survive the loss of a member",
            ),
        ] {
            let message = error(&config);
            assert!(message.contains(wanted), "{message}");
        }
    }

    #[test]
    fn files_that_hold_data_are_refused_unless_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d0.img");
        std::fs::write(&path, vec![0; 4 << 20]).unwrap();
        let text = folder.path().join("d{}.img").display().to_string();
        let mut config = config(Level::Raid0, &text, 1);
        assert!(Members::open(&config).unwrap().hardware);
        let mut bytes = vec![0; 4 << 20];
        bytes[(4 << 20) - 512] = 7;
        std::fs::write(&path, bytes).unwrap();
        assert!(error(&config).contains("d0.img holds data, which bench would overwrite"));
        config.overwrite = true;
        assert!(Members::open(&config).is_ok());
        config.count = 2;
        assert!(error(&config).contains("d1.img does not exist"));
    }
}
