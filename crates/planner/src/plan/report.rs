//! A plan for programs: every point with its configuration, its figures, its limits and the ideal.

use super::as_vroc::OfSetup;
use super::ask::Case;
use super::bands::{Drawn, band};
use super::differences::Compared;
use super::ideal::{Ideal, ideal};
use super::left_out::LeftOut;
use super::notes::Measured;
use super::stripes::{ReadsBeforeWrites, reads_before_writes};
use crate::predict::CoresByBook;
use crate::predict::library::Library;
use crate::predict::limits::Limits;
use crate::predict::many::Answered;
use crate::provenance::Known;
use crate::sizing::Sizing;
use crate::slots::settings;
use lab::schema::SCHEMA;
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use lab::schema::results::Value;
use lab::statistics::interval::Interval;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedReport {
    /// Version of the form.
    pub schema: u32,
    /// The program that wrote it, with its version.
    pub program: String,
    /// All points, setup by setup.
    pub points: Vec<PlanPoint>,
    /// What is not among the points, and why: levels or points of a sweep that are impossible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// In what setups of another plan differ from those of this one, and what that changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    /// What Intel VROC would take of the arrays, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vroc: Vec<OfSetup>,
    /// The figures that the plan was computed from, with their sources, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Known>,
    /// The currency of all prices; missing without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// How fast this machine computed the plan, now or when it was first asked for. Only this part depends on the
    /// machine.
    pub simulator: Simulator,
}

/// The work behind a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct Simulator {
    /// Commands that drives carried out, in all runs.
    pub commands: u64,
    /// User time, all threads together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_cpu_seconds: Option<f64>,
    /// Commands per second of that time; missing if too little time was spent to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_user_cpu_second: Option<f64>,
}

/// A point of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanPoint {
    /// The setup's name.
    pub setup: String,
    /// The load's name.
    pub load: String,
    /// Whether the setup comes from the plan to compare with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_other: bool,
    /// Values of what a sweep varies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<u64>,
    /// Everything that the figures depend on.
    pub configuration: Configuration,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// The size that clients see.
    pub usable_bytes: u64,
    /// Figures by name.
    pub metrics: BTreeMap<Metric, Value>,
    /// If the drive is known from its data sheet only, the figures of each draw; those of `metrics` are of the usual drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// Busy cores, split by client, kernel and RAID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoresByBook>,
    /// What limits the point, and what would limit it next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// The prediction of a plain calculator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal: Option<Ideal>,
    /// The progress of a rebuild that runs beside the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuilding>,
    /// What RAID 5 reads before it writes although clients write sequentially.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_before_writes: Option<ReadsBeforeWrites>,
    /// What the array holds, costs, uses and risks under this load. The pace of the rebuild during which a second loss is looked at is
    /// that of the run if this is a rebuild, and otherwise calculated from rated rates, without clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// Notes for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A rebuild beside a load.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rebuilding {
    /// Bytes rebuilt on each drive per second.
    pub bytes_per_s: f64,
    /// Seconds to rebuild a whole drive; missing if the rebuild makes no progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_drive_seconds: Option<f64>,
}

impl PlanPoint {
    fn new(case: &Case, answered: &Answered, library: &Library, measured: &Measured) -> PlanPoint {
        let configuration = &case.configuration;
        let is_drawn = !library.draws(&configuration.setup.drive).is_empty();
        let mut point = PlanPoint {
            setup: case.setup.clone(),
            load: case.load.clone(),
            is_other: case.is_other,
            varied: case.varied.clone(),
            configuration: configuration.clone(),
            seeds: Vec::new(),
            usable_bytes: 0,
            metrics: BTreeMap::new(),
            drawn: None,
            cores: None,
            limits: None,
            ideal: ideal(configuration, library),
            rebuild: None,
            reads_before_writes: None,
            sizing: None,
            notes: measured.extrapolations(configuration, is_drawn),
        };
        point.notes.extend(settings(&configuration.setup, library));
        let drawn = Drawn::of(configuration, library, answered);
        match answered.get(configuration) {
            Some(Ok(answer)) if drawn.is_ok() => {
                point.drawn = drawn.unwrap_or_default();
                point.seeds.clone_from(&answer.seeds);
                point.usable_bytes = answer.size_bytes;
                point.metrics.clone_from(&answer.summary);
                point.cores = answer.cores;
                point.limits.clone_from(&answer.limits);
                point.reads_before_writes =
                    reads_before_writes(configuration, answer.read_per_written);
                point.rebuild = answer.rebuild.map(|rebuild| Rebuilding {
                    bytes_per_s: rebuild.bytes_per_s,
                    whole_drive_seconds: (rebuild.bytes_per_s > 0.0)
                        .then(|| rebuild.total_bytes as f64 / rebuild.bytes_per_s),
                });
                point.notes.extend(answer.notes.iter().cloned());
            }
            Some(Ok(_)) => point.notes.extend(drawn.err()),
            Some(Err(missing)) => point
                .notes
                .push(format!("not modelled: {}", missing.reason)),
            None => {}
        }
        point
    }

    /// A figure of it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        self.metrics.get(&metric).map(|value| value.value)
    }

    /// The range of a figure over the draws, with the usual drive's figure; `None` if nothing was drawn.
    pub fn band(&self, metric: Metric) -> Option<Interval> {
        self.drawn.as_ref()?.bands.get(&metric).copied()
    }

    /// The range of a rebuild's bytes per second over the draws; `None` if nothing was drawn, or there is no rebuild.
    pub fn rebuild_band(&self) -> Option<Interval> {
        let draws = &self.drawn.as_ref()?.rebuild_bytes_per_s;
        Some(band(self.rebuild.as_ref()?.bytes_per_s, draws))
    }

    /// A figure of the array's size: one number, or its range over the draws. `None` if the array or one of the draws does not have it.
    pub fn sized(&self, of: impl Fn(&Sizing) -> Option<f64>) -> Option<Interval> {
        let usual = of(self.sizing.as_ref()?)?;
        let Some(drawn) = &self.drawn else {
            return Some(Interval::exact(usual));
        };
        let draws: Option<Vec<f64>> = drawn.sizing.iter().map(of).collect();
        Some(band(usual, &draws?))
    }

    /// Half the width of a figure's 95 % confidence interval, as a share of the figure; `None` if it has no interval.
    pub fn uncertainty(&self, metric: Metric) -> Option<f64> {
        let value = self.metrics.get(&metric)?;
        let Interval { low, high } = value.interval?;
        Some((high - low) / 2.0 / value.value.abs().max(f64::MIN_POSITIVE))
    }

    /// The name of what limits the point; empty if unknown.
    pub fn limit(&self) -> String {
        let limits = self.limits.as_ref();
        limits.map_or_else(String::new, |limits| limits.first.name.clone())
    }
}

impl PlannedReport {
    /// The report of what was asked and answered. Computing it took `user_cpu_seconds`.
    pub fn new(
        cases: &[Case],
        answered: &Answered,
        library: &Library,
        user_cpu_seconds: Option<f64>,
    ) -> PlannedReport {
        let measured = Measured::of_claims();
        let answers = answered.values().flatten();
        let commands: u64 = answers.map(|answer| answer.commands).sum();
        let points = cases.iter();
        let points = points.map(|case| PlanPoint::new(case, answered, library, &measured));
        PlannedReport {
            schema: SCHEMA,
            program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
            points: points.collect(),
            left_out: Vec::new(),
            compared: Vec::new(),
            vroc: Vec::new(),
            provenance: Vec::new(),
            currency: None,
            simulator: Simulator {
                commands,
                user_cpu_seconds,
                commands_per_user_cpu_second: user_cpu_seconds
                    .filter(|seconds| *seconds > 0.0)
                    .map(|seconds| (commands as f64 / seconds).round()),
            },
        }
    }

    /// Whether every point has figures.
    pub fn is_complete(&self) -> bool {
        self.points.iter().all(|point| !point.metrics.is_empty())
    }
}
