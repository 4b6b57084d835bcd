//! How full this shard's queues are: see [`crate::occupancy`].

use crate::occupancy::Occupancy;
use crate::shard::Engine;

impl Engine {
    /// How full this shard's queues are.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let waiting = self.admission.waiting();
        Occupancy {
            requests: self.admission.under_way().0,
            requests_waiting: waiting.slots,
            forwarded: self.admission.under_way().1,
            forwarded_waiting: waiting.forwarded_slots,
            forwards: self.admission.forwards(),
            forwards_waiting: waiting.forwards,
            plans: self.flight.plans_used(),
            singles: self.flight.singles_used(),
            parts: self.order.ranges.parts_used(),
            stalled: waiting.stalled,
            blocked: self
                .volumes
                .iter()
                .map(|volume| volume.writes().blocked().len())
                .sum(),
            writes: self
                .volumes
                .iter()
                .map(|volume| volume.writes().running() as usize)
                .sum(),
            scratch_waiting: self.flight.waiting_for_scratch(),
            log_waiting: self.hole_logs.waiting(),
            acknowledgements: self.flight.held(),
            recoveries: self.flight.waiting_to_recover(),
        }
    }

    /// How many items all queues of this shard, and the steps of its plans, have memory for. The number grows if one
    /// of them has to allocate.
    #[must_use]
    pub fn room(&self) -> usize {
        let queues = [
            self.admission.room(),
            self.flight.room(),
            self.hole_logs.room(),
            self.order.held_bands.room(),
            self.desk.room(),
        ];
        let blocked = self.volumes.iter().map(|volume| volume.writes().room());
        queues.into_iter().chain(blocked).sum()
    }
}
