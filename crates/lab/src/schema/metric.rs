//! The figures of a point: their names, as the claims write them, and their units.

use crate::workload::act;
use crate::workload::meter::Figures;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Completed client requests per second.
    Iops,
    /// Their payload per second.
    BytesPerSecond,
    /// Service latency: submission to completion as the client sees it, reads and writes together.
    Latency(Statistic),
    /// Response latency: intended start to completion. Not in the claims.
    Response(Statistic),
    /// Mean power of the drives.
    Watts,
    /// Mean number of busy cores: client, kernel and RAID together.
    CpuCores,
    /// 1 if requests completed at 99 % or more of the demanded rate over the window, else 0.
    DemandMet,
    /// Whole seconds before the first second below 99 % of the demand.
    SecondsHeld,
    /// Requests that should have started by the end of the window but had not. Not in the claims.
    Backlog,
    /// Largest multiple of the ACT load that passes.
    ActMultiple,
    /// Share of ACT's transactions at that multiple that ended more than a millisecond after they were to begin.
    OverOneMillisecond,
    /// The same for two milliseconds.
    OverTwoMilliseconds,
}

/// A statistic of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// Mean.
    Mean,
    /// The latency that 50 % of the requests stay within.
    P50,
    /// The latency that 99 % of the requests stay within.
    P99,
    /// The latency that 99.9 % of the requests stay within.
    P99_9,
    /// The latency that 99.99 % of the requests stay within.
    P99_99,
    /// The latency that 99.999 % of the requests stay within.
    P99_999,
    /// The greatest latency.
    Max,
}

/// Names of statistics, as in `latency_us.p99_9`.
const STATISTICS: [(Statistic, &str); 7] = [
    (Statistic::Mean, "mean"),
    (Statistic::P50, "p50"),
    (Statistic::P99, "p99"),
    (Statistic::P99_9, "p99_9"),
    (Statistic::P99_99, "p99_99"),
    (Statistic::P99_999, "p99_999"),
    (Statistic::Max, "max"),
];

/// Names and units of the figures that are not latencies.
const PLAIN: [(Metric, &str, &str); 10] = [
    (Metric::Iops, "iops", "IOPS"),
    (Metric::BytesPerSecond, "bytes_per_s", "B/s"),
    (Metric::Watts, "watts", "W"),
    (Metric::CpuCores, "cpu_cores", "cores"),
    (Metric::DemandMet, "demand_met", "1"),
    (Metric::SecondsHeld, "seconds_held", "s"),
    (Metric::Backlog, "backlog", "requests"),
    (Metric::ActMultiple, "act_x", "x"),
    (Metric::OverOneMillisecond, "pct_over_1ms", "%"),
    (Metric::OverTwoMilliseconds, "pct_over_2ms", "%"),
];

impl Statistic {
    /// The quantile, if it is a percentile.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Statistic::Mean | Statistic::Max => None,
            Statistic::P50 => Some(0.5),
            Statistic::P99 => Some(0.99),
            Statistic::P99_9 => Some(0.999),
            Statistic::P99_99 => Some(0.9999),
            Statistic::P99_999 => Some(0.99999),
        }
    }
}

impl Metric {
    /// Every figure that has a name.
    pub fn all() -> impl Iterator<Item = Metric> {
        let plain = PLAIN.iter().map(|(metric, ..)| *metric);
        let latencies = STATISTICS
            .iter()
            .flat_map(|(statistic, _)| [Metric::Latency(*statistic), Metric::Response(*statistic)]);
        plain.chain(latencies)
    }

    /// The unit, as claims write it.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Latency(_) | Metric::Response(_) => "us",
            plain => {
                let row = PLAIN.iter().find(|(metric, ..)| *metric == plain);
                row.map_or("1", |(_, _, unit)| unit)
            }
        }
    }

    /// This figure of one run. `None` if a run does not have it (power, cores, ACT's score), if no request completed,
    /// or if there are too few samples beyond the percentile.
    #[must_use]
    pub fn of(self, figures: &Figures) -> Option<f64> {
        let latency_us = |latencies: &crate::statistics::histogram::BatchedLatencies,
                          statistic: Statistic| {
            if let Some(quantile) = statistic.quantile() {
                let percentile = latencies.percentile(quantile)?;
                return percentile
                    .is_supported
                    .then_some(percentile.value_ns / 1000.0);
            }
            match statistic {
                Statistic::Max => Some(latencies.max_ns()? as f64 / 1000.0),
                _ => Some(latencies.mean_ns()? / 1000.0),
            }
        };
        match self {
            Metric::Iops => Some(figures.iops()),
            Metric::BytesPerSecond => Some(figures.bytes_per_s()),
            Metric::Latency(statistic) => latency_us(&figures.service, statistic),
            Metric::Response(statistic) => latency_us(&figures.response, statistic),
            Metric::DemandMet => figures.demand_met.map(|met| f64::from(u8::from(met))),
            Metric::SecondsHeld => figures.seconds_held.map(|seconds| seconds as f64),
            Metric::Backlog => Some(figures.backlog as f64),
            Metric::OverOneMillisecond => act::percent_over(&figures.response.merged(), 1),
            Metric::OverTwoMilliseconds => act::percent_over(&figures.response.merged(), 2),
            Metric::Watts | Metric::CpuCores | Metric::ActMultiple => None,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, wanted) = match self {
            Metric::Latency(statistic) => ("latency_us", statistic),
            Metric::Response(statistic) => ("response_us", statistic),
            plain => {
                let row = PLAIN.iter().find(|(metric, ..)| metric == plain);
                return out.write_str(row.map_or("", |(_, name, _)| name));
            }
        };
        let row = STATISTICS.iter().find(|(statistic, _)| statistic == wanted);
        write!(out, "{group}.{}", row.map_or("", |(_, name)| name))
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        Metric::all()
            .find(|metric| metric.to_string() == text)
            .ok_or_else(|| {
                let names: Vec<String> = Metric::all().map(|metric| metric.to_string()).collect();
                let offered = super::nearest::nearest(text, names.iter().map(String::as_str));
                format!("there is no figure \"{text}\"; nearest: {offered}")
            })
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metric, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_read_as_they_are_written() {
        let names: BTreeSet<String> = Metric::all().map(|metric| metric.to_string()).collect();
        assert_eq!(names.len(), 24);
        for name in &names {
            let metric: Metric = name.parse().expect(name);
            assert_eq!(&metric.to_string(), name);
            assert!(!metric.unit().is_empty());
        }
        assert_eq!(
            "latency_us.p99_9".parse(),
            Ok(Metric::Latency(Statistic::P99_9))
        );
        let message = "latency_us.p99.9"
            .parse::<Metric>()
            .expect_err("no such figure");
        assert!(message.contains("\"latency_us.p99_9\""), "{message}");
    }
}
