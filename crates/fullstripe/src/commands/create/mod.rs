//! `create`: a new volume, in a new container or beside the volumes of an existing one ([`container::create`]).

mod as_vroc;
mod name;
mod summary;

use super::bar::Bar;
use super::write_hole::WriteHole;
use crate::commands::arguments::{check_chunk, parse_level, parse_size};
use crate::commands::vroc;
use crate::commands::waiting;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, anyhow, bail};
use assembly::level::in_format;
use container::create::NewVolume;
use container::open::for_change;
use engine::layout::Level;
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::build::VolumeSpec;
use metadata::imsm::geometry::SizeRequest;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
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
    /// Refuse an array that Intel VROC would refuse, and say which keys it would want; =boot if its firmware is to boot from
    /// the array.
    #[arg(long, value_name = "PURPOSE", num_args = 0..=1, require_equals = true, default_missing_value = "data", value_parser = vroc::purpose)]
    as_vroc: Option<::vroc::Purpose>,
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
    let wanted = wanted(args)?;
    args.level
        .check_members(args.drives.len())
        .map_err(anyhow::Error::msg)?;
    let drives = for_change(&args.drives)?;
    waiting::refuse(&drives)?;
    let answer = match args.as_vroc {
        Some(purpose) => Some(as_vroc::answer(&wanted, &drives, purpose)?),
        None => None,
    };
    // The bar shows no rate: zeroing transfers no data, so bytes per second would not be the drive's speed.
    let bar = OnceLock::new();
    let watch = |more_bytes, all_bytes| {
        bar.get_or_init(|| Bar::new("zeroing", all_bytes))
            .advance(more_bytes);
    };
    let created = container::create::create(&wanted, &drives, &watch)?;
    drop(bar);
    let summary = summary::of(&created, &drives, &args.drives, answer);
    if args.json {
        print_json(&summary)?;
    } else {
        print_text(&summary::text(&summary))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted(args: &CreateArgs) -> Result<NewVolume> {
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
    let spec = VolumeSpec {
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
    };
    Ok(NewVolume {
        spec,
        write_hole: args.write_hole.map(WriteHole::policy),
        // 0, which is refused later, if it does not fit a header.
        bitmap_region_bytes: args
            .bitmap_region
            .map(|bytes| u32::try_from(bytes).unwrap_or(0)),
        force: args.force,
        no_zero: args.no_zero,
        backup_folder: args.backup.clone(),
    })
}
