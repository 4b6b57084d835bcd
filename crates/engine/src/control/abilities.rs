//! Abilities of drives that change while the drives are in service: whether they can discard, and whether their
//! cache survives a loss of power. A change makes a new view. The record on the drives does not contain it.

use super::Controller;
use crate::event::Event;
use crate::units::MemberId;

impl Controller {
    /// Whether all drives of a volume can discard, including the targets of running copies.
    pub(super) fn discards(&self, at: usize) -> bool {
        let mut copies = self.copy_targets().iter();
        self.record.discards(at) && copies.all(|to| self.record.members[usize::from(to.0)].discards)
    }

    /// From now on a flush of the volume has to reach this drive as well.
    pub(super) fn cache_turned_volatile(&mut self, member: MemberId) {
        let Some(drive) = self.record.members.get_mut(usize::from(member.0)) else {
            // The drive is watched already but has not joined yet. The watch repeats its report in a second.
            return;
        };
        let is_new = !core::mem::replace(&mut drive.volatile_cache, true);
        if is_new {
            self.event(Event::CacheTurnedVolatile(member));
            self.view_changed();
        }
    }

    /// A drive has refused to discard, and zeros were written instead.
    pub(super) fn discard_refused(&mut self, member: MemberId) {
        let drive = self.record.members.get_mut(usize::from(member.0));
        let drive = drive.expect("commands go only to drives that have joined");
        if core::mem::replace(&mut drive.discards, false) {
            self.event(Event::DiscardRefused(member));
            self.view_changed();
        }
    }
}
