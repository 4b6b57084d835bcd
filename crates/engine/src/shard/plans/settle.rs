//! The end of a plan: to whom its outcome is reported, and when.
//!
//! A plan whose members all did their part is settled at once. If a member missed some of it, the plan is held until
//! the member's failure is on record on all survivors and known to every shard: before that, a crash could bring the
//! stale member back as if it were current.

use crate::control::message::{FlushOutcome, Message};
use crate::flight::running::{Next, Work};
use crate::flight::states::Progress;
use crate::layout::Redundancy;
use crate::plan::StepKind;
use crate::shard::Engine;

impl Engine {
    /// All steps of a plan are done: it continues with its next piece, is held until the record names the members that
    /// missed some of it, or is settled. Returns the plan that is to be started now, if there is one.
    #[inline]
    #[must_use = "the plan in it is to be started"]
    pub(crate) fn end_or_continue(&mut self, index: u32) -> Option<u32> {
        if self.flight.running(index).is_in_pieces() {
            match self.next_piece(index) {
                Next::Start => return Some(index),
                Next::Nothing => return None,
                Next::End => {}
            }
        }
        let running = self.flight.running(index);
        let recorded = running.missed().within(self.members.durable_failed());
        if !recorded && self.is_to_be_held(index) {
            self.flight.hold(index);
            return None;
        }
        self.settle(index)
    }

    /// Whether a plan that members missed has to wait until their failure is on record. It need not if the volume
    /// cannot do without them, as one without redundancy. (It can do without a drive that is being copied to, and
    /// then the plan waits: an update that names that drive may be on some members already.) Nor need a flush of a
    /// volume that is only read: nothing has been written that a member could lack, and if the metadata cannot
    /// express the failure, nothing would end that wait.
    fn is_to_be_held(&self, index: u32) -> bool {
        let running = self.flight.running(index);
        let Some(volume) = self.volumes.get(running.volume() as usize) else {
            return false;
        };
        let mut missed = running.missed().iter();
        let can_do_without =
            volume.shape().redundant() || !missed.any(|member| volume.is_in_slot(member));
        can_do_without && !volume.view().read_only && !self.hopeless(index)
    }

    /// Whether a held plan can never be acknowledged, because nothing is recorded of its volume any more: the volume
    /// has failed, or the metadata cannot express what would have to be recorded.
    pub(crate) fn hopeless(&self, index: u32) -> bool {
        self.volumes
            .get(self.flight.running(index).volume() as usize)
            .is_some_and(|volume| volume.records_nothing())
    }

    /// Reports a finished plan's outcome to the request, job, log, bitmap or controller that it was for, and frees
    /// the plan. Returns the plan that is to be started now, if there is one.
    #[inline]
    #[must_use = "the plan in it is to be started"]
    pub(crate) fn settle(&mut self, index: u32) -> Option<u32> {
        let running = self.flight.running(index);
        let lost = !running.missed().is_empty() && !self.still_protected(index);
        let work = running.work();
        if lost {
            self.keep_log(index);
        }
        match work {
            Work::Direct { request } => {
                self.release(index);
                let result = if lost {
                    Err(self.loss(request))
                } else {
                    Ok(())
                };
                self.piece_done(request, result);
            }
            Work::Write { parts } => {
                self.release(index);
                self.parts_done(parts, lost);
            }
            Work::Reconstruct { part } => {
                self.tell_repairs(index);
                let unequal = self.leaves_unequal(index);
                self.release(index);
                self.parts_done(part, unequal);
            }
            Work::Background { .. } => {
                if self.background_done(index) {
                    return Some(index);
                }
            }
            Work::LogFlush { log } => {
                let missed = self.flight.running(index).missed();
                self.release(index);
                self.log_flushed(log, missed);
            }
            Work::Bitmap { volume } => {
                self.release(index);
                return self.bitmap_done(volume);
            }
            Work::ControlFlush { ticket } => {
                let missed = self.flight.running(index).missed();
                self.release(index);
                let outcome = if missed.is_empty() {
                    FlushOutcome::Complete
                } else {
                    FlushOutcome::Missed
                };
                self.desk
                    .tell_controller(Message::Flushed { ticket, outcome });
            }
        }
        None
    }

    /// Whether what a plan wrote can still be read although some members missed it.
    fn still_protected(&self, index: u32) -> bool {
        let running = self.flight.running(index);
        let Some(volume) = self.volumes.get(running.volume() as usize) else {
            return true;
        };
        let is_recorded = running.missed().within(self.members.durable_failed());
        if volume.view().failed || (volume.records_nothing() && !is_recorded) {
            return false;
        }
        match volume.shape().redundancy() {
            Redundancy::None => {
                // A drive that is only being copied to may miss anything: it is in no slot.
                let mut members = volume.view().slots.iter().flatten();
                return !members.any(|&member| running.missed().has(member));
            }
            Redundancy::Parity => return true,
            Redundancy::Copies => {}
        }
        // Mirrors: every place written must have reached at least one slot of its set. A flush that a
        // member missed is no loss: the others have done theirs, or have no cache that needs one.
        let steps = running.steps_and_states();
        let written = steps
            .clone()
            .filter(|(step, _)| !matches!(step.kind, StepKind::Read | StepKind::Flush));
        written.clone().all(|(step, _)| {
            steps.clone().any(|(other, state)| {
                // Compared by drive: the one that was copied to may have taken the slot meanwhile.
                let serves = volume.view().slots[usize::from(other.slot.0)];
                other.offset_bytes == step.offset_bytes
                    && serves == Some(state.member())
                    && state.progress() == Progress::Done
                    && volume.shape().data_index(0, other.slot)
                        == volume.shape().data_index(0, step.slot)
            })
        })
    }
}
