//! One measurement: a warm-up, and a window of time in which everything is counted.

use super::cores;
use super::generator::{Load, histogram};
use super::outcome::{Counters, Sample};
use anyhow::{Context, bail};
use drives::counting::allocations;
use engine::units::Nanos;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Share of the time that a measurement runs before it counts: to warm caches, set the dirty mark and fill the queues.
const WARM_PERCENT: u32 = 10;
const WARM_MIN: Duration = Duration::from_millis(10);
/// If no request completes for this long, at the start or after the end, the bench fails.
pub(super) const PATIENCE: Nanos = Nanos(45 * Nanos::SECOND.0);
/// How often a thread that waits for the last completions wakes up.
pub(super) const DRAIN_LOOK: Nanos = Nanos::MILLISECOND;

/// The state at a moment of a measurement.
struct Mark {
    now: Nanos,
    processor_s: f64,
    completed: u64,
    allocations: u64,
    counters: Counters,
}

impl Mark {
    fn set(load: &Load, counters: Counters) -> Mark {
        let processor_s = cores::thread_seconds();
        Mark {
            now: load.now(),
            processor_s,
            completed: load.completed(),
            allocations: allocations(),
            counters,
        }
    }

    fn sample(&self, end: &Mark, latency: Histogram<u64>) -> Sample {
        Sample {
            seconds: end.now.since(self.now).0 as f64 / 1e9,
            processor_s: end.processor_s - self.processor_s,
            requests: end.completed - self.completed,
            allocations: end.allocations - self.allocations,
            counters: end.counters.since(&self.counters),
            latency,
        }
    }
}

/// Runs `turn` for a warm-up and then for `time`, which is measured. `turn` advances the load.
pub(super) fn window<S>(
    state: &mut S,
    time: Duration,
    turn: impl Fn(&mut S),
    load: impl Fn(&mut S) -> &mut Load,
    counters: impl Fn(&S) -> Counters,
) -> anyhow::Result<Sample> {
    let nanos = |duration: Duration| Nanos(duration.as_nanos() as u64);
    turn(state);
    let begin = load(state).now();
    let warm_until = begin.after(nanos((time * WARM_PERCENT / 100).max(WARM_MIN)));
    load(state).wake_at(warm_until);
    while load(state).now() < warm_until || !load(state).has_answers() {
        if load(state).now().since(begin) > PATIENCE {
            bail!(
                "no request was answered for {} s; look at the members",
                PATIENCE.0 / 1_000_000_000
            );
        }
        turn(state);
    }
    load(state).reset_latency();
    let counted = counters(state);
    let start = Mark::set(load(state), counted);
    let end_at = start.now.after(nanos(time));
    load(state).wake_at(end_at);
    while load(state).now() < end_at {
        turn(state);
    }
    let counted = counters(state);
    let end = Mark::set(load(state), counted);
    let mut latency = histogram();
    latency
        .add(load(state).latency())
        .context("latencies of one shape add up")?;
    if let Some(failure) = load(state).failure() {
        bail!("a request failed: {failure:?}");
    }
    Ok(start.sample(&end, latency))
}
