//! Ranges of members that the bad-block log names: what lies there is not the volume's data.
//!
//! A read that touches one fails here, as it would at a block that the drive cannot read, and takes the same way from
//! there: it is reconstructed, returned, and written back. The drive gets no command.
//!
//! A write over one makes it good again, in this order: the data are written and flushed, the record without the
//! range becomes durable on all members, and all shards adopt the view without it. Only then does the step count as
//! done. So nothing is acknowledged whose only copy would be called unreadable, in this process or after a crash, and
//! the record never trusts what a power cut can take back. Other writes wait for none of that.
//!
//! Blocks that a rebuild cannot reconstruct are recorded as bad on the new drive before the rebuild continues, and
//! parity that a write cannot compute is recorded as bad before the write
//! ([`crate::shard::repair::parity_given_up`]).
//!
//! All of this is for watched members only ([`crate::members::Members::watched`]): others pay nothing.

use crate::control::bad_blocks::{BadBlockChange, Recorded};
use crate::control::record::JobKind;
use crate::event::Event;
use crate::flight::piecewise::Piecewise;
use crate::flight::running::Work;
use crate::flight::states::Progress;
use crate::layout::Location;
use crate::order::ranges::BandKey;
use crate::output::Output;
use crate::plan::{Step, StepKind};
use crate::policy::{ErrorClass, MemberError};
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{MemberId, Slot, SlotSet, VolumeId};
use crate::volumes::volume::Volume;
use crate::world::Io;

/// ENOSPC: the log has no room to say which part of a range is good again.
const LOG_FULL: MemberError = MemberError {
    class: ErrorClass::Media,
    errno: 28,
};

impl Engine {
    /// Looks closer at a step of a watched member. Returns the drive if the command may go to it; otherwise the
    /// step's progress says already how it ended.
    #[cold]
    pub(crate) fn second_look(
        &mut self,
        index: u32,
        at: usize,
        member: Option<MemberId>,
    ) -> Option<MemberId> {
        let step = self.flight.running(index).plan().steps()[at];
        let live = member.filter(|&member| !self.members.failed().has(member));
        let is_exchanged = live.is_some() && !step.shadow && self.is_exchanged(index, step.slot);
        let live = live.filter(|_| !is_exchanged);
        let running = self.flight.running_mut(index);
        let is_read = step.kind == StepKind::Read;
        let is_recorded = live.is_some_and(|member| {
            let bad_blocks = &self.volumes.view().bad_blocks;
            is_read && bad_blocks.touch(member, step.offset_bytes, step.length_bytes)
        });
        if is_read && (live.is_none() || is_recorded) {
            running.fail_read(at, is_recorded);
            return None;
        }
        if live.is_none() {
            let shape = self
                .volumes
                .get(usize::from(running.volume()))
                .map(Volume::shape);
            assert!(
                member.is_some() || step.shadow || shape.is_some_and(|shape| shape.redundant()),
                "no drive is in slot {}, and no other drive gets what is written there",
                step.slot.0
            );
            // The slot's drive failed after the plan was made, or has been removed since.
            running.miss_step(at, member.filter(|_| !is_exchanged));
        }
        live
    }

    /// A watched member has carried a step out. Returns whether the step has to wait for more.
    #[cold]
    pub(crate) fn watched_done(&mut self, index: u32, at: usize) -> bool {
        let running = self.flight.running_mut(index);
        let (step, state) = (running.plan().steps()[at], running.states()[at]);
        let member = state.member();
        if self.members.failed().has(member) {
            // What a failed member says, good or bad, does not count any more.
            self.step_lost(index, at, false);
            return false;
        }
        let writes = matches!(step.kind, StepKind::Write { .. } | StepKind::Zero { .. });
        let bad_blocks = &self.volumes.view().bad_blocks;
        if !writes || !bad_blocks.touch(member, step.offset_bytes, step.length_bytes) {
            running.finish_step(at);
            return false;
        }
        if state.progress() == Progress::Outstanding && self.members.volatile().has(member) {
            running.flush_step(at);
            self.members.sent(member);
            self.desk.stats.member_flushes += 1;
            self.desk.ask(Output::Io(Io {
                token: running.name_of(index, at),
                member,
                kind: StepKind::Flush,
                offset_bytes: 0,
                length_bytes: 0,
            }));
        } else {
            self.record_change(index, at, BadBlockChange::Rewritten);
        }
        true
    }

    /// The controller has recorded a change, or could not: how that ends the step that waited. The step is to be
    /// counted as answered after that.
    #[cold]
    pub(crate) fn bad_blocks_settled(
        &mut self,
        token: Token,
        change: BadBlockChange,
        outcome: Recorded,
    ) {
        let (index, at) = (token.index(), token.step());
        let running = self.flight.running_mut(index);
        assert!(
            running.has_name(token) && running.states()[at].progress() == Progress::Recording,
            "{token:?} does not wait for the record"
        );
        let member = running.states()[at].member();
        let recorded = outcome == Recorded::Yes;
        match change {
            _ if self.members.failed().has(member) => self.step_lost(index, at, false),
            BadBlockChange::Rewritten if recorded => running.finish_step(at),
            // The data are written, but on record the range stays bad.
            BadBlockChange::Rewritten if outcome == Recorded::NotExpressible => {
                self.step_lost(index, at, false);
            }
            BadBlockChange::Rewritten => {
                let asked_again = self.step_error(index, at, LOG_FULL);
                assert!(
                    !asked_again,
                    "a step was tried again although the bad-block log is full"
                );
            }
            BadBlockChange::Lost if matches!(running.work(), Work::Write { .. }) => {
                running.finish_step(at);
                self.parity_recorded(index, recorded);
            }
            BadBlockChange::Lost => {
                running.finish_step(at);
                let piece = running.piecewise();
                match piece.filter(|_| !recorded) {
                    Some(piece) => {
                        self.job_failed_at(index, &piece);
                        self.flight.running_mut(index).end_pieces();
                    }
                    None => self.count_lost(index),
                }
            }
        }
    }

    /// Records a piece of a band that cannot be reconstructed as lost on the drive that is being filled. Returns
    /// false if the piece is no such case.
    #[cold]
    pub(crate) fn record_loss(&mut self, index: u32, key: BandKey, piece: &Piecewise) -> bool {
        let volume = &self.volumes[key.volume as usize];
        let (slot, shadow) = match self.job_of(index).map(|job| job.kind) {
            Some(JobKind::Rebuild(slot)) => (slot, false),
            Some(JobKind::Replace(slot, _)) => (slot, true),
            _ => return false,
        };
        let target = volume.member(slot, shadow);
        let Some(target) = target.filter(|&target| !self.members.failed().has(target)) else {
            return false;
        };
        if piece.avoid() == SlotSet(0) || volume.is_lost() {
            // What is missing is a drive, not a block.
            return false;
        }
        let (low, high) = (piece.low(), piece.high());
        let row = volume.band_range(key.band).0;
        let offset_bytes = volume.shape().member_offset_bytes(row, low);
        let kind = StepKind::Write { fua: false };
        let mut step = Step::member(kind, 0, slot, offset_bytes, u64::from(high - low));
        step.shadow = shadow;
        self.tell_lost(key, piece.avoid().with(slot), piece);
        let running = self.flight.running_mut(index);
        assert!(
            running.outstanding() == 0,
            "a piece that could not be planned has steps under way"
        );
        running.add_awaited(step, target);
        running.write_nothing_more();
        self.record_change(index, 0, BadBlockChange::Lost);
        true
    }

    /// Reports the data in `slots` that is lost with a piece.
    fn tell_lost(&mut self, key: BandKey, slots: SlotSet, piece: &Piecewise) {
        let volume = &self.volumes[key.volume as usize];
        let (shape, row) = (*volume.shape(), volume.band_range(key.band).0);
        let mut told = None;
        for data_index in slots
            .iter()
            .filter_map(|slot: Slot| shape.data_index(row, slot))
        {
            if told.replace(data_index) == Some(data_index) {
                continue;
            }
            let place = Location {
                row,
                data_index,
                in_chunk_bytes: piece.low(),
            };
            self.desk.emit(Event::Unrecoverable {
                volume: VolumeId(key.volume),
                offset_bytes: shape.volume_offset_bytes(place),
            });
        }
    }

    fn count_lost(&mut self, index: u32) {
        let is_background = matches!(self.flight.running(index).work(), Work::Background { .. });
        assert!(is_background, "only a job's plan records content as lost");
        if let Some(job) = self.job_of_mut(index) {
            job.count_failure();
        }
    }
}
