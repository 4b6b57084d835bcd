//! `sim faults`: runs histories of faults against the engine in virtual time, and checks every byte.
//!
//! A seed determines a history: an array, its clients, and what goes wrong. The [`sim`] crate runs the histories; this
//! command selects them, shows the progress and prints the result ([`report`]). The same seeds give the same result on
//! any number of threads, which the hash of all event logs shows.

mod cuts;
mod digest;
mod kept;
mod report;

use super::bar::Bar;
use crate::commands::arguments::parse_level;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use engine::layout::Level;
use report::FaultsReport;
use rustix::time::{ClockId, clock_gettime};
use sim::campaign::{Campaign, current_seed};
use sim::history::Mode;
use sim::watch::ENDLESS_AFTER;
use std::ops::Range;
use std::process::ExitCode;

/// Most threads: more than any machine has cores.
const JOBS_MAX: u64 = 1024;

/// Arguments of `sim`.
#[derive(clap::Args, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(clap::Subcommand, Debug)]
enum SimCommand {
    /// Run histories with failing drives, power cuts and operator errors, and check every byte
    Faults(FaultsArgs),
    /// Cut the power at every instant of small operations, and check every state that this can leave
    Cuts(cuts::CutsArgs),
    /// Check that predictions run identically on this machine, by the digest that every machine must compute
    Digest,
}

/// Run histories with failing drives, power cuts and operator errors, and check every byte.
///
/// Nothing on this machine is written: drives, time and faults exist in memory only. Exit code 0: every
/// history passed.
#[derive(clap::Args, Clone, Debug)]
struct FaultsArgs {
    /// The seeds from A to B, B not included; or one seed.
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Only arrays of this level: 0, 1, 10 or 5; otherwise the seed decides.
    #[arg(long, value_parser = parse_level)]
    level: Option<Level>,
    /// Which faults may happen; otherwise the seed decides.
    #[arg(long)]
    mode: Option<FaultMode>,
    /// Number of threads; one per core unless given. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=JOBS_MAX))]
    jobs: Option<usize>,
    /// Run each seed twice: both runs must be identical.
    #[arg(long)]
    twice: bool,
    /// Lines of the event log to show for a history that failed.
    #[arg(long, value_name = "N", default_value_t = 40)]
    log_lines: usize,
    /// Print JSON; it contains no times.
    #[arg(long)]
    json: bool,
}

/// [`Mode`] as an option.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FaultMode {
    /// Nothing goes wrong
    Calm,
    /// Only faults that the array must survive without any loss
    Survivable,
    /// Any faults: errors are allowed, wrong bytes are not
    Beyond,
    /// As survivable, and drives lie: lost and misdirected writes, flushes that do nothing. The wrong bytes that this
    /// causes are counted and are no failure
    Lying,
    /// As survivable, and lost drives are plugged in again while the array is served
    Returning,
    /// As survivable, with more shapes of arrays, drives that differ, and faults of more kinds
    Wide,
    /// As beyond, with the arrays, drives and faults of wide
    WideBeyond,
}

impl FaultMode {
    fn mode(self) -> Mode {
        match self {
            FaultMode::Calm => Mode::Calm,
            FaultMode::Survivable => Mode::Survivable,
            FaultMode::Beyond => Mode::Beyond,
            FaultMode::Lying => Mode::Lying,
            FaultMode::Returning => Mode::Returning,
            FaultMode::Wide => Mode::Wide,
            FaultMode::WideBeyond => Mode::WideBeyond,
        }
    }
}

/// Runs `sim`. The exit code is 0 only if every check passed.
///
/// # Errors
/// Standard output, or the folder of --keep, cannot be written.
pub fn run(args: &SimArgs) -> Result<ExitCode> {
    let args = match &args.command {
        SimCommand::Faults(args) => args,
        SimCommand::Cuts(args) => return cuts::run(args),
        SimCommand::Digest => return digest::run(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        seeds: args.seeds.clone(),
        level: args.level,
        mode: args.mode.map(FaultMode::mode),
        jobs: args.jobs.unwrap_or(cores),
        twice: args.twice,
    };
    let bar = Bar::new("histories", args.seeds.end - args.seeds.start);
    let began = clock_gettime(ClockId::ProcessCPUTime);
    tell_seed_of_panic(args);
    let summary = campaign.run(|done| bar.at(done), |seed| give_up(args, seed));
    // Removes the panic hook, so that it does not affect later code.
    let _ = std::panic::take_hook();
    drop(bar);
    let spent = clock_gettime(ClockId::ProcessCPUTime) - began;
    let report = FaultsReport::new(args, &campaign, &summary);
    if args.json {
        print_json(&report)?;
    } else {
        let core_s = spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9;
        print_text(&report.text(core_s))?;
    }
    Ok(if report.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Ends the process with an error that names the seed, because the thread of a history that does not end cannot be
/// stopped.
fn give_up(args: &FaultsArgs, seed: u64) {
    let again = rerun(args, seed);
    let seconds = ENDLESS_AFTER.as_secs();
    let error = anyhow::anyhow!("seed {seed} has not ended in {seconds} s; again: {again}");
    let _ = super::exit_codes::report(&error, args.json);
    std::process::exit(1);
}

/// Installs a panic hook that prints the seed, because a failed assertion ends a release build at once.
fn tell_seed_of_panic(args: &FaultsArgs) {
    let args = args.clone();
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        let Some(seed) = current_seed() else { return };
        if cfg!(panic = "abort") {
            let again = rerun(&args, seed);
            let error = anyhow::anyhow!("seed {seed} broke an assertion; again: {again}");
            let _ = super::exit_codes::report(&error, args.json);
            std::process::exit(1);
        }
    }));
}

/// The command that runs a seed again in the same way.
fn rerun(args: &FaultsArgs, seed: u64) -> String {
    let mut command = format!("fullstripe sim faults --seeds {seed}");
    if let Some(level) = args.level {
        command += &format!(" --level {}", level.number());
    }
    if let Some(mode) = args.mode {
        command += &format!(" --mode {}", report::mode_name(mode.mode()));
    }
    if args.twice {
        command += " --twice";
    }
    command
}

/// `A..B`, or one seed.
fn parse_seeds(text: &str) -> Result<Range<u64>> {
    let (first, end) = match text.split_once("..") {
        Some((first, end)) => (number(first)?, number(end)?),
        None => {
            let seed = number(text)?;
            let end = seed.checked_add(1);
            (seed, end.context("the seed is too large")?)
        }
    };
    if first >= end {
        bail!("{first}..{end} names no seeds; B is the first one not run, so A has to be below it");
    }
    Ok(first..end)
}

fn number(text: &str) -> Result<u64> {
    let parsed = text.trim().parse();
    parsed.with_context(|| format!("'{text}' is not a seed; give A..B or one whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(parse_seeds("3..10").unwrap(), 3..10);
        assert_eq!(parse_seeds("7").unwrap(), 7..8);
        for (text, why) in [
            ("7..7", "names no seeds"),
            ("9..7", "names no seeds"),
            ("a..7", "'a' is not a seed"),
            ("7..", "'' is not a seed"),
            ("-1", "'-1' is not a seed"),
            ("18446744073709551615", "the seed is too large"),
        ] {
            let sentence = format!("{:#}", parse_seeds(text).unwrap_err());
            assert!(
                sentence.starts_with(why) || sentence.contains(why),
                "{sentence}"
            );
        }
    }
}
