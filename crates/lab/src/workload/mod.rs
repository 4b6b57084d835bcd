//! Workloads: their description ([`Workload`]), their requests one by one ([`generator`]), and the results ([`meter`]).
//!
//! # Closed and open loop
//!
//! Without a demand the loop is **closed**: each thread keeps its queue depth outstanding, and issues a request when
//! another one completes. A slow target then receives fewer requests. With `demand_iops` the loop is **open**: requests
//! have intended start times, whatever the target does, and the queue depth is only a limit. A request that cannot
//! start in time waits, and that wait counts. A point therefore has the **service latency** (submission to completion)
//! and the **response latency** (intended start to completion), and the number of requests still waiting at the end.
//!
//! # No clock, no I/O
//!
//! The generator receives the time with each call, and is notified of completions. Virtual time and real time drive it
//! in the same way. The same workload, span and seed give the same requests on every machine.

pub mod act;
pub mod arrivals;
pub mod generator;
pub mod meter;
pub mod offsets;
pub mod size;
pub mod slices;
pub mod trace;
mod validate;

use arrivals::{Bursts, Rate};
use serde::{Deserialize, Serialize};
use size::Size;

/// What is requested of a target. It is read from TOML in the form of the frozen claims (`claims/README.md`), with
/// more keys: `arrivals`, `on_ms`, `off_ms`, `demand_pct`, `hot_access_pct`, `hot_span_pct`, `trace`, `speed_pct`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kind and order of the requests.
    pub op: Operation,
    /// Reads among the requests of a mix, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_pct: Option<u8>,
    /// Bytes of a request. Missing for ACT and traces, which have their own sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bs: Option<Size>,
    /// Alignment. A multiple of `bs` is the distance between offsets; a smaller value shifts all multiples of `bs` by
    /// that value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Size>,
    /// Threads that issue requests.
    pub threads: u32,
    /// Outstanding requests per thread: the depth of a closed loop, the limit of an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qd: Option<u32>,
    /// Requests per second of all threads together; makes the loop open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_iops: Option<u64>,
    /// How intended start times are distributed in an open loop; paced if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Milliseconds for which requests of an open loop arrive, at the demanded rate. Then none arrive for `off_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_ms: Option<u32>,
    /// Milliseconds for which none arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_ms: Option<u32>,
    /// The demanded rate in percent of what the target does in a closed loop with the same threads and depth, which has to be
    /// measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_pct: Option<u8>,
    /// Share of the requests that go to the hot part of the span, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_access_pct: Option<u8>,
    /// Size of the hot part at the beginning of the span, in percent of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_span_pct: Option<u8>,
    /// The file of a recorded trace, relative to the file that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// How fast a trace is replayed, in percent; as it was recorded if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_pct: Option<u32>,
    /// How requests reach the kernel; asynchronously if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// How completions are noticed; by interrupt if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// Seconds at the start that are not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_seconds: Option<u32>,
    /// Seconds that are measured. If missing, as many as the figures need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

/// Kind and order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads at random offsets.
    RandRead,
    /// Writes at random offsets.
    RandWrite,
    /// Reads in order, each thread in a region of its own.
    Read,
    /// Writes in order, each thread in a region of its own.
    Write,
    /// Reads and writes at random offsets.
    RandMix,
    /// Reads and writes in order, each thread in a region of its own.
    SeqMix,
    /// Aerospike's certification load: small random reads, large reads and large writes, all paced.
    Act,
    /// The requests of a recorded [`trace`], at their times.
    Replay,
}

/// How the intended start times of an open loop are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At equal distances.
    Paced,
    /// At exponentially distributed distances: many independent users.
    Poisson,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Submission and completion are separate calls (libaio, io_uring).
    Async,
    /// The thread waits inside its system call (preadv2 and pwritev2).
    Sync,
}

/// How completions are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completion {
    /// The drive interrupts a processor.
    Interrupt,
    /// A processor polls all the time.
    Polled,
    /// A processor sleeps for part of the expected time, then polls.
    Hybrid,
}

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// From the drive.
    Read,
    /// To the drive.
    Write,
}

/// A rule that a value breaks: the key, and the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The key, as written in the file.
    pub key: &'static str,
    /// The rule, as the rest of a sentence.
    pub rule: String,
}

impl Workload {
    /// Checks rules that the types alone do not express.
    ///
    /// # Errors
    ///
    /// The first rule that is broken: a missing key, a key that does not go with this `op`, or a number out of range.
    pub fn check(&self) -> Result<(), Broken> {
        validate::check(self)
    }

    /// The same for a load of which nothing has to be measured before it is run.
    ///
    /// # Errors
    ///
    /// As [`Workload::check`], or its rate is a share of a maximum that is not known.
    pub fn check_known(&self) -> Result<(), Broken> {
        self.check()?;
        validate::check_known(self)
    }

    /// Outstanding requests of all threads: the depth of a closed loop, the limit of an open one.
    #[must_use]
    pub fn total_depth(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.qd.unwrap_or(1))
    }

    /// Whether requests have intended start times, whatever the target does.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.demand_iops.is_some()
            || self.demand_pct.is_some()
            || matches!(self.op, Operation::Act | Operation::Replay)
    }

    /// Pauses between bursts of an open loop; `None` if there are none.
    #[must_use]
    pub fn bursts(&self) -> Option<Bursts> {
        let ns = |ms: u32| u64::from(ms) * 1_000_000;
        let (on_ns, off_ns) = (ns(self.on_ms?), ns(self.off_ms?));
        Some(Bursts { on_ns, off_ns })
    }

    /// The demanded rate on average over bursts and pauses; `None` without `demand_iops`.
    #[must_use]
    pub fn mean_demand(&self) -> Option<Rate> {
        let iops = self.demand_iops?;
        Some(match (self.on_ms, self.off_ms) {
            (Some(on_ms), Some(off_ms)) => Rate {
                requests: iops * u64::from(on_ms),
                seconds: u64::from(on_ms) + u64::from(off_ms),
            },
            _ => Rate {
                requests: iops,
                seconds: 1,
            },
        })
    }

    /// Share of reads among all requests, in percent; `None` for ACT, where it follows from the rates, and for traces.
    #[must_use]
    pub fn read_percent(&self) -> Option<u8> {
        match self.op {
            Operation::RandRead | Operation::Read => Some(100),
            Operation::RandWrite | Operation::Write => Some(0),
            Operation::RandMix | Operation::SeqMix => self.read_pct,
            Operation::Act | Operation::Replay => None,
        }
    }
}

#[cfg(test)]
mod tests;
