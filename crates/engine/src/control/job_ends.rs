//! The end of a background job, and what it means for the record.
//!
//! A new drive becomes current when all of it has been filled and flushed; before that it is of no use. A sync is
//! useful even if it could not establish redundancy everywhere: such a job halts, and the shards keep its
//! position, because parity that is not established must not be used for reads.

use super::Controller;
use crate::control::jobs::ACTIVE;
use crate::control::marks::Filling;
use crate::control::record::{JobKind, MemberState, SyncKind, SyncRecord};
use crate::event::JobName;
use crate::units::{MemberId, Slot};

impl Controller {
    /// Ends a job that cannot complete.
    pub(super) fn give_up_job(&mut self, at: usize) {
        match self.jobs.kind(at) {
            Some(JobKind::Rebuild(_)) => self.give_up_rebuild(at),
            Some(JobKind::Sync) if self.checkpoint_is_behind(at) => self.flush_for_checkpoint(at),
            Some(JobKind::Sync) => self.halt_job(at),
            _ => self.end_job(at, false),
        }
    }

    /// A drive that other volumes use keeps its place on record, but once the rebuild has ended it misses writes.
    /// As long as the record says how far the drive has been filled, it must receive every write to that part. So
    /// the record first has to say that nothing of it is filled.
    fn give_up_rebuild(&mut self, at: usize) {
        let on_record = self.record.volumes[at].sync;
        let job = self.jobs.jobs[at].as_mut().expect(ACTIVE);
        if on_record.is_some_and(|sync| sync.done_bytes > 0) {
            if core::mem::replace(&mut job.begins_anew, true) {
                // The metadata could not express that: the drive receives writes as long as the array runs.
                return self.halt_job(at);
            }
            if let Some(sync) = &mut self.record.volumes[at].sync {
                sync.done_bytes = 0;
            }
            self.changed();
        } else if self.updater.is_durable() || self.recorders().is_empty() {
            self.end_job(at, false);
        }
    }

    /// Stops a job until an operator resumes it; its position is kept.
    fn halt_job(&mut self, at: usize) {
        self.jobs.active = None;
        let job = self.jobs.jobs[at].as_mut().expect(ACTIVE);
        job.halted = true;
        let event = job.ended(at, false);
        self.event(event);
        self.view_changed();
    }

    pub(super) fn job_end_flushed(&mut self, id: u32, complete: bool) {
        let Some(at) = self.still_active(id) else {
            return;
        };
        self.jobs.ending = false;
        if self.marks[at].failed {
            return self.end_job(at, false);
        }
        if !complete {
            // If the lost drive was essential to the job, the job has ended already. Any other lost drive is
            // dropped by now, and the rest are flushed again without it.
            return;
        }
        match self.jobs.kind(at) {
            Some(JobKind::Rebuild(Slot(slot))) => {
                self.record.volumes[at].slots[slot as usize].current = true;
                self.record.volumes[at].sync = None;
                self.filled(at, Slot(slot));
                self.changed();
                self.end_job(at, true);
                return self.resync_if_due(at);
            }
            Some(JobKind::Sync) => {
                self.record.volumes[at].sync = None;
                self.changed();
            }
            Some(JobKind::Replace(slot, to)) => return self.copied(at, slot, to),
            Some(JobKind::Check { .. }) | None => {}
        }
        self.end_job(at, true);
    }

    /// After a rebuild: starts a resync if the crash before it has left redundancy elsewhere in doubt.
    fn resync_if_due(&mut self, at: usize) {
        if core::mem::take(&mut self.record.volumes[at].then_resync) {
            let shape = self.record.volumes[at].geometry;
            let sync = SyncRecord {
                kind: SyncKind::Resync,
                done_bytes: 0,
            };
            self.record.volumes[at].sync = Some(sync);
            self.jobs.add(at, &shape, JobKind::Sync, JobName::Resync, 0);
            let has_bitmap = self.record.volumes[at].bitmap.is_some();
            self.jobs.go_by_bitmap(at, has_bitmap);
            self.changed();
            self.view_changed();
        }
    }

    pub(super) fn end_job(&mut self, at: usize, complete: bool) {
        let Some(job) = self.jobs.jobs[at].take() else {
            return;
        };
        if self.jobs.active == Some(at) {
            self.jobs.active = None;
            self.jobs.ending = false;
        }
        if !job.halted {
            self.event(job.ended(at, complete));
        }
        if !complete && let JobKind::Replace(slot, to) = job.view.kind {
            self.give_up_replacing(slot, to);
        }
        if !complete && let JobKind::Rebuild(Slot(slot)) = job.view.kind {
            // The rebuild must not start again by itself: the same block would stop it at the same place.
            self.record.volumes[at].sync = None;
            let target = self.record.volumes[at].slots[slot as usize].member;
            self.marks[at].filling = Filling::AsConfigured;
            if let Some(target) = target.filter(|&target| !self.failed.has(target)) {
                self.marks[at].filling = Filling::GivenUp;
                let mut others = self.record.volumes.iter().enumerate();
                // All volumes have the same drives in the same slots: a drive that other volumes use keeps its
                // place.
                if others.all(|(other, volume)| other == at || volume.slot_of(target).is_none()) {
                    self.record.volumes[at].slots[slot as usize].member = None;
                    self.record.members[target.0 as usize].state = MemberState::Failed;
                    self.use_no_more(target);
                }
            }
            self.changed();
        }
        self.view_changed();
    }

    /// Ends the job that an operator has ordered for a volume.
    pub(super) fn cancel_job(&mut self, at: usize) -> bool {
        let kind = self.jobs.kind(at);
        let may_end = match kind {
            Some(JobKind::Check { .. }) => true,
            // Once the switch is on its way, the replacement is as good as done.
            Some(JobKind::Replace(..)) => self.switch.is_none() && self.leaving.is_none(),
            _ => false,
        };
        if may_end {
            self.end_job(at, false);
        }
        may_end
    }

    /// Ends the jobs that cannot continue without `member`.
    pub(super) fn end_jobs_of(&mut self, member: MemberId) {
        for at in 0..self.jobs.jobs.len() {
            let ends = match self.jobs.kind(at) {
                Some(JobKind::Rebuild(Slot(slot))) => {
                    self.record.volumes[at].slots[slot as usize].member == Some(member)
                }
                // The drives have changed places: the job ends by itself.
                Some(JobKind::Replace(..)) if self.leaving.is_some() => false,
                Some(JobKind::Replace(slot, to)) => {
                    let old = self.record.volumes[at].slots[slot.0 as usize].member;
                    // While a switch is on its way, some members may already have the record that names the new
                    // drive: failures of other drives must not undo it.
                    let may_end = self.switch.is_none();
                    to == member || old == Some(member) || (self.marks[at].failed && may_end)
                }
                // The check has nothing left to compare with, and a rebuild may be due.
                Some(JobKind::Check { .. }) => self.record.volumes[at].slot_of(member).is_some(),
                Some(JobKind::Sync) | None => false,
            };
            if ends {
                self.end_job(at, false);
            }
        }
    }
}
