//! `assemble`: what `serve` would do with these drives, without doing it.
//!
//! It reports which copy of the record is chosen, which drives are evicted and why, how each volume would be started,
//! and which option would start a refused volume. Nothing is written.

use super::describe::{self, ContainerReport, DrivesReport, text};
use super::exit_codes::{DEGRADED, REFUSED};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use container::assemble::wrong_drives::{no_array, several_arrays};
use container::conflicts;
use container::open::to_look;
use container::refusal::refused;
use metadata::imsm::start::StartOptions;
use std::process::ExitCode;

/// Arguments of `assemble`.
#[derive(clap::Args, Debug)]
pub struct AssembleArgs {
    /// The array's drives: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    #[command(flatten)]
    accepted: Accepted,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the user accepts; the same options start a volume in `serve`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Accepted {
    /// Accept members that are missing without having been marked failed.
    #[arg(long)]
    degraded: bool,
    /// Accept that a RAID 5 without one member may return outdated bytes where writes were interrupted.
    #[arg(long)]
    accept_write_hole: bool,
    /// Accept that a RAID 5 without one member holds correct data only where it was synchronised or written.
    #[arg(long)]
    accept_unsynced: bool,
    /// Take back a drive that was marked failed and without which a volume cannot start, trusting that nothing was
    /// written to that volume while the drive was away.
    #[arg(long)]
    trust_returned_drive: bool,
}

impl Accepted {
    /// As the options of the start rules.
    #[must_use]
    pub fn options(self) -> StartOptions {
        StartOptions {
            degraded: self.degraded,
            accept_write_hole: self.accept_write_hole,
            accept_unsynced: self.accept_unsynced,
            trust_returned_drive: self.trust_returned_drive,
        }
    }
}

/// Runs `assemble`. Exit code 0: every volume starts writable and with full redundancy; [`REFUSED`]: nothing starts;
/// [`DEGRADED`]: anything between.
///
/// # Errors
/// A drive cannot be read, or none holds an array.
pub fn run(args: &AssembleArgs) -> Result<ExitCode> {
    assemble(args)
}

fn assemble(args: &AssembleArgs) -> Result<ExitCode> {
    let drives = to_look(&args.drives)?;
    let report = describe::report(&drives, args.accepted.options());
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&text::of_report(&report, Paper::output()))?;
    }
    conflicts::refuse(&drives)?;
    match &report.containers[..] {
        [] => bail!(no_array(&drives)),
        [container] => Ok(ExitCode::from(verdict(container, &report))),
        _ => Err(refused(several_arrays(&drives))),
    }
}

fn verdict(container: &ContainerReport, report: &DrivesReport) -> u8 {
    let refused = container.refused.is_some()
        || container
            .volumes
            .iter()
            .all(|volume| volume.start.mode == "refused");
    let whole = container
        .volumes
        .iter()
        .all(|volume| volume.state == "optimal" && volume.start.mode == "read-write")
        && report.damaged.is_empty();
    match (refused, whole) {
        (true, _) => REFUSED,
        (false, false) => DEGRADED,
        (false, true) => 0,
    }
}
