//! Units of the write-hole logs are written for plans that wait, and retired when what these wrote is durable: see
//! [`crate::log`] for the rules.

use crate::control::record::LogArea;
use crate::flight::running::Work;
use crate::flight::states::Progress;
use crate::layout::Geometry;
use crate::log::slot::{COPIES, Ended, SlotLog, Stage};
use crate::log::unit::{LOG_BUFFER_BYTES, LogUnit};
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Segment, Segments, StepKind, mirror};
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{Buffer, MemberSet, Slot, VolumeId};

impl Engine {
    /// Makes the logs that this shard writes.
    pub(crate) fn open_logs(&mut self, areas: impl Iterator<Item = Option<LogArea>>) {
        for (at, area) in areas.enumerate() {
            let Some(area) = area else { continue };
            let members = self.volumes[at].shape.members;
            let is_mine =
                |slot: &Slot| Geometry::log_owner(*slot, self.desk.shards()) == self.desk.id();
            let mine = (0..members).map(Slot).filter(is_mine);
            self.volumes[at].logs = alloc::vec![NONE; members as usize];
            for slot in mine {
                let buffer = self
                    .flight
                    .scratch
                    .take_for_good(LOG_BUFFER_BYTES)
                    .expect("scratch memory is sized for the logs");
                let log = SlotLog::new(VolumeId(at as u8), slot, area, buffer);
                self.volumes[at].logs[slot.0 as usize] = self.hole_logs.open(log);
            }
        }
    }

    /// A plan has come to its log step. Returns whether it may write when that is done.
    pub(crate) fn log_step(&mut self, index: u32, at: usize) -> bool {
        let running = &mut self.flight.running[index];
        let volume = &self.volumes[running.volume as usize];
        let slot = running.plan.steps()[at].slot;
        let member = volume.member(slot, false);
        if member.is_none_or(|member| self.members.failed().has(member)) {
            // The log's drive failed after the plan was made. Parity that could be wrong is gone with it, unless the
            // volume has lost too many drives: then the drive may come back with the parity as it is now.
            running.states[at].progress = Progress::Missed;
            member.into_iter().for_each(|member| running.miss(member));
            return !volume.is_lost();
        }
        let is_watched = member.is_some_and(|member| self.members.watched().has(member));
        if is_watched && self.is_exchanged(index, slot) {
            self.flight.running[index].states[at].progress = Progress::Missed;
            return true;
        }
        let volume = &self.volumes[self.flight.running[index].volume as usize];
        let running = &mut self.flight.running[index];
        running.step_goes_out(at);
        if running.log == NONE {
            running.log = volume.logs[slot.0 as usize];
            self.hole_logs.wait(running.log, index);
        }
        true
    }

    /// Writes the units that can be written.
    #[inline]
    pub(crate) fn run_logs(&mut self) {
        if self.hole_logs.waiting() == 0 {
            return;
        }
        for index in 0..self.hole_logs.len() {
            if self.hole_logs[index].stage() == Stage::ToFlush {
                self.flush_log(index);
            }
            if self.hole_logs[index].stage() == Stage::Idle {
                self.pass_exchanged(index);
            }
            let log = &self.hole_logs[index];
            if log.stage() == Stage::Idle && log.wants_unit() {
                self.write_unit(index);
            }
            if self.hole_logs[index].stage() == Stage::Kept {
                self.hole_logs.forget_emptying(index);
            }
            while self.hole_logs[index].stage() == Stage::Kept
                && let Some(plan) = self.hole_logs.take_first(index)
            {
                self.give_up_unlogged(plan);
            }
        }
    }

    fn write_unit(&mut self, index: usize) {
        self.fill_unit(index);
        let log = &mut self.hole_logs[index];
        let volume = &self.volumes[log.volume().0 as usize];
        let members = [false, true].map(|copied_to| {
            let member = volume.member(log.slot(), copied_to);
            member.filter(|&member| !self.members.failed().has(member))
        });
        let leftovers = &self.flight.leftovers;
        let name = |generation| Token::of_log(index as u32, generation, 0);
        let free = |generation| leftovers.free_generation(generation, name);
        let count = log.goes_out(self.desk.now(), members, free);
        self.desk.stats.log_units += u64::from(count);
        self.desk.stats.log_entries += log.unit().entries.len() as u64;
        self.desk.stats.log_bytes += u64::from(count) * u64::from(log.memory().length_bytes);
        if count == 0 {
            return self.unit_written(index);
        }
        let mut encoded = false;
        for copy in 0..COPIES {
            let Some(io) = self.hole_logs[index].io(index, copy) else {
                continue;
            };
            self.members.sent(io.member);
            let output = if encoded {
                Output::Io(io)
            } else {
                Output::Log(io)
            };
            encoded = true;
            self.desk.ask(output);
        }
    }

    /// Makes the next unit: of as many of the waiting plans as fit, or without entries if it is only to replace an
    /// older one.
    fn fill_unit(&mut self, index: usize) {
        let is_empty = self.hole_logs.forget_emptying(index);
        self.hole_logs[index].begin_unit();
        while !is_empty && let Some(&plan) = self.hole_logs[index].waiting().front() {
            if !self.hole_logs[index].add(plan, &self.flight.running[plan].plan) {
                return;
            }
            self.hole_logs.take_first(index);
        }
    }

    /// A plan cannot be logged any more because its volume has failed: it ends without writing.
    pub(crate) fn give_up_unlogged(&mut self, plan: u32) {
        let running = &mut self.flight.running[plan];
        running.answer_log_steps(Progress::Missed);
        let slot = self.hole_logs[running.log as usize].slot();
        let volume = &self.volumes[running.volume as usize];
        if let Some(member) = volume.member(slot, false) {
            running.miss(member);
        }
        running.log = NONE;
        let is_over = running.outstanding() == 0;
        self.give_up_writing(plan);
        if is_over {
            self.advance(plan);
        }
    }

    /// The volume has failed under a plan: the plan's unit is kept, because the plan's writes may be incomplete.
    pub(crate) fn keep_log(&mut self, plan: u32) {
        let index = core::mem::replace(&mut self.flight.running[plan].log, NONE);
        if index != NONE {
            self.hole_logs[index as usize].stop();
        }
    }

    /// A plan that was logged has ended. If a member missed some of it, it counts as ended for its log only when that
    /// member's failure is on record: until then the member could come back as if it were current. If the volume has
    /// failed, the failure is never recorded, and the unit is kept.
    pub(crate) fn leave_log(&mut self, plan: u32) {
        let index = core::mem::replace(&mut self.flight.running[plan].log, NONE);
        if index == NONE {
            return;
        }
        let missed = self.flight.running[plan].missed();
        if missed.is_empty() {
            self.left_log(index);
        } else {
            self.hole_logs.owe(index, missed);
            self.settle_logs();
        }
    }

    /// Members' failures are on record: plans that they missed have now ended for their logs.
    pub(crate) fn settle_logs(&mut self) {
        let mut place = 0;
        while let Some(&(index, missed)) = self.hole_logs.owed().get(place) {
            let volume = self.hole_logs[index as usize].volume();
            if missed.within(self.members.durable_failed()) {
                self.hole_logs.forgive(place);
                self.left_log(index);
            } else if self.volumes[volume.0 as usize].records_nothing {
                self.hole_logs.forgive(place);
                self.hole_logs[index as usize].stop();
            } else {
                place += 1;
            }
        }
    }

    /// One of the unit's plans, or the flush after them, has ended for the log: no failure has to be recorded first
    /// any more.
    fn left_log(&mut self, index: u32) {
        let log = &mut self.hole_logs[index as usize];
        if log.one_ended() == Ended::NothingToDo {
            return;
        }
        let volume = &self.volumes[log.volume().0 as usize];
        let (slots, shadows) = volume.to_flush(self.members.volatile(), self.members.failed());
        if slots.0 | shadows.0 != 0 {
            log.wait_for_flush();
            return;
        }
        log.begin_flush();
        self.log_flushed(index, MemberSet::default());
    }

    fn flush_log(&mut self, index: usize) {
        if self.flight.plans_available() == 0 {
            return;
        }
        let log = &mut self.hole_logs[index];
        let at = log.volume().0;
        let volume = &self.volumes[at as usize];
        let (slots, shadows) = volume.to_flush(self.members.volatile(), self.members.failed());
        log.begin_flush();
        let work = Work::LogFlush { log: index as u32 };
        let plan = self.flight.take_plan(work, at, NONE);
        mirror::flush(&mut self.flight.running[plan].plan, slots, shadows);
        self.start(plan);
    }

    /// What a unit's plans wrote is durable, except on `missed` and on drives that had failed before and could not be
    /// flushed. Until their failure is on record these may come back, without what was in their caches.
    pub(crate) fn log_flushed(&mut self, log: u32, missed: MemberSet) {
        let volume = &self.volumes[self.hole_logs[log as usize].volume().0 as usize];
        let unflushed = MemberSet(missed.0 | volume.unrecorded.0 & self.members.volatile().0);
        if unflushed.is_empty() {
            self.left_log(log);
        } else {
            self.hole_logs.owe(log, unflushed);
            self.settle_logs();
        }
    }

    /// The unit that a token names, and the memory for its image.
    #[must_use]
    pub fn log_unit(&self, token: Token) -> (&LogUnit, Buffer) {
        let log = &self.hole_logs[token.index() as usize];
        (log.unit(), log.memory().buffer)
    }

    /// The partial parities of that unit, in the order of its entries.
    pub fn partial_parities(&self, token: Token) -> impl Iterator<Item = Segment> + '_ {
        let log = &self.hole_logs[token.index() as usize];
        log.plans().iter().flat_map(|&plan| {
            let plan = &self.flight.running[plan].plan;
            let steps = plan.steps().iter();
            steps
                .filter(|step| matches!(step.kind, StepKind::Log { .. }))
                .flat_map(|step| plan.segments_of(step))
        })
    }

    pub(crate) fn log_memory(&self, token: Token) -> Segments<'static> {
        let log = &self.hole_logs[token.index() as usize];
        Segments::alone(log.memory())
    }

    /// Continues plans that wait for a log whose drive was exchanged meanwhile.
    fn pass_exchanged(&mut self, index: usize) {
        let log = &self.hole_logs[index];
        if log.waiting().is_empty() {
            return;
        }
        let slot = log.slot();
        let volume = &self.volumes[log.volume().0 as usize];
        let member = volume.member(slot, false);
        let is_filled = member.is_some_and(|member| !self.members.failed().has(member))
            && !volume.view.row.writable.has(slot);
        if !is_filled {
            return;
        }
        let mut at = 0;
        while let Some(&plan) = self.hole_logs[index].waiting().get(at) {
            if self.is_exchanged(plan, slot) {
                self.hole_logs.take_at(index, at);
                self.pass_log(plan);
            } else {
                at += 1;
            }
        }
    }

    /// A plan that waits for a log whose drive was exchanged continues without it: the old parity is gone with the
    /// old drive, whose loss is on record, so no parity can be wrong.
    fn pass_log(&mut self, plan: u32) {
        let running = &mut self.flight.running[plan];
        running.answer_log_steps(Progress::Missed);
        running.log = NONE;
        if running.outstanding() == 0 {
            self.advance(plan);
        }
    }
}
