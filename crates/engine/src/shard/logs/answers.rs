//! What drives answer to a log's units: done, failed, or nothing in time.
//!
//! A unit that its drive did not take holds up nobody: its plans go on, and their writes count as missed by
//! that drive, whose failure is then on record before they are acknowledged. Only if that was one drive too
//! many they write nothing: its failure will not be on record, and it may come back.

use crate::flight::running::Running;
use crate::flight::states::Progress;
use crate::log::slot::{COPIES, Stage};
use crate::output::Output;
use crate::plan::StepKind;
use crate::policy::MemberError;
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{MemberId, MemberSet};

impl Engine {
    /// A drive has answered a unit's write.
    pub(crate) fn log_done(&mut self, token: Token, result: Result<(), MemberError>) {
        let (index, copy) = (token.index() as usize, token.step());
        let log = &self.hole_logs.logs[index];
        if log.generation != token.generation() || !log.awaits(copy) {
            return self.came_back_late(token);
        }
        let member = log.members[copy].expect("a unit is awaited from a drive");
        self.members.answered(member);
        let mut lost = self.members.failed().has(member);
        if let Err(error) = result {
            // A unit is written with FUA, and what was to be durable and failed is not repeated ([`crate::policy`]).
            self.desk.stats.member_errors += 1;
            self.fail_member(member, error.class, error.errno);
            lost = true;
        }
        self.unit_answered(index, copy, lost);
    }

    fn unit_answered(&mut self, index: usize, copy: usize, lost: bool) {
        let log = &mut self.hole_logs.logs[index];
        log.awaited &= !(1 << copy);
        log.missed |= lost && copy == 0;
        let Stage::Writing(left) = log.stage else {
            unreachable!(
                "log {index} is {:?}, and a unit of it is answered",
                log.stage
            );
        };
        log.stage = Stage::Writing(left - 1);
        if left == 1 {
            self.unit_written(index);
        }
    }

    /// Asks for early answers to units that are with failed members or have been written for too long;
    /// returns whose time is up.
    pub(crate) fn overdue_units(&mut self) -> MemberSet {
        let mut late = MemberSet::default();
        for index in 0..self.hole_logs.logs.len() {
            let log = &mut self.hole_logs.logs[index];
            let is_late = self.desk.now().since(log.since) >= self.desk.options().member_deadline;
            for copy in 0..COPIES {
                let is_due = |member: &MemberId| is_late || self.members.failed().has(*member);
                if let Some(member) = log.members[copy].filter(is_due)
                    && log.awaits(copy)
                    && log.cancelled >> copy & 1 == 0
                {
                    late.insert(member);
                    log.cancelled |= 1 << copy;
                    let token = log.name(index, copy);
                    self.desk.ask(Output::Cancel(token));
                }
            }
        }
        late
    }

    /// Goes on without units that failed `members` do not give back. The drive only reads their memory, and
    /// what it may yet write from it is a log that nobody replays.
    pub(crate) fn abandon_units(&mut self, members: MemberSet) {
        for index in 0..self.hole_logs.logs.len() {
            for copy in 0..COPIES {
                let log = &self.hole_logs.logs[index];
                let member = log.members[copy].filter(|&member| members.has(member));
                let Some(member) = member.filter(|_| log.awaits(copy)) else {
                    continue;
                };
                if !self
                    .flight
                    .leftovers
                    .add_command(log.name(index, copy), member)
                {
                    return;
                }
                self.members.answered(member);
                self.desk.stats.abandoned += 1;
                self.unit_answered(index, copy, true);
            }
        }
    }

    /// The unit is durable, or its drive has failed: its plans go on.
    pub(crate) fn unit_written(&mut self, index: usize) {
        let log = &mut self.hole_logs.logs[index];
        let (missed, member) = (log.missed, log.members[0]);
        let volume = log.unit.volume.0;
        let plans = core::mem::take(&mut log.plans);
        if missed && self.volumes[volume as usize].is_lost() {
            // The drive may come back, with the parity as it is now.
            log.stage = Stage::Kept;
            plans.iter().for_each(|&plan| self.give_up_unlogged(plan));
            self.hole_logs.logs[index].plans = plans;
            return;
        }
        log.stage = match plans.len() {
            0 => Stage::Idle,
            plans => Stage::Open(plans),
        };
        let progress = if missed {
            Progress::Missed
        } else {
            Progress::Done
        };
        for &plan in &plans {
            let running = &mut self.flight.running[plan];
            running.answer_log_steps(progress);
            if let Some(member) = member.filter(|_| missed) {
                running.missed.insert(member);
            }
            if running.outstanding == 0 {
                self.advance(plan);
            }
        }
        self.hole_logs.logs[index].plans = plans;
    }
}

impl Running {
    /// Answers the log steps that wait.
    #[inline]
    pub(crate) fn answer_log_steps(&mut self, progress: Progress) {
        for (step, state) in self.plan.steps().iter().zip(self.states.iter_mut()) {
            let is_log = matches!(step.kind, StepKind::Log { .. });
            if is_log && state.progress == Progress::Outstanding {
                self.outstanding -= 1;
                state.progress = progress;
            }
        }
    }
}
