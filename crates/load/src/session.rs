//! All loads, one after the other, repeated.
//!
//! If the machine or the drive is slower for a while, all loads should suffer alike, and none should always follow the same other one. So
//! each repetition runs all loads, in an order of its own. A load that writes leaves the drive in another state, which the next
//! one may count on: then the order of the file is kept. If a load demands a share of what the target does at most, that is measured right
//! before the first run that needs it, in the state that the loads before it have left.

use super::environment::{Before, Environment};
use super::job::{Job, Work};
use super::journal::{Journal, Subject};
use super::requests::{Requests, Traces};
use super::run::Lengths;
use super::target::Target;
use anyhow::{Context, Result};
use engine::units::Nanos;
use lab::schema::measurement::Conditions;
use lab::schema::results::{Results, SCHEMA};
use lab::workload::Workload;
use lab::workload::arrivals::Bursts;
use machine::files::Files;
use repeatable::random::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use words::date;

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The loads with their names.
    pub loads: Vec<(String, Workload)>,
    /// The traces that they replay.
    #[serde(skip)]
    pub traces: Traces,
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
        self.loads
            .iter()
            .any(|(_, load)| self.requests(load).writes())
    }

    /// How long all runs take.
    #[must_use]
    pub fn time(&self) -> Duration {
        let all = |loads: &mut dyn Iterator<Item = &Workload>| -> Duration {
            loads.map(|load| self.lengths(load).all()).sum()
        };
        let of_one = all(&mut self.loads.iter().map(|(_, load)| load));
        let of_maxima = all(&mut self.maxima().iter());
        of_one * self.runs + of_maxima
    }

    /// Roughly the bytes that all runs write: those that are demanded, but no more than `bytes_per_s`, the most that the target
    /// takes. `None` if neither is known.
    #[must_use]
    pub fn written_about(&self, bytes_per_s: Option<f64>) -> Option<f64> {
        let of_one = |load: &Workload| {
            let seconds = self.lengths(load).all().as_secs_f64();
            self.requests(load).written_about(seconds, bytes_per_s)
        };
        let runs = self.loads.iter().map(|(_, load)| load);
        let runs: f64 = runs.map(of_one).sum::<Option<f64>>()? * f64::from(self.runs);
        let maxima: f64 = self.maxima().iter().map(of_one).sum::<Option<f64>>()?;
        Some(runs + maxima)
    }

    /// Checks that all loads fit the target.
    ///
    /// # Errors
    ///
    /// One does not.
    pub fn check(&self, target: &Target) -> Result<()> {
        for (name, load) in &self.loads {
            let is_own = !self.by_fio || load.is_open();
            let without_share = match load.demand_pct {
                Some(_) => &free(load),
                None => load,
            };
            target
                .check(self.requests(without_share), is_own)
                .with_context(|| format!("load {name}"))?;
        }
        Ok(())
    }

    /// Makes ready to run on a target: nothing is written yet, neither on it nor elsewhere.
    ///
    /// # Errors
    ///
    /// A load does not fit the target, or what it needs is missing.
    pub fn prepare<'a>(&'a self, target: &'a mut Target) -> Result<Prepared<'a>> {
        self.check(target)?;
        // What writes may fill the target before it is read.
        if !self.writes() {
            target.sample(self.seed)?;
        }
        let jobs = self.loads.iter().map(|load| Job::new(self, load, target));
        Ok(Prepared {
            jobs: jobs.collect::<Result<_>>()?,
            session: self,
            target,
        })
    }

    fn subject(&self, target: &Target, jobs: &[Job<'_>]) -> Subject {
        let digests = self
            .traces
            .iter()
            .map(|(name, trace)| (name.clone(), trace.digest()));
        Subject {
            program: program(),
            fio: jobs.iter().find_map(Job::version_of_fio),
            target: target.name.clone(),
            identity: target.identity(),
            size_bytes: target.drive.size_bytes(),
            // Traces may be long.
            session: Session {
                traces: Traces::new(),
                ..self.clone()
            },
            traces: digests.collect(),
        }
    }

    /// What one of its loads requests.
    pub(crate) fn requests<'a>(&'a self, load: &'a Workload) -> Requests<'a> {
        Requests::new(load, &self.traces)
    }

    /// The seed of a repetition's runs.
    pub(crate) fn seed_of(&self, repetition: u32) -> u64 {
        self.seed.wrapping_add(u64::from(repetition))
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

    /// The closed loops of whose rate another load demands a share, each once.
    pub(crate) fn maxima(&self) -> Vec<Workload> {
        let mut maxima: Vec<Workload> = Vec::new();
        for (_, load) in &self.loads {
            let free = free(load);
            if load.demand_pct.is_some() && !maxima.contains(&free) {
                maxima.push(free);
            }
        }
        maxima
    }

    pub(crate) fn lengths(&self, load: &Workload) -> Lengths {
        // A run has as many bursts as pauses.
        let period_ns = load.bursts().map_or(1, Bursts::period_ns);
        let rounded = |seconds: u32| {
            let asked_ns = u64::from(seconds) * Nanos::SECOND.0;
            Duration::from_nanos(asked_ns.next_multiple_of(period_ns))
        };
        // A trace begins with its first request, and is replayed to its end: a millisecond more, so that the last request is issued.
        if let Some(length_ns) = self.requests(load).trace_length_ns() {
            let skipped = rounded(load.skip_seconds.unwrap_or(0));
            let whole = Duration::from_nanos(length_ns.saturating_add(1_000_000));
            let left = || whole.saturating_sub(skipped);
            return Lengths {
                skipped,
                measured: load.seconds.map_or_else(left, rounded),
            };
        }
        Lengths {
            skipped: rounded(load.skip_seconds.unwrap_or(self.skip_seconds)),
            measured: rounded(load.seconds.unwrap_or(self.seconds)),
        }
    }
}

/// A session that can begin.
pub struct Prepared<'a> {
    session: &'a Session,
    target: &'a Target,
    jobs: Vec<Job<'a>>,
}

impl Prepared<'_> {
    /// Runs all loads; `progress` is told how much of [`Session::time`] is over. What was measured before a failure is kept. What
    /// `journal` already holds is not run again, and it gets each run when that has ended.
    ///
    /// # Errors
    ///
    /// The journal is of another session, or cannot be written. Failures of requests are in [`Found::failure`].
    pub fn run(
        self,
        mut journal: Option<&mut Journal>,
        mut progress: impl FnMut(Duration),
    ) -> Result<Found> {
        let Prepared {
            session,
            target,
            jobs,
        } = self;
        let now = date(unix_s());
        let path = journal
            .as_ref()
            .map_or_else(String::new, |journal| journal.path().display().to_string());
        let opened = match &mut journal {
            Some(journal) => journal.open(session.subject(target, &jobs), now.clone())?,
            None => None,
        };
        let resumed = opened.is_some();
        let (started, entries) = opened.unwrap_or_else(|| (now.clone(), Vec::new()));
        let mut work = Work {
            session,
            jobs,
            finished: BTreeSet::new(),
            journal,
            done: Duration::ZERO,
        };
        // The first line says what is measured.
        for (line, entry) in (2..).zip(entries) {
            let taken = work.take(entry);
            taken.with_context(|| format!("{path}: line {line}"))?;
        }
        let files = Files::below("/");
        let mut environment = Environment::read(&files, target.drive.block_device());
        let before = Before::read(&files, &target.drive);
        let failure = work.run(target, &mut progress).err();
        before.compare(&files, &target.drive, &mut environment);
        let points: Result<Vec<_>> = work.jobs.iter().map(Job::point).collect();
        let facts = environment.facts.into_iter();
        let interrupted = resumed.then(|| {
            format!(
                "the session was interrupted and resumed at {now}: its conditions, temperatures and written bytes are of the time since then, and \
                 what disturbed it before is not known"
            )
        });
        let marks = target.marks.iter().cloned().chain(environment.marks);
        let conditions = Conditions {
            target: target.name.clone(),
            started,
            environment: facts.map(|(name, fact)| (name.to_owned(), fact)).collect(),
            marks: marks.chain(interrupted).collect(),
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
}

impl Lengths {
    pub(crate) fn all(self) -> Duration {
        self.skipped + self.measured
    }
}

/// The same load without a demanded rate.
pub(crate) fn free(load: &Workload) -> Workload {
    Workload {
        demand_iops: None,
        demand_pct: None,
        arrivals: None,
        on_ms: None,
        off_ms: None,
        ..load.clone()
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
