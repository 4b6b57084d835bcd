//! Results of fio: read from its JSON, put together, and marked where they say less than they seem to.
//!
//! fio is the field's tool for closed loops, and most results that people have are its files. [`file`](mod@file) reads one; this
//! module makes points of many: jobs that are alike but for their file are runs of one point, so that means get the interval
//! of their runs. Percentiles come from the merged histograms that `--output-format=json+` keeps, with the interval of their order
//! statistics. fio does not keep the order of requests, so nothing shows how far they depend on each other; the interval then takes
//! few of them for independent ([`crate::statistics::histogram`]), and may have no upper end. `marks` says what makes a figure
//! doubtful, [`crate::compare`] puts two sets of results beside each other, and [`job`] writes loads for fio to run.
//!
//! The effective queue depth is IOPS times mean latency (Little's law). It is what was really outstanding, and shows a
//! measurement that contradicts itself.

pub mod file;
pub mod job;
pub mod marks;

use crate::schema::document::Refusal;
use crate::schema::metric::{Metric, Statistic};
use crate::schema::results::Value;
use crate::statistics::histogram::{JoinedLatencies, Latencies};
use crate::statistics::order_statistics::BEYOND_MIN;
use file::{FioFile, Latency, Run};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a job's requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// They read.
    Read,
    /// They write.
    Write,
    /// They discard.
    Trim,
}

impl Direction {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Trim => "trim",
        }
    }
}

/// What fio measured of one job in one direction, in one run or several.
#[derive(Clone, Debug, Serialize)]
pub struct FioPoint {
    /// The job's name.
    pub job: String,
    /// What its requests do; of a mix, each direction is a point.
    pub direction: Direction,
    /// Its options, those of the whole file included, without those that only name logs.
    pub options: BTreeMap<String, String>,
    /// Its runs.
    pub runs: Vec<RunFigures>,
    /// Requests of all runs.
    pub requests: u64,
    /// Figures by name.
    pub metrics: BTreeMap<Metric, Value>,
    /// Requests that were outstanding on average.
    pub effective_queue_depth: f64,
    /// What makes figures doubtful, a sentence each.
    pub marks: Vec<String>,
}

/// The figures that each run has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    /// The file that it is in.
    pub file: String,
    /// Requests per second.
    pub iops: f64,
    /// Their payload per second.
    pub bytes_per_s: f64,
    /// Mean latency from submission to completion.
    pub mean_us: f64,
    /// Greatest latency.
    pub max_us: f64,
}

/// The percentiles that a point has.
const PERCENTILES: [Statistic; 5] = [
    Statistic::P50,
    Statistic::P99,
    Statistic::P99_9,
    Statistic::P99_99,
    Statistic::P99_999,
];

/// The points of some files of fio, each with its name and its text, in the order of their first runs.
///
/// # Errors
/// A file is no result of fio, or of a version that is not understood.
pub fn points(files: &[(String, String)]) -> Result<Vec<FioPoint>, Refusal> {
    let mut groups: Vec<Vec<(String, FioFile, Run)>> = Vec::new();
    for (name, text) in files {
        let read = FioFile::read(name, text)?;
        for run in read.runs() {
            let is_alike = |group: &&mut Vec<(String, FioFile, Run)>| group[0].2.is_like(&run);
            let entry = (name.clone(), read.clone(), run.clone());
            match groups.iter_mut().find(is_alike) {
                Some(group) => group.push(entry),
                None => groups.push(vec![entry]),
            }
        }
    }
    Ok(groups.iter().map(|group| point(group)).collect())
}

fn point(group: &[(String, FioFile, Run)]) -> FioPoint {
    let runs: Vec<&Run> = group.iter().map(|(_, _, run)| run).collect();
    let figures: Vec<RunFigures> = group
        .iter()
        .map(|(file, _, run)| of_run(file, run))
        .collect();
    let first = runs[0];
    let mut metrics = BTreeMap::new();
    let mut mean_of = |metric: Metric, of: fn(&RunFigures) -> f64| {
        let values: Vec<f64> = figures.iter().map(of).collect();
        let value = Value::mean_of_runs(metric, &values);
        let mean = value.value;
        metrics.insert(metric, value);
        mean
    };
    let iops = mean_of(Metric::Iops, |run| run.iops);
    mean_of(Metric::BytesPerSecond, |run| run.bytes_per_s);
    let mean_us = mean_of(Metric::Latency(Statistic::Mean), |run| run.mean_us);
    mean_of(Metric::Latency(Statistic::Max), |run| run.max_us);
    metrics.extend(percentiles(&runs));
    let depth = iops * mean_us / 1e6;
    let mut marks: Vec<String> = Vec::new();
    for (_, file, run) in group {
        for mark in marks::of(file, run) {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    marks.extend(marks::of_depth(first, depth));
    FioPoint {
        job: first.job.clone(),
        direction: first.direction,
        options: first.options.clone(),
        requests: runs.iter().map(|run| run.requests).sum(),
        runs: figures,
        metrics,
        effective_queue_depth: depth,
        marks,
    }
}

fn of_run(file: &str, run: &Run) -> RunFigures {
    RunFigures {
        file: file.to_owned(),
        iops: run.iops,
        bytes_per_s: run.bytes_per_s,
        mean_us: run.total.mean_ns / 1e3,
        max_us: run.total.max_ns / 1e3,
    }
}

/// Percentiles of all runs together: from merged histograms, or of a single run without one as fio computed them.
fn percentiles(runs: &[&Run]) -> BTreeMap<Metric, Value> {
    let told: Vec<&Latency> = runs.iter().map(|run| run.told()).collect();
    if told.iter().any(|latency| latency.bins.is_empty()) {
        return match told.as_slice() {
            [only] => of_fio(only),
            _ => BTreeMap::new(),
        };
    }
    let mut merged = Latencies::default();
    for (&latency_ns, &count) in told.iter().flat_map(|latency| &latency.bins) {
        merged.record_many(latency_ns, count);
    }
    let requests = merged.count() as f64;
    let joined = JoinedLatencies::without_order(merged);
    let found = PERCENTILES.into_iter().filter_map(|statistic| {
        let quantile = statistic.quantile()?;
        let percentile = joined.percentile(quantile)?;
        let metric = Metric::Latency(statistic);
        let value = Value {
            interval: Some(percentile.interval_us()),
            ..Value::new(metric, percentile.value_ns / 1e3)
        };
        (requests * (1.0 - quantile) >= BEYOND_MIN).then_some((metric, value))
    });
    found.collect()
}

/// The percentiles that fio printed itself, which have no interval.
fn of_fio(latency: &Latency) -> BTreeMap<Metric, Value> {
    let found = PERCENTILES.into_iter().filter_map(|statistic| {
        let quantile = statistic.quantile()?;
        let is_it = |percent: f64| (percent / 100.0 - quantile).abs() < 1e-9;
        let (_, value_ns) = latency
            .percentiles
            .iter()
            .find(|(percent, _)| is_it(*percent))?;
        let metric = Metric::Latency(statistic);
        Some((metric, Value::new(metric, value_ns / 1e3)))
    });
    found.collect()
}

#[cfg(test)]
mod tests;
