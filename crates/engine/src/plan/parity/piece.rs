//! A write of one piece, the most frequent one: planned without looking for spans and neighbours.

use super::{NotEnoughMembers, Piece, Plan, RowWrite, Stages, Step, StepKind};
use crate::units::SlotSet;

impl RowWrite<'_> {
    /// Whether parity is there, and nothing but data and parity has to be written.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.view.logged && self.view.shadowed.0 == 0 && self.view.writable.has(self.parity)
    }

    /// As [`RowWrite::plan`] for a plain write of one piece, the most frequent one: it is one span, and no two of its
    /// transfers are neighbours.
    #[inline]
    pub(super) fn plan_piece(
        &self,
        plan: &mut Plan,
        piece: &Piece,
    ) -> Result<(), NotEnoughMembers> {
        let slot = self.slot_of(piece);
        let reads = self.reads(SlotSet(0).with(slot))?;
        let range = piece.range(self.row);
        let (offset_bytes, length_bytes) = (
            self.shape.member_offset_bytes(range.row, range.low_bytes),
            range.length_bytes(),
        );
        let stages = Stages::new(reads.0 != 0, true);
        let step = |kind, stage, slot| {
            Step::member(kind, stage, slot, offset_bytes, u64::from(length_bytes))
        };
        // Parity is computed where it was read to, or else where the first of the other chunks was.
        let old = plan.scratch(reads.count().max(1) * length_bytes);
        let mut place = old;
        let mut parity = old;
        for read in reads.iter() {
            if read == self.parity {
                parity = place;
            }
            plan.transfer_apart(step(StepKind::Read, stages.read, read), place);
            place = place.at(length_bytes);
        }
        let sum = (StepKind::Xor { target: parity }, stages.compute);
        let olds = (0..reads.count()).map(|number| old.at(number * length_bytes));
        plan.compute(sum, length_bytes, olds.chain([piece.buffer]));
        let kind = StepKind::Write { fua: self.fua };
        if self.view.writable.has(slot) {
            plan.transfer_apart(step(kind, stages.write, slot), piece.buffer);
        }
        plan.transfer_apart(step(kind, stages.write, self.parity), parity);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, Level};
    use crate::plan::{RowView, Segment};
    use crate::units::{Buffer, Slot};
    use alloc::vec::Vec;

    /// The steps of a plan with their memory.
    fn content(plan: &Plan) -> Vec<(Step, Vec<Segment>)> {
        let steps = plan.steps().iter();
        steps
            .map(|step| (*step, plan.segments_of(step).collect()))
            .collect()
    }

    /// All views with at most one slot lost, and with one slot that is written and cannot be read.
    fn views(members: u8) -> Vec<RowView> {
        let healthy = RowView::healthy(members);
        let mut views = vec![healthy];
        for slot in (0..members).map(Slot) {
            views.push(healthy.without(slot));
            views.push(RowView {
                readable: healthy.readable.without(slot),
                ..healthy
            });
        }
        let out_of_sync = views.iter().map(|&view| RowView {
            in_sync: false,
            ..view
        });
        let out_of_sync: Vec<RowView> = out_of_sync.collect();
        views.extend(out_of_sync);
        views
    }

    #[test]
    fn the_plan_of_one_piece_is_that_of_the_general_way() {
        let mut compared = 0;
        for members in 3..=7 {
            let shape = Geometry::new(Geometry {
                level: Level::Raid5,
                members,
                chunk_bytes: 16 << 10,
                start_bytes: 1 << 20,
                component_bytes: 1 << 20,
                size_bytes: (1 << 20) * u64::from(members - 1),
                block_bytes: 512,
            })
            .expect("a valid geometry");
            let rows = 0..u64::from(members);
            let indices = 0..members - 1;
            for (row, view) in
                rows.flat_map(|row| views(members).into_iter().map(move |view| (row, view)))
            {
                for (data_index, fua) in indices
                    .clone()
                    .flat_map(|index| [(index, false), (index, true)])
                {
                    let piece = Piece {
                        data_index,
                        low_bytes: 4096,
                        high_bytes: 12_288,
                        buffer: Buffer(1 << 30),
                    };
                    let write = RowWrite::new(&shape, row, &view, fua).expect("one slot is lost");
                    if !write.is_plain() {
                        continue;
                    }
                    let [mut special, mut general] = [(); 2].map(|()| Plan::default());
                    let results = (
                        write.plan_piece(&mut special, &piece),
                        write.plan::<2>(&mut general, &[piece]),
                    );
                    assert_eq!(results.0, results.1, "{members} {row} {view:?} {piece:?}");
                    if results.0.is_ok() {
                        assert_eq!(content(&special), content(&general));
                        assert_eq!(special.scratch_bytes(), general.scratch_bytes());
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 1000, "only {compared} plans have been compared");
    }
}
