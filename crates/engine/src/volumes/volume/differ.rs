//! Where the copies of a mirrored volume may differ, and what a read there has to do about it: see
//! [`crate::shard::repair::equal`].

use crate::layout::Location;
use crate::plan::{Range, RowView};
use crate::units::{MemberSet, SlotSet};
use crate::volumes::volume::Volume;

impl Volume {
    /// Notes whether copies may differ somewhere, and may be made equal.
    pub(crate) fn note_sync(&mut self) {
        let wanted = self.is_mirrored() && !self.view.row.in_sync && !self.view.read_only;
        self.equal.keep(wanted);
    }

    /// Whether copies may differ somewhere, and reads make them equal.
    #[inline]
    pub(crate) fn makes_equal(&self) -> bool {
        self.equal.are_kept()
    }

    /// Remembers that the copies of so many bytes from a place on have been made equal.
    pub(crate) fn note_made_equal(&mut self, place: Location, length_bytes: u32) {
        let from = self.on_members(place);
        let to = from + u64::from(length_bytes);
        self.equal.add(place.data_index, from, to);
    }

    pub(crate) fn is_mirrored(&self) -> bool {
        self.shape.has_copies()
    }

    fn on_members(&self, place: Location) -> u64 {
        place.row * u64::from(self.shape.chunk_bytes) + u64::from(place.in_chunk_bytes)
    }

    /// Whether copies may differ somewhere in the `length_bytes` from a place on, as far as this shard knows; `view`
    /// is the state of that row. Only the owner of the row knows what reads have made equal. With a bitmap only
    /// marked regions may differ.
    pub(crate) fn may_differ(&self, place: Location, length_bytes: u32, view: &RowView) -> bool {
        if view.in_sync || !self.is_mirrored() {
            return false;
        }
        let offset_bytes = self.shape.volume_offset_bytes(place);
        let from = self.on_members(place);
        let to = from + u64::from(length_bytes);
        self.is_marked(offset_bytes, length_bytes) && !self.equal.cover(place.data_index, from, to)
    }

    /// Whether a read there has to make copies equal, or to wait for a failure to be recorded, before it is answered.
    pub(crate) fn must_equal(&self, place: Location, view: &RowView) -> bool {
        let slots = self.shape.data_slots(place.row, place.data_index);
        let several = SlotSet(slots.0 & view.writable.0).count() > 1;
        (several || !self.unrecorded_in(slots).is_empty()) && !self.view.read_only
    }

    /// The same for a read that has the lock of its range.
    #[inline]
    pub(crate) fn must_equal_under_lock(
        &self,
        data_index: u8,
        range: Range,
        view: &RowView,
    ) -> bool {
        self.equal.are_kept() && {
            let place = Location {
                row: range.row,
                data_index,
                in_chunk_bytes: range.low_bytes,
            };
            self.may_differ(place, range.length_bytes(), view) && self.must_equal(place, view)
        }
    }

    /// Drives of `slots` that have failed, and whose failure is not on record.
    pub(crate) fn unrecorded_in(&self, slots: SlotSet) -> MemberSet {
        let members = slots
            .iter()
            .filter_map(|slot| self.view.slots[usize::from(slot.0)]);
        members
            .filter(|&member| self.unrecorded.has(member))
            .collect()
    }
}
