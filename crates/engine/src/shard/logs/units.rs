//! Units of the write-hole logs are written for plans that wait, and the drives flushed before the next: see
//! [`crate::log`] for the rules.

use crate::control::record::LogArea;
use crate::flight::running::Work;
use crate::flight::states::Progress;
use crate::layout::Geometry;
use crate::log::slot::{COPIES, SlotLog, Stage};
use crate::log::unit::{LOG_BUFFER_BYTES, LogUnit};
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Segment, Segments, StepKind, mirror};
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{Buffer, Slot, VolumeId};

impl Engine {
    /// Makes the logs that this shard writes.
    pub(crate) fn open_logs(&mut self, areas: impl Iterator<Item = Option<LogArea>>) {
        for (at, area) in areas.enumerate() {
            let Some(area) = area else { continue };
            let members = self.volumes[at].shape().members;
            let is_mine =
                |slot: &Slot| Geometry::log_owner(*slot, self.desk.shards()) == self.desk.id();
            let mine = (0..members).map(Slot).filter(is_mine);
            let mut logs = alloc::vec![NONE; members as usize];
            for slot in mine {
                let buffer = self
                    .flight
                    .take_scratch_for_good(LOG_BUFFER_BYTES)
                    .expect("scratch memory is sized for the logs");
                let log = SlotLog::new(VolumeId(at as u8), slot, area, buffer);
                logs[slot.0 as usize] = self.hole_logs.open(log);
            }
            self.volumes[at].keep_logs(logs);
        }
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
        let leftovers = self.flight.leftovers();
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
            if !self.hole_logs[index].add(plan, self.flight.running(plan).plan()) {
                return;
            }
            self.hole_logs.take_first(index);
        }
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
        mirror::flush(self.flight.running_mut(plan).plan_mut(), slots, shadows);
        self.start(plan);
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
            let plan = self.flight.running(plan).plan();
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
            && !volume.view().row.writable.has(slot);
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
        let running = self.flight.running_mut(plan);
        running.answer_log_steps(Progress::Missed);
        running.give_up_log();
        if running.outstanding() == 0 {
            self.advance(plan);
        }
    }
}
