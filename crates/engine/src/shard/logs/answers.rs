//! What drives answer to a log's units: done, failed, or nothing in time.
//!
//! A unit that its drive did not take blocks nothing: its plans continue, and their writes count as missed by that
//! drive, so they are acknowledged only after its failure is on record. But if the volume has lost too many drives
//! with this one, the plans write nothing: the failure will not be recorded, and the drive may come back.

use crate::flight::states::Progress;
use crate::log::slot::COPIES;
use crate::output::Output;
use crate::policy::MemberError;
use crate::shard::Engine;
use crate::token::Token;
use crate::units::MemberSet;

impl Engine {
    /// A drive has answered a unit's write.
    pub(crate) fn log_done(&mut self, token: Token, result: Result<(), MemberError>) {
        let (index, copy) = (token.index() as usize, token.step());
        let Some(member) = self.hole_logs[index].awaited_by_name(token) else {
            return self.came_back_late(token);
        };
        self.members.answered(member);
        let mut lost = self.members.failed().has(member);
        if let Err(error) = result {
            // Units are written with FUA, and a failed write that had to be durable is not repeated
            // ([`crate::policy`]).
            self.desk.stats.member_errors += 1;
            self.fail_member(member, error.class, error.errno);
            lost = true;
        }
        self.unit_answered(index, copy, lost);
    }

    fn unit_answered(&mut self, index: usize, copy: usize, lost: bool) {
        if self.hole_logs[index].answered(copy, lost) {
            self.unit_written(index);
        }
    }

    /// Asks for early answers to units that are with failed members or have been written for too long; returns the
    /// members that hold them.
    pub(crate) fn overdue_units(&mut self) -> MemberSet {
        let (now, deadline) = (self.desk.now(), self.desk.options().member_deadline);
        let failed = self.members.failed();
        let is_due = |since, member| now.since(since) >= deadline || failed.has(member);
        let mut late = MemberSet::default();
        for (index, log) in self.hole_logs.iter_mut().enumerate() {
            for copy in 0..COPIES {
                if let Some(member) = log.ask_early(copy, is_due) {
                    late.insert(member);
                    self.desk.ask(Output::Cancel(log.name(index, copy)));
                }
            }
        }
        late
    }

    /// Stops waiting for units that failed `members` do not give back. Such a drive only reads the units' memory, and
    /// what it may still write from there is a log that nobody replays.
    pub(crate) fn abandon_units(&mut self, members: MemberSet) {
        for index in 0..self.hole_logs.len() {
            for copy in 0..COPIES {
                let log = &self.hole_logs[index];
                let Some(member) = log.awaited_from(copy, members) else {
                    continue;
                };
                let name = log.name(index, copy);
                if !self.flight.leave_command(name, member) {
                    return;
                }
                self.members.answered(member);
                self.desk.stats.abandoned += 1;
                self.unit_answered(index, copy, true);
            }
        }
    }

    /// The unit is durable, or its drive has failed: its plans continue.
    pub(crate) fn unit_written(&mut self, index: usize) {
        let log = &mut self.hole_logs[index];
        let missed = log.missed();
        if missed && self.volumes[log.volume().0 as usize].is_lost() {
            // The drive may come back, with the parity as it is now.
            let plans = log.keep();
            plans.iter().for_each(|&plan| self.give_up_unlogged(plan));
            self.hole_logs[index].put_back(plans);
            return;
        }
        let member = log.in_service();
        let plans = log.open();
        let progress = if missed {
            Progress::Missed
        } else {
            Progress::Done
        };
        for &plan in &plans {
            let running = self.flight.running_mut(plan);
            running.answer_log_steps(progress);
            if let Some(member) = member.filter(|_| missed) {
                running.miss(member);
            }
            if running.outstanding() == 0 {
                self.advance(plan);
            }
        }
        self.hole_logs[index].put_back(plans);
    }

    /// A plan cannot be logged any more because its volume has failed: it ends without writing.
    pub(crate) fn give_up_unlogged(&mut self, plan: u32) {
        let running = self.flight.running_mut(plan);
        running.answer_log_steps(Progress::Missed);
        let log = running.give_up_log();
        let slot = self.hole_logs[log as usize].slot();
        let volume = &self.volumes[running.volume() as usize];
        if let Some(member) = volume.member(slot, false) {
            running.miss(member);
        }
        let is_over = running.outstanding() == 0;
        self.give_up_writing(plan);
        if is_over {
            self.advance(plan);
        }
    }
}
