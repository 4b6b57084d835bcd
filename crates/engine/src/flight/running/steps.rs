//! A plan's steps, from the time at which they go out, and what their answers say.

use crate::flight::running::Running;
use crate::flight::states::{Progress, StepState, StepStates};
use crate::plan::{Step, StepKind};
use crate::token::Token;
use crate::units::{Buffer, MemberId, MemberSet, Nanos};

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
    pub(in crate::flight) fn started_mut(&mut self) -> &mut Nanos {
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

    /// Its steps have been planned: none of them has begun.
    #[inline]
    pub fn make_steps_idle(&mut self) {
        self.states.make_idle(self.plan.steps().len());
    }

    /// Where its steps stand.
    #[inline]
    pub fn states(&self) -> &StepStates {
        &self.states
    }

    /// Its steps, each with where it stands.
    pub fn steps_and_states(&self) -> impl Iterator<Item = (&Step, &StepState)> + Clone {
        self.plan.steps().iter().zip(self.states.iter())
    }

    /// A step goes out to no drive: a computation, or a log entry.
    #[inline]
    pub fn step_goes_out(&mut self, at: usize) {
        self.states[at].progress = Progress::Outstanding;
        self.outstanding += 1;
    }

    /// A step goes out to a drive.
    #[inline]
    pub fn step_goes_to(&mut self, at: usize, member: MemberId) {
        let state = &mut self.states[at];
        state.member = member.0;
        state.progress = Progress::Outstanding;
        self.outstanding += 1;
    }

    /// Adds a step whose command has gone out to a drive before, which may have answered (`is_out` says that it has
    /// not). It is not counted as outstanding: `continue_single` does that for all steps.
    pub(in crate::flight) fn add_sent(
        &mut self,
        step: Step,
        buffer: Buffer,
        member: MemberId,
        is_out: bool,
    ) {
        self.plan.transfer(step, buffer);
        let progress = if is_out {
            Progress::Outstanding
        } else {
            Progress::Done
        };
        self.states.push(StepState {
            member: member.0,
            progress,
            ..StepState::IDLE
        });
    }

    /// Adds a step that sends no command: the controller is to record its range of a drive (`record_step` follows), and the
    /// plan waits for that.
    pub fn add_awaited(&mut self, step: Step, member: MemberId) {
        self.plan.push(step);
        self.states.push(StepState {
            member: member.0,
            ..StepState::IDLE
        });
        self.outstanding += 1;
    }

    /// The step whose command a drive has answered; `None` if the plan does not wait for that any more.
    #[inline]
    pub fn awaited_step(&mut self, at: usize) -> Option<&mut StepState> {
        let state = &mut self.states[at];
        matches!(state.progress, Progress::Outstanding | Progress::Flushing).then_some(state)
    }

    /// A computation has been carried out. A comparison may have found that what it compares `differs`.
    ///
    /// # Panics
    /// No such computation is under way.
    #[inline]
    pub fn computed(&mut self, token: Token, differs: bool) {
        let state = &mut self.states[token.step()];
        assert!(
            state.progress == Progress::Outstanding,
            "no computation {token:?} is under way"
        );
        state.finish();
        if differs {
            self.differing_steps |= 1 << token.step().min(63);
        }
    }

    /// A step is done.
    pub fn finish_step(&mut self, at: usize) {
        self.states[at].finish();
    }

    /// A step's command is sent again.
    pub fn retry_step(&mut self, at: usize) {
        self.states[at].retries += 1;
    }

    /// The world is asked for an early answer to a step.
    pub fn cancel_step(&mut self, at: usize) {
        self.states[at].cancelled = true;
    }

    /// A step has been written over recorded bad blocks, and its drive is being flushed.
    pub fn flush_step(&mut self, at: usize) {
        self.states[at].progress = Progress::Flushing;
    }

    /// A step waits for the bad-block log to say what became of its range.
    pub fn record_step(&mut self, at: usize) {
        self.states[at].progress = Progress::Recording;
    }

    /// A step is not carried out, and a member misses it, unless no member is meant to have it any more.
    pub fn miss_step(&mut self, at: usize, member: Option<MemberId>) {
        self.states[at].progress = Progress::Missed;
        if let Some(member) = member {
            self.miss(member);
        }
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
            self.miss_step(at, Some(self.states[at].member()));
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
