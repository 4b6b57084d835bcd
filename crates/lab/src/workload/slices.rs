//! Counts the completions of one thread of a load in real time, in slices of the window that all threads share.
//!
//! A load in real time needs several threads, and each counts for itself. If a drive pauses, requests of all threads are slow at
//! the same time. So samples are kept by the time at which they completed, in equal slices of the window, and slices of the same time
//! are put together: how slices differ then shows how few independent samples there are, whatever the number of threads.

use super::generator::Command;
use super::meter::{Demand, Figures};
use super::{Kind, Workload};
use crate::statistics::batch_means::BatchMeans;
use crate::statistics::histogram::{BatchedLatencies, Latencies};
use serde::{Deserialize, Serialize};

/// Slices of a window: enough to show how samples depend on each other, and few enough for a histogram each.
const SLICES: usize = 32;

/// Completions of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Counted {
    requests: u64,
    bytes: u64,
    service: Vec<Latencies>,
    response: Vec<Latencies>,
}

impl Default for Counted {
    fn default() -> Counted {
        let empty = || vec![Latencies::default(); SLICES];
        Counted {
            requests: 0,
            bytes: 0,
            service: empty(),
            response: empty(),
        }
    }
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        let slices = self.service.iter_mut().zip(&other.service);
        let responses = self.response.iter_mut().zip(&other.response);
        slices
            .chain(responses)
            .for_each(|(slice, other)| slice.merge(other));
    }
}

/// Counts the completions of one thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slices {
    start_ns: u64,
    end_ns: u64,
    is_open: bool,
    demand: Option<Demand>,
    reads: Counted,
    writes: Counted,
}

/// The results of one run, all requests together and by kind.
#[derive(Clone, Debug)]
pub struct Measured {
    /// All requests.
    pub all: Figures,
    /// Reads of a mix; `None` without reads, or if there are reads only.
    pub reads: Option<Figures>,
    /// Writes of a mix.
    pub writes: Option<Figures>,
}

impl Slices {
    /// Counts completions of `workload` from `start_ns` until `end_ns`.
    ///
    /// # Panics
    ///
    /// If the window is empty.
    #[must_use]
    pub fn new(workload: &Workload, start_ns: u64, end_ns: u64) -> Slices {
        assert!(end_ns > start_ns, "a window has a length");
        Slices {
            start_ns,
            end_ns,
            is_open: workload.is_open(),
            demand: Demand::of(workload),
            reads: Counted::default(),
            writes: Counted::default(),
        }
    }

    /// Counts that `command` completed at `now_ns`; outside of the window nothing is counted.
    ///
    /// # Panics
    ///
    /// If it completed before it was issued.
    #[inline]
    pub fn completed(&mut self, command: &Command, now_ns: u64) {
        assert!(now_ns >= command.issued_ns, "an answer before its request");
        if now_ns < self.start_ns || now_ns >= self.end_ns || !command.is_counted {
            return;
        }
        let since_ns = now_ns - self.start_ns;
        let length_ns = u128::from(self.end_ns - self.start_ns);
        let slice = (u128::from(since_ns) * SLICES as u128 / length_ns) as usize;
        let counted = match command.kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        };
        counted.requests += 1;
        counted.bytes += u64::from(command.length_bytes);
        counted.service[slice].record(now_ns - command.issued_ns);
        if self.is_open {
            counted.response[slice].record(now_ns - command.intended_ns);
        }
        if let Some(demand) = &mut self.demand {
            demand.completed(since_ns);
        }
    }

    /// What all threads have counted together.
    ///
    /// # Panics
    ///
    /// If there is no thread, or they had different windows.
    #[must_use]
    pub fn joined(threads: Vec<Slices>) -> Slices {
        let mut threads = threads.into_iter();
        let mut joined = threads.next().expect("a load has a thread");
        for thread in threads {
            assert_eq!(
                (joined.start_ns, joined.end_ns),
                (thread.start_ns, thread.end_ns),
                "threads of a load share its window"
            );
            joined.reads.add(&thread.reads);
            joined.writes.add(&thread.writes);
            if let (Some(demand), Some(other)) = (&mut joined.demand, &thread.demand) {
                demand.add(other);
            }
        }
        joined
    }

    /// Whether it is of this window and is complete: read from a file, it may be neither.
    #[must_use]
    pub fn is_of(&self, start_ns: u64, end_ns: u64) -> bool {
        let kinds = [&self.reads, &self.writes];
        let is_complete =
            |counted: &&Counted| [counted.service.len(), counted.response.len()] == [SLICES; 2];
        (self.start_ns, self.end_ns) == (start_ns, end_ns) && kinds.iter().all(is_complete)
    }

    /// The figures, when `backlog` requests were overdue at the end.
    #[must_use]
    pub fn measured(&self, backlog: u64) -> Measured {
        let is_mix = self.reads.requests > 0 && self.writes.requests > 0;
        let [reads, writes] =
            [&self.reads, &self.writes].map(|kind| is_mix.then(|| self.figures(kind, None, 0)));
        let mut all = self.reads.clone();
        all.add(&self.writes);
        Measured {
            all: self.figures(&all, self.demand.as_ref(), backlog),
            reads,
            writes,
        }
    }

    fn figures(&self, counted: &Counted, demand: Option<&Demand>, backlog: u64) -> Figures {
        let window_ns = self.end_ns - self.start_ns;
        let service = BatchedLatencies::of_slices(counted.service.clone());
        let response = if self.is_open {
            BatchedLatencies::of_slices(counted.response.clone())
        } else {
            service.clone()
        };
        let mut service_means = BatchMeans::default();
        let means = counted.service.iter().filter_map(Latencies::mean_ns);
        means.for_each(|mean_ns| service_means.push(mean_ns));
        Figures {
            window_ns,
            requests: counted.requests,
            bytes: counted.bytes,
            service,
            response,
            service_means,
            backlog,
            demand_met: demand.map(|demand| demand.is_met(window_ns)),
            seconds_held: demand.and_then(|demand| demand.seconds_held(window_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(demand: &str) -> Workload {
        let text =
            format!("op = \"randmix\"\nread_pct = 50\nbs = \"4k\"\nthreads = 2\nqd = 8\n{demand}");
        toml::from_str(&text).expect("it is a load")
    }

    fn command(kind: Kind, intended_ns: u64, issued_ns: u64) -> Command {
        Command {
            thread: 0,
            index: 0,
            kind,
            offset_bytes: 0,
            length_bytes: 4096,
            intended_ns,
            issued_ns,
            is_counted: true,
        }
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn threads_become_one_run_with_both_latencies_and_both_kinds() {
        let load = workload("demand_iops = 4");
        let threads = [0, 1].map(|thread| {
            let mut slices = Slices::new(&load, SECOND_NS, 3 * SECOND_NS);
            // Before the window, in it, and at its end.
            for (at, now_ns) in [
                (0, SECOND_NS - 1),
                (1, SECOND_NS),
                (2, 2 * SECOND_NS),
                (3, 3 * SECOND_NS),
            ] {
                let kind = if at == 1 { Kind::Read } else { Kind::Write };
                slices.completed(
                    &command(kind, now_ns - 3000 - thread, now_ns - 1000),
                    now_ns,
                );
            }
            slices
        });
        let Measured { all, reads, writes } = Slices::joined(threads.into()).measured(7);
        assert_eq!((all.requests, all.bytes, all.backlog), (4, 4 * 4096, 7));
        assert_eq!(all.iops(), 2.0);
        assert_eq!(all.service.mean_ns(), Some(1000.0));
        assert_eq!(all.response.mean_ns(), Some(3000.5));
        // Two of the eight requests that were demanded of each second.
        assert_eq!((all.demand_met, all.seconds_held), (Some(false), Some(0)));
        assert_eq!(reads.map(|reads| reads.requests), Some(2));
        assert_eq!(writes.map(|writes| writes.requests), Some(2));
    }

    #[test]
    fn one_kind_alone_has_no_parts_and_a_closed_loop_one_latency() {
        let mut slices = Slices::new(&workload(""), 0, SECOND_NS);
        slices.completed(&command(Kind::Read, 0, 500), 1500);
        let Measured { all, reads, writes } = slices.measured(0);
        assert!(reads.is_none() && writes.is_none());
        assert_eq!(all.response.mean_ns(), Some(1000.0));
        assert_eq!((all.demand_met, all.seconds_held), (None, None));
    }

    #[test]
    fn a_pause_of_all_threads_is_one_event_however_many_threads_see_it() {
        // In one of 32 slices everything is slow.
        let measured = |threads: u64| {
            let slices = (0..threads).map(|_| {
                let mut slices = Slices::new(&workload(""), 0, 32 * SECOND_NS);
                for request in 0..32_000 {
                    let now_ns = (request + 1) * SECOND_NS / 1000 - 1;
                    let latency_ns = if request / 1000 == 9 {
                        500_000
                    } else {
                        100_000
                    };
                    let issued_ns = now_ns - latency_ns;
                    slices.completed(&command(Kind::Read, issued_ns, issued_ns), now_ns);
                }
                slices
            });
            let all = Slices::joined(slices.collect()).measured(0).all;
            all.service.percentile(0.9).expect("there are samples")
        };
        let [one, eight] = [1, 8].map(measured);
        assert_eq!(one.effective_samples, eight.effective_samples);
        assert!(one.effective_samples < 40.0, "{one:?}");
    }
}
