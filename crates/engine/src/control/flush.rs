//! Flushes that the controller asks for: before a mark, a checkpoint or the end of a job may be recorded.

use super::{Controller, Output};
use crate::control::flush_purpose::FlushPurpose;
use crate::control::marks::Mark;
use crate::control::message::FlushOutcome;
use crate::control::record::JobKind;
use crate::units::{MemberSet, Slot};

impl Controller {
    /// Whether a flush may begin. One that has failed is not repeated at the same moment: the message that says
    /// which member is lost may be on its way from another shard, or plans may have to end first.
    pub(super) fn may_flush(&self) -> bool {
        self.flush.is_none() && self.flush_failed_at != Some(self.now)
    }

    pub(super) fn flush(&mut self, members: MemberSet, purpose: FlushPurpose) {
        assert!(
            self.flush.is_none(),
            "{purpose:?} would flush while {:?} does",
            self.flush
        );
        self.next_ticket += 1;
        self.flush = Some((self.next_ticket, purpose));
        let live = MemberSet(members.0 & !self.failed.0);
        self.outputs.push_back(Output::Flush {
            ticket: self.next_ticket,
            members: live,
        });
    }

    pub(super) fn flushed(&mut self, ticket: u32, outcome: FlushOutcome) {
        let flush = self.flush.take_if(|(waiting, _)| *waiting == ticket);
        let (_, purpose) = flush.expect("only the flush that is waited for is answered");
        // Members that failed to flush are reported, and dropped by now or soon; without them the rest counts.
        let complete = outcome == FlushOutcome::Complete;
        if !complete {
            self.flush_failed_at = Some(self.now);
        }
        match purpose {
            // Its writes have been stopped meanwhile: it stays dirty.
            FlushPurpose::Clean(volume) if self.marks[volume].mark != Mark::Flushing => {}
            FlushPurpose::Clean(volume) => {
                let is_whole = self.undecided.is_empty() && !self.marks[volume].failed;
                if !complete || !is_whole {
                    // A member was lost: the fence comes down, and cleaning begins anew later.
                    self.allow_writes(volume);
                } else if self.becomes_clean(volume) {
                    self.marks[volume].mark = Mark::Cleaning(self.mark_clean(volume));
                } else {
                    self.marks[volume].mark = Mark::Rested;
                }
            }
            FlushPurpose::Checkpoint(job) => self.checkpoint_flushed(job, complete),
            FlushPurpose::JobEnd(job) => self.job_end_flushed(job, complete),
        }
    }

    /// The volume whose active job has this number. The job that asked for a flush may be over when the flush
    /// is, and another one begun.
    pub(super) fn still_active(&self, id: u32) -> Option<usize> {
        let at = self.jobs.active?;
        let job = self.jobs.jobs[at].as_ref()?;
        (job.view.id == id).then_some(at)
    }

    /// The drives that are flushed before a job's progress counts: those that it writes to, and where nothing but
    /// a log says what a crash puts in doubt, those that it reads as well. What the new drive was given fits what
    /// they hold in their caches.
    pub(super) fn flushed_for(&self, at: usize) -> MemberSet {
        match self.jobs.kind(at) {
            Some(JobKind::Rebuild(_)) if self.record.volumes[at].is_logged() => {
                self.record.active()
            }
            Some(JobKind::Rebuild(Slot(slot))) => self.record.volumes[at].slots[slot as usize]
                .member
                .into_iter()
                .collect(),
            Some(JobKind::Replace(_, to)) => [to].into_iter().collect(),
            Some(JobKind::Check { repair: false }) | None => MemberSet::default(),
            Some(JobKind::Sync | JobKind::Check { repair: true }) => self.record.active(),
        }
    }
}
