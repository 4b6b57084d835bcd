//! What only a measured point has: the load on a real target, its runs one by one, and who issued the requests.

use super::metric::Metric;
use super::results::Metrics;
use crate::statistics::histogram::Latencies;
use crate::statistics::steady_state::SteadyState;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a point was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The load, as it was asked for.
    pub workload: Workload,
    /// Seconds at the start of each run that do not count.
    pub skipped_s: f64,
    /// Seconds of each run that count.
    pub measured_s: f64,
    /// What tells its trace from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_digest: Option<String>,
    /// Who issued the requests, with the version.
    pub generator: String,
    /// The figures of each run, in the order in which they ran; empty if a run is invalid.
    pub runs: Vec<RunResult>,
    /// Figures of a mix's reads.
    #[serde(default, skip_serializing_if = "Metrics::is_empty")]
    pub reads: Metrics,
    /// Figures of a mix's writes.
    #[serde(default, skip_serializing_if = "Metrics::is_empty")]
    pub writes: Metrics,
    /// Requests that were outstanding on average, by Little's law.
    pub effective_queue_depth: f64,
    /// Requests per second that were demanded of a load whose rate is a share of what the target does at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demanded_iops: Option<u64>,
    /// Requests per second that our generator reaches on this machine if requests complete at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_iops: Option<f64>,
    /// 99 % of all requests of a demanded rate were issued by our generator at most so much later than they could have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_late_p99_us: Option<f64>,
    /// Whether the rate of a load that writes has become steady over its runs; `None` with fewer than five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// Why the figures do not count: a target that does not keep up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// Service latencies of all runs together; `None` if the generator keeps none, or not those of a mix together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
    /// Response latencies of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<Latencies>,
}

impl Measurement {
    /// Requests per second that were demanded; `None` in a closed loop.
    #[must_use]
    pub fn demanded_iops(&self) -> Option<u64> {
        self.demanded_iops.or(self.workload.demand_iops)
    }
}

/// The figures of one run; a percentile with too few requests beyond it is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Those of all requests.
    pub metrics: BTreeMap<Metric, f64>,
    /// Those of a mix's reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reads: BTreeMap<Metric, f64>,
    /// Those of a mix's writes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub writes: BTreeMap<Metric, f64>,
}

/// Where and when something was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// The target, as its user named it.
    pub target: String,
    /// When the first run began.
    pub started: String,
    /// The conditions by name.
    pub environment: BTreeMap<String, String>,
    /// What makes all figures doubtful, as sentences without their full stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}
