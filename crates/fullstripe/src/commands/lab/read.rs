//! `lab read`: what fio has measured, from its files of results ([`lab::fio`]), and what `lab run` has.

use super::files::Found;
use super::table::{self, in_words};
use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::rows::folded;
use anyhow::Result;
use lab::compare::of_fio;
use lab::fio::FioPoint;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Results;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use words::number;

/// Arguments of `lab read`.
#[derive(clap::Args, Debug)]
pub struct ReadArgs {
    /// Files that fio has written with --output-format=json+ or json, results of "lab run", or folders of them, such as those of
    /// bench-fio. Runs of the same job of fio are put together.
    #[arg(value_name = "FILE|FOLDER", required = true)]
    from: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    /// Version of this schema: 1.
    schema: u32,
    program: String,
    /// What fio has measured.
    points: Vec<FioPoint>,
    /// Results of this program, by file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    results: BTreeMap<String, Results>,
}

/// Runs `lab read`.
///
/// # Errors
/// There is no such file or folder, a folder has no results, or a file is no result.
pub fn run(args: &ReadArgs) -> Result<ExitCode> {
    let found = Found::read(&args.from)?;
    if args.json {
        print_json(&Report {
            schema: 1,
            program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
            points: found.of_fio,
            results: found.own.into_iter().collect(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = Paper::output().columns;
    let mut parts = Vec::new();
    if !found.of_fio.is_empty() {
        parts.push(text(&found.of_fio, columns));
    }
    for (file, results) in &found.own {
        parts.push(format!("{file}{}\n", of(results)) + &table::text(results, columns));
    }
    print_text(&parts.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What was measured and when, as the rest of a line.
fn of(results: &Results) -> String {
    let conditions = results.conditions.as_ref();
    conditions.map_or_else(String::new, |conditions| {
        format!(": {}, {}", conditions.target, conditions.started)
    })
}

fn text(points: &[FioPoint], columns: Option<usize>) -> String {
    let head = "JOB,WHAT,BS,JOBS x QD,RUNS,IOPS,B/s,MEAN us,99 % us,99.9 % us,DEPTH";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let mut marks = String::new();
    for point in points {
        rows.push(row(point));
        for mark in &point.marks {
            let what = of_fio(point).what;
            let line = format!("{} ({}): {mark}\n", what.name, what.requests);
            if !marks.contains(&line) {
                marks += &line;
            }
        }
    }
    folded(0, &rows, &[5, 7], columns) + &fold_within(&marks, columns, 2)
}

fn row(point: &FioPoint) -> Vec<String> {
    let what = of_fio(point).what;
    let figure = |metric| {
        let value = point.metrics.get(&metric);
        value.map_or_else(|| "-".to_owned(), in_words)
    };
    let latency = |statistic| figure(Metric::Latency(statistic));
    vec![
        what.name,
        what.requests,
        what.bs,
        what.depth,
        point.runs.len().to_string(),
        figure(Metric::Iops),
        figure(Metric::BytesPerSecond),
        latency(Statistic::Mean),
        latency(Statistic::P99),
        latency(Statistic::P99_9),
        number(point.effective_queue_depth),
    ]
}
