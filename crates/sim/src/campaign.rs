//! Runs many seeds on several threads. A history runs on one thread and shares nothing with others, so the result
//! does not depend on the number of threads.

use crate::history::draw::Wish;
use crate::history::{History, Mode};
use crate::random::mix;
use crate::run::{Counts, Failure, HistoryOutcome, run};
use crate::shrink::shrink;
use crate::watch::Watch;
use engine::layout::Level;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Failures that are shrunk; for others only the seed is reported.
const SHRUNK_MAX: usize = 3;
/// Number of failures after which no more seeds are started.
const FAILURES_MAX: usize = 100;

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds.
    pub seeds: Range<u64>,
    /// Only arrays of this level.
    pub level: Option<Level>,
    /// Only histories of this mode; otherwise the seed decides.
    pub mode: Option<Mode>,
    /// Threads.
    pub jobs: usize,
    /// Run each seed twice and compare.
    pub twice: bool,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct FailedSeed {
    /// The seed.
    pub seed: u64,
    /// Its mode.
    pub mode: Mode,
    /// What went wrong.
    pub failure: Failure,
    /// The smallest history found that fails in the same way, and the end of its log.
    pub shrunk: Option<(History, Vec<String>)>,
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Histories run, not counting repetitions.
    pub histories: u64,
    /// Hash of all event logs.
    pub hash: u64,
    /// How often what was done.
    pub counts: Counts,
    /// Seeds that failed, in order.
    pub failures: Vec<FailedSeed>,
}

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The seed that this thread runs, for reports of panics.
#[must_use]
pub fn current_seed() -> Option<u64> {
    SEED.get()
}

impl Campaign {
    /// The history of a seed.
    #[must_use]
    pub fn history(&self, seed: u64) -> History {
        let mode = self.mode.unwrap_or(match mix(seed) % 8 {
            0 => Mode::Calm,
            1 | 2 => Mode::Beyond,
            _ => Mode::Survivable,
        });
        let level = self.level;
        History::draw(seed, Wish { level, mode })
    }

    /// Runs all seeds. `progress` is called with the number of histories run, `endless` with a seed that does not
    /// end; such a seed can only be stopped by ending the process. The first failures are shrunk.
    pub fn run(&self, progress: impl Fn(u64) + Sync, endless: impl Fn(u64) + Sync) -> Summary {
        let mut summary = self.run_without_shrinking(progress, endless);
        for failed in summary.failures.iter_mut().take(SHRUNK_MAX) {
            if !matches!(failed.failure, Failure::Panicked(_)) {
                let small = shrink(&self.history(failed.seed), &failed.failure);
                let log = run(&small, true).log;
                failed.shrunk = Some((small, log));
            }
        }
        summary
    }

    /// As [`Campaign::run`], for callers that only count failures and do not need them shrunk.
    pub fn run_without_shrinking(
        &self,
        progress: impl Fn(u64) + Sync,
        endless: impl Fn(u64) + Sync,
    ) -> Summary {
        let next = AtomicU64::new(self.seeds.start);
        let summary = Mutex::new(Summary::default());
        let jobs = self.jobs.max(1);
        let watch = Watch::new(jobs);
        let work = |job: usize| loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.seeds.end || full(&summary) {
                return watch.begins(job, None, Instant::now());
            }
            watch.begins(job, Some(seed), Instant::now());
            self.one(seed, &summary, &progress);
        };
        std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..jobs)
                .map(|job| scope.spawn(move || work(job)))
                .collect();
            let looks = watch.look(scope, &endless);
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            watch.is_over(&looks);
            for ended in ended {
                ended.unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        let mut summary = lock(&summary).clone();
        summary.failures.sort_by_key(|failed| failed.seed);
        summary
    }

    fn one(&self, seed: u64, summary: &Mutex<Summary>, progress: &impl Fn(u64)) {
        SEED.set(Some(seed));
        let history = self.history(seed);
        let mut outcome = guarded(&history);
        if self.twice && outcome.failure.is_none() && guarded(&history).hash != outcome.hash {
            let text = "a second run took another course".to_owned();
            outcome.failure = Some(Failure::Unrepeatable(text));
        }
        SEED.set(None);
        let mut summary = lock(summary);
        summary.histories += 1;
        summary.counts.add(&outcome.counts);
        // A sum does not depend on the order in which threads finish.
        summary.hash = summary.hash.wrapping_add(mix(outcome.hash ^ mix(seed)));
        if let Some(failure) = outcome.failure {
            summary.failures.push(FailedSeed {
                seed,
                mode: history.mode,
                failure,
                shrunk: None,
            });
        }
        progress(summary.histories);
    }
}

fn full(summary: &Mutex<Summary>) -> bool {
    lock(summary).failures.len() >= FAILURES_MAX
}

fn lock(summary: &Mutex<Summary>) -> std::sync::MutexGuard<'_, Summary> {
    summary
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a history. A broken assertion of the engine counts as a failure of the history.
fn guarded(history: &History) -> HistoryOutcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(history, false)));
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        HistoryOutcome {
            hash: 0,
            failure: Some(Failure::Panicked(text.unwrap_or_default())),
            counts: Counts::default(),
            log: Vec::new(),
        }
    })
}
