//! Failures of members are on record, or never will be: what waited for that continues. Logs retire units, plans that
//! had not written yet write ([`crate::shard::logs::unrecorded`]), and plans that the members missed are settled
//! ([`crate::shard::plans::settle`]).

use crate::shard::Engine;

impl Engine {
    /// Settles held plans if the failures of all members that missed them are durable now.
    pub(crate) fn settle_held(&mut self) {
        self.settle_logs();
        self.settle_unlogged();
        let mut at = 0;
        while let Some(index) = self.flight.held_at(at) {
            if self
                .flight
                .running(index)
                .missed()
                .within(self.members.durable_failed())
                || self.hopeless(index)
            {
                self.flight.release_held(at);
                let next = self.settle(index);
                self.start_next(next);
            } else {
                at += 1;
            }
        }
    }

    /// Continues plans whose members' failures are on record, or never will be.
    fn settle_unlogged(&mut self) {
        for _ in 0..self.hole_logs.waiting_for_record().len() {
            let index = self.hole_logs.take_first_recorded();
            let running = self.flight.running_mut(index);
            let volume = &self.volumes[running.volume() as usize];
            // These members miss this write, if the plan writes at all.
            running.miss_all(volume.unrecorded());
            if volume.records_nothing() && !volume.unrecorded().is_empty() {
                self.give_up_writing(index);
            }
            self.advance(index);
        }
    }
}
