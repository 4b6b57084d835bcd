//! `fullstripe demo`: shows on real files under real load that the array keeps its promises, and checks each claim.
//!
//! Everything is done as a user would do it: this binary is run with the command lines that are printed, fio makes the
//! load, and mdadm and nbdinfo check the result where they are installed. In order: [`place`] finds room for the files,
//! [`story`] runs the steps, and [`scaling`] compares measured speed with what the members allow. [`checks`] counts the
//! claims that hold; the first claim that does not hold ends the demonstration with the evidence. [`guard`] removes
//! everything, however the demonstration ends.

mod checks;
mod fio;
mod guard;
mod mdadm;
mod place;
mod programs;
mod scaling;
mod screen;
mod server;
mod story;

use crate::terminal::Tone;
use crate::terminal::print::print_json;
use anyhow::{Result, bail};
use checks::{Check, Checks, Failed};
use guard::{Guard, Interrupted};
use programs::Programs;
use scaling::{Plan, Point};
use screen::Screen;
use serde::Serialize;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use story::{Sizes, Story};

/// Lines of a server's log that are shown when something has failed.
const LOG_LINES: usize = 15;

/// Show, on files, that data survives failed drives and crashes, and that speed scales; every claim is checked.
///
/// The files take 2.5 GiB at most, in $TMPDIR if it has room, else in /tmp or /var/tmp, or in /dev/shm if
/// only that has room; they are removed at the end.
#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// Smaller files and fewer points: done in a minute
    #[arg(long)]
    quick: bool,
    /// Keep the folder with drives, job files and logs; it is in $TMPDIR, or elsewhere if that has no room
    #[arg(long)]
    keep: bool,
    /// Print a summary as JSON on standard output, and the story on standard error
    #[arg(long)]
    json: bool,
}

/// The result for programs.
#[derive(Serialize)]
struct Summary<'a> {
    /// Version of this schema: 1.
    version: u32,
    passed: bool,
    /// Why the demonstration failed.
    failure: Option<String>,
    seconds: f64,
    checks: &'a [Check],
    scaling: &'a [Point],
}

/// What a demonstration has found out so far.
#[derive(Default)]
struct Seen {
    checks: Checks,
    points: Vec<Point>,
    folder: Option<PathBuf>,
    /// The last lines of the servers' output, if something has failed.
    log: String,
}

/// Runs the demonstration. The exit code is 0 only if every claim held.
///
/// # Errors
/// A program that the demonstration needs is missing, or the system refuses something that it needs.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    require_fio()?;
    let began = Instant::now();
    let guard = Guard::watch()?;
    let mut screen = Screen::open(args.json);
    let mut seen = Seen::default();
    clear_after_panic(&guard);
    let played = play(args, &guard, &mut screen, &mut seen);
    // A signal ends the processes, so any failure after a signal is reported as the signal.
    let result = played.map_err(|error| guard.check().err().unwrap_or(error));
    if args.keep {
        guard.keep_folder();
    }
    screen.progress("clearing away");
    guard.clear();
    screen.still();
    let seconds = began.elapsed().as_secs_f64();
    let code = conclude(&mut screen, &seen, &result, seconds);
    if let Some(folder) = seen.folder.as_ref().filter(|_| args.keep) {
        screen.line(&format!("    everything is kept in {}", folder.display()));
    }
    if args.json {
        let summary = Summary {
            version: 1,
            passed: result.is_ok(),
            failure: result.as_ref().err().map(|error| format!("{error:#}")),
            seconds,
            checks: &seen.checks.all,
            scaling: &seen.points,
        };
        print_json(&summary)?;
    }
    Ok(code)
}

/// Removes everything registered at a panic, because a release build then ends without unwinding.
fn clear_after_panic(guard: &Guard) {
    let guard = guard.clone();
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        guard.clear_if_free();
    }));
}

fn play(args: &DemoArgs, guard: &Guard, screen: &mut Screen, seen: &mut Seen) -> Result<()> {
    let sizes = Sizes::new(args.quick);
    let place = place::make(guard, sizes.needed_bytes())?;
    seen.folder = Some(place.folder.clone());
    let title = screen.paint(Tone::Strong, "fullstripe demo");
    let fate = if args.keep {
        "kept"
    } else {
        "removed at the end"
    };
    let time = if args.quick {
        "a minute"
    } else {
        "a minute and a half"
    };
    let rest = format!("  about {time}, in {} ({fate})", place.folder.display());
    let rest = screen.paint(Tone::Quiet, &rest);
    screen.line(&format!("{title}{rest}"));
    let programs = Programs::new(guard.clone(), &place.folder)?;
    let told = Story::new(screen, &mut seen.checks, &programs, sizes).tell(&place);
    if told.is_err() {
        seen.log = log_ends(&programs);
    }
    let number = told? + 1;
    if !args.keep {
        // Some file systems take long to delete large files, so this begins now, when they are no longer needed. The
        // removal at the end waits for this one.
        let guard = guard.clone();
        std::thread::spawn(move || guard.clear());
    }
    let title = "Does it scale? Measured against what the members allow";
    screen.step(number, title);
    seen.checks.step(title);
    Plan::new(args.quick).run(screen, &mut seen.checks, guard, &mut seen.points)
}

/// Prints how the demonstration ended.
fn conclude(screen: &mut Screen, seen: &Seen, result: &Result<()>, seconds: f64) -> ExitCode {
    let Err(error) = result else {
        let count = seen.checks.all.len();
        let verdict = screen.paint(Tone::Good, &format!("demo passed: {count} checks"));
        screen.line(&format!("\n{verdict} in {seconds:.0} s"));
        return ExitCode::SUCCESS;
    };
    if let Some(Interrupted(number)) = error.downcast_ref() {
        screen.line(&format!("\ndemo stopped before its end by signal {number}"));
        return ExitCode::from(guard::exit_code(*number));
    }
    let (what, evidence) = match error.downcast_ref::<Failed>() {
        Some(failed) => (failed.to_string(), failed.evidence.clone()),
        None => {
            let text = format!("{error:#}");
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            let step = seen.checks.current_step();
            (format!("{step}: {first}"), rest.to_owned())
        }
    };
    for line in evidence.lines().chain(seen.log.lines()) {
        screen.line(&format!("    {line}"));
    }
    let verdict = screen.paint(Tone::Bad, &format!("demo FAILED: {what}"));
    screen.line(&format!("\n{verdict}"));
    ExitCode::FAILURE
}

/// The last lines of each server's output.
fn log_ends(programs: &Programs) -> String {
    let end = |name: &str| {
        let text = programs.read_log(name);
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        if end.is_empty() {
            end
        } else {
            format!("--- the end of {name}:\n{end}\n")
        }
    };
    ["serve-1.err", "serve-2.err"].map(end).concat()
}

/// Checks that fio is installed with its NBD engine, which every step needs.
fn require_fio() -> Result<()> {
    let Some(fio) = programs::find("fio") else {
        bail!("fio is not installed; apt-get install fio, or make setup, installs it");
    };
    let engines = Command::new(fio)
        .arg("--enghelp")
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&engines.stdout);
    if !text.lines().any(|line| line.trim() == "nbd") {
        bail!("this fio has no NBD engine; install one that was built with libnbd, as Debian's is");
    }
    Ok(())
}
