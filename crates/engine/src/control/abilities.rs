//! What drives turn out to be able to do while they serve: whether they discard, and whether their cache
//! outlasts the loss of power. A change is a new view; the record on the drives knows nothing of it.

use super::Controller;
use crate::event::Event;
use crate::units::MemberId;

impl Controller {
    /// Whether all drives of a volume can discard, those that it is being copied to included.
    pub(super) fn discards(&self, at: usize) -> bool {
        let mut copies = self.copy_targets().iter();
        self.record.discards(at) && copies.all(|to| self.record.members[usize::from(to.0)].discards)
    }

    /// From now on a flush of the volume has to reach this drive as well.
    pub(super) fn cache_turned_volatile(&mut self, member: MemberId) {
        let Some(drive) = self.record.members.get_mut(usize::from(member.0)) else {
            // It is watched already and has not joined. The watch says so again in a second.
            return;
        };
        let is_new = !core::mem::replace(&mut drive.volatile_cache, true);
        if is_new {
            self.event(Event::CacheTurnedVolatile(member));
            self.view_changed();
        }
    }

    /// A drive has refused to discard, and got zeros written in place of that.
    pub(super) fn discard_refused(&mut self, member: MemberId) {
        let drive = self.record.members.get_mut(usize::from(member.0));
        let drive = drive.expect("nothing is asked of a drive that has not joined");
        if core::mem::replace(&mut drive.discards, false) {
            self.event(Event::DiscardRefused(member));
            self.view_changed();
        }
    }
}
