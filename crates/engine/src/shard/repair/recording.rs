//! Asks the controller to record what became of a step's range.

use crate::control::bad_blocks::BadBlockChange;
use crate::control::message::Message;
use crate::flight::states::Progress;
use crate::shard::Engine;
use crate::units::MemberId;

impl Engine {
    /// Has the controller record what became of a step's range; the step waits for that.
    pub(crate) fn record_change(&mut self, index: u32, at: usize, change: BadBlockChange) {
        let running = &mut self.flight.running[index];
        let (step, state) = (running.plan.steps()[at], &mut running.states[at]);
        state.progress = Progress::Recording;
        let member = MemberId(state.member);
        let message = Message::BadBlocks {
            shard: self.desk.id(),
            token: running.name_of(index, at),
            member,
            offset_bytes: step.offset_bytes,
            length_bytes: step.length_bytes as u32,
            change,
        };
        self.desk.tell_controller(message);
    }
}
