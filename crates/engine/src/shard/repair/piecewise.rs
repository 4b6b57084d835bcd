//! Work that met a block which cannot be read continues in pieces, under the lock that it holds.
//!
//! One bad block fails a plan as wide as its band, and two of them on different members would fail it for good,
//! although everything beside them can be read. So the plan is given up before it has written anything, and its range
//! is done piece by piece: half as long after a failure, twice as long after a success. Only a piece of one grain
//! avoids the unreadable slot, so a bad block costs no more than its grain. Writes that still cannot be done continue
//! block by block, and without parity in the end ([`crate::shard::repair::parity_given_up`]).
//!
//! Each piece is a plan of its own that leaves redundancy valid, so one may read after another has
//! written. Members that missed a write are remembered over all pieces, and the work is acknowledged once.

use crate::event::Event;
use crate::flight::piecewise::{PieceParity, Piecewise};
use crate::flight::running::{Next, Work};
use crate::flight::states::Progress;
use crate::layout::Location;
use crate::order::ranges::{BandKey, NONE, Part, PartKind};
use crate::plan::{NotEnoughMembers, StepKind};
use crate::request::Failure;
use crate::shard::Engine;
use crate::shard::repair::parity_given_up::Instead;
use crate::units::{SlotSet, VolumeId};

impl Engine {
    /// Reads of a plan under a lock have failed: continues without what could not be read.
    pub(crate) fn go_around(&mut self, index: u32) -> Next {
        self.desk.stats.replans += 1;
        let running = self.flight.running(index);
        assert!(
            !running.has_written(),
            "plan {index} has written, and a read of it has failed"
        );
        let mut unreadable = SlotSet(0);
        for (step, state) in running.steps_and_states() {
            if let Progress::Failed { media: true } = state.progress() {
                unreadable = unreadable.with(step.slot);
            }
        }
        let mut piecewise = match running.piecewise() {
            // A member has failed: all of it is planned again, without that member.
            None if unreadable == SlotSet(0) => {
                self.plan_again(index);
                return Next::Nothing;
            }
            None => Piecewise::new(self.range_of(running.work().parts())),
            Some(piecewise) => piecewise,
        };
        if self.split_chain(index) {
            return Next::Nothing;
        }
        if unreadable != SlotSet(0) {
            piecewise.narrow(unreadable);
        }
        self.flight.running_mut(index).continue_with(piecewise);
        self.plan_piece(index)
    }

    /// Some merged writes cannot be planned together where a log protects them: a chunk that their plan changes or
    /// reads may be lost or unreadable. Puts them back to be planned one by one, in order; false if the plan is no
    /// chain of several writes with a log.
    pub(crate) fn split_chain(&mut self, index: u32) -> bool {
        let running = self.flight.running(index);
        let Work::Write { parts } = running.work() else {
            return false;
        };
        let logged = self.volumes[running.volume() as usize].has_log();
        if !logged || !self.order.ranges.has_several(parts) {
            return false;
        }
        self.order.ranges.plan_alone(parts);
        self.plan_again(index);
        true
    }

    /// A row that has lost a data chunk cannot be zeroed at once where a log protects it: zeroes it chunk by chunk,
    /// as writes. A trim is dropped, since what it leaves is old data or zeros anyway. `None` if the plan is not of
    /// that kind.
    #[must_use = "a plan that has begun to zero in turn continues as this says"]
    pub(crate) fn zero_in_turn(&mut self, index: u32) -> Option<Next> {
        let running = self.flight.running(index);
        let volume = &self.volumes[running.volume() as usize];
        let Work::Write { parts } = running.work() else {
            return None;
        };
        let PartKind::Zero { discard, .. } = self.order.ranges[parts].kind else {
            return None;
        };
        if !volume.has_log() || volume.is_lost() {
            return None;
        }
        if discard {
            self.release(index);
            self.parts_done(parts, false);
            return Some(Next::Nothing);
        }
        let chunks = volume.shape().data_members();
        let first = Piecewise::of_chunks(self.range_of(parts), chunks);
        self.flight.running_mut(index).continue_with(first);
        Some(self.plan_piece(index))
    }

    /// Gives a plan up and puts its parts back at the head of their queue.
    fn plan_again(&mut self, index: u32) {
        let (parts, lock) = (
            self.flight.running(index).work().parts(),
            self.flight.running(index).lock(),
        );
        // First: what the plan leaves behind is found by the chain of parts, which is about to become longer.
        self.renew(index);
        // Requeue before unlocking, so that no later part gets the range first.
        let key = self.order.ranges.key_of_lock(lock);
        self.order.ranges.requeue(key, parts);
        self.release(index);
    }

    /// The offsets in the chunk that a chain of parts covers.
    fn range_of(&self, parts: u32) -> (u32, u32) {
        let parts = self.order.ranges.chain(parts);
        parts.fold((u32::MAX, 0), |(low, high), part| {
            (low.min(part.low), high.max(part.high))
        })
    }

    /// All steps planned for the piece under way are done. Plans what is still to be done about this piece, or else the
    /// next one, and returns how the plan continues.
    pub(crate) fn next_piece(&mut self, index: u32) -> Next {
        self.tell_repairs(index);
        let is_lost = match self.parity_of_piece(index) {
            PieceParity::Kept => false,
            PieceParity::BeingGivenUp => return self.plan_piece(index),
            PieceParity::GivenUp => self.misses_data(index),
            PieceParity::NotRecorded => true,
        };
        if is_lost {
            return if self.pass_piece(index) {
                self.plan_piece(index)
            } else {
                Next::End
            };
        }
        let scrubs = self.scrubs(index);
        let piecewise = self.flight.running_mut(index).piece_mut();
        let more = scrubs && piecewise.heal();
        if !more && !piecewise.step() {
            self.end_pieces(index);
            return Next::End;
        }
        self.plan_piece(index)
    }

    fn end_pieces(&mut self, index: u32) {
        self.renew(index);
        self.flight.running_mut(index).end_pieces();
    }

    /// Plans the piece under way, or the first one behind it that can be done.
    fn plan_piece(&mut self, index: u32) -> Next {
        loop {
            self.renew(index);
            let running = self.flight.running(index);
            let piecewise = running.piece();
            let key = self.order.ranges.key_of_lock(running.lock());
            if self.plan_range(index, key, &piecewise).is_ok() {
                return Next::Start;
            }
            if self.record_loss(index, key, &piecewise) {
                return Next::Nothing;
            }
            match self.give_parity_up(index, key, &piecewise) {
                Instead::PlanAgain => {}
                Instead::Recording => return Next::Nothing,
                Instead::Nothing if self.pass_piece(index) => {}
                Instead::Nothing => return Next::End,
            }
        }
    }

    /// Gives up the piece under way and continues behind it; false if there is nothing more to do.
    fn pass_piece(&mut self, index: u32) -> bool {
        let running = self.flight.running(index);
        let piecewise = running.piece();
        let key = self.order.ranges.key_of_lock(running.lock());
        let goes_on = self.piece_failed(index, key, &piecewise);
        if goes_on && self.flight.running_mut(index).piece_mut().step() {
            return true;
        }
        self.end_pieces(index);
        false
    }

    fn plan_range(
        &mut self,
        index: u32,
        key: BandKey,
        piecewise: &Piecewise,
    ) -> Result<(), NotEnoughMembers> {
        match self.flight.running(index).work() {
            Work::Write { parts } => self.plan_write(index, key, parts, Some(piecewise)),
            Work::Reconstruct { part } => {
                let range = (piecewise.low(), piecewise.high());
                let piece = self.order.ranges[part].piece(range);
                self.plan_reconstruct(index, key, &piece, piecewise.avoid())
            }
            Work::Background { .. } => {
                let range = (piecewise.low(), piecewise.high());
                self.plan_job(index, key, range, Some(piecewise))
            }
            work @ (Work::Direct { .. }
            | Work::ControlFlush { .. }
            | Work::LogFlush { .. }
            | Work::Bitmap { .. }) => unreachable!("{work:?} is not done in pieces"),
        }
    }

    /// A piece cannot be done with what is readable; returns whether the others are worth doing.
    fn piece_failed(&mut self, index: u32, key: BandKey, piecewise: &Piecewise) -> bool {
        let mut at = match self.flight.running(index).work() {
            Work::Background { .. } => return self.job_failed_at(index, piecewise),
            work => work.parts(),
        };
        let is_write = matches!(self.flight.running(index).work(), Work::Write { .. });
        while at != NONE {
            let mut part = self.order.ranges[at];
            if let PartKind::Zero { .. } = part.kind {
                part.data_index = piecewise.chunk();
            }
            let (low, high) = piecewise.overlap(&part);
            if low < high {
                self.bytes_lost(key, &part, low);
            }
            at = self.order.ranges.after(at);
        }
        is_write
    }

    fn bytes_lost(&mut self, key: BandKey, part: &Part, in_chunk_bytes: u32) {
        let volume = &self.volumes[key.volume as usize];
        let place = Location {
            row: volume.band_range(key.band).0,
            data_index: part.data_index,
            in_chunk_bytes,
        };
        let offset_bytes = volume.shape().volume_offset_bytes(place);
        self.admission[part.request].fail(Failure::Unrecoverable { offset_bytes });
        let volume = VolumeId(key.volume);
        self.desk.emit(Event::Unrecoverable {
            volume,
            offset_bytes,
        });
    }

    /// Reports blocks that have been read by reconstruction and written back.
    pub(crate) fn tell_repairs(&mut self, index: u32) {
        let running = self.flight.running(index);
        let heals = |piecewise: Piecewise| self.scrubs(index) && piecewise.unhealed().is_some();
        let is_read = matches!(running.work(), Work::Reconstruct { .. });
        if !is_read && !running.piecewise().is_some_and(heals) {
            return;
        }
        let unreadable = running
            .piecewise()
            .map_or(SlotSet(0), |piecewise| piecewise.avoid());
        for (step, state) in running.steps_and_states() {
            let is_written =
                matches!(step.kind, StepKind::Write { .. }) && state.progress() == Progress::Done;
            // Copies that may have differed are written as well, and had nothing to repair.
            if is_written && unreadable.has(step.slot) {
                self.desk.stats.read_repairs += 1;
                self.desk.emit(Event::ReadRepaired {
                    member: state.member(),
                    offset_bytes: step.offset_bytes,
                    length_bytes: step.length_bytes as u32,
                });
            }
        }
    }
}
