//! Results: JSON, version 2, the same form for measured, predicted and ideal figures. Version 1, which had predicted ones only, is
//! still read.
//!
//! Each point contains its whole configuration, or the load that was measured, so that the file can be read without the file that
//! asked for it, and each figure has its unit and interval. A figure that is not available is left out; it is never written as zero.

use super::configuration::Configuration;
use super::document::Refusal;
use super::measurement::{Conditions, Measurement};
use super::metric::{Metric, Statistic};
use crate::statistics::histogram::JoinedLatencies;
use crate::statistics::interval::{Interval, Verdict};
use crate::statistics::replications::{REPLICATIONS_MIN, estimate};
use crate::workload::meter::Figures;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version that is written, and all that are read.
pub const SCHEMA: u32 = 2;
const READ: [u32; 2] = [1, SCHEMA];

/// Figures by name.
pub type Metrics = BTreeMap<Metric, Value>;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// A run in real time, on the target that the conditions name.
    Measured,
    /// A run in virtual time.
    Predicted,
    /// Arithmetic from the parts' limits.
    Ideal,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Its 95 % confidence interval; missing with fewer than five runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The verdict on a bound, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointResult {
    /// Its name.
    pub name: String,
    /// Where its figures come from.
    pub provenance: Provenance,
    /// The configuration that was predicted or computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    /// How it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<Measurement>,
    /// Seeds of the runs; empty if nothing is random.
    pub seeds: Vec<u64>,
    /// Its figures by name.
    pub metrics: Metrics,
    /// The resource that limits it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Notes for the reader, such as: extrapolated, not representative, clocks were not fixed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Version of the form.
    pub schema: u32,
    /// Who wrote it, with its version.
    pub program: String,
    /// The suite that these are results of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Where and when the points were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// Points in the order in which they ran.
    pub points: Vec<PointResult>,
}

impl Value {
    /// `value` of `metric`, without an interval.
    #[must_use]
    pub fn new(metric: Metric, value: f64) -> Value {
        Value {
            value,
            unit: metric.unit().to_string(),
            interval: None,
            verdict: None,
        }
    }

    /// The mean of `metric` over at least one run, with its interval if there are enough runs.
    #[must_use]
    pub fn mean_of_runs(metric: Metric, runs: &[f64]) -> Value {
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        Value {
            interval: estimate(runs).map(|estimate| estimate.interval),
            ..Value::new(metric, mean)
        }
    }

    /// The same with its verdict on `bound`; without an interval there is no verdict.
    #[must_use]
    pub fn judged(self, bound: Interval) -> Value {
        Value {
            verdict: self.interval.map(|interval| interval.judge(bound)),
            ..self
        }
    }
}

/// The figures of fresh runs of one point, taken together.
///
/// Percentiles are those of the merged histograms, with the interval of their order statistics. All other figures are
/// means over the runs, with the interval of Student's t. Intervals are given if there are five runs or more. A figure
/// is left out if one of the runs does not have it, and a percentile if there are too few samples beyond it.
#[must_use]
pub fn summary(runs: &[Figures]) -> Metrics {
    let service = JoinedLatencies::of(runs.iter().map(|run| &run.service));
    let response = JoinedLatencies::of(runs.iter().map(|run| &run.response));
    let estimate = |metric: Metric| match metric {
        Metric::Latency(statistic) if statistic.quantile().is_some() => {
            percentile_us(&service, statistic)
        }
        Metric::Response(statistic) if statistic.quantile().is_some() => {
            percentile_us(&response, statistic)
        }
        other => mean_of_runs(other, runs),
    };
    Metric::all()
        .filter_map(|metric| {
            let (value, interval) = estimate(metric)?;
            let value = Value {
                interval: interval.filter(|_| runs.len() >= REPLICATIONS_MIN),
                ..Value::new(metric, value)
            };
            Some((metric, value))
        })
        .collect()
}

fn percentile_us(
    all: &JoinedLatencies<'_>,
    statistic: Statistic,
) -> Option<(f64, Option<Interval>)> {
    let found = all.percentile(statistic.quantile()?)?;
    found
        .is_supported
        .then_some((found.value_ns / 1000.0, Some(found.interval_us())))
}

fn mean_of_runs(metric: Metric, runs: &[Figures]) -> Option<(f64, Option<Interval>)> {
    let values = runs
        .iter()
        .map(|run| metric.of(run))
        .collect::<Option<Vec<f64>>>()?;
    match (estimate(&values), values.len()) {
        (_, 0) => None,
        (Some(estimate), _) => Some((estimate.mean, Some(estimate.interval))),
        (None, count) => Some((values.iter().sum::<f64>() / count as f64, None)),
    }
}

impl Results {
    /// As indented JSON that ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names are strings and figures are numbers") + "\n"
    }

    /// Reads what [`Results::to_json`] wrote. `file` is its name.
    ///
    /// # Errors
    ///
    /// When it is not JSON, not of this form or of another version, or a point does not say what was run.
    pub fn from_json(file: &str, text: &str) -> Result<Results, Refusal> {
        let results: Results = serde_json::from_str(text).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Refusal::new(file, place, format!("is not a result: {error}"))
        })?;
        if !READ.contains(&results.schema) {
            let rule = format!(
                "must be {} or {SCHEMA}, is {}: this program reads no other version",
                READ[0], results.schema
            );
            return Err(Refusal::new(file, "schema", rule));
        }
        let is_known =
            |point: &&PointResult| point.configuration.is_some() != point.measurement.is_some();
        if let Some(point) = results.points.iter().find(|point| !is_known(point)) {
            let key = format!("points.{}", point.name);
            let rule = "must have either a configuration or a measurement";
            return Err(Refusal::new(file, key, rule));
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::catalogue::Catalogue;
    use crate::schema::configuration::read_configurations;
    use crate::workload::generator::Generator;
    use crate::workload::meter::Meter;

    const POINT: &str = r#"
        schema = 1
        [setup.one]
        drive = "p4510-2tb"
        count = 1
        level = "none"
        platform = "oakgate"
        host = "appliance"
        stack = "none"
        [points]
        rr = { setup = "one", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 1 } }
    "#;

    fn figures(latency_ns: u64) -> Figures {
        let configurations = read_configurations("p.toml", POINT, &Catalogue::of_claims());
        let workload = configurations.expect("it is right")["rr"].workload.clone();
        let mut generator = Generator::new(&workload, 1 << 30, 1).expect("there is room");
        let mut meter = Meter::new(&workload, 0);
        let mut now_ns = 0;
        for _ in 0..1000 {
            let command = generator.next(0, now_ns).expect("a closed loop");
            now_ns += latency_ns;
            generator.completed(0);
            meter.completed(&command, now_ns);
        }
        meter.finish(now_ns, 0)
    }

    #[test]
    fn runs_become_figures_with_intervals() {
        let runs: Vec<Figures> = [80, 90, 100, 110, 120].map(|us| figures(us * 1000)).into();
        let metrics = summary(&runs);
        let mean = &metrics[&"latency_us.mean".parse().expect("a figure")];
        assert_eq!((mean.value, mean.unit.as_str()), (100.0, "us"));
        let interval = mean.interval.expect("five runs");
        assert!((interval.half_width() - 19.63).abs() < 0.01, "{interval:?}");
        let verdict = |low, high| mean.clone().judged(Interval::new(low, high)).verdict;
        assert_eq!(verdict(50.0, 150.0), Some(Verdict::Pass));
        assert_eq!(verdict(100.0, 150.0), Some(Verdict::Marginal));
        assert_eq!(verdict(0.0, 50.0), Some(Verdict::Miss));
        // Runs that differ this much count as few samples, however many requests they have, so there is no
        // median and no p99.999. A closed loop has no demand, and power was not measured.
        for absent in [
            "latency_us.p50",
            "latency_us.p99_999",
            "demand_met",
            "watts",
        ] {
            assert!(
                !metrics.contains_key(&absent.parse().expect("a figure")),
                "{absent}"
            );
        }
        let alike: Vec<Figures> = (0..5).map(|_| figures(100_000)).collect();
        let median = summary(&alike)[&"latency_us.p50".parse().expect("a figure")].clone();
        assert_eq!(
            (median.value, median.interval),
            (100.0, Some(Interval::exact(100.0)))
        );
        assert_eq!(summary(&runs[..4])[&Metric::Iops].interval, None);
        assert!(summary(&[]).is_empty());
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let configurations = read_configurations("p.toml", POINT, &Catalogue::of_claims());
        let results = Results {
            schema: SCHEMA,
            program: "fullstripe 0.1.0".to_string(),
            suite: None,
            conditions: None,
            points: vec![PointResult {
                name: "rr".to_string(),
                provenance: Provenance::Predicted,
                configuration: Some(configurations.expect("it is right")["rr"].clone()),
                measurement: None,
                seeds: vec![1],
                metrics: summary(&[figures(100_000)]),
                limited_by: Some("queue depth".to_string()),
                notes: Vec::new(),
            }],
        };
        let json = results.to_json();
        assert!(json.contains("\"provenance\": \"predicted\""), "{json}");
        assert_eq!(Results::from_json("r.json", &json), Ok(results.clone()));
        let first = json.replacen("\"schema\": 2", "\"schema\": 1", 1);
        let first = Results::from_json("r.json", &first).expect("version 1 is read");
        assert_eq!(first.points, results.points);
        let other = json.replacen("\"schema\": 2", "\"schema\": 9", 1);
        let message = Results::from_json("r.json", &other)
            .expect_err("another version")
            .to_string();
        assert_eq!(
            message,
            "r.json: schema must be 1 or 2, is 9: this program reads no other version"
        );
        let mut nothing = results;
        nothing.points[0].configuration = None;
        let message = Results::from_json("r.json", &nothing.to_json())
            .expect_err("it does not say what was run")
            .to_string();
        assert!(
            message.starts_with("r.json: points.rr must have either"),
            "{message}"
        );
        let unknown = json.replacen("\"seeds\"", "\"sedes\"", 1);
        let message = Results::from_json("r.json", &unknown)
            .expect_err("unknown")
            .to_string();
        assert!(message.contains("unknown field `sedes`"), "{message}");
    }
}
