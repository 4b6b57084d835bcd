//! Many points, on several threads. A point runs on one thread and is independent of all others, so the results do not
//! depend on the number of threads.

use super::{Answer, Virtual};
use lab::claims::predictor::NotModelled;
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Configurations and the figures wanted of each. Each configuration is run once, however many questions need it.
pub type Wanted = BTreeMap<Configuration, BTreeSet<Metric>>;
/// The answer for each.
pub type Answered = BTreeMap<Configuration, Result<Answer, NotModelled>>;

/// Estimated requests per second of a closed loop for each outstanding request, and the most in all: for arrays of many
/// fast drives.
const CLOSED_LOOP_IOPS: (u64, u64) = (500, 2_000_000);

/// The work that a point takes, in rough thousands of commands: for progress, and for starting with the longest.
#[must_use]
pub fn work(configuration: &Configuration) -> u64 {
    let workload = &configuration.workload;
    let seconds = match (workload.skip_seconds, workload.seconds) {
        (None, Some(seconds)) => u64::from(seconds),
        _ => 10,
    };
    let (each, most) = CLOSED_LOOP_IOPS;
    let closed_loop = (workload.total_depth() * each).min(most);
    seconds * workload.demand_iops.unwrap_or(closed_loop) / 1000 + 1
}

/// Points in an order in which they are begun.
pub type Order<'a> = [(&'a Configuration, &'a BTreeSet<Metric>)];

/// Those with the most work first, so that no thread waits long for the last.
#[must_use]
pub fn longest_first(wanted: &Wanted) -> Vec<(&Configuration, &BTreeSet<Metric>)> {
    let mut order: Vec<_> = wanted.iter().collect();
    order.sort_by_key(|(configuration, _)| std::cmp::Reverse(work(configuration)));
    order
}

/// Answers all.
#[must_use]
pub fn answer_all(predictor: &Virtual, wanted: &Wanted, jobs: usize) -> Answered {
    let order = longest_first(wanted);
    let none = Answered::new();
    answer_until(predictor, &order, none, jobs, |_, _, _, _| {}, |_| false)
}

/// Answers `order` one after the other until it `is_enough`, given all answers so far, which are `answered` at first. Then all that
/// come before one that has been begun are answered, and perhaps some that come later: how many depends on the threads.
///
/// `finished` is called after each answer, on the thread that computed it, with the amount of [`work`] that has been done so far.
#[must_use]
pub fn answer_until(
    predictor: &Virtual,
    order: &Order<'_>,
    answered: Answered,
    jobs: usize,
    finished: impl Fn(&Configuration, &BTreeSet<Metric>, &Result<Answer, NotModelled>, u64) + Sync,
    is_enough: impl Fn(&Answered) -> bool + Sync,
) -> Answered {
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let has_ended = AtomicBool::new(is_enough(&answered));
    let answers = Mutex::new(answered);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, order.len().max(1)) {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed)
                    && let Some(&(configuration, metrics)) =
                        order.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let answer = predictor.answer(configuration, metrics);
                    let amount = work(configuration);
                    let so_far = done.fetch_add(amount, Ordering::Relaxed) + amount;
                    finished(configuration, metrics, &answer, so_far);
                    let mut answers = lock(&answers);
                    answers.insert(configuration.clone(), answer);
                    has_ended.fetch_or(is_enough(&answers), Ordering::Relaxed);
                }
            });
        }
    });
    std::mem::take(&mut *lock(&answers))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
