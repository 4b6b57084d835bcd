//! `plan`: predicts the performance of a number of drives on a platform, what limits it, and the next limit after that.
//!
//! [`args`] turns the command line into a question, [`planner::plan`] answers it; [`text`] prints the answer, with
//! [`size`] for what arrays cost and risk, [`compare`] for two plans, [`plot`] for a sweep, and [`provenance`] for where the figures come from. [`search`] is for `--for`.

mod args;
mod compare;
pub mod here;
mod plot;
mod provenance;
mod search;
mod size;
mod sweep;
mod text;

pub use args::PlanArgs;
/// The demonstration shows a comparison, too.
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
/// Something in the command line, or in a file that it names, is unknown, has the wrong form or is impossible.
pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    if let Some(text) = &args.wanted {
        return search::run(args, text);
    }
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
    if !args.json {
        let columns = Paper::output().columns;
        print_text(&provenance::text(&report.provenance, columns))?;
    }
    Ok(if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests;
