//! Suites: a whole test procedure as data. Its phases bring the target into a state and run a workload there, varied by
//! a sweep; its plots say which results are drawn.
//!
//! ```toml
//! schema = 1
//! name = "short"
//! title = "Random reads over queue depth"
//! order = "published"                 # or "randomised": the steps of each phase in drawn order
//! runs = 5                            # fresh runs of everything
//!
//! [[phase]]
//! name = "random-read"
//! state = "steady"                    # what the target has been brought to
//! prepare = { op = "randwrite", bs = "4k", qd = 64, span_times = 2 }
//! workload = { op = "randread", bs = "4k", threads = 8, qd = 1, skip_seconds = 60, seconds = 180 }
//! sweep = { depth = [1, 2, 4, 8, 16] }
//! metrics = ["iops", "latency_us.p99"]
//!
//! [[plot]]
//! phase = "random-read"
//! title = "Random read"
//! x = "depth"
//! y = "iops"
//! x_scale = "log"
//! ```
//!
//! A sweep replaces keys of the workload, in all combinations. `depth` is the number of outstanding requests of all
//! threads: one thread per request up to the workload's number of threads, above that more requests per thread.

use super::configuration::State;
use super::document::{Refusal, check_version, read};
use super::metric::Metric;
use crate::workload::size::Size;
use crate::workload::{Broken, Operation, Workload};
use repeatable::random::Stream;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most steps of a suite: far more than anybody runs, a week of one minute each.
const STEPS_MAX: usize = 10_000;

/// The file as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Version of the form.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// What it shows, in one line.
    pub title: String,
    /// Whose procedure it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// In which order steps run.
    pub order: StepOrder,
    /// How often everything is repeated, each time from the beginning.
    pub runs: u32,
    /// What is done, in this order.
    pub phase: Vec<Phase>,
    /// What is drawn.
    #[serde(default)]
    pub plot: Vec<Plot>,
}

/// In which order the steps of a phase run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepOrder {
    /// As the sweep has them.
    Published,
    /// In random order, so that a drift over time is not mistaken for an effect of the sweep.
    Randomised,
}

/// One state of the target, and what is measured in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// The state of the target in this phase.
    pub state: State,
    /// How it is brought there; if missing, the phase before has done so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Preparation>,
    /// What is measured.
    pub workload: Workload,
    /// The keys that are varied, with their values.
    #[serde(default)]
    pub sweep: Sweep,
    /// Which figures are kept.
    pub metrics: BTreeSet<Metric>,
}

/// Writes that bring the target into the state of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// `write` or `randwrite`.
    pub op: Operation,
    /// Bytes of a request.
    pub bs: Size,
    /// Outstanding requests.
    pub qd: u32,
    /// How many times the whole span is written.
    pub span_times: u32,
}

/// Values of keys, from the outermost to the innermost loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// Outstanding requests of all threads. This is the outermost loop, because reviews draw one plot per depth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depth: Vec<u32>,
    /// Bytes of a request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bs: Vec<Size>,
    /// Alignment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub align: Vec<Size>,
    /// Reads of a mix, in percent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_pct: Vec<u8>,
    /// Demanded requests per second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub demand_iops: Vec<u64>,
}

/// One plot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The phase whose steps are drawn.
    pub phase: String,
    /// The title above the plot.
    pub title: String,
    /// A key that is swept.
    pub x: String,
    /// A figure that is kept.
    pub y: Metric,
    /// A key that is swept: one line per value. If missing, one line per setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The scale of the x axis; linear if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_scale: Option<Scale>,
    /// The scale of the y axis; linear if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_scale: Option<Scale>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal factors.
    Log,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The phase's place in the suite.
    pub phase: usize,
    /// The workload with the values of this step.
    pub workload: Workload,
    /// The values of the swept keys in this step, as text. Plots are drawn over them.
    pub values: BTreeMap<&'static str, String>,
}

impl Sweep {
    /// The keys that it sweeps.
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("depth", self.depth.is_empty()),
            ("bs", self.bs.is_empty()),
            ("align", self.align.is_empty()),
            ("read_pct", self.read_pct.is_empty()),
            ("demand_iops", self.demand_iops.is_empty()),
        ];
        all.into_iter()
            .filter_map(|(key, is_empty)| (!is_empty).then_some(key))
    }

    /// How many combinations there are.
    fn combinations(&self) -> usize {
        [
            self.depth.len(),
            self.bs.len(),
            self.align.len(),
            self.read_pct.len(),
            self.demand_iops.len(),
        ]
        .into_iter()
        .fold(1, |product: usize, values| {
            product.saturating_mul(values.max(1))
        })
    }
}

impl Suite {
    /// Reads a suite and checks all of it, every step included.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with file and key.
    pub fn read(file: &str, text: &str) -> Result<Suite, Refusal> {
        let suite: Suite = read(file, text)?;
        check_version(file, suite.schema)?;
        if suite.runs == 0 {
            return Err(Refusal::new(file, "runs", "must be at least 1, is 0"));
        }
        if suite.phase.is_empty() {
            return Err(Refusal::new(
                file,
                "phase",
                "is missing: nothing is measured",
            ));
        }
        let steps = suite.phase.iter().map(|phase| phase.sweep.combinations());
        let steps = steps.fold(0, usize::saturating_add);
        if steps > STEPS_MAX {
            let rule = format!("has {steps} steps, at most {STEPS_MAX}");
            return Err(Refusal::new(file, "sweep", rule));
        }
        let mut names = BTreeSet::new();
        for phase in &suite.phase {
            let refuse = |broken: Broken| {
                Refusal::new(
                    file,
                    format!("phase \"{}\": {}", phase.name, broken.key),
                    broken.rule,
                )
            };
            if !names.insert(phase.name.as_str()) {
                let rule = "occurs twice".to_string();
                return Err(refuse(Broken { key: "name", rule }));
            }
            phase.check().map_err(refuse)?;
        }
        for plot in &suite.plot {
            suite.check_plot(plot).map_err(|broken| {
                Refusal::new(
                    file,
                    format!("plot \"{}\": {}", plot.title, broken.key),
                    broken.rule,
                )
            })?;
        }
        Ok(suite)
    }

    /// All steps in the order in which they run. `seed` determines the random order of steps. Phases always keep their
    /// order, because each leaves the target in the state that the next one needs.
    #[must_use]
    pub fn steps(&self, seed: u64) -> Vec<Step> {
        let mut all = Vec::new();
        for (index, phase) in self.phase.iter().enumerate() {
            let mut steps = phase.steps(index);
            if self.order == StepOrder::Randomised {
                let mut stream = Stream::new(seed, "steps", index as u64);
                for last in (1..steps.len()).rev() {
                    steps.swap(last, stream.below(last as u64 + 1) as usize);
                }
            }
            all.append(&mut steps);
        }
        all
    }

    fn check_plot(&self, plot: &Plot) -> Result<(), Broken> {
        let broken = |key, rule: String| Err(Broken { key, rule });
        let Some(phase) = self.phase.iter().find(|phase| phase.name == plot.phase) else {
            let known = self.phase.iter().map(|phase| phase.name.as_str());
            let offered = super::nearest::nearest(&plot.phase, known);
            return broken(
                "phase",
                format!("does not know \"{}\"; nearest: {offered}", plot.phase),
            );
        };
        for (key, axis) in [("x", Some(&plot.x)), ("series", plot.series.as_ref())] {
            if let Some(axis) = axis
                && !phase.sweep.keys().any(|swept| swept == axis)
            {
                return broken(
                    key,
                    format!("must be a key that the phase sweeps, is \"{axis}\""),
                );
            }
        }
        if !phase.metrics.contains(&plot.y) {
            return broken(
                "y",
                format!("must be one of the phase's metrics, is \"{}\"", plot.y),
            );
        }
        Ok(())
    }
}

impl Phase {
    fn check(&self) -> Result<(), Broken> {
        let broken = |key, rule: &str| {
            let rule = rule.to_string();
            Err(Broken { key, rule })
        };
        if self.metrics.is_empty() {
            return broken("metrics", "names no figure: nothing would be kept");
        }
        if let Some(prepare) = &self.prepare {
            if !matches!(prepare.op, Operation::Write | Operation::RandWrite) {
                return broken("prepare.op", "must be \"write\" or \"randwrite\"");
            }
            if prepare.span_times == 0 || prepare.qd == 0 {
                return broken("prepare", "needs qd and span_times of at least 1");
            }
        }
        let threads = self.workload.threads;
        for depth in &self.sweep.depth {
            if *depth == 0 || (*depth > threads && !depth.is_multiple_of(threads.max(1))) {
                let rule = format!(
                    "must be above 0 and share out evenly among {threads} threads, is {depth}"
                );
                return Err(Broken {
                    key: "sweep.depth",
                    rule,
                });
            }
        }
        self.workload.check()?;
        self.steps(0)
            .iter()
            .try_for_each(|step| step.workload.check())
    }

    /// Its steps in the order of the sweep.
    fn steps(&self, phase: usize) -> Vec<Step> {
        let first = Step {
            phase,
            workload: self.workload.clone(),
            values: BTreeMap::new(),
        };
        let Sweep {
            depth,
            bs,
            align,
            read_pct,
            demand_iops,
        } = &self.sweep;
        let most = self.workload.threads;
        let steps = each(vec![first], "depth", depth, |workload, depth| {
            workload.threads = most.min(*depth);
            workload.qd = Some(depth / workload.threads.max(1));
        });
        let steps = each(steps, "bs", bs, |workload, bs| workload.bs = Some(*bs));
        let steps = each(steps, "align", align, |workload, align| {
            workload.align = Some(*align)
        });
        let steps = each(steps, "read_pct", read_pct, |workload, percent| {
            workload.read_pct = Some(*percent);
        });
        each(steps, "demand_iops", demand_iops, |workload, iops| {
            workload.demand_iops = Some(*iops);
        })
    }
}

/// Each step with each value; the unchanged steps if there are no values.
fn each<T: ToString>(
    steps: Vec<Step>,
    key: &'static str,
    values: &[T],
    set: impl Fn(&mut Workload, &T),
) -> Vec<Step> {
    if values.is_empty() {
        return steps;
    }
    let with = |step: &Step, value: &T| {
        let mut step = step.clone();
        set(&mut step.workload, value);
        step.values.insert(key, value.to_string());
        step
    };
    steps
        .iter()
        .flat_map(|step| values.iter().map(|value| with(step, value)))
        .collect()
}

#[cfg(test)]
mod tests;
