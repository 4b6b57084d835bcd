//! `plan`: what so many of these drives will do on this platform, what limits them, and what is behind that.
//!
//! The command line (and a file of loads, and a plan to compare with) becomes configurations ([`ask`]); [`planner::predict`] runs
//! them in virtual time, the engine itself included; [`ideal`] is what a plain calculator says beside; [`notes`] tells
//! where a plan leaves what was ever measured; [`report`] is for programs, [`text`] for people, with [`compare`] where
//! there are two plans; [`sweep`] and [`plot`] are for the shape of things over a range.

mod args;
mod ask;
mod compare;
mod ideal;
mod left_out;
mod notes;
mod plot;
mod report;
mod stripes;
mod sweep;
mod text;

pub use args::PlanArgs;
/// For whoever shows a comparison elsewhere.
pub use compare::plots;
pub use report::{PlanPoint, Report};

use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use ask::{Asked, asked};
use lab::schema::metric::{Metric, Statistic};
use planner::predict::Virtual;
use planner::predict::limits::Depth;
use planner::predict::many::Wanted;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The figures of every point.
fn wanted() -> BTreeSet<Metric> {
    let latencies = [Statistic::Mean, Statistic::P99, Statistic::P99_9];
    let plain = [
        Metric::Iops,
        Metric::BytesPerSecond,
        Metric::Watts,
        Metric::CpuCores,
    ];
    plain
        .into_iter()
        .chain(latencies.map(Metric::Latency))
        .collect()
}

/// Runs `plan`. The exit code is 0 only if every point could be predicted.
///
/// # Errors
/// Something of the command line or of the files that it names is not known, not of its form or impossible.
pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    let mut predictor = Virtual {
        quick: true,
        limits: if args.sweep.is_some() {
            Depth::First
        } else {
            Depth::Behind
        },
        ..Virtual::default()
    };
    let Asked {
        cases,
        sweep,
        left_out,
    } = asked(args, &mut predictor.library)?;
    let every = cases
        .iter()
        .map(|case| (case.configuration.clone(), wanted()));
    let every: Wanted = every.collect();
    let (answered, took_s) = args.work.answer(&predictor, &every);
    if let [only] = every.keys().collect::<Vec<_>>().as_slice()
        && let Some(Err(missing)) = answered.get(only)
    {
        bail!("{}", missing.reason);
    }
    let mut report = Report::new(&cases, &answered, &predictor.library, took_s);
    report.left_out = left_out;
    if args.json {
        print_json(&report)?;
    } else if let Some(sweep) = &sweep {
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
