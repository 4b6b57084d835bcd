//! `sim faults`: histories of faults against the engine in virtual time, every byte judged.
//!
//! A seed is a history: an array, its clients, and what goes wrong. The [`sim`] crate runs them; this
//! command chooses which, shows how far it is, and tells what came of it ([`report`]). The same seeds give
//! the same result on any number of threads, which the hash of all event logs shows.

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
use report::Report;
use rustix::time::{ClockId, clock_gettime};
use sim::campaign::{Campaign, current_seed};
use sim::history::Mode;
use sim::watch::ENDLESS_AFTER;
use std::ops::Range;
use std::process::ExitCode;

/// Threads at most: more than any machine has cores for.
const JOBS_MAX: u64 = 1024;

/// Arguments of `sim`.
#[derive(clap::Args, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(clap::Subcommand, Debug)]
enum SimCommand {
    /// Run histories in which drives, power and people fail, and judge every byte
    Faults(FaultsArgs),
    /// Cut the power at every instant of small operations, and judge every state that this can leave
    Cuts(cuts::CutsArgs),
    /// Compare a digest of predictions, with everything that happens in their runs, with that of all other machines
    Digest,
}

/// Run histories in which drives, power and people fail, and judge every byte.
///
/// Nothing on this machine is touched: drives, time and faults exist in memory only. Exit code 0: every
/// history held.
#[derive(clap::Args, Clone, Debug)]
struct FaultsArgs {
    /// The seeds from A to B, B not included; or one seed.
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Only arrays of this level: 0, 1, 10 or 5; otherwise the seed decides.
    #[arg(long, value_parser = parse_level)]
    level: Option<Level>,
    /// What faults may do; otherwise the seed decides.
    #[arg(long)]
    mode: Option<FaultMode>,
    /// Threads; as many as the machine has cores unless given. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=JOBS_MAX))]
    jobs: Option<usize>,
    /// Run each seed twice: it has to take the same course.
    #[arg(long)]
    twice: bool,
    /// Lines of the event log that are shown of a history that failed.
    #[arg(long, value_name = "N", default_value_t = 40)]
    log_lines: usize,
    /// Print JSON; it holds no times.
    #[arg(long)]
    json: bool,
}

/// [`Mode`] as an option.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FaultMode {
    /// Nothing goes wrong
    Calm,
    /// What the array has to survive without any loss
    Survivable,
    /// Anything: errors are allowed, wrong bytes are not
    Beyond,
    /// As survivable, and drives lie: lost and misdirected writes, flushes that do nothing. Counted, not judged
    Lying,
    /// As survivable, and drives that were lost are plugged in again while the array serves
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

/// Runs `sim`. The exit code is 0 only if every history held.
///
/// # Errors
/// Standard output, or what is to be kept, cannot be written.
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
    // The hook that told of panics goes again, whoever runs after this.
    let _ = std::panic::take_hook();
    drop(bar);
    let spent = clock_gettime(ClockId::ProcessCPUTime) - began;
    let report = Report::new(args, &campaign, &summary);
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

/// A history that does not end keeps its thread for ever: the process ends without it, and says which it was.
fn give_up(args: &FaultsArgs, seed: u64) {
    let again = rerun(args, seed);
    let seconds = ENDLESS_AFTER.as_secs();
    let error = anyhow::anyhow!("seed {seed} has not ended in {seconds} s; again: {again}");
    let _ = super::exit_codes::report(&error, args.json);
    std::process::exit(1);
}

/// An assertion of the engine that does not hold ends a release build at once: the seed is told before.
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

/// The one command that runs a seed again as it was run.
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
            (
                seed,
                end.context("the last seed is not among the possible ones")?,
            )
        }
    };
    if first >= end {
        bail!("{first}..{end} names no seeds; B is the first one not run, so A has to be below it");
    }
    Ok(first..end)
}

fn number(text: &str) -> Result<u64> {
    let parsed = text.trim().parse();
    parsed.with_context(|| format!("'{text}' is not a seed: A..B or one whole number is wanted"))
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
            ("18446744073709551615", "the last seed"),
        ] {
            let sentence = format!("{:#}", parse_seeds(text).unwrap_err());
            assert!(
                sentence.starts_with(why) || sentence.contains(why),
                "{sentence}"
            );
        }
    }
}
