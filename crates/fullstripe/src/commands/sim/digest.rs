//! `sim digest`: checks that predictions run identically on this machine and all others.

use crate::commands::bar::Bar;
use crate::terminal::print::print_text;
use anyhow::{Result, ensure};
use planner::predict::fingerprint;
use std::process::ExitCode;

/// Runs `sim digest`.
///
/// # Errors
/// The digest differs, or a run failed.
pub(super) fn run() -> Result<ExitCode> {
    let expected = fingerprint::EXPECTED;
    let bar = Bar::new("predictions", 2);
    let one = fingerprint::of_runs(1)?;
    bar.at(1);
    let two = fingerprint::of_runs(2)?;
    drop(bar);
    ensure!(
        one == expected && two == expected,
        "predictions are not the same here as elsewhere: their digest is {one:032x} on one thread and {two:032x} on two, \
         and should be {expected:032x}"
    );
    print_text(&format!("{one:032x}\n"))?;
    Ok(ExitCode::SUCCESS)
}
