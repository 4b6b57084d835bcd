//! Plans that were made before the drive in a slot was exchanged.
//!
//! A plan names slots. Which drive serves in a slot is looked up when a step goes out. While the plan waited, the
//! slot's drive may have failed, and a new one that holds nothing yet may have taken its place. What the plan has for
//! the old drive must not go to the new one: a read would return what is not the volume's data, and nobody would
//! retire a log entry. Writes need not reach the new drive, because the rebuild will bring it what it misses. So drives
//! that are being filled are among those that need a second look ([`crate::members::Members::watched`]).

use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::shard::Engine;
use crate::units::{MemberId, MemberSet, Slot};

impl Engine {
    /// Drives in slots in which they are not current.
    pub(crate) fn being_filled(&self) -> MemberSet {
        let mut filled = MemberSet::default();
        for volume in self.volumes.iter() {
            let slots = (0u8..).map(Slot).zip(&volume.view().slots);
            slots
                .filter(|(slot, _)| !volume.view().row.writable.has(*slot))
                .filter_map(|(_, member)| *member)
                .for_each(|member: MemberId| filled.insert(member));
        }
        filled
    }

    /// Whether the live drive in `slot` took the slot after the plan was made. That is so if the slot is not writable
    /// in the plan's row now: plans of rows that have been rebuilt count on the new drive, and a row under a plan's
    /// lock is not rebuilt.
    #[cold]
    pub(crate) fn is_exchanged(&self, index: u32, slot: Slot) -> bool {
        let running = self.flight.running(index);
        let is_client_work = matches!(
            running.work(),
            Work::Write { .. } | Work::Reconstruct { .. }
        );
        if !is_client_work || running.lock() == NONE {
            return false;
        }
        let key = self.order.ranges.key_of_lock(running.lock());
        !self.view_of(key).writable.has(slot)
    }
}
