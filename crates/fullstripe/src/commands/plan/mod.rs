//! `plan`: what so many of these drives will do on this platform, what limits them, and what is behind that.
//!
//! [`args`] makes a question of the command line, [`planner::plan`] answers it; [`text`] is for people, with [`compare`] where
//! there are two plans, and [`plot`] for a sweep.

mod args;
mod compare;
mod plot;
mod sweep;
mod text;

pub use args::PlanArgs;
/// For whoever shows a comparison elsewhere.
pub use compare::plots;

use super::progress::PointsBar;
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use planner::plan::plan;
use std::process::ExitCode;

/// Runs `plan`. The exit code is 0 only if every point could be predicted.
///
/// # Errors
/// Something of the command line or of the files that it names is not known, not of its form or impossible.
pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    let question = args.question()?;
    let bar = PointsBar::default();
    let report = plan(&question, args.work.work(), &bar)?;
    if args.json {
        print_json(&report)?;
    } else if let Some(sweep) = &question.sweep {
        print_text(&plot::plots(sweep, &report, Paper::output().columns))?;
    } else {
        print_text(&text::text(&report, Paper::output().columns))?;
    }
    Ok(if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests;
