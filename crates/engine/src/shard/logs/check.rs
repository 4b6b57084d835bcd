//! What must hold of write-hole logs between two turns: see [`crate::shard::check`].

use crate::log::slot::SlotLog;
use crate::shard::Engine;

impl Engine {
    /// Checks which plans wait for a log's unit, and which drives the unit waits for.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which, and of which log.
    pub(crate) fn check_logs(&self, plans: &[u32]) {
        assert_eq!(
            self.hole_logs.waiting(),
            self.hole_logs
                .iter()
                .map(SlotLog::waiting_in_all)
                .sum::<usize>(),
            "plans that wait for logs: counted, and found"
        );
        for (number, log) in (0u32..).zip(self.hole_logs.iter()) {
            let own = plans.iter().copied();
            let own = own.filter(|&plan| self.flight.running(plan).log() == number);
            for &plan in log.waiting() {
                assert_eq!(
                    self.flight.running(plan).log(),
                    number,
                    "plan {plan} waits for log {number}"
                );
            }
            let owed = self.hole_logs.owed().iter();
            let owed = owed.filter(|(of, _)| *of == number);
            log.check(number, own.count() - log.waiting().len(), owed.count());
        }
    }
}
