//! What makes the figures of a load doubtful.

use super::run::Run;
use lab::schema::measurement::Measurement;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Metrics;
use lab::statistics::replications::REPLICATIONS_MIN;
use lab::statistics::steady_state::{RANGE_MAX_PERCENT, SLOPE_MAX_PERCENT, SteadyState};
use lab::workload::Operation;
use lab::workload::slices::Measured;
use words::number;

/// Share of the generator's own speed from which it is part of what is measured.
const GENERATOR_SHARE_MAX: f64 = 0.5;
/// Share of the median latency that the generator may be late by.
const LATE_SHARE_MAX: f64 = 0.1;

/// Share of the queue depth that a closed loop keeps outstanding at least.
const DEPTH_SHARE_MIN: f64 = 0.9;

/// The marks of a load, as sentences without their full stops.
pub(crate) fn marks(
    metrics: &Metrics,
    measurement: &Measurement,
    runs: &[(u64, Run)],
    measured: &[Measured],
) -> Vec<String> {
    let mut marks = Vec::new();
    let figure = |metric| metrics.get(&metric).map(|value| value.value);
    marks.extend(few(runs.len()));
    let rate = figure(Metric::Iops)
        .unwrap_or(0.0)
        .max(measurement.demanded_iops().unwrap_or(0) as f64);
    if let Some(iops) = measurement.generator_iops
        && rate > iops * GENERATOR_SHARE_MAX
    {
        marks.push(format!(
            "the generator alone reaches {} IOPS on this machine, so it is part of what is measured; more threads may help",
            number(iops)
        ));
    }
    let middle_us =
        figure(Metric::Latency(Statistic::P50)).or(figure(Metric::Latency(Statistic::Mean)));
    if let (Some(late_us), Some(middle_us)) = (measurement.generator_late_p99_us, middle_us)
        && late_us > middle_us * LATE_SHARE_MAX
    {
        marks.push(format!(
            "1 % of the requests were issued more than {} us late although they could have been: the processors are busy",
            number(late_us)
        ));
    }
    marks.extend(measurement.steady_state.and_then(unsteady));
    marks.extend(unanswered(runs, measured));
    marks.extend(shallow(measurement));
    let left = figure(Metric::Backlog).unwrap_or(0.0);
    // One request of each thread may fall due just as a run ends.
    let threads = f64::from(measurement.workload.threads);
    if measurement.workload.op == Operation::Replay && left > threads {
        marks.push(format!(
            "on average, {} requests that were due had not been issued when a run ended, so their latencies are missing: the target does not \
             keep up with the trace",
            number(left)
        ));
    }
    // With arrivals at random, fewer than usual may have been due; then nothing is left over.
    if left >= 1.0 && figure(Metric::DemandMet).is_some_and(|met| met < 1.0) {
        marks.push(
            "the demanded rate was not reached, so response latency grows with the length of a run"
                .to_owned(),
        );
    }
    marks
}

/// Requests count when they complete, so one that is outstanding for longer than all others of its run have taken is missing.
fn unanswered(runs: &[(u64, Run)], measured: &[Measured]) -> Option<String> {
    let missing = runs
        .iter()
        .zip(measured)
        .filter_map(|((_, run), measured)| {
            let greatest_ns = measured.all.service.max_ns().unwrap_or(0);
            run.oldest_ns.filter(|oldest_ns| *oldest_ns > greatest_ns)
        });
    let oldest_us = missing.max()? as f64 / 1000.0;
    Some(format!(
        "at the end of a run, a request had been outstanding for {} us, longer than any that was counted in it",
        number(oldest_us)
    ))
}

/// A closed loop that does not keep its requests outstanding measures this program.
fn shallow(measurement: &Measurement) -> Option<String> {
    let wanted = measurement.workload.total_depth() as f64;
    let depth = measurement.effective_queue_depth;
    let is_shallow = !measurement.workload.is_open() && depth < wanted * DEPTH_SHARE_MIN;
    is_shallow.then(|| {
        format!(
            "{} of {wanted} requests were outstanding on average: the processors are busy",
            number(depth)
        )
    })
}

/// Too few runs.
pub(crate) fn few(runs: usize) -> Option<String> {
    let is_few = runs < REPLICATIONS_MIN;
    is_few.then(|| format!("{runs} of at least {REPLICATIONS_MIN} runs: means have no intervals"))
}

/// A drive that was still changing.
pub(crate) fn unsteady(state: SteadyState) -> Option<String> {
    (!state.is_attained).then(|| {
        format!(
            "runs {} to {} were not in a steady state by SNIA's rule: their rates lie {:.0} % apart ({RANGE_MAX_PERCENT} % allowed), and their line \
             changes by {:.0} % ({SLOPE_MAX_PERCENT} % allowed)",
            state.first_round, state.last_round, state.range_percent, state.slope_percent
        )
    })
}
