//! Chooses among the slots that can serve a read: the read balance.

use crate::layout::Location;
use crate::plan::RowView;
use crate::shard::Engine;
use crate::units::{Slot, SlotSet};
use crate::volumes::volume::Volume;

impl Engine {
    /// One of the slots that hold a place and can be read.
    #[inline]
    pub(crate) fn choose_slot(
        &self,
        volume: &Volume,
        view: &RowView,
        slots: SlotSet,
        place: Location,
    ) -> Option<Slot> {
        if slots.0 & slots.0.wrapping_sub(1) == 0 {
            // One candidate or none.
            return (slots.0 != 0).then(|| Slot(slots.0.trailing_zeros() as u8));
        }
        if !view.in_sync {
            // Mirrors that may differ and must not be made equal.
            return view.source(slots);
        }
        Some(self.balance(volume, slots, place))
    }

    /// The read balance policy `least-in-flight`: the mirror with the fewest outstanding commands. On a tie the
    /// mirrors take turns by row, so that every drive serves and neighbouring reads stay together.
    #[inline]
    fn balance(&self, volume: &Volume, slots: SlotSet, place: Location) -> Slot {
        let count = slots.count();
        let turn = place.row as u32 % count;
        let (mut best, mut best_key) = (Slot(0), (u32::MAX, u32::MAX));
        let (mut rest, mut order) = (slots.0, 0);
        while rest != 0 {
            let slot = Slot(rest.trailing_zeros() as u8);
            rest &= rest - 1;
            let load = volume.view().slots[slot.0 as usize]
                .map_or(u32::MAX, |member| self.members.in_flight(member));
            let wait = if order < turn { order + count } else { order } - turn;
            if (load, wait) < best_key {
                (best, best_key) = (slot, (load, wait));
            }
            order += 1;
        }
        best
    }
}
