//! Replacing a drive in service. Every volume's part of the drive is copied to another drive, one volume after
//! the other; then the two drives change places in all volumes at once.
//!
//! Until the change is complete, both drives get every write: a copied volume keeps its job, done and resting,
//! until the last volume is copied too. The record changes first: while the update that names the new drive is
//! under way, whichever record a crash leaves names a drive with the complete content. Only when the update is
//! durable everywhere does the view change. Then the drives have swapped roles: shards read from the new drive,
//! and every write is copied to the old one, because a shard that has not adopted the view yet may still read
//! from it. When all shards have adopted it, the old drive gets no more writes.

use super::Controller;
use crate::control::record::{JobKind, MemberState, Record, SlotRecord};
use crate::units::{MemberId, MemberSet, Slot};
use alloc::vec::Vec;

/// A replacement whose copies are complete, while its update of the record is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    slot: Slot,
    to: MemberId,
    /// The version of the record that names the new drive.
    version: u64,
}

/// A drive that has been replaced and that shards may still read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    slot: Slot,
    old: MemberId,
    /// The version of the record that no longer names it in the slot.
    version: u64,
    /// Shards that have adopted this epoch do not read from it.
    epoch: u64,
}

impl Controller {
    /// The volumes whose `slot` is being copied to `to`, or has been.
    fn replacing(&self, slot: Slot, to: MemberId) -> Vec<usize> {
        (0..self.record.volumes.len())
            .filter(|&at| self.jobs.kind(at) == Some(JobKind::Replace(slot, to)))
            .collect()
    }

    /// Drives that jobs copy to. They hold data although the record does not say so yet.
    pub(super) fn copy_targets(&self) -> MemberSet {
        let target = |at| match self.jobs.kind(at) {
            Some(JobKind::Replace(_, to)) => Some(to),
            _ => None,
        };
        (0..self.record.volumes.len()).filter_map(target).collect()
    }

    /// A volume's copy is complete and flushed.
    pub(super) fn copied(&mut self, at: usize, slot: Slot, to: MemberId) {
        self.jobs.rest(at);
        let is_copied = |&at: &usize| self.jobs.is_resting(at);
        if self.replacing(slot, to).iter().all(is_copied) {
            let version = self.changed();
            self.switch = Some(Switch { slot, to, version });
        }
    }

    /// The record to write while a switch is on its way.
    pub(super) fn record_after_switch(&self) -> Option<Record> {
        let Switch { slot, to, .. } = self.switch?;
        let mut record = self.record.clone();
        let old = record.volumes.iter().enumerate().find_map(|(at, volume)| {
            let replaced = self.jobs.kind(at) == Some(JobKind::Replace(slot, to));
            volume.slots[slot.0 as usize].member.filter(|_| replaced)
        });
        for at in self.replacing(slot, to) {
            record.volumes[at].slots[slot.0 as usize] = SlotRecord {
                member: Some(to),
                current: true,
            };
            record.volumes[at].leave_absent_behind(record.generation);
        }
        record.members[to.0 as usize].state = MemberState::Active;
        // The old drive leaves the container unless another volume still uses it.
        let unused = |old| record.volumes.iter().all(|v| v.slot_of(old).is_none());
        if let Some(old) = old.filter(|&old| unused(old)) {
            record.members[old.0 as usize].state = MemberState::Absent;
        }
        Some(record)
    }

    /// Once the record that names the new drive is durable, the view names it too. Once every shard has adopted
    /// that view, the old drive is let go.
    pub(super) fn run_switch(&mut self) {
        if let Some(leaving) = self.leaving
            && self.updater.has(leaving.version)
            && self.all_adopted(leaving.epoch)
        {
            self.leaving = None;
            self.announce(leaving.old);
            for at in self.replacing(leaving.slot, leaving.old) {
                self.end_job(at, true);
            }
        }
        if self
            .switch
            .is_some_and(|switch| self.updater.has(switch.version))
        {
            self.complete_switch();
        }
    }

    fn complete_switch(&mut self) {
        let record = self.record_after_switch();
        let record = record.expect("a switch is under way");
        let before = core::mem::replace(&mut self.record, record);
        let switch = self.switch.take();
        let Switch { slot, to, version } = switch.expect("a switch is under way");
        let epoch = self.view_changed();
        for at in self.replacing(slot, to) {
            if let Some(old) = before.volumes[at].slots[slot.0 as usize].member {
                self.jobs.turn_around(at, slot, old);
                self.leaving = Some(Leaving {
                    slot,
                    old,
                    version,
                    epoch,
                });
            }
        }
    }

    /// Reacts to the failure of a drive during a switch. If the old drive fails, the switch completes at once,
    /// because the new one has the complete content; if the new one fails, the switch is cancelled. Returns
    /// whether the old drive was lost: then its failure has to be recorded although no slot names it any more.
    pub(super) fn switch_loses(&mut self, member: MemberId) -> bool {
        self.run_switch();
        let Some(Switch { slot, to, .. }) = self.switch else {
            return false;
        };
        if member == to {
            self.switch = None;
            return false;
        }
        let is_old = self
            .replacing(slot, to)
            .iter()
            .any(|&at| self.record.volumes[at].slots[slot.0 as usize].member == Some(member));
        if is_old {
            self.complete_switch();
        }
        is_old
    }

    /// Ends a replacement in the other volumes after it has failed in one: the drives change places in all
    /// volumes or in none.
    pub(super) fn give_up_replacing(&mut self, slot: Slot, to: MemberId) {
        for at in self.replacing(slot, to) {
            self.end_job(at, false);
        }
    }
}
