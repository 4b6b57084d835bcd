//! Flushes that the controller asks for: before a mark, a checkpoint or the end of a job may be recorded.

use super::marks::Mark;
use super::record::MemberSet;
use super::{Controller, Output};

/// What a flush is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushPurpose {
    Clean(usize),
    /// Of the job with this number.
    Checkpoint(u32),
    /// Of the job with this number.
    JobEnd(u32),
}

impl Controller {
    pub(super) fn flush(&mut self, members: MemberSet, purpose: FlushPurpose) {
        debug_assert!(self.flush.is_none());
        self.next_ticket += 1;
        self.flush = Some((self.next_ticket, purpose));
        let live = MemberSet(members.0 & !self.failed.0);
        self.outputs.push_back(Output::Flush {
            ticket: self.next_ticket,
            members: live,
        });
    }

    pub(super) fn flushed(&mut self, ticket: u32, failed: MemberSet) {
        let Some((_, purpose)) = self.flush.take_if(|(waiting, _)| *waiting == ticket) else {
            return;
        };
        // The shard has already reported members that failed to flush; without them the rest counts.
        let complete = failed.is_empty();
        match purpose {
            FlushPurpose::Clean(volume) => {
                if complete {
                    self.marks[volume].mark = Mark::Cleaning(self.mark_clean(volume));
                } else {
                    // A member was lost: the fence comes down, and cleaning begins anew later.
                    self.allow_writes(volume);
                }
            }
            FlushPurpose::Checkpoint(job) => self.checkpoint_flushed(job, complete),
            FlushPurpose::JobEnd(job) => self.job_end_flushed(job, complete),
        }
    }
}
