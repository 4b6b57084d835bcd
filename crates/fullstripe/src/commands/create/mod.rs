//! `create`: a new volume, in a new container or beside the volumes of an existing one.
//!
//! The order of steps keeps the drives unchanged for as long as possible: open the drives exclusively, look for what
//! they hold ([`container::foreign`]), build the record in memory so that impossible requests fail before anything is
//! written, save what will be overwritten, remove foreign signatures, zero the members where that is deterministic
//! ([`zero`]), and write the record last.

mod name;
mod summary;
mod zero;

use super::write_hole::WriteHole;
use crate::commands::arguments::{check_chunk, parse_level, parse_size};
use crate::terminal::print::{print_json, print_text};
use anyhow::{Context, Result, anyhow, bail};
use assembly::level::in_format;
use container::assemble::geometry_of;
use container::backup::Backup;
use container::backup::place::keep;
use container::bitmap::new_bitmap;
use container::open::for_change;
use container::probe::{Member, Probed};
use container::write::{finish_update, write_record};
use container::write_hole::establish;
use container::{conflicts, occupied};
use engine::layout::Level;
use metadata::imsm::Mpb;
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::build::{BuildError, ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::choose::{Assembly, choose};
use metadata::imsm::geometry::{GeometryError, SizeRequest};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use words::{did_you_mean, exact_size, typed_size};

/// The default chunk: that of NVMe firmware, and the largest that firmware accepts.
const DEFAULT_CHUNK_BYTES: u64 = 128 << 10;
/// Possible sizes of a volume.
const VOLUME_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 60;

/// Arguments of `create`.
#[derive(clap::Args, Debug)]
pub struct CreateArgs {
    /// Name of the volume: 1 to 16 letters, digits, dots, underscores or hyphens.
    name: String,
    /// RAID level: 0, 1, 5 or 10.
    #[arg(long, short, value_parser = parse_level)]
    level: Level,
    /// Chunk size: contiguous bytes on one drive, a power of two from 4k to 1m; 128k unless given.
    #[arg(long, value_parser = parse_size)]
    chunk: Option<u64>,
    /// Usable size; the largest possible unless given. Rounded down to a multiple of 1 MiB on each drive.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Protection of writes that a crash interrupts; unless given, log on RAID 5 and off on other levels.
    #[arg(long, value_enum)]
    write_hole: Option<WriteHole>,
    /// Size of the region that one bit of the bitmap covers; needs --wide. Use sizes other than 64m with fullstripe
    /// only: md reads every size as 64m.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "wide")]
    bitmap_region: Option<u64>,
    /// Allow layouts that firmware or older mdadm cannot read, and say which of them cannot.
    #[arg(long)]
    wide: bool,
    /// Destroy what the drives hold; the start and end of each are saved to a backup file first.
    #[arg(long)]
    force: bool,
    /// Do not zero the drives; an initial sync establishes redundancy when the volume is served.
    #[arg(long)]
    no_zero: bool,
    /// Folder for the backup of what is overwritten.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The members in slot order: PATH[,serial=S][,sector=N]. If they are all the drives of an existing
    /// container, the volume is added to that container.
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
}

/// Refuses a size below the minimum, and suggests what was meant if its unit was forgotten.
fn check_size(bytes: u64) -> Result<()> {
    if bytes < *VOLUME_BYTES.start() {
        let least = typed_size(*VOLUME_BYTES.start());
        let meant = did_you_mean(bytes, &VOLUME_BYTES);
        bail!(
            "--size: a volume has at least {least}, not {}{meant}",
            exact_size(bytes)
        );
    }
    Ok(())
}

/// Runs `create`.
///
/// # Errors
/// The volume is not possible, or a drive fails. Drives that hold data are a refusal.
pub fn run(args: &CreateArgs) -> Result<ExitCode> {
    create(args)
}

fn create(args: &CreateArgs) -> Result<ExitCode> {
    let spec = spec(args)?;
    args.level
        .check_members(args.drives.len())
        .map_err(anyhow::Error::msg)?;
    let drives = for_change(&args.drives)?;
    require_lasting(&drives)?;
    let created = match whole_container(&drives) {
        Some(assembly) => {
            conflicts::refuse(&drives)?;
            add_volume(args, spec, &drives, &assembly)?
        }
        None => new_container(args, spec, &drives)?,
    };
    let summary = summary::of(&created, &drives, &args.drives);
    if args.json {
        print_json(&summary)?;
    } else {
        print_text(&summary::text(&summary))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What has been created.
struct Created {
    mpb: Mpb,
    /// Number of the new volume.
    volume: usize,
    /// Where the copy of what was overwritten is.
    backup: Option<PathBuf>,
    /// Why the members' redundancy has not been established, if it has not.
    unsynced: Option<String>,
    /// What was destroyed.
    destroyed: Vec<String>,
}

fn spec(args: &CreateArgs) -> Result<VolumeSpec> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = name::parse(&args.name, &words.collect::<Vec<String>>())?;
    if args.level == Level::Raid1 && args.chunk.is_some() {
        bail!("a RAID 1 has no chunks; leave out --chunk");
    }
    let chunk_bytes = args.chunk.unwrap_or(DEFAULT_CHUNK_BYTES);
    let chunk_bytes = check_chunk(chunk_bytes).map_err(|error| anyhow!("--chunk: {error}"))?;
    args.size.map_or(Ok(()), check_size)?;
    if args.level != Level::Raid5 && args.write_hole == Some(WriteHole::Log) {
        bail!(
            "a {} has no write hole that a log could close; leave out --write-hole log",
            args.level
        );
    }
    if args.level == Level::Raid0 && args.write_hole == Some(WriteHole::Bitmap) {
        bail!(
            "a {} has no redundancy that a bitmap could help to synchronise; leave out --write-hole bitmap",
            args.level
        );
    }
    if args.bitmap_region.is_some() && args.write_hole != Some(WriteHole::Bitmap) {
        bail!("--bitmap-region is about --write-hole bitmap; give both or neither");
    }
    Ok(VolumeSpec {
        name,
        level: in_format(args.level),
        strip_sectors: chunk_bytes / SECTOR_BYTES as u32,
        size: args
            .size
            .map_or(SizeRequest::Largest, |bytes| SizeRequest::Volume {
                sectors: bytes / SECTOR_BYTES,
            }),
        born_in_sync: false,
        allow_wide: args.wide,
    })
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

fn new_container(args: &CreateArgs, spec: VolumeSpec, drives: &[Probed]) -> Result<Created> {
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
    require_bitmap(args, &draft, 0, drives)?;
    let occupied = occupied::occupied(drives)?;
    if !args.force {
        occupied::refuse(drives, &occupied)?;
    }
    let backup = occupied::save("create", drives, &occupied, args.backup.as_deref())?;
    occupied::clear(drives, &occupied)?;
    let unsynced = zero::establish(args.no_zero, &draft.volumes[0], drives)?;
    let mut mpb = build(unsynced.is_none())?;
    if unsynced.is_some() {
        mpb.start_initial_sync(0)?;
    }
    let all: Vec<&Probed> = drives.iter().collect();
    // Every drive has this first record, so from now on a returning drive can be rebuilt by the bitmap's marks.
    let first = mpb.generation;
    protect(args, &mut mpb, 0, &all, first)?;
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
    args: &CreateArgs,
    spec: VolumeSpec,
    drives: &[Probed],
    assembly: &Assembly,
) -> Result<Created> {
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
    require_bitmap(args, &draft, draft.volumes.len() - 1, drives)?;
    let all: Vec<&Probed> = drives.iter().collect();
    let backup = keep(
        &Backup::of_metadata("create", &all)?,
        args.backup.as_deref(),
    )?;
    let at = draft.volumes.len() - 1;
    let unsynced = zero::establish(args.no_zero, &draft.volumes[at], drives)?;
    let mut mpb = build(unsynced.is_none())?;
    if unsynced.is_some() {
        mpb.start_initial_sync(at)?;
    }
    let next = mpb.generation.saturating_add(1);
    protect(args, &mut mpb, at, &all, next)?;
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
fn require_bitmap(args: &CreateArgs, mpb: &Mpb, at: usize, drives: &[Probed]) -> Result<()> {
    if args.write_hole != Some(WriteHole::Bitmap) {
        return Ok(());
    }
    new_bitmap(mpb, at, drives[0].sector, region_bytes(args)).map(drop)
}

/// The requested region size; 0, which is refused later, if it does not fit a header.
fn region_bytes(args: &CreateArgs) -> Option<u32> {
    let wanted = args.bitmap_region?;
    Some(u32::try_from(wanted).unwrap_or(0))
}

/// Gives a new volume the requested protection against interrupted writes; the record of `generation` will be the first
/// that lists the volume.
fn protect(
    args: &CreateArgs,
    mpb: &mut Mpb,
    at: usize,
    drives: &[&Probed],
    generation: u32,
) -> Result<()> {
    let usual = match args.level {
        Level::Raid5 => WriteHole::Log,
        Level::Raid0 | Level::Raid1 | Level::Raid10 => WriteHole::Off,
    };
    let wanted = args.write_hole.unwrap_or(usual);
    if args.level == Level::Raid0 {
        return Ok(());
    }
    establish(
        wanted.policy(),
        mpb,
        at,
        drives,
        region_bytes(args),
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
