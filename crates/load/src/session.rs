//! All loads, one after the other, repeated.
//!
//! If the machine or the drive is slower for a while, all loads should suffer alike, and none should always follow the same other one. So
//! each repetition runs all loads, in an order of its own. A load that writes leaves the drive in another state, which the next
//! one may count on: then the order of the file is kept.

use super::by_fio;
use super::environment::{Before, Environment};
use super::outcome::outcome;
use super::run::{Lengths, Run, run};
use super::target::Target;
use anyhow::{Context, Result};
use drives::drive::{Access, Drive};
use engine::units::Nanos;
use lab::fio::file::Version;
use lab::fio::job::writes;
use lab::schema::measurement::Conditions;
use lab::schema::results::{PointResult, Results, SCHEMA};
use lab::workload::Workload;
use lab::workload::arrivals::Bursts;
use machine::files::Files;
use repeatable::random::Stream;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use words::date;

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
    /// Whether fio runs the loads without a demanded rate.
    pub by_fio: bool,
}

/// A load, and what its runs have found so far.
struct Job<'a> {
    load: &'a (String, Workload),
    lengths: Lengths,
    found: Runs,
}

/// Runs of one of the generators.
enum Runs {
    /// Ours, whose speed alone was measured before; with the seed of each run.
    Own {
        generator_iops: f64,
        runs: Vec<(u64, Run)>,
    },
    /// fio's, with the job that it gets, and its results.
    Fio {
        version: Version,
        job: String,
        results: Vec<String>,
    },
}

impl Job<'_> {
    /// An invalid run is not repeated: the target would not keep up again.
    fn is_over(&self) -> bool {
        match &self.found {
            Runs::Own { runs, .. } => runs.iter().any(|(_, run)| run.invalid.is_some()),
            Runs::Fio { .. } => false,
        }
    }

    fn run(&mut self, target: &Target, seed: u64) -> Result<()> {
        match &mut self.found {
            Runs::Own { runs, .. } => {
                let place = (&target.drive, target.span_bytes());
                runs.push((seed, run(place, &self.load.1, seed, self.lengths)?));
            }
            Runs::Fio { job, results, .. } => results.push(by_fio::run(job)?),
        }
        Ok(())
    }

    /// `None` before the first run.
    fn point(&self) -> Result<Option<PointResult>> {
        match &self.found {
            Runs::Own { runs, .. } if runs.is_empty() => Ok(None),
            Runs::Fio { results, .. } if results.is_empty() => Ok(None),
            Runs::Own {
                generator_iops,
                runs,
            } => Ok(Some(outcome(self.load, runs, *generator_iops))),
            Runs::Fio {
                version, results, ..
            } => by_fio::outcome(*version, self.load, results).map(Some),
        }
    }
}

/// What a session has found.
pub struct Found {
    /// The loads that were run at least once, in the order of the session, with the conditions.
    pub results: Results,
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

    /// Runs all loads; `progress` is told how much of [`Session::time`] is over. What was measured before a failure is kept.
    ///
    /// # Errors
    ///
    /// A load does not fit the target. Failures of requests are in [`Found::failure`].
    pub fn run(&self, target: &mut Target, mut progress: impl FnMut(Duration)) -> Result<Found> {
        for (name, load) in &self.loads {
            let is_own = !self.by_fio || load.is_open();
            target
                .check(load, is_own)
                .with_context(|| format!("load {name}"))?;
        }
        // What writes may fill the target before it is read.
        if !self.writes() {
            target.sample(self.seed)?;
        }
        let jobs: Result<Vec<Job<'_>>> = self
            .loads
            .iter()
            .map(|load| self.job(load, target))
            .collect();
        let mut jobs = jobs?;
        let started = date(unix_s());
        let mut environment = Environment::read(&Files::below("/"), target.drive.block_device());
        let before = Before::read(&target.drive);
        let failure = self.repeat(target, &mut jobs, &mut progress).err();
        before.compare(&target.drive, &mut environment);
        let points: Result<Vec<_>> = jobs.iter().map(Job::point).collect();
        let facts = environment.facts.into_iter();
        let conditions = Conditions {
            target: target.name.clone(),
            started,
            environment: facts.map(|(name, fact)| (name.to_owned(), fact)).collect(),
            marks: [target.marks.clone(), environment.marks].concat(),
        };
        let results = Results {
            schema: SCHEMA,
            program: program(),
            suite: None,
            conditions: Some(conditions),
            points: points?.into_iter().flatten().collect(),
        };
        Ok(Found { results, failure })
    }

    fn job<'a>(&self, load: &'a (String, Workload), target: &Target) -> Result<Job<'a>> {
        let named = || format!("load {}", load.0);
        let lengths = self.lengths(&load.1);
        let found = if self.by_fio && !load.1.is_open() {
            Runs::Fio {
                version: by_fio::version()?,
                job: by_fio::job(target.for_fio()?, &load.1, lengths).with_context(named)?,
                results: Vec::new(),
            }
        } else {
            Runs::Own {
                generator_iops: generator_iops(&load.1, target).with_context(named)?,
                runs: Vec::new(),
            }
        };
        Ok(Job {
            load,
            lengths,
            found,
        })
    }

    fn repeat(
        &self,
        target: &Target,
        jobs: &mut [Job<'_>],
        progress: &mut impl FnMut(Duration),
    ) -> Result<()> {
        let mut done = Duration::ZERO;
        for repetition in 0..self.runs {
            for at in self.order(repetition) {
                let job = &mut jobs[at];
                if job.is_over() {
                    continue;
                }
                let seed = self.seed.wrapping_add(u64::from(repetition));
                job.run(target, seed)
                    .with_context(|| format!("load {} on {}", job.load.0, target.name))?;
                done += job.lengths.all();
                progress(done);
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
        // A run has as many bursts as pauses.
        let period_ns = load.bursts().map_or(1, Bursts::period_ns);
        let rounded = |seconds: u32| {
            let asked_ns = u64::from(seconds) * Nanos::SECOND.0;
            Duration::from_nanos(asked_ns.next_multiple_of(period_ns))
        };
        Lengths {
            skipped: rounded(load.skip_seconds.unwrap_or(self.skip_seconds)),
            measured: rounded(load.seconds.unwrap_or(self.seconds)),
        }
    }
}

impl Lengths {
    fn all(self) -> Duration {
        self.skipped + self.measured
    }
}

/// This program with its version.
pub(crate) fn program() -> String {
    format!("fullstripe {}", env!("CARGO_PKG_VERSION"))
}

fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that was never set.
    since.map_or(0, |since| since.as_secs())
}

/// The speed of the generator: the load in a closed loop on a target that completes requests at once.
fn generator_iops(load: &Workload, target: &Target) -> Result<f64> {
    let null = format!("null:{}", target.drive.size_bytes());
    let span_bytes = target.span_bytes();
    let drive = Drive::open(&null.parse()?, Access::Exclusive)?;
    let load = Workload {
        demand_iops: None,
        arrivals: None,
        on_ms: None,
        off_ms: None,
        ..load.clone()
    };
    let lengths = Lengths {
        skipped: Duration::from_millis(50),
        measured: GENERATOR_TIME,
    };
    Ok(run((&Arc::new(drive), span_bytes), &load, 0, lengths)?
        .measured()
        .all
        .iops())
}
