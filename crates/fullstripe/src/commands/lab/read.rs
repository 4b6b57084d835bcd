//! `lab read`: what fio has measured, from its files of results ([`lab::fio`]).

use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::rows::folded;
use anyhow::{Context, Result, ensure};
use lab::fio::{Direction, FioPoint, points};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Value;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use words::number;

/// Arguments of `lab read`.
#[derive(clap::Args, Debug)]
pub struct ReadArgs {
    /// Files that fio has written with --output-format=json+ or json, or folders of them, such as those of bench-fio. Runs of the
    /// same job are put together.
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
    points: Vec<FioPoint>,
}

/// Runs `lab read`.
///
/// # Errors
/// There is no such file or folder, a folder has no results, or a file is no result of fio.
pub fn run(args: &ReadArgs) -> Result<ExitCode> {
    let points = points_in(&args.from)?;
    if args.json {
        print_json(&Report {
            schema: 1,
            program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
            points,
        })?;
    } else {
        print_text(&text(&points, Paper::output().columns))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The points in these files and folders.
///
/// # Errors
/// There is no such file or folder, a folder has no results, or a file is no result of fio.
pub fn points_in(from: &[PathBuf]) -> Result<Vec<FioPoint>> {
    let mut paths = BTreeSet::new();
    for path in from {
        collect(path, &mut paths)?;
    }
    let texts = paths.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path.display().to_string(), text))
    });
    Ok(points(&texts.collect::<Result<Vec<_>>>()?)?)
}

/// Adds the file `path`, or all files of results in the folder `path` and below it.
fn collect(path: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        all.insert(path.to_owned());
        return Ok(());
    }
    let before = all.len();
    below(path, all)?;
    ensure!(
        all.len() > before,
        "{} has no file that ends with .json: name a folder with results of fio",
        path.display()
    );
    Ok(())
}

fn below(folder: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        // A link to a folder may lead back to where it is.
        if path.is_dir() && !path.is_symlink() {
            below(&path, all)?;
        } else if path.extension().is_some_and(|ending| ending == "json") {
            all.insert(path);
        }
    }
    Ok(())
}

fn text(points: &[FioPoint], columns: Option<usize>) -> String {
    let head = "JOB,WHAT,BS,JOBS x QD,RUNS,IOPS,B/s,MEAN us,99 % us,99.9 % us,DEPTH";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let mut marks = String::new();
    for point in points {
        rows.push(row(point));
        for mark in &point.marks {
            let line = format!(
                "{} ({}): {mark}\n",
                point.job,
                what(&point.options, point.direction)
            );
            if !marks.contains(&line) {
                marks += &line;
            }
        }
    }
    folded(0, &rows, &[5, 7], columns) + &fold_within(&marks, columns, 2)
}

fn row(point: &FioPoint) -> Vec<String> {
    let option = |name: &str, usual: &str| of_option(&point.options, name, usual);
    let figure = |metric| {
        let value = point.metrics.get(&metric);
        value.map_or_else(|| "-".to_owned(), in_words)
    };
    let latency = |statistic| figure(Metric::Latency(statistic));
    vec![
        point.job.clone(),
        what(&point.options, point.direction),
        option("bs", "4k"),
        format!("{} x {}", option("numjobs", "1"), option("iodepth", "1")),
        point.runs.len().to_string(),
        figure(Metric::Iops),
        figure(Metric::BytesPerSecond),
        latency(Statistic::Mean),
        latency(Statistic::P99),
        latency(Statistic::P99_9),
        number(point.effective_queue_depth),
    ]
}

/// An option, or what fio takes without it.
pub fn of_option(options: &BTreeMap<String, String>, name: &str, usual: &str) -> String {
    let value = options.get(name);
    value.map_or_else(|| usual.to_owned(), Clone::clone)
}

/// What the requests of a point do: of a mix, its part of the mix.
pub fn what(options: &BTreeMap<String, String>, direction: Direction) -> String {
    let rw = options.get("rw").or(options.get("readwrite"));
    match rw {
        Some(rw) if rw.ends_with("rw") || rw == "readwrite" => {
            format!("{rw}, {}s", direction.word())
        }
        Some(rw) => rw.clone(),
        None => direction.word().to_owned(),
    }
}

/// A figure with half the width of its interval, if that is known and worth a word; with its lower end if there is no upper one.
pub(super) fn in_words(value: &Value) -> String {
    let figure = number(value.value);
    let Some(interval) = value.interval else {
        return figure;
    };
    if !interval.high.is_finite() {
        return format!("{figure} (≥ {})", number(interval.low));
    }
    let percent = (interval.high - interval.low) / 2.0 / value.value * 100.0;
    match percent {
        percent if percent >= 1.0 => format!("{figure} ±{percent:.0}%"),
        _ => figure,
    }
}
