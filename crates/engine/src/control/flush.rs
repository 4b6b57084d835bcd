//! Flushes that the controller requests before it records a mark, a checkpoint or the end of a job.

use super::{Controller, Output};
use crate::control::flush_purpose::FlushPurpose;
use crate::control::marks::Mark;
use crate::control::message::FlushOutcome;
use crate::control::record::JobKind;
use crate::units::{MemberSet, Slot};

impl Controller {
    /// Whether a flush may begin. A failed flush is not repeated at the same instant: the message that names the
    /// lost member may still be on its way from another shard, or a plan may first have to end.
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
        // Members that failed to flush are reported separately and dropped now or soon. After that a new flush, of
        // the others alone, counts.
        let complete = outcome == FlushOutcome::Complete;
        if !complete {
            self.flush_failed_at = Some(self.now);
        }
        match purpose {
            // Writes to the volume have been stopped meanwhile: it stays dirty.
            FlushPurpose::Clean(volume) if self.marks[volume].mark != Mark::Flushing => {}
            FlushPurpose::Clean(volume) => {
                let is_whole = self.undecided.is_empty() && !self.marks[volume].failed;
                if !complete || !is_whole {
                    // A member was lost: the fence is lifted, and the volume is cleaned later.
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

    /// The volume whose active job has this number. When a flush ends, the job that requested it may be over and
    /// another one running.
    pub(super) fn still_active(&self, id: u32) -> Option<usize> {
        let at = self.jobs.active?;
        let job = self.jobs.jobs[at].as_ref()?;
        (job.view.id == id).then_some(at)
    }

    /// The drives that are flushed before a job's progress counts: those that it writes to. For a rebuild of a
    /// logged volume also those that it reads: the new drive's content matches what is still in their caches, and
    /// after a crash only the log says what is in doubt.
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
