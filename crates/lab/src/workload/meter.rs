//! The results of a workload: rates, latencies, and whether a demand was met.
//!
//! Completions within the window are counted. Service latency counts from submission, response latency from the
//! intended start. A generator that waits for a slow target before it issues the next request measures only the first,
//! and so ignores the time that its users would have waited.

use super::Workload;
use super::arrivals::Rate;
use super::generator::Command;
use crate::statistics::batch_means::BatchMeans;
use crate::statistics::histogram::BatchedLatencies;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;
/// A demand is met if at least this percentage of it completed.
const DEMAND_MET_PERCENT: u128 = 99;

/// Counts the completions of one run.
#[derive(Clone, Debug)]
pub struct Meter {
    start_ns: u64,
    demand: Option<Demand>,
    /// Whether requests may start later than intended. In a closed loop both latencies are the same.
    is_open: bool,
    requests: u64,
    bytes: u64,
    service: BatchedLatencies,
    response: BatchedLatencies,
    service_means: BatchMeans,
}

/// Whether the demanded requests complete, second by second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Demand {
    rate: Rate,
    is_steady: bool,
    requests: u64,
    /// Completions in each second of the window.
    by_second: Vec<u64>,
}

impl Demand {
    /// What `workload` demands, if it does.
    pub fn of(workload: &Workload) -> Option<Demand> {
        Some(Demand {
            rate: workload.mean_demand()?,
            is_steady: workload.bursts().is_none(),
            requests: 0,
            by_second: Vec::new(),
        })
    }

    /// Counts a completion `since_ns` after the window's start.
    #[inline]
    pub fn completed(&mut self, since_ns: u64) {
        let second = (since_ns / SECOND_NS) as usize;
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
        self.requests += 1;
    }

    /// Adds what another thread of the same load has counted.
    pub fn add(&mut self, other: &Demand) {
        let seconds = self.by_second.len().max(other.by_second.len());
        self.by_second.resize(seconds, 0);
        for (second, requests) in self.by_second.iter_mut().zip(&other.by_second) {
            *second += requests;
        }
        self.requests += other.requests;
    }

    /// Whether at least 99 % of the demanded requests completed in the window.
    pub fn is_met(&self, window_ns: u64) -> bool {
        is_met(self.requests, self.rate, window_ns)
    }

    /// Whole seconds before the first one in which less than 99 % of the demand completed; `None` if it comes in bursts.
    pub fn seconds_held(&self, window_ns: u64) -> Option<u64> {
        let held = (0..window_ns / SECOND_NS).take_while(|second| {
            let answered = self.by_second.get(*second as usize).copied();
            is_met(answered.unwrap_or(0), self.rate, SECOND_NS)
        });
        self.is_steady.then(|| held.count() as u64)
    }
}

/// The results of one run.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Length of the window.
    pub window_ns: u64,
    /// Requests that completed in the window.
    pub requests: u64,
    /// Their payload.
    pub bytes: u64,
    /// From submission to completion.
    pub service: BatchedLatencies,
    /// From intended start to completion. In a closed loop it equals `service`.
    pub response: BatchedLatencies,
    /// Service latency as batch means, in nanoseconds.
    pub service_means: BatchMeans,
    /// Requests whose intended start was before the window's end but that had not been issued by then.
    pub backlog: u64,
    /// Whether at least 99 % of the demanded requests completed; `None` in a closed loop.
    pub demand_met: Option<bool>,
    /// Whole seconds before the first one in which less than 99 % of the demand completed; all whole seconds if there
    /// was none. `None` in a closed loop, and if requests come in bursts.
    pub seconds_held: Option<u64>,
}

impl Meter {
    /// Counts completions from `start_ns` on; the workload's `skip_seconds` end there.
    #[must_use]
    pub fn new(workload: &Workload, start_ns: u64) -> Meter {
        Meter {
            start_ns,
            demand: Demand::of(workload),
            is_open: workload.is_open(),
            requests: 0,
            bytes: 0,
            service: BatchedLatencies::default(),
            response: BatchedLatencies::default(),
            service_means: BatchMeans::default(),
        }
    }

    /// Counts that `command` completed at `now_ns`, which must not decrease.
    ///
    /// # Panics
    ///
    /// If it completed before it was issued.
    pub fn completed(&mut self, command: &Command, now_ns: u64) {
        assert!(now_ns >= command.issued_ns, "an answer before its request");
        let Some(since_ns) = now_ns.checked_sub(self.start_ns) else {
            return;
        };
        if !command.is_counted {
            return;
        }
        self.requests += 1;
        self.bytes += u64::from(command.length_bytes);
        self.service.record(now_ns - command.issued_ns);
        if self.is_open {
            self.response.record(now_ns - command.intended_ns);
        }
        self.service_means.push((now_ns - command.issued_ns) as f64);
        if let Some(demand) = &mut self.demand {
            demand.completed(since_ns);
        }
    }

    /// Ends the window at `end_ns`, when `backlog` requests were overdue.
    #[must_use]
    pub fn finish(self, end_ns: u64, backlog: u64) -> Figures {
        let window_ns = end_ns.saturating_sub(self.start_ns);
        let demand = self.demand.as_ref();
        Figures {
            window_ns,
            requests: self.requests,
            bytes: self.bytes,
            backlog,
            demand_met: demand.map(|demand| demand.is_met(window_ns)),
            seconds_held: demand.and_then(|demand| demand.seconds_held(window_ns)),
            response: if self.is_open {
                self.response
            } else {
                self.service.clone()
            },
            service: self.service,
            service_means: self.service_means,
        }
    }
}

/// Whether `requests` in `window_ns` are at least 99 % of `demanded`, in whole numbers.
fn is_met(requests: u64, demanded: Rate, window_ns: u64) -> bool {
    u128::from(requests) * u128::from(SECOND_NS) * u128::from(demanded.seconds) * 100
        >= u128::from(demanded.requests) * u128::from(window_ns) * DEMAND_MET_PERCENT
}

impl Figures {
    /// Requests per second; 0 for an empty window.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Payload per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.bytes)
    }

    /// Mean number of outstanding requests, by Little's law: throughput times mean latency. In a closed loop it must
    /// equal the queue depth. In an open loop the queue depth is only a limit, so this number is the actual depth.
    #[must_use]
    pub fn effective_depth(&self) -> f64 {
        self.iops() * self.service.mean_ns().unwrap_or(0.0) / SECOND_NS as f64
    }

    fn per_second(&self, number: u64) -> f64 {
        if self.window_ns == 0 {
            return 0.0;
        }
        number as f64 * SECOND_NS as f64 / self.window_ns as f64
    }
}
