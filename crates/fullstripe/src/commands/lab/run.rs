//! `lab run`: loads in real time on a drive, a file or a modelled drive ([`load`]).

use super::table;
use crate::commands::bar::Bar;
use crate::commands::new_file::write_new;
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::{Context, Result, ensure};
use container::whole_file::replace;
use lab::schema::results::Results;
use load::journal::Journal;
use load::requests::read_traces;
use load::session::Session;
use load::target::Target;
use planner::plan::loads::of_file;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use words::{duration, number, size};

/// Longest run, and most of them: a day, and more than anybody waits for.
const SECONDS_MAX: i64 = 24 * 3600;
const RUNS_MAX: i64 = 1000;

/// Arguments of `lab run`.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Loads by name, as TOML: a file as `plan --workload` takes it. A load with demand_iops or demand_pct keeps its rate, and one with
    /// a trace its times, whatever the target does.
    loads: PathBuf,
    /// What is measured: PATH of a block device or a file, ram:SIZE or null:SIZE, each with the keys of a member
    /// (,model=p4510-2tb imitates that drive).
    #[arg(long, value_name = "DRIVE")]
    target: String,
    /// The name of the target again: loads that write destroy what is on it. Asked for in a terminal.
    #[arg(long, value_name = "DRIVE")]
    destroy_data: Option<String>,
    /// Let fio run the loads without a demanded rate or a trace, on a block device or a file. The others are always run by this program.
    #[arg(long)]
    fio: bool,
    /// How often all loads are run; five are the fewest that give intervals.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX))]
    runs: u32,
    /// Seconds that are measured of a load that does not say; a trace is replayed to its end.
    #[arg(long, value_name = "S", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    seconds: u32,
    /// Seconds before that, which do not count; none of a trace, unless its load says so.
    #[arg(long, value_name = "S", default_value = "2", value_parser = clap::value_parser!(u32).range(0..=SECONDS_MAX))]
    skip_seconds: u32,
    /// Offsets, times and orders follow from this number.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write the result, as JSON, to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on with the runs that --output began and that were interrupted.
    #[arg(long, requires = "output")]
    resume: bool,
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
    let loads = of_file(&args.loads)?;
    let folder = args.loads.parent().unwrap_or(Path::new(""));
    let session = Session {
        traces: read_traces(&loads, folder)?,
        loads,
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
    let of_loads = || args.loads.display().to_string();
    let announced = announced(&session, &target, args);
    let prepared = session.prepare(&mut target).with_context(of_loads)?;
    let mut journal = journal(args)?;
    print_note(&announced);
    let time = session.time();
    let bar = Bar::new("seconds", time.as_secs());
    let found = prepared.run(journal.as_mut(), |done| bar.at(done.as_secs()));
    drop(bar);
    let found = found.with_context(of_loads)?;
    if args.json {
        print_json(&found.results)?;
    } else {
        print_text(&table::text(&found.results, Paper::output().columns))?;
    }
    if let Some(output) = &args.output {
        replace(output, found.results.to_json().as_bytes(), 0o644)
            .with_context(|| format!("cannot write {}", output.display()))?;
    }
    if let Some(failure) = found.failure {
        let failure = failure.context(of_loads());
        return Err(match &args.output {
            Some(output) => failure.context(format!(
                "not all runs were made; {} has the figures of those that were, and --resume makes the others",
                output.display()
            )),
            None => failure,
        });
    }
    if let Some(journal) = journal {
        journal.remove()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file beside the result that keeps what was measured until the result is complete.
fn journal(args: &RunArgs) -> Result<Option<Journal>> {
    let Some(output) = &args.output else {
        return Ok(None);
    };
    let mut path = output.clone().into_os_string();
    path.push(".part");
    let path = PathBuf::from(path);
    if args.resume {
        let journal = Journal::resume(&path)?;
        check_output(output, &args.target)?;
        return Ok(Some(journal));
    }
    let journal = Journal::begin(&path)?;
    // A name that cannot be written is told before hours of runs.
    if let Err(refused) = write_new(output, "") {
        journal.remove()?;
        return Err(refused);
    }
    Ok(Some(journal))
}

/// Checks that the result of an interrupted session can be written, and that nothing of somebody else is lost then: the file is missing,
/// empty, or a result of this target.
fn check_output(output: &Path, target: &str) -> Result<()> {
    let name = output.display();
    let opened = File::options().create(true).append(true).open(output);
    opened.with_context(|| format!("cannot write {name}"))?;
    let text = std::fs::read_to_string(output).with_context(|| format!("cannot read {name}"))?;
    let is_own = || {
        let results = Results::from_json(&name.to_string(), &text).ok();
        let conditions = results.and_then(|results| results.conditions);
        conditions.is_some_and(|conditions| conditions.target == target)
    };
    ensure!(
        text.is_empty() || is_own(),
        "{name} is no result of {target}, so it would be lost; move it away"
    );
    Ok(())
}

/// What is about to happen, in a line.
fn announced(session: &Session, target: &Target, args: &RunArgs) -> String {
    let count = session.loads.len() * session.runs as usize;
    let mut line = format!(
        "{count} runs on {}: {}",
        args.target,
        duration(session.time().as_secs())
    );
    if session.writes() {
        line += &match session.written_about(target.link_bytes_per_s()) {
            Some(bytes) => format!(
                "; they write about {} ({} times what the target holds)",
                size(bytes as u64),
                number(bytes / target.size_bytes() as f64)
            ),
            None => "; they write as much as the target takes".to_owned(),
        };
    }
    if args.resume {
        line += "; what was measured before is not run again";
    } else if let Some(output) = &args.output {
        line += &format!(
            "; if they are interrupted, --resume goes on from {}.part",
            output.display()
        );
    }
    line
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
