//! What must hold of write-hole logs between two turns: see [`crate::shard::check`].

use crate::log::slot::{SlotLog, Stage};
use crate::shard::Engine;

impl Engine {
    /// Who waits for a log's unit, and whom the unit waits for.
    ///
    /// # Panics
    /// Something does not hold that must; the message says what, and of which log.
    pub(crate) fn check_logs(&self, plans: &[u32]) {
        let waits = |log: &SlotLog| log.waiting.len() + usize::from(log.to_empty);
        assert_eq!(
            self.hole_logs.logs_waiting,
            self.hole_logs.logs.iter().map(waits).sum::<usize>(),
            "plans that wait for logs, as counted and as they wait"
        );
        for (number, log) in (0u32..).zip(&self.hole_logs.logs) {
            let own = plans.iter().copied();
            let own = own.filter(|&plan| self.flight.running[plan].log == number);
            for &plan in &log.waiting {
                assert_eq!(
                    self.flight.running[plan].log, number,
                    "plan {plan} waits for log {number}"
                );
            }
            let owed = self
                .hole_logs
                .owing_logs
                .iter()
                .filter(|(of, _)| *of == number);
            self.check_unit(number, own.count() - log.waiting.len(), owed.count());
        }
    }

    /// A unit is open as long as plans of it are under way, or what they missed is not on record.
    fn check_unit(&self, number: u32, in_unit: usize, owed: usize) {
        let log = &self.hole_logs.logs[number as usize];
        let awaited = log.awaited.count_ones();
        match log.stage {
            Stage::Idle => assert_eq!((in_unit, owed), (0, 0), "log {number} is idle"),
            Stage::Writing(left) => {
                assert_eq!(u32::from(left), awaited, "drives that write log {number}");
                assert_eq!(
                    in_unit,
                    log.plans.len(),
                    "plans in the unit of log {number}"
                );
            }
            Stage::Open(left) => {
                assert_eq!(
                    left,
                    in_unit + owed,
                    "plans of the open unit of log {number}"
                );
            }
            Stage::ToFlush => assert_eq!((in_unit, owed), (0, 0), "log {number} has ended"),
            Stage::Flushing => assert!(in_unit == 0 && owed <= 1, "log {number} is flushed"),
            Stage::Kept => {}
        }
        let is_writing = matches!(log.stage, Stage::Writing(_));
        assert!(
            is_writing || awaited == 0,
            "log {number} is {:?}, and written",
            log.stage
        );
    }
}
