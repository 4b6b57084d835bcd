//! `predict`: predicts the performance of drives or arrays, in virtual time.
//!
//! A file lists setups and points, in the form of the frozen claims; drives may be the user's own profiles.
//! [`planner::points`] predicts them; this command prints the results.

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
    /// Print JSON; it contains no times measured on this machine.
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
    // Rows may be broken before the latencies or before the busy cores.
    folded(0, &rows, &[3, 6], columns) + &fold_within(&notes, columns, 2)
}

/// Runs `predict`. The exit code is 0 only if every point could be predicted.
///
/// # Errors
/// The configuration, or a drive that it names, does not exist, has the wrong form or is impossible.
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
