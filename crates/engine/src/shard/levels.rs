//! How full this shard's queues are: see [`crate::levels`].

use crate::levels::Levels;
use crate::shard::Engine;

impl Engine {
    /// How full this shard's queues are.
    #[must_use]
    pub fn levels(&self) -> Levels {
        Levels {
            requests: self.admission.under_way().0,
            requests_waiting: self.admission.backlog.len(),
            forwarded: self.admission.under_way().1,
            forwarded_waiting: self.admission.forward_backlog.len(),
            forwards: self.admission.forwards(),
            forwards_waiting: self.admission.waiting_forward.len(),
            plans: self.flight.running.used(),
            singles: self.flight.singles.used(),
            parts: self.order.ranges.parts.used(),
            stalled: self.admission.stalled.len(),
            blocked: self.volumes.iter().map(|volume| volume.blocked.len()).sum(),
            writes: self
                .volumes
                .iter()
                .map(|volume| volume.writes_running as usize)
                .sum(),
            scratch_waiting: self.flight.waiting_scratch.len(),
            log_waiting: self.hole_logs.logs_waiting,
            acknowledgements: self.flight.held.len(),
            recoveries: self.flight.recovering.len(),
        }
    }

    /// Items for which all queues of this shard, and its plans' steps, have memory. Grows where a queue has to.
    #[must_use]
    pub fn room(&self) -> usize {
        let queues = [
            self.admission.backlog.capacity(),
            self.admission.forward_backlog.capacity(),
            self.admission.waiting_forward.capacity(),
            self.admission.stalled.capacity(),
            self.flight.waiting_scratch.capacity(),
            self.flight.held.capacity(),
            self.flight.recovering.capacity(),
            self.hole_logs.owing_logs.capacity(),
            self.order.held_bands.capacity(),
            self.desk.room(),
        ];
        let blocked = self.volumes.iter().map(|volume| volume.blocked.capacity());
        let plans = (0..self.flight.running.capacity() as u32).map(|index| {
            let running = &self.flight.running[index];
            running.plan.room() + running.states.capacity()
        });
        let logs = self.hole_logs.logs.iter().map(|log| log.room());
        let all: [usize; 3] = [blocked.sum(), plans.sum(), logs.sum()];
        queues.into_iter().chain(all).sum()
    }
}
