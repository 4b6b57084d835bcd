//! The runs of a load, put together.

use super::marks::marks;
use super::run::Run;
use lab::fio::job::writes;
use lab::schema::metric::Metric;
use lab::schema::results::{Value, summary};
use lab::statistics::histogram::Latencies;
use lab::statistics::steady_state::{SteadyState, steady_state};
use lab::workload::Workload;
use lab::workload::meter::Figures;
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures by name.
pub type Metrics = BTreeMap<Metric, Value>;

/// What a load did.
#[derive(Clone, Debug, Serialize)]
pub struct LoadOutcome {
    /// Its name.
    pub name: String,
    /// The load.
    pub workload: Workload,
    /// Who issued the requests: this program, or fio with its version.
    pub generator: String,
    /// Runs that were put together.
    pub runs: usize,
    /// The seed of each run; those of fio have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u64>,
    /// Figures of all requests; empty if a run is invalid.
    pub metrics: Metrics,
    /// Figures of a mix's reads.
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub reads: Metrics,
    /// Figures of a mix's writes.
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub writes: Metrics,
    /// Requests that were outstanding on average, by Little's law.
    pub effective_queue_depth: f64,
    /// Requests per second that our generator reaches on this machine if requests complete at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_iops: Option<f64>,
    /// 99 % of all requests of a demanded rate were issued by our generator at most so much later than they could have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_late_p99_us: Option<f64>,
    /// Whether the rate of a load that writes has become steady over its runs; `None` with fewer than five.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// Why the figures do not count: a target that does not keep up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// What makes the figures doubtful.
    pub marks: Vec<String>,
}

/// Puts the runs of a load together.
pub(crate) fn outcome(
    (name, workload): &(String, Workload),
    runs: &[(u64, Run)],
    generator_iops: f64,
) -> LoadOutcome {
    let invalid = runs.iter().find_map(|(_, run)| run.invalid.clone());
    let mut lateness = Latencies::default();
    runs.iter()
        .for_each(|(_, run)| lateness.merge(&run.lateness));
    let all: Vec<Figures> = runs
        .iter()
        .map(|(_, run)| run.measured.all.clone())
        .collect();
    let of_kind = |kind: fn(&Run) -> Option<&Figures>| -> Metrics {
        let figures: Option<Vec<Figures>> =
            runs.iter().map(|(_, run)| kind(run).cloned()).collect();
        let figures = figures.filter(|_| invalid.is_none());
        figures.map(|figures| summary(&figures)).unwrap_or_default()
    };
    let mut metrics = if invalid.is_none() {
        summary(&all)
    } else {
        Metrics::new()
    };
    if invalid.is_none() {
        let cores: Vec<f64> = runs.iter().map(|(_, run)| run.busy_cores).collect();
        metrics.insert(
            Metric::CpuCores,
            Value::mean_of_runs(Metric::CpuCores, &cores),
        );
    }
    let depth = all.iter().map(Figures::effective_depth).sum::<f64>() / all.len() as f64;
    let mut outcome = LoadOutcome {
        name: name.clone(),
        workload: workload.clone(),
        generator: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
        runs: runs.len(),
        seeds: runs.iter().map(|(seed, _)| *seed).collect(),
        metrics,
        reads: of_kind(|run| run.measured.reads.as_ref()),
        writes: of_kind(|run| run.measured.writes.as_ref()),
        effective_queue_depth: depth,
        generator_iops: Some(generator_iops),
        generator_late_p99_us: workload.is_open().then(|| late_us(&lateness)),
        steady_state: if invalid.is_some() {
            None
        } else {
            steadiness(workload, &all.iter().map(Figures::iops).collect::<Vec<_>>())
        },
        invalid,
        marks: Vec::new(),
    };
    outcome.marks = marks(&outcome, runs);
    outcome
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
