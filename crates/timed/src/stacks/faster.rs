//! A stack whose work takes less time than in reality, to find out what that work limits.

use super::{Rebuilt, Stack};
use crate::machine::SharedPlatform;
use crate::world::TimedWorld;
use anyhow::Result;
use engine::stats::Stats;

/// See the module's prose.
pub struct Faster {
    stack: Box<dyn Stack>,
    times_per_mille: u64,
    /// By core: the remainder of the last division, in thousandths of a nanosecond before the division.
    carried: Vec<u64>,
}

impl Faster {
    /// The stack with its work `times_per_mille` / 1000 times as fast; `times_per_mille` is at least 1.
    #[must_use]
    pub fn new(stack: Box<dyn Stack>, times_per_mille: u64) -> Faster {
        Faster {
            carried: vec![0; stack.cores()],
            times_per_mille: times_per_mille.max(1),
            stack,
        }
    }
}

impl Stack for Faster {
    fn size_bytes(&self) -> u64 {
        self.stack.size_bytes()
    }

    fn drives(&self) -> usize {
        self.stack.drives()
    }

    fn cores(&self) -> usize {
        self.stack.cores()
    }

    fn is_on_clients_cores(&self) -> bool {
        self.stack.is_on_clients_cores()
    }

    fn metadata_offset_bytes(&self) -> u64 {
        self.stack.metadata_offset_bytes()
    }

    #[inline]
    fn world(&mut self, core: usize) -> &mut TimedWorld {
        self.stack.world(core)
    }

    fn turn(&mut self, core: usize, now_ns: u64) -> Result<u64> {
        let work = self.stack.turn(core, now_ns)? * 1000 + self.carried[core];
        self.carried[core] = work % self.times_per_mille;
        Ok(work / self.times_per_mille)
    }

    fn work_in(&mut self, machine: SharedPlatform) {
        self.stack.work_in(machine);
    }

    fn touched_until_ns(&self, core: usize) -> u64 {
        self.stack.touched_until_ns(core)
    }

    fn lines_busy_ns(&self) -> u64 {
        self.stack.lines_busy_ns()
    }

    fn wake_ns(&self, core: usize) -> Option<u64> {
        self.stack.wake_ns(core)
    }

    fn rebuilt_bytes(&self) -> Option<Rebuilt> {
        self.stack.rebuilt_bytes()
    }

    fn counters(&self) -> Stats {
        self.stack.counters()
    }
}
