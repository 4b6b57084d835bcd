//! Writes to a volume begin, and those that waited continue when they are allowed.

use crate::control::message::Message;
use crate::shard::Engine;
use crate::units::VolumeId;

impl Engine {
    /// Counts a request that modifies a volume, while it runs.
    #[inline]
    pub(crate) fn note_writing(&mut self, at: usize) {
        if self.volumes[at].writes.begin(self.desk.now()) {
            self.tell_idle(at, false);
        }
    }

    /// Wakes the requests that waited for writes to be allowed.
    pub(crate) fn unblock(&mut self, volume: usize) {
        let writes = &mut self.volumes[volume].writes;
        writes.forget_intent();
        for &index in writes.blocked() {
            self.admission.stall(index);
        }
        writes.clear_blocked();
    }

    /// Tells the controller whether a volume has not been written to for a while.
    pub(crate) fn tell_idle(&mut self, at: usize, idle: bool) {
        let message = Message::Idle {
            shard: self.desk.id(),
            volume: VolumeId(at as u8),
            idle,
        };
        self.desk.tell_controller(message);
    }
}
