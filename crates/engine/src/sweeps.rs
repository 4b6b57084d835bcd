//! When a shard checks its deadlines: see [`crate::shard::control::standstill`].

use crate::units::Nanos;

/// How often deadlines are checked.
pub(crate) const SWEEP_EVERY: Nanos = Nanos(250 * Nanos::MILLISECOND.0);

/// When deadlines were checked last, and whether they may be judged.
#[derive(Debug)]
pub(crate) struct Sweeps {
    pub(super) last: Nanos,
    /// Turns in which answers from the time of a standstill may still come in.
    pub(super) collecting: u16,
}

impl Sweeps {
    pub fn new(now: Nanos) -> Sweeps {
        Sweeps {
            last: now,
            collecting: 0,
        }
    }

    /// Whether it is time to check. Also true when the clock has gone back.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        now.0.wrapping_sub(self.last.0) >= SWEEP_EVERY.0
    }

    /// When the next check is due.
    pub fn next(&self) -> Nanos {
        self.last.after(SWEEP_EVERY)
    }
}
