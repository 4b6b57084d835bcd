//! Workloads: what is asked for ([`Workload`]), request by request ([`generator`]), and what came
//! of it ([`meter`]).
//!
//! # Closed and open loop
//!
//! Without a demand the loop is **closed**: each thread keeps its queue depth outstanding, and a
//! request is issued when another has been answered. A slow target is then simply asked less. With
//! `demand_iops` the loop is **open**: requests have times at which they are meant to start,
//! whatever the target does, and the queue depth is only a ceiling. What cannot start in time
//! waits, and that wait counts: a point carries the **service latency** (submission to completion)
//! and the **response latency** (intended start to completion), and how many were still waiting at
//! the end.
//!
//! # No clock, no I/O
//!
//! The generator is asked with the time and told of answers. Virtual time and real time drive it
//! alike. The same workload, span and seed give the same requests on every machine.

pub mod act;
pub mod arrivals;
pub mod generator;
pub mod meter;
pub mod offsets;
pub mod size;
mod validate;

use serde::{Deserialize, Serialize};
use size::Size;

/// What is asked of a target. Read from TOML in the form of the frozen claims (`claims/README.md`),
/// with three more keys: `arrivals`, `hot_access_pct`, `hot_span_pct`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kind and order of the requests.
    pub op: Operation,
    /// Reads among the requests of a mix, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_pct: Option<u8>,
    /// Bytes of a request. Missing for ACT, which says it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bs: Option<Size>,
    /// Offsets are multiples of `bs`, plus this if it is smaller than `bs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Size>,
    /// Threads that issue requests.
    pub threads: u32,
    /// Outstanding requests per thread: the depth of a closed loop, the ceiling of an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qd: Option<u32>,
    /// Requests per second of all threads; makes the loop open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_iops: Option<u64>,
    /// When the requests of an open loop are meant to start; paced if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Share of the requests that go to the hot part of the span, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_access_pct: Option<u8>,
    /// The hot part: so much of the span, from its beginning, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_span_pct: Option<u8>,
    /// How requests reach the kernel; asynchronously if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// How answers are noticed; by interrupt if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// Seconds at the start that are not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_seconds: Option<u32>,
    /// Seconds that are measured. Missing: as long as the figures need.
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
}

/// When requests of an open loop are meant to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At equal distances.
    Paced,
    /// At exponentially distributed distances: many users who do not know of each other.
    Poisson,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Submitted and reaped apart (libaio, io_uring).
    Async,
    /// The thread waits in its call (preadv2 and pwritev2).
    Sync,
}

/// How answers are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completion {
    /// The drive interrupts a processor.
    Interrupt,
    /// A processor keeps looking.
    Polled,
    /// A processor sleeps for part of the expected time, then keeps looking.
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

/// A rule that a value breaks: which key, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The key, as written in the file.
    pub key: &'static str,
    /// The rule, as the rest of a sentence.
    pub rule: String,
}

impl Workload {
    /// Checks what the form alone does not say.
    ///
    /// # Errors
    ///
    /// The first rule that is broken: a key missing or not belonging to this `op`, a number out of
    /// range.
    pub fn check(&self) -> Result<(), Broken> {
        validate::check(self)
    }

    /// Outstanding requests of all threads: the depth of a closed loop, the ceiling of an open one.
    #[must_use]
    pub fn total_depth(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.qd.unwrap_or(1))
    }

    /// Reads among all requests, in percent; `None` for ACT, where it follows from the rates.
    #[must_use]
    pub fn read_percent(&self) -> Option<u8> {
        match self.op {
            Operation::RandRead | Operation::Read => Some(100),
            Operation::RandWrite | Operation::Write => Some(0),
            Operation::RandMix | Operation::SeqMix => self.read_pct,
            Operation::Act => None,
        }
    }
}

#[cfg(test)]
mod tests;
