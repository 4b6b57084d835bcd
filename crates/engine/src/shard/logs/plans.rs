//! A plan and its write-hole log: at its log step it begins to wait for a unit, and when it has ended it leaves the
//! log. The unit may be retired when all its plans have left, and what they wrote is durable: see [`crate::log`] for
//! the rules.

use crate::log::slot::Ended;
use crate::order::ranges::NONE;
use crate::shard::Engine;
use crate::units::MemberSet;

impl Engine {
    /// A plan has come to its log step. Returns whether it may write when that is done.
    pub(crate) fn log_step(&mut self, index: u32, at: usize) -> bool {
        let running = self.flight.running_mut(index);
        let volume = &self.volumes[running.volume() as usize];
        let slot = running.plan().steps()[at].slot;
        let member = volume.member(slot, false);
        if member.is_none_or(|member| self.members.failed().has(member)) {
            // The log's drive failed after the plan was made. Parity that could be wrong is gone with it, unless the
            // volume has lost too many drives: then the drive may come back with the parity as it is now.
            running.miss_step(at, member);
            return !volume.is_lost();
        }
        let is_watched = member.is_some_and(|member| self.members.watched().has(member));
        if is_watched && self.is_exchanged(index, slot) {
            self.flight.running_mut(index).miss_step(at, None);
            return true;
        }
        let volume = &self.volumes[self.flight.running(index).volume() as usize];
        let running = self.flight.running_mut(index);
        running.step_goes_out(at);
        if running.log() == NONE {
            let log = volume.own_log(slot);
            running.enter_log(log);
            self.hole_logs.wait(log, index);
        }
        true
    }

    /// The volume has failed under a plan: the plan's unit is kept, because the plan's writes may be incomplete.
    pub(crate) fn keep_log(&mut self, plan: u32) {
        let index = self.flight.running_mut(plan).give_up_log();
        if index != NONE {
            self.hole_logs[index as usize].stop();
        }
    }

    /// A plan that was logged has ended. If a member missed some of it, it counts as ended for its log only when that
    /// member's failure is on record: until then the member could come back as if it were current. If the volume has
    /// failed, the failure is never recorded, and the unit is kept.
    pub(crate) fn leave_log(&mut self, plan: u32) {
        let index = self.flight.running_mut(plan).give_up_log();
        if index == NONE {
            return;
        }
        let missed = self.flight.running(plan).missed();
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
            } else if self.volumes[volume.0 as usize].records_nothing() {
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

    /// What a unit's plans wrote is durable, except on `missed` and on drives that had failed before and could not be
    /// flushed. Until their failure is on record these may come back, without what was in their caches.
    pub(crate) fn log_flushed(&mut self, log: u32, missed: MemberSet) {
        let volume = &self.volumes[self.hole_logs[log as usize].volume().0 as usize];
        let unflushed = MemberSet(missed.0 | volume.unrecorded().0 & self.members.volatile().0);
        if unflushed.is_empty() {
            self.left_log(log);
        } else {
            self.hole_logs.owe(log, unflushed);
            self.settle_logs();
        }
    }
}
