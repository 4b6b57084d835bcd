//! `predict`: what drives or arrays will do, in virtual time.
//!
//! A file names setups and points, in the form of the frozen claims; drives may be files of the user's.
//! [`planner::points`] answers them; this command prints what came of it.

use super::progress::{HowArgs, PointsBar};
use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::print_text;
use crate::terminal::rows::folded;
use anyhow::{Context, Result};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Results;
use std::path::PathBuf;
use std::process::ExitCode;
use words::number;

/// Arguments of `predict`.
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    /// Setups and points, as TOML: see docs/planning.md.
    config: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    /// Print JSON; it holds no times of this machine.
    #[arg(long)]
    json: bool,
}

fn text(results: &Results, columns: Option<usize>) -> String {
    let head = "POINT,IOPS,B/s,MEAN us,99 % us,99.9 % us,CORES,WATTS,DEMAND";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let mut notes = String::new();
    for point in &results.points {
        let figure = |metric| {
            let value = point.metrics.get(&metric);
            value.map_or("-".to_owned(), |value| number(value.value))
        };
        let latency = |statistic| figure(Metric::Latency(statistic));
        let met = point.metrics.get(&Metric::DemandMet);
        let demand = met.map_or("-", |met| match met.value {
            1.0 => "met",
            0.0 => "missed",
            _ => "at times",
        });
        rows.push(vec![
            point.name.clone(),
            figure(Metric::Iops),
            figure(Metric::BytesPerSecond),
            latency(Statistic::Mean),
            latency(Statistic::P99),
            latency(Statistic::P99_9),
            figure(Metric::CpuCores),
            figure(Metric::Watts),
            demand.to_owned(),
        ]);
        for note in &point.notes {
            notes += &format!("{}: {note}\n", point.name);
        }
    }
    // Before latencies, or before busy cores.
    folded(0, &rows, &[3, 6], columns) + &fold_within(&notes, columns, 2)
}

/// Runs `predict`. The exit code is 0 only if every point could be predicted.
///
/// # Errors
/// The configuration, or a drive that it names, is not there, not of its form or impossible.
pub fn run(args: &PredictArgs) -> Result<ExitCode> {
    let content = std::fs::read_to_string(&args.config);
    let content = content.with_context(|| format!("cannot read {}", args.config.display()))?;
    let (how, bar) = (&args.how, PointsBar::default());
    let work = how.work.work();
    let results = planner::points::predict(&args.config, &content, how.deep, work, &bar)?;
    print_text(&if args.json {
        results.to_json()
    } else {
        text(&results, Paper::output().columns)
    })?;
    let is_complete = results.points.iter().all(|point| !point.metrics.is_empty());
    Ok(if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
