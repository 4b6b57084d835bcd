//! One run of one load: a thread of the machine for each thread of the load, all in the same window of time.

use super::issuer::{Issued, Issuer};
use super::payload::Payload;
use anyhow::{Result, anyhow, ensure};
use drives::drive::Drive;
use engine::units::Nanos;
use lab::statistics::histogram::Latencies;
use lab::workload::Workload;
use lab::workload::generator::Generator;
use lab::workload::slices::{Measured, Slices};
use repeatable::random::Stream;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

/// Most requests that a thread may have outstanding.
pub(crate) const DEPTH_MAX: u32 = 16_384;
/// The seconds' worth of demanded requests that may be overdue: as long as ACT lets its load lag (`max-lag-sec`).
const OVERDUE_MAX_S: u64 = 10;

/// The window of a run. Times are nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When it starts, on the monotonic clock.
    pub start: Nanos,
    skipped_ns: u64,
    measured_ns: u64,
}

impl Times {
    pub fn end_ns(&self) -> u64 {
        self.skipped_ns + self.measured_ns
    }

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
pub(crate) struct Run {
    pub measured: Measured,
    /// See [`Issued::lateness`].
    pub lateness: Latencies,
    /// See [`Issued::oldest_ns`].
    pub oldest_ns: Option<u64>,
    /// Busy processors of this process.
    pub busy_cores: f64,
    /// Why the run does not count, if it does not.
    pub invalid: Option<String>,
}

/// Runs `load` on the first `span_bytes` of `drive`. The requests follow from `seed`.
///
/// # Errors
///
/// A request has failed or is not answered, or memory or io_uring are missing.
pub(crate) fn run(
    (drive, span_bytes): (&Arc<Drive>, u64),
    load: &Workload,
    seed: u64,
    lengths: Lengths,
) -> Result<Run> {
    let generator = Generator::new(load, span_bytes, seed)
        .map_err(|broken| anyhow!("{} {}", broken.key, broken.rule))?;
    let depth = load.qd.unwrap_or(1);
    ensure!(
        depth <= DEPTH_MAX,
        "a thread has at most {DEPTH_MAX} requests outstanding, and qd is {depth}; use more threads"
    );
    let length_bytes = load
        .bs
        .expect("the generator takes no load without a size")
        .bytes();
    let overdue_max = load.demand_iops.map_or(u64::MAX, |iops| {
        iops.saturating_mul(OVERDUE_MAX_S) / u64::from(load.threads)
    });
    let started = OnceLock::new();
    let ready = Barrier::new(load.threads as usize);
    let stop = AtomicBool::new(false);
    let threads = generator.split();
    let issued: Vec<Result<(Issued, f64)>> = std::thread::scope(|scope| {
        let one = |(index, generator): (usize, Generator)| {
            let (started, ready, stop) = (&started, &ready, &stop);
            let begin = move || {
                let stream = Stream::new(seed, "payload", index as u64);
                let issuer = Payload::new(depth, length_bytes, stream).and_then(|payload| {
                    Issuer::new(drive.clone(), load, generator, payload, overdue_max)
                });
                // A thread that cannot take part must not leave the others waiting.
                stop.fetch_or(issuer.is_err(), Ordering::Relaxed);
                ready.wait();
                let issuer = issuer?;
                let times = *started.get_or_init(|| Times {
                    start: now(),
                    skipped_ns: lengths.skipped.as_nanos() as u64,
                    measured_ns: lengths.measured.as_nanos() as u64,
                });
                let slices = Slices::new(load, times.skipped_ns, times.end_ns());
                let busy_s = processor_s();
                let issued = issuer.run(&times, slices, stop);
                let is_over = issued.as_ref().is_err()
                    || issued.as_ref().is_ok_and(|issued| issued.overrun.is_some());
                stop.fetch_or(is_over, Ordering::Relaxed);
                Ok((
                    issued?,
                    (processor_s() - busy_s) / (now().since(times.start).0 as f64 / 1e9),
                ))
            };
            scope.spawn(begin)
        };
        let threads: Vec<_> = threads.into_iter().enumerate().map(one).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread of a load does not panic"));
        ended.collect()
    });
    joined(load, issued.into_iter().collect::<Result<Vec<_>>>()?)
}

fn joined(load: &Workload, threads: Vec<(Issued, f64)>) -> Result<Run> {
    let mut lateness = Latencies::default();
    threads
        .iter()
        .for_each(|(one, _)| lateness.merge(&one.lateness));
    let overrun = threads.iter().filter_map(|(one, _)| one.overrun).min();
    let invalid = overrun.map(|(at_ns, overdue)| {
        format!(
            "after {:.1} s, {overdue} requests of one thread were overdue, more than {OVERDUE_MAX_S} s of its demand: the target does not keep up with {} \
             requests per second",
            at_ns as f64 / 1e9,
            load.demand_iops.unwrap_or(0)
        )
    });
    let backlog = threads.iter().map(|(one, _)| one.backlog).sum();
    Ok(Run {
        lateness,
        oldest_ns: threads.iter().filter_map(|(one, _)| one.oldest_ns).max(),
        busy_cores: threads.iter().map(|(_, busy)| busy).sum(),
        measured: Slices::join(
            threads.into_iter().map(|(one, _)| one.slices).collect(),
            backlog,
        ),
        invalid,
    })
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
