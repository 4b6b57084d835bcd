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
            scratch_waiting: self.flight.waiting_for_scratch(),
            log_waiting: self.hole_logs.waiting(),
            acknowledgements: self.flight.held(),
            recoveries: self.flight.waiting_to_recover(),
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
            self.flight.room(),
            self.hole_logs.room(),
            self.order.held_bands.capacity(),
            self.desk.room(),
        ];
        let blocked = self.volumes.iter().map(|volume| volume.blocked.capacity());
        queues.into_iter().chain(blocked).sum()
    }
}
