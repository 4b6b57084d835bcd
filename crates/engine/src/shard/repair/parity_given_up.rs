//! RAID 5: a write goes through although parity cannot be computed any more.
//!
//! New parity is computed from old parity and the data that are overwritten, or from all other data. Where the same
//! block of a row cannot be read on two drives, or on one while another is missing, both ways can be barred: the
//! write goes to one of the two blocks, or to neither, and the other one keeps its unknown content. Old parity is
//! then of no use for reconstructing anything. Answering EIO would leave a file system no way to get rid of a bad
//! block, and zeros in place of the unknown block would be returned as data later. So parity is given up there, in
//! this order: its range is recorded as bad, durably and in every shard's view; only then are the data written,
//! alone. In any other order a crash leaves parity from which the unknown block would be computed wrong.
//!
//! The new data have as much protection as their row had before: none, until the other block is written, too. That
//! write computes parity anew and takes it off the record. Until then reads of the other block are errors.
//!
//! This is decided block by block, not by the grain, so that no parity is given up that other blocks may still need.
//! Some writes stay errors: one whose drive is out of service, because its data would be in parity alone; one for
//! which the bad-block log has no room; and one in a row of which no drive can be read. Drives have bad blocks one by
//! one: an error that all of them report comes from the host, and is not recorded.

use crate::control::bad_blocks::{BadBlockChange, BadRange};
use crate::flight::piecewise::{PieceParity, Piecewise};
use crate::flight::running::Work;
use crate::flight::states::Progress;
use crate::order::ranges::{BandKey, PartKind};
use crate::plan::{Step, StepKind};
use crate::shard::Engine;
use crate::units::{Slot, SlotSet};

/// What happens to a piece that cannot be planned.
pub(crate) enum Instead {
    /// It is planned again: there is another way now.
    PlanAgain,
    /// Parity is being recorded as lost; the piece continues when that is done.
    Recording,
    /// Nothing: it cannot be done.
    Nothing,
}

impl Engine {
    /// A piece cannot be planned: if that is because its parity cannot be computed, continues without parity.
    #[cold]
    pub(crate) fn give_parity_up(
        &mut self,
        index: u32,
        key: BandKey,
        piece: &Piecewise,
    ) -> Instead {
        let Some(parity) = self.parity_in_doubt(index, key, piece) else {
            return Instead::Nothing;
        };
        let volume = &self.volumes[key.volume as usize];
        let (shape, row) = (*volume.shape(), volume.band_range(key.band).0);
        let is_hosts = self.view_of(key).readable.0 & !piece.avoid().0 == 0;
        let own = self.flight.running_mut(index).piece_mut();
        if own.refine(shape.block_bytes) {
            return Instead::PlanAgain;
        }
        if is_hosts {
            return Instead::Nothing;
        }
        let (offset_bytes, length_bytes) = (
            shape.member_offset_bytes(row, piece.low()),
            u64::from(piece.high() - piece.low()),
        );
        own.set_parity(PieceParity::GivenUp);
        let step = Step::member(
            StepKind::Write { fua: false },
            0,
            parity,
            offset_bytes,
            length_bytes,
        );
        // A drive that is to take the slot has a copy of the same parity.
        let shadowed = self.view_of(key).shadowed.has(parity);
        for shadow in [false, true].into_iter().take(1 + usize::from(shadowed)) {
            let volume = &self.volumes[key.volume as usize];
            let member = volume.member(parity, shadow);
            let Some(member) = member.filter(|&member| !self.members.failed().has(member)) else {
                continue;
            };
            let is_recorded = self.volumes.view().bad_blocks.cover(BadRange {
                member,
                offset_bytes,
                length_bytes,
            });
            if is_recorded {
                continue;
            }
            let running = self.flight.running_mut(index);
            let mut own = step;
            own.shadow = shadow;
            running.add_awaited(own, member);
        }
        let steps = self.flight.running(index).states().len();
        if steps == 0 {
            return Instead::PlanAgain;
        }
        let running = self.flight.running_mut(index);
        running.write_nothing_more();
        let piece = running.piece_mut();
        piece.set_parity(PieceParity::BeingGivenUp);
        for at in 0..steps {
            self.record_change(index, at, BadBlockChange::Lost);
        }
        Instead::Recording
    }

    /// The parity slot of a write's piece, if parity cannot be computed because of blocks that cannot be read, and if
    /// the drives that the data go to are in service.
    fn parity_in_doubt(&self, index: u32, key: BandKey, piece: &Piecewise) -> Option<Slot> {
        let Work::Write { parts } = self.flight.running(index).work() else {
            return None;
        };
        let volume = &self.volumes[key.volume as usize];
        let is_tried = piece.parity() != PieceParity::Kept;
        if !volume.shape().has_parity()
            || piece.avoid() == SlotSet(0)
            || is_tried
            || volume.is_lost()
        {
            return None;
        }
        let row = volume.band_range(key.band).0;
        let view = self.view_of(key);
        let in_service = SlotSet(view.readable.0 & view.writable.0);
        for part in self.order.ranges.chain(parts) {
            let (low, high) = piece.overlap(part);
            let data_index = match part.kind {
                PartKind::Zero { .. } => piece.chunk(),
                _ => part.data_index,
            };
            let mut slots = volume.shape().data_slots(row, data_index).iter();
            if low < high && !slots.all(|slot| in_service.has(slot)) {
                return None;
            }
        }
        let parity = volume.shape().parity_slot(row);
        let parity = parity.expect("each row of a RAID 5 has parity");
        view.writable.has(parity).then_some(parity)
    }

    /// The controller has recorded the loss of a piece's parity, or could not.
    pub(crate) fn parity_recorded(&mut self, index: u32, recorded: bool) {
        let piece = self.flight.running_mut(index).piece_mut();
        if !recorded {
            piece.set_parity(PieceParity::NotRecorded);
        }
    }

    /// What has become of the parity of a piece whose steps are done. If it has just been recorded as lost, the piece
    /// is to continue without parity.
    pub(crate) fn parity_of_piece(&mut self, index: u32) -> PieceParity {
        let running = self.flight.running_mut(index);
        let missed = running
            .states()
            .iter()
            .any(|state| state.progress() == Progress::Missed);
        let piece = running.piece_mut();
        let was = piece.parity();
        if was == PieceParity::BeingGivenUp {
            // If a drive failed meanwhile, the piece is planned as if nothing had been decided.
            piece.set_parity(if missed {
                PieceParity::Kept
            } else {
                PieceParity::GivenUp
            });
        }
        was
    }

    /// Whether a drive missed what was written to it alone.
    pub(crate) fn misses_data(&self, index: u32) -> bool {
        let running = self.flight.running(index);
        let mut steps = running.steps_and_states();
        steps.any(|(step, state)| !step.shadow && state.progress() == Progress::Missed)
    }
}
