//! Turns a configuration into figures: a point of the claims or of a user's file is run in virtual time.
//!
//! | step | file |
//! |---|---|
//! | drives by id or file | [`library`] |
//! | what drives are rated for beside their speed | [`rated`] |
//! | what surrounds them: host and platform | [`surroundings`] |
//! | one run of a point | [`point`] |
//! | when measuring begins, and for how long | [`window`] |
//! | the largest multiple of a certification test | `act` |
//! | what limits it | [`limits`], of [`resources`] |
//! | which mechanism causes a result | [`mechanisms`] |
//! | many points, on several threads | [`many`] |
//! | proof that results are the same everywhere | [`fingerprint`] |
//! | constants that were fitted | [`fitted`] |
//! | arbitrary bytes as files, for fuzzing | [`exercise`] |
//!
//! A predictor receives a configuration and the names of figures, and no published values. The same configuration gives
//! the same figures on every machine and with any number of threads: each run is a function of its seed, and all points
//! use the same seeds, so that ratios can be taken run by run.

mod act;
pub mod built_in;
pub mod exercise;
pub mod fingerprint;
pub mod fitted;
pub mod library;
pub mod limits;
pub mod make;
pub mod many;
pub mod mechanisms;
pub mod point;
pub mod rated;
pub mod resources;
pub mod surroundings;
pub mod window;

use lab::claims::predictor::{NotModelled, Prediction, Predictor, Samples};
use lab::schema::configuration::{Configuration, State};
use lab::schema::metric::Metric;
use lab::schema::results::{Value, summary};
use lab::schema::setup::Condition;
use lab::statistics::replications::{REPLICATIONS_MIN, estimate, seeds};
use lab::workload::Operation;
use library::Library;
use limits::{Depth, Found, Limits};
use mechanisms::Mechanisms;
use point::{Measured, Point, Rebuild, Start};
/// The digest by which remembered answers are named.
pub use repeatable::digest::digest;
use repeatable::random::mix;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use window::Effort;

/// Seed of the first run; the others follow by counting up.
const FIRST_SEED: u64 = 1;

/// The note on results of reads from fresh drives.
pub const UNWRITTEN: &str =
    "not representative: reads of space that was never written do not touch flash";

/// If a window begins later than this, a short run may find the drives in another state.
const LATE_NS: u64 = 20_000_000_000;

/// Answers questions by running them.
#[derive(Clone, Debug, Default)]
pub struct Virtual {
    /// The drives, platforms and hosts that it knows.
    pub library: Library,
    /// Whether to run long enough for the 99.999th percentile, which takes many times as long.
    pub deep: bool,
    /// How far to look for what limits a point, which takes about ten short runs more.
    pub limits: Depth,
    /// Mechanisms of the models that are switched off, to find out what causes a figure.
    pub without: Mechanisms,
    /// Whether to run only as long as a user waits: see [`window::Effort::quick`].
    pub quick: bool,
}

/// The answer for a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Figures of each run, for claims.
    pub prediction: Prediction,
    /// Figures of all runs together, with their intervals.
    pub summary: BTreeMap<Metric, Value>,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Digest of all events in these runs and of their times.
    pub digest: u64,
    /// Commands that drives carried out, in all runs.
    pub commands: u64,
    /// Busy cores, split by client, kernel and RAID; `None` if no processors are modelled.
    pub cores: Option<CoresByBook>,
    /// The size that clients see.
    pub size_bytes: u64,
    /// How fast a rebuild went beside the load, if there was one.
    pub rebuild: Option<Rebuild>,
    /// Bytes that drives read for each byte that clients wrote: old data and parity. `None` if clients read too, or a
    /// drive is missing or being rebuilt.
    pub read_per_written: Option<f64>,
    /// Bytes that drives wrote for each byte that clients wrote: copies, parity and logs. `None` if clients only read, or a
    /// drive is being rebuilt.
    pub written_per_written: Option<f64>,
    /// What limits the point, if asked for. `None` if a short run cannot show it, because measuring begins late, on
    /// drives that writes have changed meanwhile.
    pub limits: Option<Limits>,
}

/// Busy cores, split by client, kernel and RAID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoresByBook {
    /// Clients: issuing requests and handling replies.
    pub client: f64,
    /// Kernel and export: submitting commands, handling completions, wake-ups, polling in vain, serving clients.
    pub kernel: f64,
    /// The RAID software.
    pub raid: f64,
}

impl Virtual {
    /// Everything that an answer depends on, except the program itself: the key of remembered answers.
    #[must_use]
    pub fn question(&self, configuration: &Configuration, wanted: &BTreeSet<Metric>) -> String {
        let contents = self.library.contents(&configuration.setup);
        let Virtual {
            deep,
            limits,
            without,
            quick,
            ..
        } = self;
        format!(
            "{configuration:?} {wanted:?} deep: {deep} quick: {quick} limits: {limits:?} {without:?} {contents}"
        )
    }

    /// Computes the figures `wanted` of a configuration.
    ///
    /// # Errors
    ///
    /// If a part of the configuration is not modelled, or a run broke a law of virtual time.
    pub fn answer(
        &self,
        configuration: &Configuration,
        wanted: &BTreeSet<Metric>,
    ) -> Result<Answer, NotModelled> {
        let point = Point::new(configuration, &self.library)?.without(&self.without);
        let failed = |error: anyhow::Error| NotModelled {
            reason: format!("the run failed: {error:#}"),
        };
        if configuration.workload.op == Operation::Act {
            return self.answer_act(&point, wanted).map_err(failed);
        }
        let effort = if self.quick {
            Effort::quick()
        } else {
            Effort::full(window::requests_wanted(wanted, self.deep))
        };
        let plan = window::choose(&point, FIRST_SEED, effort).map_err(failed)?;
        let runs = run_seeds().map(|seed| point.measure(plan.start, seed, plan.window_of(seed)));
        let runs: Vec<Measured> = runs.collect::<anyhow::Result<_>>().map_err(failed)?;
        let is_short = plan.start != Start::AsPut || plan.window.from_ns <= LATE_NS;
        // What limits the usual drive is told; draws say how far figures may differ from its.
        let is_draw = self.library.is_draw(&configuration.setup.drive);
        let depth = if is_short && !is_draw {
            self.limits
        } else {
            Depth::Nothing
        };
        let (limits, limits_commands) = limits_of(&point, &plan, &runs, depth).map_err(failed)?;
        Ok(Answer {
            prediction: Prediction {
                metrics: of_runs(&runs, wanted),
                limited_by: limits.as_ref().map(|limits| limits.first.name.clone()),
            },
            cores: cores(&runs),
            size_bytes: point.size_bytes(),
            rebuild: rebuild(&runs),
            read_per_written: read_per_written(configuration, &runs),
            written_per_written: written_per_written(configuration, &runs),
            limits,
            summary: together(&runs),
            seeds: run_seeds().collect(),
            digest: runs.iter().fold(0, |all, run| mix(all ^ run.digest)),
            notes: plan
                .notes
                .into_iter()
                .chain(unwritten(configuration))
                .collect(),
            commands: plan.commands
                + runs.iter().map(|run| run.commands).sum::<u64>()
                + limits_commands,
        })
    }
}

impl Virtual {
    /// The answer for Aerospike's certification test, whose load is searched for.
    fn answer_act(&self, point: &Point, wanted: &BTreeSet<Metric>) -> anyhow::Result<Answer> {
        let mut commands = 0;
        let mut runs = Vec::new();
        for seed in run_seeds() {
            let (run, of_all) = act::measure(point, seed)?;
            commands += of_all;
            runs.push(run);
        }
        Ok(Answer {
            prediction: Prediction {
                metrics: of_runs(&runs, wanted),
                limited_by: None,
            },
            cores: cores(&runs),
            size_bytes: point.size_bytes(),
            rebuild: None,
            read_per_written: None,
            written_per_written: None,
            limits: None,
            summary: together(&runs),
            seeds: run_seeds().collect(),
            digest: runs.iter().fold(0, |all, run| mix(all ^ run.digest)),
            notes: Vec::new(),
            commands,
        })
    }
}

/// The figures `wanted` of each run.
fn of_runs(runs: &[Measured], wanted: &BTreeSet<Metric>) -> BTreeMap<Metric, Samples> {
    let figure = |metric: &Metric| {
        let values = runs.iter().map(|run| run.figure(*metric));
        let values: Option<Vec<f64>> = values.collect();
        Some((*metric, Samples::Runs(values?)))
    };
    wanted.iter().filter_map(figure).collect()
}

/// Seeds of the runs of every point.
fn run_seeds() -> impl Iterator<Item = u64> {
    seeds(FIRST_SEED, REPLICATIONS_MIN)
}

/// The note on reads from space that was never written: they are faster than on a drive in use.
fn unwritten(configuration: &Configuration) -> Option<String> {
    let reads = configuration.workload.read_percent() != Some(0);
    let is_fresh = configuration.state == State::Fresh;
    (is_fresh && reads).then(|| UNWRITTEN.to_owned())
}

/// What limits the point that `runs` are runs of.
fn limits_of(
    point: &Point,
    plan: &window::Plan,
    runs: &[Measured],
    depth: Depth,
) -> anyhow::Result<(Option<Limits>, u64)> {
    let [mut iops, mut commands, mut seconds] = [0.0; 3];
    for (run, seed) in runs.iter().zip(run_seeds()) {
        iops += run.figures.iops() / runs.len() as f64;
        commands += run.commands as f64;
        seconds += plan.window_of(seed).until_ns as f64 / 1e9;
    }
    let found = Found {
        point,
        start: plan.start.in_step(),
        seed: FIRST_SEED,
        iops,
        commands_per_request: commands / (seconds * iops).max(1.0),
        commands: Cell::new(0),
    };
    let limits = found.limits(depth)?;
    Ok((limits, found.commands.get()))
}

/// Busy cores, as the mean of all runs.
fn cores(runs: &[Measured]) -> Option<CoresByBook> {
    let mut sum = CoresByBook::default();
    for run in runs {
        let books = run.books?;
        let cores = |ns: u64| ns as f64 / run.figures.window_ns.max(1) as f64 / runs.len() as f64;
        sum.client += cores(books.client_ns);
        sum.kernel += cores(books.kernel_ns);
        sum.raid += cores(books.raid_ns);
    }
    Some(sum)
}

/// What drives read before they can write, as the mean of all runs.
fn read_per_written(configuration: &Configuration, runs: &[Measured]) -> Option<f64> {
    let only_writes = configuration.workload.read_percent() == Some(0);
    let is_whole = configuration.setup.condition.is_none();
    let sum: f64 = runs.iter().map(|run| run.read_per_written).sum();
    (only_writes && is_whole).then(|| sum / runs.len() as f64)
}

/// What drives write for what clients write, as the mean of all runs.
fn written_per_written(configuration: &Configuration, runs: &[Measured]) -> Option<f64> {
    let writes = configuration.workload.read_percent() != Some(100);
    let is_rebuilding = configuration.setup.condition == Some(Condition::Rebuilding);
    let sum: f64 = runs.iter().map(|run| run.written_per_written).sum();
    (writes && !is_rebuilding).then(|| sum / runs.len() as f64)
}

/// The rate of a rebuild, as the mean of all runs.
fn rebuild(runs: &[Measured]) -> Option<Rebuild> {
    let rebuilds: Option<Vec<Rebuild>> = runs.iter().map(|run| run.rebuild).collect();
    let rebuilds = rebuilds?;
    let sum: f64 = rebuilds.iter().map(|one| one.bytes_per_s).sum();
    Some(Rebuild {
        bytes_per_s: sum / rebuilds.len() as f64,
        total_bytes: rebuilds.first()?.total_bytes,
    })
}

/// The figures of all runs together.
fn together(runs: &[Measured]) -> BTreeMap<Metric, Value> {
    let of_clients: Vec<_> = runs.iter().map(|run| run.figures.clone()).collect();
    let mut all = summary(&of_clients);
    for metric in [Metric::Watts, Metric::CpuCores, Metric::ActMultiple] {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.figure(metric)).collect();
        if let Some(estimate) = values.and_then(|values| estimate(&values)) {
            let value = Value {
                interval: Some(estimate.interval),
                ..Value::new(metric, estimate.mean)
            };
            all.insert(metric, value);
        }
    }
    all
}

impl Predictor for Virtual {
    fn predict(
        &mut self,
        configuration: &Configuration,
        wanted: &BTreeSet<Metric>,
    ) -> Result<Prediction, NotModelled> {
        self.answer(configuration, wanted)
            .map(|answer| answer.prediction)
    }
}

#[cfg(test)]
mod tests;
