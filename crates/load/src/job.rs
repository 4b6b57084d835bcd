//! The runs of a session's loads: carried out one after the other, or taken from the journal of an earlier process.

use super::by_fio;
use super::journal::{Entry, Journal};
use super::outcome::{Asked, outcome};
use super::requests::Requests;
use super::run::{Lengths, Run, run};
use super::session::{Session, free};
use super::target::Target;
use anyhow::{Context, Result, bail, ensure};
use drives::drive::{Access, Drive};
use lab::fio::file::Version;
use lab::schema::results::PointResult;
use lab::workload::size::Size;
use lab::workload::trace::Trace;
use lab::workload::{Operation, Workload};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long the generator alone is measured.
const GENERATOR_TIME: Duration = Duration::from_millis(300);

/// A load, and what its runs have found so far.
pub(crate) struct Job<'a> {
    load: &'a (String, Workload),
    /// The load as it is run: its rate is a number. `None` until what it is a share of is known.
    known: Option<Workload>,
    lengths: Lengths,
    found: Runs,
    trace_digest: Option<String>,
    /// How many trims and flushes of its trace are left out, as a sentence without its full stop.
    left_out: Option<String>,
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

impl<'a> Job<'a> {
    pub fn new(
        session: &Session,
        load: &'a (String, Workload),
        target: &Target,
    ) -> Result<Job<'a>> {
        let named = || format!("load {}", load.0);
        let lengths = session.lengths(&load.1);
        let found = if session.by_fio && !load.1.is_open() {
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
            known: load.1.demand_pct.is_none().then(|| load.1.clone()),
            lengths,
            found,
            trace_digest: session.requests(&load.1).trace.map(Trace::digest),
            left_out: left_out(session.requests(&load.1)),
        })
    }

    /// An invalid run is not repeated: the target would not keep up again.
    fn is_over(&self) -> bool {
        match &self.found {
            Runs::Own { runs, .. } => runs.iter().any(|(_, run)| run.invalid.is_some()),
            Runs::Fio { .. } => false,
        }
    }

    /// Takes over what the target does at most, if the load's rate is a share of that.
    fn know(&mut self, free_load: &Workload, most_iops: f64) {
        let load = &self.load.1;
        let Some(percent) = load.demand_pct.filter(|_| free(load) == *free_load) else {
            return;
        };
        let iops = (most_iops * f64::from(percent) / 100.0).round() as u64;
        self.known = Some(Workload {
            demand_pct: None,
            demand_iops: Some(iops.max(1)),
            ..load.clone()
        });
    }

    /// fio's version, if fio runs it.
    pub fn version_of_fio(&self) -> Option<String> {
        match &self.found {
            Runs::Fio { version, .. } => Some(version.to_string()),
            Runs::Own { .. } => None,
        }
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            name: &self.load.0,
            load: &self.load.1,
            lengths: self.lengths,
            trace_digest: self.trace_digest.clone(),
        }
    }

    /// `None` before the first run.
    pub fn point(&self) -> Result<Option<PointResult>> {
        match &self.found {
            Runs::Own { runs, .. } if runs.is_empty() => Ok(None),
            Runs::Fio { results, .. } if results.is_empty() => Ok(None),
            Runs::Own {
                generator_iops,
                runs,
            } => {
                let known = self.known.as_ref().expect("it has been run");
                let mut point = outcome(&self.asked(), known, runs, *generator_iops);
                point.notes.extend(self.left_out.clone());
                Ok(Some(point))
            }
            Runs::Fio {
                version, results, ..
            } => by_fio::outcome(*version, &self.asked(), results).map(Some),
        }
    }
}

fn left_out(requests: Requests<'_>) -> Option<String> {
    let count = requests.trace.map_or(0, |trace| trace.left_out);
    (count > 0).then(|| format!("{count} trims and flushes of its trace are left out"))
}

/// A session under way.
pub(crate) struct Work<'a, 'j> {
    pub session: &'a Session,
    pub jobs: Vec<Job<'a>>,
    /// The repetitions and places of loads that have been run.
    pub finished: BTreeSet<(u32, usize)>,
    pub journal: Option<&'j mut Journal>,
    /// How much of the session's time is over.
    pub done: Duration,
}

impl Work<'_, '_> {
    /// Takes over what was measured, now or by an earlier process.
    ///
    /// # Errors
    ///
    /// It does not belong to this session.
    pub fn take(&mut self, entry: Entry) -> Result<()> {
        let damaged = "does not fit this session; remove this file and the result to begin again";
        let (Entry::Maximum { load, .. } | Entry::Own { load, .. } | Entry::Fio { load, .. }) =
            &entry;
        let load = *load;
        ensure!(load < self.jobs.len(), damaged);
        let runs_of_each = self.session.runs;
        let is_next = |finished: &mut BTreeSet<(u32, usize)>, repetition: u32| {
            repetition < runs_of_each && finished.insert((repetition, load))
        };
        match entry {
            Entry::Maximum { iops, .. } => {
                ensure!(iops.is_finite() && iops > 0.0, damaged);
                let free_load = free(&self.jobs[load].load.1);
                self.jobs
                    .iter_mut()
                    .for_each(|job| job.know(&free_load, iops));
                self.done += self.session.lengths(&free_load).all();
                return Ok(());
            }
            Entry::Own {
                repetition,
                seed,
                run,
                ..
            } => {
                let Lengths { skipped, measured } = self.jobs[load].lengths;
                let [start_ns, end_ns] =
                    [skipped, skipped + measured].map(|time| time.as_nanos() as u64);
                let is_whole =
                    run.slices.is_of(start_ns, end_ns) && self.jobs[load].known.is_some();
                let is_its = seed == self.session.seed_of(repetition);
                ensure!(is_whole && is_its, damaged);
                ensure!(is_next(&mut self.finished, repetition), damaged);
                let Runs::Own { runs, .. } = &mut self.jobs[load].found else {
                    bail!(damaged);
                };
                runs.push((seed, *run));
            }
            Entry::Fio {
                repetition, result, ..
            } => {
                by_fio::check(&result).context(damaged)?;
                ensure!(is_next(&mut self.finished, repetition), damaged);
                let Runs::Fio { results, .. } = &mut self.jobs[load].found else {
                    bail!(damaged);
                };
                results.push(result);
            }
        }
        self.done += self.jobs[load].lengths.all();
        Ok(())
    }

    /// Keeps what has just been measured.
    ///
    /// # Panics
    ///
    /// If it does not belong to this session.
    fn keep(&mut self, entry: Entry) -> Result<()> {
        let kept = match &mut self.journal {
            Some(journal) => journal.add(&entry),
            None => Ok(()),
        };
        // A run counts even if the journal could not be written.
        let taken = self.take(entry);
        taken.expect("what was just measured belongs to this session");
        kept
    }

    /// Runs what is left.
    ///
    /// # Errors
    ///
    /// A request has failed, or the journal cannot be written.
    pub fn run(&mut self, target: &Target, progress: &mut impl FnMut(Duration)) -> Result<()> {
        for repetition in 0..self.session.runs {
            for load in self.session.order(repetition) {
                if self.finished.contains(&(repetition, load)) || self.jobs[load].is_over() {
                    continue;
                }
                if self.jobs[load].known.is_none() {
                    let iops = self.maximum(target, load)?;
                    self.keep(Entry::Maximum { load, iops })?;
                    progress(self.done);
                }
                let entry = self
                    .measure(target, repetition, load)
                    .with_context(|| self.named(target, load))?;
                self.keep(entry)?;
                progress(self.done);
            }
        }
        Ok(())
    }

    fn named(&self, target: &Target, load: usize) -> String {
        format!("load {} on {}", self.jobs[load].load.0, target.name)
    }

    /// What the target does without a limit.
    fn maximum(&self, target: &Target, load: usize) -> Result<f64> {
        let place = (&target.drive, target.span_bytes());
        let free_load = free(&self.jobs[load].load.1);
        let lengths = self.session.lengths(&free_load);
        let requests = self.session.requests(&free_load);
        let found = run(place, requests, self.session.seed, lengths)
            .with_context(|| self.named(target, load))?;
        let iops = found.measured().all.iops();
        ensure!(
            iops > 0.0,
            "{}: no request was answered, so there is no maximum of which a rate could be a share",
            self.named(target, load)
        );
        Ok(iops)
    }

    fn measure(&self, target: &Target, repetition: u32, load: usize) -> Result<Entry> {
        let job = &self.jobs[load];
        match &job.found {
            Runs::Own { .. } => {
                let place = (&target.drive, target.span_bytes());
                let known = job.known.as_ref().expect("its maximum was measured first");
                let seed = self.session.seed_of(repetition);
                let run = run(place, self.session.requests(known), seed, job.lengths)?;
                Ok(Entry::Own {
                    load,
                    repetition,
                    seed,
                    run: Box::new(run),
                })
            }
            Runs::Fio { job, .. } => Ok(Entry::Fio {
                load,
                repetition,
                result: by_fio::run(job)?,
            }),
        }
    }
}

/// The speed of the generator: the load in a closed loop on a target that completes requests at once.
fn generator_iops(load: &Workload, target: &Target) -> Result<f64> {
    let null = format!("null:{}", target.drive.size_bytes());
    let span_bytes = target.span_bytes();
    let drive = Drive::open(&null.parse()?, Access::Exclusive)?;
    let lengths = Lengths {
        skipped: Duration::from_millis(50),
        measured: GENERATOR_TIME,
    };
    let load = match load.op {
        // A trace has no closed loop; most of its requests are short.
        Operation::Replay => Workload {
            op: Operation::RandRead,
            bs: Size::new(4096),
            trace: None,
            speed_pct: None,
            ..load.clone()
        },
        _ => free(load),
    };
    let place = (&Arc::new(drive), span_bytes);
    let found = run(place, Requests::drawn(&load), 0, lengths)?;
    Ok(found.measured().all.iops())
}
