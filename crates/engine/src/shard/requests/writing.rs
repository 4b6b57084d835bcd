//! Writes to a volume begin, and those that waited continue when they are allowed.

use crate::control::message::Message;
use crate::shard::Engine;
use crate::units::VolumeId;

impl Engine {
    /// Counts a request that modifies a volume, while it runs.
    #[inline]
    pub(crate) fn note_writing(&mut self, at: usize) {
        if self.volumes[at].writes_mut().begin(self.desk.now()) {
            self.tell_idle(at, false);
        }
    }

    /// Wakes the requests that waited for writes to be allowed.
    pub(crate) fn unblock(&mut self, volume: usize) {
        for index in self.volumes[volume].writes_mut().unblock() {
            self.admission.stall(index);
        }
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
