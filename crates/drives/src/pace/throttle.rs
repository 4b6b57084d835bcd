//! Limits a member to exact rates.
//!
//! A drive has one budget of time, shared by all shards. A 4 KiB read takes `1 / read_iops` of it, and a 4 KiB write
//! `1 / write_iops`. A longer I/O takes that for each started 4 KiB, or its bytes divided by the bandwidth, whichever
//! is larger. The budget is handed out in order of arrival (virtual scheduling): an I/O is *due* when the budget of all
//! earlier ones and its own is spent, and finishes a fixed latency later.
//!
//! The rate must hold although the loop looks only now and then. So an I/O that follows a finished one counts as
//! arriving when that one finished, not when the loop noticed: the arrival is moved back by the lateness of the last
//! delivery, up to 20 ms. An I/O that costs no budget, such as one with only a latency set, is not moved back.

use super::LATENESS_MAX;
use crate::spec::Limits;
use engine::plan::StepKind;
use engine::units::Nanos;
use std::sync::{Mutex, PoisonError};

/// The unit in which IOPS are counted.
const UNIT_BYTES: u64 = 4096;
/// Picoseconds, so that a rate like 640 000/s (1562.5 ns) is exact enough.
const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1000;

/// The budget of one drive.
#[derive(Debug)]
pub struct Throttle {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When the budget handed out so far is spent, in picoseconds.
    spent_until: u128,
    /// How late the last completion was delivered.
    lateness: Nanos,
    /// When it was delivered.
    noticed: Nanos,
}

impl Throttle {
    /// A drive with these limits that has been idle so far.
    #[must_use]
    pub fn new(limits: Limits) -> Throttle {
        Throttle {
            limits,
            state: Mutex::default(),
        }
    }

    /// Takes the budget for an I/O that arrives at `now`, and returns when it may finish.
    #[must_use]
    pub fn admit(&self, now: Nanos, kind: StepKind, length_bytes: u64) -> Nanos {
        let cost = self.cost_picos(kind, length_bytes);
        if cost == 0 {
            return now.after(self.limits.latency);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = u128::from(now.since(state.lateness).0) * PICOS_PER_NANO;
        state.spent_until = state.spent_until.max(arrival) + cost;
        Nanos(state.spent_until.div_ceil(PICOS_PER_NANO) as u64).after(self.limits.latency)
    }

    /// Notes that an I/O was delivered at `now`, although it was due at `finish`.
    pub fn delivered(&self, now: Nanos, finish: Nanos) {
        let lateness = Nanos(now.since(finish).0.min(LATENESS_MAX.0));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Of completions that are delivered at the same time, the largest lateness counts.
        if now > state.noticed {
            state.noticed = now;
            state.lateness = lateness;
        } else {
            state.lateness = state.lateness.max(lateness);
        }
    }

    /// The budget that an I/O takes. Flushes take none; zeroing and discarding count as one write,
    /// whatever their length, because no payload moves.
    fn cost_picos(&self, kind: StepKind, length_bytes: u64) -> u128 {
        let (iops, units, bytes) = match kind {
            StepKind::Read => (
                self.limits.read_iops,
                length_bytes.div_ceil(UNIT_BYTES),
                length_bytes,
            ),
            StepKind::Write { .. } => (
                self.limits.write_iops,
                length_bytes.div_ceil(UNIT_BYTES),
                length_bytes,
            ),
            StepKind::Zero { .. } | StepKind::Discard => (self.limits.write_iops, 1, 0),
            _ => (None, 0, 0),
        };
        let by_count = iops.map_or(0, |iops| {
            PICOS_PER_SECOND * u128::from(units) / u128::from(iops)
        });
        let by_bytes = self.limits.bandwidth_bytes_per_second.map_or(0, |rate| {
            PICOS_PER_SECOND * u128::from(bytes) / u128::from(rate)
        });
        by_count.max(by_bytes)
    }
}

#[cfg(test)]
mod tests;
