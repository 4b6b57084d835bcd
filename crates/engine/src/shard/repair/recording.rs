//! Asks the controller to record what became of a step's range.

use crate::control::bad_blocks::BadBlockChange;
use crate::control::message::Message;
use crate::shard::Engine;

impl Engine {
    /// Has the controller record what became of a step's range; the step waits for that.
    pub(crate) fn record_change(&mut self, index: u32, at: usize, change: BadBlockChange) {
        let running = self.flight.running_mut(index);
        let (step, member) = (running.plan().steps()[at], running.states()[at].member());
        running.record_step(at);
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
