//! Creates a volume: in a new container, or beside the volumes of an existing one.
//!
//! The order of steps keeps the drives unchanged for as long as possible: look for what they hold ([`crate::foreign`]),
//! build the record in memory so that impossible requests fail before anything is written, save what will be
//! overwritten, remove foreign signatures, zero the members where that is deterministic ([`crate::zero`]), and write the
//! record last.

use crate::assemble::geometry_of;
use crate::backup::Backup;
use crate::backup::place::keep;
use crate::bitmap::new_bitmap;
use crate::probe::{Member, Probed};
use crate::write::{finish_update, write_record};
use crate::write_hole::establish;
use crate::zero::{self, Watch};
use crate::{conflicts, occupied};
use anyhow::{Context, Result, bail};
use metadata::imsm::build::{BuildError, ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::choose::{Assembly, choose};
use metadata::imsm::geometry::{GeometryError, Level};
use metadata::imsm::{Mpb, WriteHolePolicy};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The volume that is wanted.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// Name, level, chunk and size.
    pub spec: VolumeSpec,
    /// Protection of writes that a crash interrupts; unless given, a log on RAID 5 and none on other levels.
    pub write_hole: Option<WriteHolePolicy>,
    /// Bytes that one bit of the bitmap covers, if that is not the usual size.
    pub bitmap_region_bytes: Option<u32>,
    /// Destroy what the drives hold.
    pub force: bool,
    /// Leave the drives as they are; an initial sync makes them redundant later.
    pub no_zero: bool,
    /// Where the backup of what is overwritten goes, if not where backups are kept.
    pub backup_folder: Option<PathBuf>,
}

/// What has been created.
#[derive(Debug)]
pub struct Created {
    /// The record.
    pub mpb: Mpb,
    /// Number of the new volume.
    pub volume: usize,
    /// Where the copy of what was overwritten is.
    pub backup: Option<PathBuf>,
    /// Why the members' redundancy has not been established, if it has not.
    pub unsynced: Option<String>,
    /// What was destroyed.
    pub destroyed: Vec<String>,
}

/// Creates a volume on `drives`, which are opened for changes. `watch` hears how far zeroing is.
///
/// # Errors
/// The volume is not possible, or a drive fails. Drives that hold data are a refusal without `force`.
pub fn create(wanted: &NewVolume, drives: &[Probed], watch: Watch) -> Result<Created> {
    require_lasting(drives)?;
    match whole_container(drives) {
        Some(assembly) => {
            conflicts::refuse(drives)?;
            add_volume(wanted, drives, &assembly, watch)
        }
        None => new_container(wanted, drives, watch),
    }
}

/// Refuses members in this process's memory, whose metadata would be lost when it ends, and mixed sector sizes.
fn require_lasting(drives: &[Probed]) -> Result<()> {
    if let Some(probed) = drives.iter().find(|probed| probed.path().is_none()) {
        bail!(
            "{} is gone when this command ends; an array is made on files or block devices",
            probed.drive.name()
        );
    }
    let sector = |probed: &Probed| probed.drive.sector_bytes();
    let first = &drives[0];
    if let Some(other) = drives.iter().find(|probed| sector(probed) != sector(first)) {
        bail!(
            "{} has sectors of {} bytes and {} of {}; all members need the same",
            first.drive.name(),
            sector(first),
            other.drive.name(),
            sector(other)
        );
    }
    Ok(())
}

/// The container whose members are exactly `drives`, if each of them serves in it.
fn whole_container(drives: &[Probed]) -> Option<Assembly> {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let mut choice = choose(&candidates);
    if choice.containers.len() != 1 {
        return None;
    }
    let assembly = choice.containers.remove(0).outcome.ok()?;
    let whole = assembly.members.len() == drives.len()
        && assembly.present().into_iter().all(|present| present);
    whole.then_some(assembly)
}

fn new_container(wanted: &NewVolume, drives: &[Probed], watch: Watch) -> Result<Created> {
    let spec = wanted.spec;
    let identity = new_identity()?;
    let members: Vec<NewDrive> = drives
        .iter()
        .map(|probed| NewDrive {
            serial: probed.serial,
            total_sectors: probed.placement.total_sectors(),
        })
        .collect();
    let build = |born_in_sync| {
        let spec = VolumeSpec {
            born_in_sync,
            ..spec
        };
        Mpb::create(&members, &spec, identity)
    };
    let draft = build(false).map_err(|error| explain(error, drives))?;
    require_servable(&draft, drives)?;
    require_bitmap(wanted, &draft, 0, drives)?;
    let occupied = occupied::occupied(drives)?;
    if !wanted.force {
        occupied::refuse(drives, &occupied)?;
    }
    let backup = occupied::save("create", drives, &occupied, wanted.backup_folder.as_deref())?;
    occupied::clear(drives, &occupied)?;
    let unsynced = zero::establish(wanted.no_zero, &draft.volumes[0], drives, watch)?;
    let mut mpb = build(unsynced.is_none())?;
    if unsynced.is_some() {
        mpb.start_initial_sync(0)?;
    }
    let all: Vec<&Probed> = drives.iter().collect();
    // Every drive has this first record, so from now on a returning drive can be rebuilt by the bitmap's marks.
    let first = mpb.generation;
    protect(wanted, &mut mpb, 0, &all, first)?;
    write_record(&mpb, &all)?;
    Ok(Created {
        mpb,
        volume: 0,
        backup,
        unsynced,
        destroyed: occupied::sentences(drives, &occupied),
    })
}

fn add_volume(
    wanted: &NewVolume,
    drives: &[Probed],
    assembly: &Assembly,
    watch: Watch,
) -> Result<Created> {
    let spec = wanted.spec;
    let build = |born_in_sync| {
        let mut mpb = assembly.mpb.clone();
        mpb.add_volume(&VolumeSpec {
            born_in_sync,
            ..spec
        })?;
        Ok(mpb)
    };
    let draft = build(false).map_err(|error| explain(error, drives))?;
    require_servable(&draft, drives)?;
    require_bitmap(wanted, &draft, draft.volumes.len() - 1, drives)?;
    let all: Vec<&Probed> = drives.iter().collect();
    let backup = keep(
        &Backup::of_metadata("create", &all)?,
        wanted.backup_folder.as_deref(),
    )?;
    let at = draft.volumes.len() - 1;
    let unsynced = zero::establish(wanted.no_zero, &draft.volumes[at], drives, watch)?;
    let mut mpb = build(unsynced.is_none())?;
    if unsynced.is_some() {
        mpb.start_initial_sync(at)?;
    }
    let next = mpb.generation.saturating_add(1);
    protect(wanted, &mut mpb, at, &all, next)?;
    finish_update(assembly.unfinished.as_ref(), drives)?;
    mpb.bump_generation();
    write_record(&mpb, &all)?;
    Ok(Created {
        mpb,
        volume: at,
        backup: Some(backup),
        unsynced,
        destroyed: Vec::new(),
    })
}

/// Refuses an impossible bitmap before anything is written.
fn require_bitmap(wanted: &NewVolume, mpb: &Mpb, at: usize, drives: &[Probed]) -> Result<()> {
    if wanted.write_hole != Some(WriteHolePolicy::Bitmap) {
        return Ok(());
    }
    new_bitmap(mpb, at, drives[0].sector, wanted.bitmap_region_bytes).map(drop)
}

/// Gives a new volume the requested protection against interrupted writes; the record of `generation` will be the first
/// that lists the volume.
fn protect(
    wanted: &NewVolume,
    mpb: &mut Mpb,
    at: usize,
    drives: &[&Probed],
    generation: u32,
) -> Result<()> {
    let level = wanted.spec.level;
    if level == Level::Raid0 {
        return Ok(());
    }
    let usual = match level {
        Level::Raid5 => WriteHolePolicy::Log,
        _ => WriteHolePolicy::Off,
    };
    establish(
        wanted.write_hole.unwrap_or(usual),
        mpb,
        at,
        drives,
        wanted.bitmap_region_bytes,
        generation,
    )
}

/// An error of the metadata format, with a hint that the format itself cannot give.
fn explain(error: BuildError, drives: &[Probed]) -> anyhow::Error {
    let smallest = drives
        .iter()
        .min_by_key(|probed| probed.placement.total_sectors());
    let hint = match (&error, smallest) {
        (BuildError::Geometry(GeometryError::NoSpace { .. }), Some(probed)) => format!(
            "; the smallest drive is {} with {}",
            probed.drive.name(),
            words::size(probed.drive.size_bytes())
        ),
        (BuildError::DuplicateName { .. }, _) => "; choose another".to_owned(),
        (BuildError::Degraded { .. }, _) => "; rebuild it first".to_owned(),
        _ => String::new(),
    };
    anyhow::anyhow!("{error}{hint}")
}

/// Refuses what the format can express but the engine cannot serve.
fn require_servable(mpb: &Mpb, drives: &[Probed]) -> Result<()> {
    let most = engine::limits::VOLUMES_MAX;
    if mpb.volumes.len() > most {
        bail!("the drives hold {most} volumes already, and no more are supported");
    }
    let sector_bytes = drives[0].drive.sector_bytes();
    mpb.volumes
        .iter()
        .try_for_each(|volume| geometry_of(volume, sector_bytes).map(drop))
}

fn new_identity() -> Result<ContainerIdentity> {
    use std::io::Read;
    let mut random = [0; 4];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .context("cannot get a random number for the container's identity")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(ContainerIdentity {
        family_num: u32::from_le_bytes(random).max(1),
        creation_time: now.map_or(0, |since| since.as_secs()),
    })
}
