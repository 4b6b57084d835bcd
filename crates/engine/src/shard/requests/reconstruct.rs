//! Small reads of what a lost drive held: where nothing in their band is in the way, they are planned at once.
//!
//! They need a lock, because a write of their row changes what they are computed from. In most bands there is no
//! work, so they take a quiet lock ([`crate::order::ranges::Ranges::lock_if_quiet`]) and need not wait in a queue.
//! All other reads of lost data are queued, or sent to the shard that owns their row ([`Engine::recover_cut`]).

use crate::flight::running::Work;
use crate::limits::{PARTS_RESERVED, PLANS_RESERVED};
use crate::order::ranges::{ALL_CHUNKS, BandKey, Part, PartKind};
use crate::plan::NotEnoughMembers;
use crate::shard::Engine;
use crate::units::SlotSet;

impl Engine {
    /// Starts the plan of a read that has to be reconstructed. Returns false, and does nothing, if the read needs no
    /// reconstruction, more than one plan, or a repair; if its row is another shard's, or the state of rows differs,
    /// as during a rebuild; and if the read has to wait for a lock, a plan or a part.
    #[inline]
    pub(crate) fn reconstruct_at_once(&mut self, index: u32) -> bool {
        let state = &self.admission[index];
        let request = *state.request();
        let volume = &self.volumes[usize::from(request.volume.0)];
        let shape = volume.shape();
        let Some(view) = volume.uniform() else {
            return false;
        };
        let is_degraded = shape.has_parity() && view.readable != SlotSet::all(shape.members);
        let is_first = state.cursor() == 0
            && state
                .origin()
                .is_none_or(|origin| origin.tried.is_none() && !origin.repairs);
        if !is_degraded || !is_first || request.length_bytes > volume.band_bytes() {
            return false;
        }
        let place = shape.locate(request.offset_bytes);
        let (low, length_bytes) = (place.in_chunk_bytes, request.length_bytes);
        let slots = shape.data_slots(place.row, place.data_index);
        let is_here = shape.owner(place.row, self.desk.shards()) == self.desk.id();
        if slots.0 & view.readable.0 != 0
            || length_bytes > volume.rest_of_band_bytes(low)
            || !is_here
            || self.flight.plans_available() <= PLANS_RESERVED
            || self.order.ranges.parts_available() <= PARTS_RESERVED
        {
            return false;
        }
        let key = BandKey {
            volume: request.volume.0,
            band: volume.band(place.row, low),
        };
        let lock = self
            .order
            .ranges
            .lock_if_quiet(key, ALL_CHUNKS, low, low + length_bytes);
        let Some(lock) = lock else {
            return false;
        };
        let part = Part::of_request(
            (PartKind::Reconstruct { repairs: false }, index),
            place.data_index,
            (low, length_bytes),
            request.buffer,
            None,
        );
        let state = &mut self.admission[index];
        state.piece_begins();
        state.advance(length_bytes);
        let number = self.order.ranges.make_part(part);
        let work = Work::Reconstruct { part: number };
        let plan = self.flight.take_plan(work, key.volume, lock);
        match self.plan_reconstruct(plan, key, &part, SlotSet(0)) {
            Ok(()) => self.start(plan),
            Err(NotEnoughMembers) => {
                self.release(plan);
                self.parts_done(number, true);
            }
        }
        true
    }
}
