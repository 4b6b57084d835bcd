//! One run of one load: a thread of the machine for each thread of the load, all in the same window of time.

use super::gate::{Gate, Pass};
use super::issuer::{Issued, Issuer};
use super::payload::Payload;
use super::requests::Requests;
use anyhow::{Context, Result};
use drives::drive::Drive;
use engine::units::Nanos;
use lab::statistics::histogram::Latencies;
use lab::workload::Workload;
use lab::workload::generator::Generator;
use lab::workload::slices::{Measured, Slices};
use repeatable::random::Stream;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// Most requests that a thread may have outstanding.
pub(crate) const DEPTH_MAX: u32 = 16_384;
/// How long a request may be overdue: as long as ACT lets its load lag (`max-lag-sec`).
const OVERDUE_MAX: Nanos = Nanos(10 * Nanos::SECOND.0);

/// When a run is. Times are nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When it starts, on the monotonic clock.
    pub start: Nanos,
    /// When its window ends.
    pub end_ns: u64,
}

impl Times {
    /// The time since the start, which has passed.
    pub fn since_start_ns(&self, now: Nanos) -> u64 {
        now.since(self.start).0
    }
}

/// How long a run lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Time that does not count.
    pub skipped: Duration,
    /// Time that counts.
    pub measured: Duration,
}

/// What a run has found.
#[derive(Serialize, Deserialize)]
pub(crate) struct Run {
    /// What all threads have counted.
    pub slices: Slices,
    /// Requests that were overdue at the end.
    pub backlog: u64,
    /// See [`Issued::lateness`].
    pub lateness: Latencies,
    /// See [`Issued::oldest_ns`].
    pub oldest_ns: Option<u64>,
    /// Busy processors of this process.
    pub busy_cores: f64,
    /// Why the run does not count, if it does not.
    pub invalid: Option<String>,
}

impl Run {
    /// Its figures.
    pub fn measured(&self) -> Measured {
        self.slices.measured(self.backlog)
    }
}

/// Runs a load on the first `span_bytes` of `drive`. The requests follow from `seed`.
///
/// # Errors
///
/// A request has failed or is not answered, or memory or io_uring are missing.
pub(crate) fn run(
    (drive, span_bytes): (&Arc<Drive>, u64),
    requests: Requests<'_>,
    seed: u64,
    lengths: Lengths,
) -> Result<Run> {
    let load = requests.load;
    let generator = requests.generator(span_bytes, seed)?;
    let depth = requests.depth();
    assert!(depth <= DEPTH_MAX, "it was checked");
    let length_bytes = requests.longest_bytes();
    let gate = Gate::new(load.threads);
    let stop = AtomicBool::new(false);
    let skipped_ns = lengths.skipped.as_nanos() as u64;
    let end_ns = skipped_ns + lengths.measured.as_nanos() as u64;
    // No two runs write the same content, not even those of one seed.
    let content = clock(ClockId::Realtime).0;
    let work =
        |index: u64, generator: Generator, pass: Pass<'_>| -> Result<Option<(Issued, f64)>> {
            let payload =
                Payload::new(depth, length_bytes, Stream::new(content, "payload", index))?;
            let issuer = Issuer::new(drive.clone(), load, generator, payload, OVERDUE_MAX.0)?;
            let slices = Slices::new(load, skipped_ns, end_ns);
            let Some(start) = pass.arrive(now) else {
                return Ok(None);
            };
            let times = Times { start, end_ns };
            let busy_s = processor_s();
            let issued = issuer.run(&times, slices, &stop);
            let is_over = issued
                .as_ref()
                .map_or(true, |issued| issued.overrun_ns.is_some());
            stop.fetch_or(is_over, Ordering::Relaxed);
            let seconds = now().since(start).0 as f64 / 1e9;
            Ok(Some((issued?, (processor_s() - busy_s) / seconds)))
        };
    let issued: Result<Vec<Option<_>>> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, generator) in (0..).zip(generator.split()) {
            let (work, pass) = (&work, gate.pass());
            let begin = move || work(index, generator, pass);
            // If it fails, the pass is dropped with the closure, so no other thread waits.
            let thread = Builder::new().spawn_scoped(scope, begin);
            threads.push(thread.context("the system starts no more threads; use fewer")?);
        }
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread of a load does not panic"));
        ended.collect()
    });
    let issued: Option<Vec<_>> = issued?.into_iter().collect();
    Ok(joined(
        load,
        issued.expect("a thread gives up only with an error"),
    ))
}

fn joined(load: &Workload, threads: Vec<(Issued, f64)>) -> Run {
    let mut lateness = Latencies::default();
    threads
        .iter()
        .for_each(|(one, _)| lateness.merge(&one.lateness));
    let overrun_ns = threads.iter().filter_map(|(one, _)| one.overrun_ns).min();
    let invalid = overrun_ns.map(|at_ns| {
        let demanded = match load.demand_iops {
            Some(iops) => format!("{iops} requests per second"),
            None => "the trace".to_owned(),
        };
        format!(
            "after {:.1} s, a request had been overdue for more than {} s: the target does not keep up with {demanded}",
            at_ns as f64 / 1e9,
            OVERDUE_MAX.0 / Nanos::SECOND.0
        )
    });
    Run {
        backlog: threads.iter().map(|(one, _)| one.backlog).sum(),
        lateness,
        oldest_ns: threads.iter().filter_map(|(one, _)| one.oldest_ns).max(),
        busy_cores: threads.iter().map(|(_, busy)| busy).sum(),
        slices: Slices::joined(threads.into_iter().map(|(one, _)| one.slices).collect()),
        invalid,
    }
}

fn now() -> Nanos {
    clock(ClockId::Monotonic)
}

/// Processor time of the calling thread.
fn processor_s() -> f64 {
    clock(ClockId::ThreadCPUTime).0 as f64 / 1e9
}

fn clock(id: ClockId) -> Nanos {
    let time = clock_gettime(id);
    Nanos(time.tv_sec as u64 * Nanos::SECOND.0 + time.tv_nsec as u64)
}
