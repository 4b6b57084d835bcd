//! What a plan gives back at its end, or before its work is planned anew: its lock, its place in a log, scratch memory,
//! and the commands that drives still hold.

use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::shard::Engine;

impl Engine {
    /// Returns a plan's lock, scratch memory and slot.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        self.end_steps(index);
        let running = self.flight.running_mut(index);
        if let Work::Write { .. } = running.work() {
            self.volumes[running.volume() as usize]
                .writes_mut()
                .plan_ends();
        }
        let lock = running.give_up_lock();
        if lock != NONE {
            self.order.ranges.unlock(lock);
        }
        self.flight.give_plan(index);
    }

    /// Makes room for another plan of the same work, under the same lock.
    pub(crate) fn renew(&mut self, index: u32) {
        self.end_steps(index);
        self.flight.running_mut(index).forget_steps();
    }

    /// Ends a plan's steps: leaves commands behind that are still with drives, leaves its log, and returns its
    /// scratch memory.
    #[inline]
    fn end_steps(&mut self, index: u32) {
        if self.flight.running(index).left() > 0 {
            self.leave_behind(index);
        }
        self.leave_log(index);
        assert!(
            self.flight.running(index).outstanding() == 0,
            "plan {index} ends, or is made anew, while steps are out"
        );
        self.flight.return_scratch(index);
    }
}
