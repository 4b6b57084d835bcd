//! The runs of a load, put together.

use super::marks::marks;
use super::run::{Lengths, Run};
use super::session::program;
use lab::fio::job::writes;
use lab::schema::measurement::{Measurement, RunResult};
use lab::schema::metric::Metric;
use lab::schema::results::{Metrics, PointResult, Provenance, Value, summary};
use lab::statistics::histogram::{BatchedLatencies, JoinedLatencies, Latencies};
use lab::statistics::steady_state::{SteadyState, steady_state};
use lab::workload::Workload;
use lab::workload::meter::Figures;
use lab::workload::slices::Measured;
use std::collections::BTreeMap;

/// A load as it was asked for, and how long it ran.
pub(crate) struct Asked<'a> {
    pub name: &'a str,
    pub load: &'a Workload,
    pub lengths: Lengths,
    pub trace_digest: Option<String>,
}

/// A point of the load `name` with its figures.
pub(crate) fn point(
    name: &str,
    metrics: Metrics,
    seeds: Vec<u64>,
    measurement: Measurement,
    marks: Vec<String>,
) -> PointResult {
    PointResult {
        name: name.to_owned(),
        provenance: Provenance::Measured,
        configuration: None,
        measurement: Some(measurement),
        seeds,
        metrics,
        limited_by: None,
        notes: marks,
    }
}

/// Puts the runs of a load together, which was run as `known`. If one is invalid, there are no figures.
pub(crate) fn outcome(
    asked: &Asked<'_>,
    known: &Workload,
    runs: &[(u64, Run)],
    generator_iops: f64,
) -> PointResult {
    let workload = asked.load;
    let invalid = runs.iter().find_map(|(_, run)| run.invalid.clone());
    let mut lateness = Latencies::default();
    runs.iter()
        .for_each(|(_, run)| lateness.merge(&run.lateness));
    let measured: Vec<Measured> = match invalid {
        Some(_) => Vec::new(),
        None => runs.iter().map(|(_, run)| run.measured()).collect(),
    };
    let of_kind = |kind: fn(&Measured) -> Option<&Figures>| -> Metrics {
        let figures: Option<Vec<Figures>> = measured.iter().map(|run| kind(run).cloned()).collect();
        figures.map(|figures| summary(&figures)).unwrap_or_default()
    };
    let all: Vec<Figures> = measured.iter().map(|run| run.all.clone()).collect();
    let mut metrics = summary(&all);
    let cores: Vec<f64> = runs.iter().map(|(_, run)| run.busy_cores).collect();
    if !measured.is_empty() {
        let cores = Value::mean_of_runs(Metric::CpuCores, &cores);
        metrics.insert(Metric::CpuCores, cores);
    }
    let rates: Vec<f64> = all.iter().map(Figures::iops).collect();
    let depth = all.iter().map(Figures::effective_depth).sum::<f64>() / all.len().max(1) as f64;
    let together = |of: fn(&Figures) -> &BatchedLatencies| {
        (!all.is_empty()).then(|| JoinedLatencies::of(all.iter().map(of)).into_all())
    };
    let measurement = Measurement {
        workload: workload.clone(),
        skipped_s: asked.lengths.skipped.as_secs_f64(),
        measured_s: asked.lengths.measured.as_secs_f64(),
        trace_digest: asked.trace_digest.clone(),
        generator: program(),
        runs: measured
            .iter()
            .zip(cores)
            .map(|(run, cores)| of_run(workload.is_open(), run, cores))
            .collect(),
        reads: of_kind(|run| run.reads.as_ref()),
        writes: of_kind(|run| run.writes.as_ref()),
        effective_queue_depth: depth,
        demanded_iops: known.demand_iops.filter(|_| workload.demand_pct.is_some()),
        generator_iops: Some(generator_iops),
        generator_late_p99_us: workload.is_open().then(|| late_us(&lateness)),
        steady_state: steadiness(workload, &rates),
        invalid,
        latencies: together(|run| &run.service),
        responses: together(|run| &run.response).filter(|_| workload.is_open()),
    };
    let marks = marks(&metrics, &measurement, runs, &measured);
    let seeds = runs.iter().map(|(seed, _)| *seed).collect();
    point(asked.name, metrics, seeds, measurement, marks)
}

/// The figures of one run, which had so many busy cores. In a closed loop there is no intended start, so responses have no latency of
/// their own.
fn of_run(is_open: bool, run: &Measured, busy_cores: f64) -> RunResult {
    let figures = |figures: Option<&Figures>| -> BTreeMap<Metric, f64> {
        let figure = |metric: Metric| Some((metric, metric.of(figures?)?));
        let is_own = |metric: &Metric| is_open || !matches!(metric, Metric::Response(_));
        Metric::all().filter(is_own).filter_map(figure).collect()
    };
    let mut metrics = figures(Some(&run.all));
    metrics.insert(Metric::CpuCores, busy_cores);
    RunResult {
        metrics,
        reads: figures(run.reads.as_ref()),
        writes: figures(run.writes.as_ref()),
    }
}

/// Whether the rates of runs have become steady, of a load that changes the drive. A demanded rate is the same in every run, so it
/// shows nothing.
pub(crate) fn steadiness(workload: &Workload, rates_iops: &[f64]) -> Option<SteadyState> {
    steady_state(rates_iops).filter(|_| writes(workload) && !workload.is_open())
}

/// The 99th percentile; 0 if nothing was issued.
fn late_us(lateness: &Latencies) -> f64 {
    let rank = (lateness.count() * 99).div_ceil(100);
    lateness.at_rank_ns(rank).unwrap_or(0) as f64 / 1000.0
}
