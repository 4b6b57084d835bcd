//! Plans for parts of clients, against the row's present state: writes, zeroing, and reads that could not be served
//! where they were tried. They are made for whole parts, and for a piece of them where a block cannot be read.

use crate::flight::piecewise::{PieceParity, Piecewise};
use crate::order::ranges::{BandKey, Part, PartKind};
use crate::plan::{NotEnoughMembers, PIECES_MAX, Piece, Range, StepKind, mirror, parity};
use crate::shard::Engine;
use crate::units::{Slot, SlotSet};

impl Engine {
    /// Plans a chain of writes, as much of it as lies in one piece.
    #[inline]
    pub(crate) fn plan_write(
        &mut self,
        index: u32,
        key: BandKey,
        parts: u32,
        piecewise: Option<&Piecewise>,
    ) -> Result<(), NotEnoughMembers> {
        // To clear a list for the longest chain takes as long as to plan a single write.
        if self.order.ranges.has_several(parts) {
            self.plan_writes::<PIECES_MAX>(index, key, parts, piecewise)
        } else {
            self.plan_writes::<1>(index, key, parts, piecewise)
        }
    }

    /// The same for a chain of at most so many parts.
    fn plan_writes<const PARTS: usize>(
        &mut self,
        index: u32,
        key: BandKey,
        parts: u32,
        piecewise: Option<&Piecewise>,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_write += 1;
        let mut view = self.view_of(key);
        let alone = piecewise.is_some_and(|piecewise| piecewise.parity() == PieceParity::GivenUp);
        if !alone {
            view.readable.0 &= !piecewise.map_or(0, |piecewise| piecewise.avoid().0);
        }
        let volume = &self.volumes[key.volume as usize];
        let row = volume.band_range(key.band).0;
        let mut pieces = [Piece::EMPTY; PARTS];
        let (mut count, mut fua_any) = (0, false);
        for part in self.order.ranges.chain(parts) {
            let whole = (part.low, part.high);
            let (low, high) = piecewise.map_or(whole, |piecewise| piecewise.overlap(part));
            let (data_index, buffer) = match (part.kind, piecewise) {
                (PartKind::Zero { .. }, Some(piecewise)) => (piecewise.chunk(), self.desk.zeros()),
                _ => (part.data_index, part.buffer),
            };
            fua_any |= part.is_fua();
            if low < high {
                pieces[count] = Piece {
                    data_index,
                    low_bytes: low,
                    high_bytes: high,
                    buffer: buffer.at(low - part.low),
                };
                count += 1;
            }
        }
        let (plan, shape) = (self.flight.running_mut(index).plan_mut(), volume.shape());
        let pieces = &pieces[..count];
        if alone {
            return parity::data_alone(plan, shape, row, pieces, &view, fua_any);
        }
        if shape.has_parity() {
            return parity::parity_write(plan, shape, row, pieces, &view, fua_any);
        }
        let mut pieces = pieces.iter();
        pieces.try_for_each(|piece| mirror::mirror_write(plan, shape, row, piece, &view, fua_any))
    }

    pub(crate) fn plan_zero(
        &mut self,
        index: u32,
        key: BandKey,
        part: &Part,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_write += 1;
        let PartKind::Zero {
            discard,
            keep_allocated,
            fua,
        } = part.kind
        else {
            unreachable!("{:?} zeroes nothing", part.kind);
        };
        let kind = if discard {
            StepKind::Discard
        } else {
            StepKind::Zero { keep_allocated }
        };
        let view = self.view_of(key);
        let volume = &self.volumes[key.volume as usize];
        let row = volume.band_range(key.band).0;
        let range = Range {
            row,
            low_bytes: part.low,
            high_bytes: part.high,
        };
        let plan = self.flight.running_mut(index).plan_mut();
        if volume.shape().has_parity() {
            mirror::zero_row(plan, volume.shape(), range, &view, kind)?;
        } else {
            mirror::zero_chunk(plan, volume.shape(), part.data_index, range, &view, kind)?;
        }
        if fua {
            let [slots, shadows] = [false, true].map(|shadow| {
                let steps = plan.steps().iter().filter(|step| step.shadow == shadow);
                steps.fold(SlotSet(0), |set, step| set.with(step.slot))
            });
            mirror::flush(plan, slots, shadows);
        }
        Ok(())
    }

    /// Plans a read that could not be served where it was tried, without slots that are `unreadable` here.
    pub(crate) fn plan_reconstruct(
        &mut self,
        index: u32,
        key: BandKey,
        part: &Part,
        unreadable: SlotSet,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_reconstruct += 1;
        let repairs = part.kind == PartKind::Reconstruct { repairs: true };
        // A slot that is to be repaired is read again, and first: that finds the unreadable block.
        let tried = self.volumes[key.volume as usize].slot_of(part.tried);
        let (first, avoid) = if repairs {
            (tried, unreadable)
        } else {
            (SlotSet(0), SlotSet(tried.0 | unreadable.0))
        };
        let mut view = self.view_of(key);
        let volume = &self.volumes[key.volume as usize];
        let shape = volume.shape();
        let row = volume.band_range(key.band).0;
        let range = Range {
            row,
            low_bytes: part.low,
            high_bytes: part.high,
        };
        let must_equal = volume.must_equal_under_lock(part.data_index, range, &view);
        view.readable.0 &= !avoid.0;
        let running = self.flight.running_mut(index);
        let plan = running.plan_mut();
        let slots = shape.data_slots(row, part.data_index);
        let readable = SlotSet(slots.0 & view.readable.0);
        let asked_first = SlotSet(readable.0 & first.0).iter().next();
        let readable = asked_first.or(view.source(readable));
        let bad = SlotSet(slots.0 & avoid.0 & view.writable.0).iter().next();
        let write_back = repairs && !volume.view().read_only;
        match (readable, bad.filter(|_| write_back)) {
            (Some(slot), _) if must_equal => {
                let source = (slot, part.data_index);
                mirror::mirror_equal(plan, shape, source, range, &view, part.buffer);
                running.miss_all(volume.unrecorded_in(slots));
                Ok(())
            }
            (Some(slot), None) => {
                plan.read(shape, 0, slot, range, part.buffer);
                Ok(())
            }
            (Some(_), Some(bad)) => {
                mirror::mirror_repair(plan, shape, bad, range, &view, part.buffer)
            }
            (None, _) if !shape.has_parity() => Err(NotEnoughMembers),
            (None, Some(bad)) => parity::parity_reconstruct_write_back(
                plan,
                shape,
                bad,
                range,
                &view,
                (part.buffer, false),
            ),
            (None, None) => {
                let slot: Slot = slots.iter().next().expect("each data chunk has a slot");
                parity::parity_reconstruct(plan, shape, slot, range, &view, part.buffer)
            }
        }
    }
}
