//! All loads, one after the other, repeated.
//!
//! If the machine or the drive is slower for a while, all loads should suffer alike, and none should always follow the same other one. So
//! each repetition runs all loads, in an order of its own. A load that writes leaves the drive in another state, which the next
//! one may count on: then the order of the file is kept.

use super::environment::{Before, Environment};
use super::outcome::{LoadOutcome, outcome};
use super::run::{Lengths, Run, run};
use super::target::Target;
use anyhow::{Context, Result};
use drives::drive::{Access, Drive};
use lab::fio::job::writes;
use lab::workload::Workload;
use machine::files::Files;
use repeatable::random::Stream;
use std::sync::Arc;
use std::time::Duration;

/// How long the generator alone is measured.
const GENERATOR_TIME: Duration = Duration::from_millis(300);

/// What is run.
#[derive(Clone, Debug)]
pub struct Session {
    /// The loads with their names.
    pub loads: Vec<(String, Workload)>,
    /// How often all of them are run.
    pub runs: u32,
    /// Seconds that count, of a load that does not say.
    pub seconds: u32,
    /// Seconds before that, of a load that does not say.
    pub skip_seconds: u32,
    /// Requests, order and content follow from it.
    pub seed: u64,
}

/// Where a session is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time that runs have taken, as their loads say.
    pub done: Duration,
}

/// What a session has found.
pub struct Found {
    /// The loads that were run at least once, in the order of the session.
    pub outcomes: Vec<LoadOutcome>,
    /// The conditions.
    pub environment: Environment,
    /// What makes all figures doubtful, as sentences without their full stops.
    pub marks: Vec<String>,
    /// Why it has not run to its end.
    pub failure: Option<anyhow::Error>,
}

impl Session {
    /// Whether a load destroys what is on the target.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.loads.iter().any(|(_, load)| writes(load))
    }

    /// How long all runs take.
    #[must_use]
    pub fn time(&self) -> Duration {
        let of_one: Duration = self
            .loads
            .iter()
            .map(|(_, load)| self.lengths(load).all())
            .sum();
        of_one * self.runs
    }

    /// Runs all loads. What was measured before a failure is kept.
    ///
    /// # Errors
    ///
    /// A load does not fit the target. Failures of requests are in [`Found::failure`].
    pub fn run(&self, target: &mut Target, mut progress: impl FnMut(Progress)) -> Result<Found> {
        for (name, load) in &self.loads {
            target.check(load).with_context(|| format!("load {name}"))?;
        }
        if self
            .loads
            .iter()
            .any(|(_, load)| load.read_percent() != Some(0))
        {
            target.sample(self.seed)?;
        }
        let mut runs: Vec<Vec<(u64, Run)>> = self.loads.iter().map(|_| Vec::new()).collect();
        let mut speeds = Vec::new();
        for (name, load) in &self.loads {
            speeds.push(generator_iops(load, target).with_context(|| format!("load {name}"))?);
        }
        let mut environment = Environment::read(&Files::below("/"), target.drive.block_device());
        let before = Before::read(&target.drive);
        let failure = self.repeat(target, &mut runs, &mut progress).err();
        before.compare(&target.drive, &mut environment);
        let with_runs = self.loads.iter().zip(&runs).zip(speeds);
        let with_runs = with_runs.filter(|((_, runs), _)| !runs.is_empty());
        Ok(Found {
            outcomes: with_runs
                .map(|((load, runs), iops)| outcome(load, runs, iops))
                .collect(),
            marks: [target.marks.clone(), environment.marks.clone()].concat(),
            environment,
            failure,
        })
    }

    fn repeat(
        &self,
        target: &Target,
        runs: &mut [Vec<(u64, Run)>],
        progress: &mut impl FnMut(Progress),
    ) -> Result<()> {
        let mut done = Duration::ZERO;
        for repetition in 0..self.runs {
            for at in self.order(repetition) {
                let (name, load) = &self.loads[at];
                // An invalid run is not repeated: the target would not keep up again.
                if runs[at].iter().any(|(_, run)| run.invalid.is_some()) {
                    continue;
                }
                let seed = self.seed.wrapping_add(u64::from(repetition));
                let lengths = self.lengths(load);
                let found = run((&target.drive, target.span_bytes()), load, seed, lengths)
                    .with_context(|| format!("load {name} on {}", target.name))?;
                runs[at].push((seed, found));
                done += lengths.all();
                progress(Progress { done });
            }
        }
        Ok(())
    }

    /// The places of the loads in the order in which a repetition runs them.
    pub(crate) fn order(&self, repetition: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        if !self.writes() {
            let mut stream = Stream::new(self.seed, "order", u64::from(repetition));
            for last in (1..order.len()).rev() {
                order.swap(last, stream.below(last as u64 + 1) as usize);
            }
        }
        order
    }

    fn lengths(&self, load: &Workload) -> Lengths {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Lengths {
            skipped: seconds(load.skip_seconds.unwrap_or(self.skip_seconds)),
            measured: seconds(load.seconds.unwrap_or(self.seconds)),
        }
    }
}

impl Lengths {
    fn all(self) -> Duration {
        self.skipped + self.measured
    }
}

/// The speed of the generator: the load in a closed loop on a target that completes requests at once.
fn generator_iops(load: &Workload, target: &Target) -> Result<f64> {
    let null = format!("null:{}", target.drive.size_bytes());
    let span_bytes = target.span_bytes();
    let drive = Drive::open(&null.parse()?, Access::Exclusive)?;
    let load = Workload {
        demand_iops: None,
        arrivals: None,
        ..load.clone()
    };
    let lengths = Lengths {
        skipped: Duration::from_millis(50),
        measured: GENERATOR_TIME,
    };
    Ok(run((&Arc::new(drive), span_bytes), &load, 0, lengths)?
        .measured
        .all
        .iops())
}
