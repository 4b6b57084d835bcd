//! Many predictions at once: remembered answers are taken from disk, the rest is computed.

use crate::predict::Virtual;
use crate::predict::many::{self, Answered, Order, Wanted, longest_first, work};
use crate::remembered::{Kept, Remembered};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// Receives the progress of the work, and sentences for the user.
pub trait Watch: Sync {
    /// Work begins, `all` units of it. A caller that asks several questions in a row begins several times.
    fn begin(&self, all: u64);

    /// `done` units of them are finished.
    fn done(&self, done: u64);

    /// The work has ended.
    fn end(&self);

    /// A sentence for the user.
    fn note(&self, sentence: &str);
}

/// Watches nothing, in tests.
#[cfg(test)]
pub(crate) struct Quiet;

#[cfg(test)]
impl Watch for Quiet {
    fn begin(&self, _all: u64) {}
    fn done(&self, _done: u64) {}
    fn end(&self) {}
    fn note(&self, sentence: &str) {
        panic!("{sentence}");
    }
}

/// How answers are computed: with how many threads, and whether the cache on disk is used.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Number of threads; `None` means one for each core of the machine. The result does not depend on it.
    pub jobs: Option<usize>,
    /// Whether answers of the same program are read from the cache on disk, and new ones stored there.
    pub remember: bool,
}

/// User time of this thread so far, if the kernel reports it.
fn user_time_s() -> Option<f64> {
    /// Linux reports 100 ticks per second on all machines.
    const TICKS_PER_S: f64 = 100.0;
    // The 14th field; the second is a name in brackets and may hold spaces.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    let fields = stat.rsplit_once(')')?.1;
    let ticks: f64 = fields.split_whitespace().nth(11)?.parse().ok()?;
    Some(ticks / TICKS_PER_S)
}

thread_local! {
    /// User time of this thread when it finished its last answer. A new thread begins with 0.
    static BEFORE_S: Cell<f64> = const { Cell::new(0.0) };
}

/// User time since the last answer of this thread.
fn spent_s() -> Option<f64> {
    let now_s = user_time_s()?;
    Some(now_s - BEFORE_S.replace(now_s))
}

impl Work {
    /// Answers everything in `wanted`. Also returns the user time that it took to compute these answers, now or when
    /// they were first computed, if the kernel reports it.
    pub fn answer(
        self,
        predictor: &Virtual,
        wanted: &Wanted,
        watch: &dyn Watch,
    ) -> (Answered, Option<f64>) {
        let none = Answered::new();
        self.answer_until(predictor, &longest_first(wanted), none, watch, &|_| false)
    }

    /// The same one after the other until it `is_enough`, given all answers so far, which are `answered` at first: see
    /// [`many::answer_until`].
    pub fn answer_until(
        self,
        predictor: &Virtual,
        order: &Order<'_>,
        mut answered: Answered,
        watch: &dyn Watch,
        is_enough: &(dyn Fn(&Answered) -> bool + Sync),
    ) -> (Answered, Option<f64>) {
        let remembered = if self.remember {
            Remembered::open()
        } else {
            Remembered::default()
        };
        let mut missing = Vec::new();
        let mut spent_s = Some(0.0);
        for &(configuration, metrics) in order {
            let question = predictor.question(configuration, metrics);
            let recalled = remembered.recall(&question);
            if let Err(damaged) = &recalled {
                watch.note(&damaged.to_string());
            }
            if let Ok(Some(kept)) = recalled {
                answered.insert(configuration.clone(), Ok(kept.answer));
                spent_s = sum(spent_s, kept.user_cpu_seconds);
            } else {
                missing.push((configuration, metrics));
            }
        }
        let (answered, more_s) =
            self.compute(predictor, &missing, answered, &remembered, watch, is_enough);
        (answered, sum(spent_s, more_s))
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cores)
    }

    fn compute(
        self,
        predictor: &Virtual,
        order: &Order<'_>,
        answered: Answered,
        remembered: &Remembered,
        watch: &dyn Watch,
        is_enough: &(dyn Fn(&Answered) -> bool + Sync),
    ) -> (Answered, Option<f64>) {
        let all = order
            .iter()
            .map(|(configuration, _)| work(configuration))
            .sum();
        watch.begin(all);
        let all_spent_s = Mutex::new(Some(0.0));
        let answered = many::answer_until(
            predictor,
            order,
            answered,
            self.threads(),
            |configuration, metrics, answer, done| {
                let user_cpu_seconds = spent_s();
                if let Ok(answer) = answer {
                    let kept = Kept {
                        answer: answer.clone(),
                        user_cpu_seconds,
                    };
                    remembered.keep(&predictor.question(configuration, metrics), &kept);
                }
                let mut all_s = all_spent_s.lock().unwrap_or_else(PoisonError::into_inner);
                *all_s = sum(*all_s, user_cpu_seconds);
                drop(all_s);
                watch.done(done);
            },
            is_enough,
        );
        watch.end();
        let all_s = all_spent_s.into_inner();
        (answered, all_s.unwrap_or_else(PoisonError::into_inner))
    }
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? + other?)
}
