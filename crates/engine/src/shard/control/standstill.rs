//! Time in which nothing here ran counts against no drive.
//!
//! A process can stand still for seconds: Ctrl-Z, the freezer, a virtual machine that is paused or moved, a
//! machine that is short of memory. The kernel's threads that carry out I/O for it, and the helpers of
//! [`crate::world`]s, stand still with it. By the clock every command in flight is then overdue, and all
//! members would be failed at once, although no drive was slow.
//!
//! A shard that waits for anything asks to be woken every [`SWEEP_EVERY`], to check its deadlines. A check that comes
//! much later than asked for shows a standstill. The start times of everything outstanding are then moved forward by
//! the delay, and deadlines are judged only after the answers that came in meanwhile have been collected. A clock
//! that jumps forward is treated the same way. If the clock goes back, start times that lie in the future are set to
//! the present.

use crate::limits::{COLLECTING_TURNS_MAX, STANDSTILL_MIN};
use crate::shard::Engine;
use crate::sweeps::SWEEP_EVERY;
use crate::units::Nanos;

impl Engine {
    /// Notes that deadlines are due to be checked. Returns false if they must not be judged yet, because answers that
    /// a standstill has held up are still coming in (`more_answers`).
    pub(crate) fn may_judge(&mut self, more_answers: bool) -> bool {
        let late = self.desk.now().since(self.sweeps.next());
        if late >= STANDSTILL_MIN || self.desk.now() < self.sweeps.last {
            self.begin_later(late);
            self.sweeps.collecting = COLLECTING_TURNS_MAX;
        }
        self.sweeps.last = self.desk.now();
        if self.sweeps.collecting == 0 || !more_answers {
            self.sweeps.collecting = 0;
            return true;
        }
        self.sweeps.collecting -= 1;
        // Check again in the next turn.
        self.sweeps.last = self.desk.now().since(SWEEP_EVERY);
        false
    }

    /// Moves the start times of everything outstanding forward by `late`, but not past the present.
    #[cold]
    fn begin_later(&mut self, late: Nanos) {
        let now = self.desk.now();
        let shift = |began: &mut Nanos| *began = began.after(late).min(now);
        self.flight.shift_times(shift);
        for log in self.hole_logs.iter_mut() {
            shift(log.began());
        }
        self.members.shift_times(shift);
        if let Some(controller) = &mut self.controller {
            controller.began().into_iter().for_each(shift);
        }
    }
}
