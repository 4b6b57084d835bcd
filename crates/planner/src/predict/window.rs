//! When the measurement of a point begins, and how long it lasts.
//!
//! A window that begins at the start of the run is run as it is. All other points ask for the long run, whose state can
//! be set instead of waited for. A **trial** of a second (less for a quick plan) shows when answers have settled
//! (MSER-5) and whether the drives' clean pools, or the room in their pseudo-SLC caches, shrink. If they do, drives start with
//! empty pools and full caches; but if they shrink
//! so slowly that a given window may begin before they are empty, the window is run as it is. If the load changes what
//! lies on the drives (first writes, sequential writes over scattered data), nothing is shortened.
//!
//! In the long run a window is only as long as its figures need ([`requests_wanted`]): a longer one would change only
//! the noise.

use super::point::{Point, Start};
use anyhow::Result;
use lab::schema::metric::{Metric, Statistic};
use lab::statistics::warm_up::mser_5;
use lab::workload::arrivals::Bursts;
use repeatable::random::Stream;
use std::collections::BTreeSet;
use timed::run::{RunOutcome, Window};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Longest trial, unless the bursts of a load are longer.
const TRIAL_MAX_NS: u64 = 16 * S;
/// Bursts of a trial.
const BURSTS_OF_TRIAL: u64 = 8;
/// Longest window, for loads with few requests.
const WINDOW_MAX_NS: u64 = 600 * S;
/// Requests of one run that rates and means need.
const REQUESTS_MIN: u64 = 50_000;
/// The same for the 99.999th percentile. Of 400 requests beyond it, one stall of a busy drive may have delayed dozens.
const DEEP_REQUESTS: u64 = 40_000_000;
/// The same for a quick plan: its five runs together have about a hundred requests beyond 99.9 %.
const QUICK_REQUESTS: u64 = 30_000;
/// A window is shifted by at most its length divided by this.
const LATER: u64 = 8;
/// A run with a given window starts with empty pools if the window begins at no less than this percentage of the time
/// at which the pools would run empty.
const SURELY_PERCENT: u128 = 120;

/// How much work is spent on a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Requests of one run: see [`requests_wanted`].
    pub requests: u64,
    /// Length of the first trial.
    trial_ns: u64,
    /// Shortest window of a load that only reads, and of one that writes. The latter holds hundreds of collection
    /// periods of about 8 ms, so that a period cut off by the window's end does not show. In a quick plan it holds
    /// dozens.
    read_window_min_ns: u64,
    write_window_min_ns: u64,
    /// Least time that is cut off at the start, however soon a run has settled.
    cut_min_ns: u64,
    /// A pool that shrinks by less than this in a trial (without its first quarter) does not run empty: the filling and
    /// emptying of write buffers changes it by about as much.
    sinks_bytes: u64,
}

impl Effort {
    /// For figures that are to be judged.
    #[must_use]
    pub fn full(requests: u64) -> Effort {
        Effort {
            requests,
            trial_ns: S,
            read_window_min_ns: 250 * MS,
            write_window_min_ns: 4 * S,
            cut_min_ns: 50 * MS,
            sinks_bytes: 8 << 20,
        }
    }

    /// For a plan that a user waits for: a second or two of this machine's time. Its percentiles are those of all runs
    /// together.
    #[must_use]
    pub fn quick() -> Effort {
        Effort {
            requests: QUICK_REQUESTS,
            trial_ns: 50 * MS,
            read_window_min_ns: 40 * MS,
            write_window_min_ns: 400 * MS,
            cut_min_ns: 10 * MS,
            sinks_bytes: 4 << 20,
        }
    }
}

/// How a point is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The state in which drives start.
    pub start: Start,
    /// The part of the run that is measured.
    pub window: Window,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Commands that the trials took.
    pub commands: u64,
}

impl Plan {
    /// The window of the run with this seed. Where drives collect garbage, each run's window is shifted by a random
    /// time: otherwise all windows would end at the same point of a collection period, and all runs would be too fast
    /// or too slow alike.
    #[must_use]
    pub fn window_of(&self, seed: u64) -> Window {
        let Window { from_ns, until_ns } = self.window;
        let later_ns = match self.start {
            Start::Spent => {
                let room_ns = (until_ns - from_ns) / LATER;
                Stream::new(seed, "window", 0).below(room_ns)
            }
            _ => 0,
        };
        Window {
            from_ns: from_ns + later_ns,
            until_ns: until_ns + later_ns,
        }
    }
}

/// Requests of one run that the figures need. A percentile needs ten independent requests beyond it, and successive
/// requests are not independent.
#[must_use]
pub fn requests_wanted(wanted: &BTreeSet<Metric>, deep: bool) -> u64 {
    let of = |metric: &Metric| match metric {
        Metric::Latency(statistic) | Metric::Response(statistic) => match statistic {
            Statistic::P99_9 | Statistic::P99_99 => 1_000_000,
            Statistic::P99_999 if deep => DEEP_REQUESTS,
            Statistic::P99 => 100_000,
            _ => REQUESTS_MIN,
        },
        _ => REQUESTS_MIN,
    };
    wanted.iter().map(of).max().unwrap_or(REQUESTS_MIN)
}

/// The result of a trial.
struct Trial {
    /// When answers have settled; `None` if they have not.
    settled_ns: Option<u64>,
    /// Answers per second after that.
    iops: f64,
    /// When the pools will be empty, if they shrink.
    empty_at_ns: Option<u64>,
}

impl Trial {
    fn of(outcome: &RunOutcome, length_ns: u64, sinks_bytes: u64) -> Trial {
        let series = &outcome.series;
        let answers: Vec<f64> = series.answers().iter().map(|&count| count as f64).collect();
        let cut = mser_5(&answers);
        let from = cut.unwrap_or(answers.len() / 2);
        let settled: f64 = answers[from..].iter().sum();
        let settled_ns = (answers.len() - from) as u64 * series.part_ns();
        let [begun, ended] = outcome.pool_bytes;
        let sunk_bytes = begun
            .zip(ended)
            .map_or(0, |(begun, ended)| begun.saturating_sub(ended));
        let empty_at_ns = (sunk_bytes >= sinks_bytes).then(|| {
            let left_bytes = u128::from(ended.unwrap_or(0));
            let window_ns = u128::from(outcome.figures.window_ns);
            let left_ns = left_bytes * window_ns / u128::from(sunk_bytes);
            length_ns.saturating_add(u64::try_from(left_ns).unwrap_or(u64::MAX))
        });
        // A pool that is already empty may not have shrunk much during the trial.
        let is_empty = outcome.counters.member_writes > 0 && ended == Some(0);
        Trial {
            settled_ns: cut.map(|cut| cut as u64 * series.part_ns()),
            iops: settled * 1e9 / settled_ns.max(1) as f64,
            empty_at_ns: empty_at_ns.or_else(|| is_empty.then_some(length_ns)),
        }
    }
}

/// Chooses how a point is measured.
///
/// # Errors
///
/// As [`Point::run`].
pub fn choose(point: &Point, seed: u64, effort: Effort) -> Result<Plan> {
    let workload = point.workload();
    // Each run has as many bursts as pauses.
    let period_ns = workload.bursts().map_or(1, Bursts::period_ns);
    let whole = |seconds: u32| (u64::from(seconds) * S).next_multiple_of(period_ns);
    let skip_ns = whole(workload.skip_seconds.unwrap_or(0));
    let length_ns = workload.seconds.map(whole);
    let shared_queues = || point.shared_queues().into_iter();
    let as_it_stands = |length_ns, commands| Plan {
        start: Start::AsPut,
        window: Window {
            from_ns: skip_ns,
            until_ns: skip_ns + length_ns,
        },
        notes: shared_queues().collect(),
        commands,
    };
    if let Some(length_ns) = length_ns
        && (skip_ns == 0 || !point.keeps_order())
    {
        return Ok(as_it_stands(length_ns, 0));
    }
    let mut commands = 0;
    let trial = settle(point, Start::AsPut, seed, effort, &mut commands)?;
    let window_starts_late =
        |empty_at_ns: u64| u128::from(empty_at_ns) * SURELY_PERCENT <= u128::from(skip_ns) * 100;
    let start = match (trial.empty_at_ns, length_ns) {
        (None, _) => Start::AsPut,
        (Some(_), None) => Start::Spent,
        (Some(empty_at_ns), Some(_)) if window_starts_late(empty_at_ns) => Start::Spent,
        (Some(_), Some(length_ns)) => return Ok(as_it_stands(length_ns, commands)),
    };
    let trial = match start {
        Start::AsPut => trial,
        _ => settle(point, start, seed, effort, &mut commands)?,
    };
    let needed_ns = effort.requests as f64 * 1e9 / trial.iops.max(1e-3);
    let window_min_ns = match workload.read_percent() {
        Some(100) => effort.read_window_min_ns,
        _ => effort.write_window_min_ns,
    };
    let needed_ns = (needed_ns as u64).clamp(window_min_ns, WINDOW_MAX_NS);
    let from_ns = trial
        .settled_ns
        .unwrap_or(TRIAL_MAX_NS)
        .max(effort.cut_min_ns);
    let measured_ns = needed_ns.min(length_ns.unwrap_or(u64::MAX));
    let window = Window {
        from_ns,
        until_ns: from_ns + measured_ns.next_multiple_of(period_ns),
    };
    let unsettled = "answers had not settled when the window began";
    let notes = trial.settled_ns.is_none().then(|| unsettled.to_owned());
    let burst = (start == Start::Spent).then(|| point.burst()).flatten();
    Ok(Plan {
        start,
        window,
        notes: notes
            .into_iter()
            .chain(burst)
            .chain(shared_queues())
            .collect(),
        commands,
    })
}

/// Repeats the trial with twice the length until answers have settled.
fn settle(
    point: &Point,
    start: Start,
    seed: u64,
    effort: Effort,
    commands: &mut u64,
) -> Result<Trial> {
    // A demand only little above the sustainable rate empties a pool slowly.
    let is_demanded = point.workload().demand_iops.is_some();
    let bursts_ns = point.workload().bursts().map_or(0, Bursts::period_ns) * BURSTS_OF_TRIAL;
    let mut length_ns = if is_demanded { S } else { effort.trial_ns }.max(bursts_ns);
    loop {
        let window = Window {
            from_ns: length_ns / 4,
            until_ns: length_ns,
        };
        let outcome = point.run(start, seed, window)?;
        *commands += outcome.commands;
        let trial = Trial::of(&outcome, length_ns, effort.sinks_bytes);
        let is_done = trial.settled_ns.is_some() || length_ns >= TRIAL_MAX_NS;
        // If the pools run empty, another trial with empty pools follows anyway.
        if is_done || (start == Start::AsPut && trial.empty_at_ns.is_some()) {
            return Ok(trial);
        }
        length_ns *= 2;
    }
}
