//! `lab run`: loads in real time on a drive, a file or a modelled drive ([`load`]).

use super::table;
use crate::commands::bar::Bar;
use crate::commands::new_file::write_new;
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::{Context, Result};
use load::session::Session;
use load::target::Target;
use planner::plan::loads::of_file;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use words::duration;

/// Longest run, and most of them: a day, and more than anybody waits for.
const SECONDS_MAX: i64 = 24 * 3600;
const RUNS_MAX: i64 = 1000;

/// Arguments of `lab run`.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Loads by name, as TOML: a file as `plan --workload` takes it. A load with demand_iops keeps that rate, whatever the target
    /// does.
    loads: PathBuf,
    /// What is measured: PATH of a block device or a file, ram:SIZE or null:SIZE, each with the keys of a member
    /// (,model=p4510-2tb imitates that drive).
    #[arg(long, value_name = "DRIVE")]
    target: String,
    /// The name of the target again: loads that write destroy what is on it. Asked for in a terminal.
    #[arg(long, value_name = "DRIVE")]
    destroy_data: Option<String>,
    /// Let fio run the loads without a demanded rate, on a block device or a file. A demanded rate is always kept by this program.
    #[arg(long)]
    fio: bool,
    /// How often all loads are run; five are the fewest that give intervals.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX))]
    runs: u32,
    /// Seconds that are measured of a load that does not say.
    #[arg(long, value_name = "S", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    seconds: u32,
    /// Seconds before that, which do not count.
    #[arg(long, value_name = "S", default_value = "2", value_parser = clap::value_parser!(u32).range(0..=SECONDS_MAX))]
    skip_seconds: u32,
    /// Offsets, times and orders follow from this number.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write the result, as JSON, to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `lab run`.
///
/// # Errors
/// The loads cannot be read or do not fit the target, the target cannot be used or would be destroyed unasked, or a request failed:
/// then what was measured before is printed and written all the same.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let session = Session {
        loads: of_file(&args.loads)?,
        runs: args.runs,
        seconds: args.seconds,
        skip_seconds: args.skip_seconds,
        seed: args.seed,
        by_fio: args.fio,
    };
    let destroyed = match (&args.destroy_data, session.writes()) {
        (None, true) => typed(args)?,
        (destroyed, _) => destroyed.clone(),
    };
    let mut target = Target::open(&args.target, session.writes(), destroyed.as_deref())?;
    // Made before anything runs, so that hours of results are not lost to a name that cannot be written.
    if let Some(output) = &args.output {
        write_new(output, "")?;
    }
    let time = session.time();
    let count = session.loads.len() * args.runs as usize;
    print_note(&format!(
        "{count} runs on {}: {}",
        args.target,
        duration(time.as_secs())
    ));
    let bar = Bar::new("seconds", time.as_secs());
    let found = session
        .run(&mut target, |done| bar.at(done.as_secs()))
        .with_context(|| args.loads.display().to_string());
    drop(bar);
    if let (Err(_), Some(output)) = (&found, &args.output) {
        let _ = std::fs::remove_file(output);
    }
    let found = found?;
    if args.json {
        print_json(&found.results)?;
    } else {
        print_text(&table::text(&found.results, Paper::output().columns))?;
    }
    if let Some(output) = &args.output {
        let failed = || format!("cannot write {}", output.display());
        std::fs::write(output, found.results.to_json()).with_context(failed)?;
    }
    match found.failure {
        Some(failure) => Err(failure.context(args.loads.display().to_string())),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Lets the user type what may be destroyed; `None` without a terminal.
fn typed(args: &RunArgs) -> Result<Option<String>> {
    let is_memory = args.target.starts_with("ram:") || args.target.starts_with("null:");
    if is_memory || args.json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal()
    {
        return Ok(None);
    }
    write!(
        std::io::stderr(),
        "These loads write to {}: what is on it is lost. Type its name to go on: ",
        args.target
    )
    .context("cannot ask on the terminal")?;
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.context("the answer cannot be read")?;
    Ok(Some(answer.trim().to_owned()))
}
