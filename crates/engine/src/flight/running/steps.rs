//! A plan's steps, from the time at which they go out, and what their answers say.

use crate::flight::running::Running;
use crate::flight::states::{Progress, StepState};
use crate::plan::{Step, StepKind};
use crate::units::{MemberId, MemberSet, Nanos};

impl Running {
    /// The first step that has not gone out, if there is one.
    #[inline]
    pub fn next_step(&self) -> Option<usize> {
        let next = usize::from(self.next);
        (next != self.plan.steps().len()).then_some(next)
    }

    /// The next stage begins now, or begins to wait until it may write: its deadline counts from now.
    #[inline]
    pub fn begin_stage(&mut self, now: Nanos) {
        self.started = now;
    }

    /// When the latest stage began.
    pub fn started(&self) -> Nanos {
        self.started
    }

    /// The time when the latest stage began, to be corrected.
    pub fn started_mut(&mut self) -> &mut Nanos {
        &mut self.started
    }

    /// All steps before this one have gone out.
    #[inline]
    pub fn stage_is_out(&mut self, next: usize) {
        self.next = next as u16;
    }

    /// No further stage goes out.
    pub fn write_nothing_more(&mut self) {
        self.next = self.plan.steps().len() as u16;
    }

    /// A step goes out.
    #[inline]
    pub fn step_goes_out(&mut self, at: usize) {
        self.states[at].progress = Progress::Outstanding;
        self.outstanding += 1;
    }

    /// Adds a step that goes to no drive and is waited for.
    pub fn add_awaited(&mut self, step: Step, state: StepState) {
        self.plan.push(step);
        self.states.push(state);
        self.outstanding += 1;
    }

    /// A step has come back, or is not waited for any more. Returns whether it was the last of its stage.
    #[inline]
    pub fn step_is_back(&mut self) -> bool {
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// Answers the log steps that wait.
    #[inline]
    pub fn answer_log_steps(&mut self, progress: Progress) {
        for (step, state) in self.plan.steps().iter().zip(self.states.iter_mut()) {
            let is_log = matches!(step.kind, StepKind::Log { .. });
            if is_log && state.progress == Progress::Outstanding {
                self.outstanding -= 1;
                state.progress = progress;
            }
        }
    }

    /// Steps that have not come back and are waited for.
    #[inline]
    pub fn outstanding(&self) -> u16 {
        self.outstanding
    }

    /// A write step goes out: from now on the plan only finishes from memory.
    #[inline]
    pub fn write_goes_out(&mut self) {
        self.wrote = true;
    }

    /// Whether a write step has gone out.
    #[inline]
    pub fn has_written(&self) -> bool {
        self.wrote
    }

    /// A read has failed, because of the medium or for another reason.
    pub fn fail_read(&mut self, at: usize, media: bool) {
        self.states[at].progress = Progress::Failed { media };
        self.read_failed = true;
    }

    /// Whether a read has failed.
    #[inline]
    pub fn has_failed_reads(&self) -> bool {
        self.read_failed
    }

    /// A step was not carried out: a read has failed, anything else counts as missed by its member.
    pub fn lose_step(&mut self, at: usize, media: bool) {
        if self.plan.steps()[at].kind == StepKind::Read {
            self.fail_read(at, media);
        } else {
            self.states[at].progress = Progress::Missed;
            self.miss(MemberId(self.states[at].member));
        }
    }

    /// A member misses a write of this plan.
    pub fn miss(&mut self, member: MemberId) {
        self.missed.insert(member);
    }

    /// These members miss a write of this plan.
    #[inline]
    pub fn miss_all(&mut self, members: MemberSet) {
        self.missed.0 |= members.0;
    }

    /// The members that miss a write of it.
    #[inline]
    pub fn missed(&self) -> MemberSet {
        self.missed
    }

    /// The comparison in a step found a difference.
    pub fn note_difference(&mut self, at: usize) {
        self.differing_steps |= 1 << at.min(63);
    }

    /// Whether the comparison in a step found a difference; all steps from the 64th on count as one.
    pub fn differs(&self, at: usize) -> bool {
        self.differing_steps >> at.min(63) & 1 == 1
    }

    /// Whether any comparison found a difference.
    pub fn has_differences(&self) -> bool {
        self.differing_steps != 0
    }

    /// Some of a job's band could not be done. Returns whether that was known already.
    pub fn fail_band(&mut self) -> bool {
        core::mem::replace(&mut self.band_failed, true)
    }

    /// Whether some of a job's band could not be done.
    pub fn has_failed_band(&self) -> bool {
        self.band_failed
    }

    /// For direct reads: the failed step that is being handed on, and how many bytes of it have been.
    pub fn recovering(&self) -> (usize, u64) {
        (usize::from(self.recover.0), self.recover.1)
    }

    /// The next step is handed on from now on.
    pub fn recover_next(&mut self) {
        self.recover = (self.recover.0 + 1, 0);
    }

    /// So many more bytes of the step have been handed on.
    pub fn recovered(&mut self, bytes: u32) {
        self.recover.1 += u64::from(bytes);
    }
}
