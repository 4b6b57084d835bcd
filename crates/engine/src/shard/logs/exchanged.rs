//! Logs whose drive was exchanged: the new one is to be filled, and may have served here before.

use crate::flight::states::Progress;
use crate::order::ranges::NONE;
use crate::shard::Engine;
use crate::units::Slot;

impl Engine {
    /// A drive that is to be filled has taken a slot. Before it is filled, a unit without entries is written to its
    /// log: the drive may have served there before, and what it logged then is outdated.
    pub(crate) fn empty_log(&mut self, at: usize, slot: Slot) {
        let index = self.volumes[at].logs.get(usize::from(slot.0)).copied();
        let Some(index) = index.filter(|&index| index != NONE) else {
            return;
        };
        self.hole_logs.empty_next(index as usize);
    }

    /// Whether a log of this shard has still to be emptied before its drive may be filled.
    pub(crate) fn is_log_to_be_emptied(&self, at: usize, slot: Slot) -> bool {
        let index = self.volumes[at].logs.get(usize::from(slot.0)).copied();
        let index = index.filter(|&index| index != NONE);
        index.is_some_and(|index| self.hole_logs[index as usize].is_to_be_emptied())
    }

    /// Continues plans that wait for a log whose drive was exchanged meanwhile.
    pub(crate) fn pass_exchanged(&mut self, index: usize) {
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
