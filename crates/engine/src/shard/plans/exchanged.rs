//! Plans that were made before the drive in a slot was exchanged.
//!
//! A plan names slots, and asks who serves in one when it comes to a step. While it waited, the slot's drive may
//! have failed and a new one, which has nothing yet, taken its place. What the plan has for the old drive must
//! not go to the new one: it would read what is not there, or log on it what nobody will retire, and the
//! rebuild will bring the new drive what it misses. So drives that are being filled are among those that need a
//! second look ([`crate::members::Members::watched`]).

use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::shard::Engine;
use crate::units::{MemberId, MemberSet, Slot};

impl Engine {
    /// Drives in slots in which they are not current.
    pub(crate) fn being_filled(&self) -> MemberSet {
        let mut filled = MemberSet::default();
        for volume in self.volumes.iter() {
            let slots = (0u8..).map(Slot).zip(&volume.view.slots);
            slots
                .filter(|(slot, _)| !volume.view.row.writable.has(*slot))
                .filter_map(|(_, member)| *member)
                .for_each(|member: MemberId| filled.insert(member));
        }
        filled
    }

    /// Whether the live drive in `slot` has come there after the plan was made: rows that it has been given are
    /// planned with it, and one under a plan's lock is not given to it.
    #[cold]
    pub(crate) fn is_exchanged(&self, index: u32, slot: Slot) -> bool {
        let running = &self.flight.running[index];
        let is_client_work = matches!(running.work, Work::Write { .. } | Work::Reconstruct { .. });
        if !is_client_work || running.lock == NONE {
            return false;
        }
        let key = self.order.ranges.key_of_lock(running.lock);
        !self.view_of(key).writable.has(slot)
    }
}
