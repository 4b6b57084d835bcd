//! Logs whose drive was exchanged: the new one is to be filled, and may have served here before.

use crate::shard::Engine;
use crate::units::Slot;

impl Engine {
    /// A drive that is to be filled has taken a slot. Before it is filled, a unit without entries is written to its
    /// log: the drive may have served there before, and what it logged then is outdated.
    pub(crate) fn empty_log(&mut self, at: usize, slot: Slot) {
        let Some(index) = self.volumes[at].log_of(slot) else {
            return;
        };
        self.hole_logs.empty_next(index as usize);
    }

    /// Whether a log of this shard has still to be emptied before its drive may be filled.
    pub(crate) fn is_log_to_be_emptied(&self, at: usize, slot: Slot) -> bool {
        let index = self.volumes[at].log_of(slot);
        index.is_some_and(|index| self.hole_logs[index as usize].is_to_be_emptied())
    }
}
