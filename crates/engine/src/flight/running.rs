//! A plan under way: what it is for, its steps' states, what it holds, and what it has met.

use crate::flight::leftovers::Room;
use crate::flight::piecewise::Piecewise;
use crate::flight::scratch::ScratchBlock;
use crate::flight::states::{Progress, StepState, StepStates};
use crate::order::ranges::NONE;
use crate::plan::{Plan, Step, StepKind};
use crate::units::{MemberId, MemberSet, Nanos};

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Steps of one request that need no lock: healthy reads, RAID 0 writes, flushes.
    Direct { request: u32 },
    /// A chain of write or zero parts under a lock.
    Write { parts: u32 },
    /// One part that is read by reconstruction, under a lock.
    Reconstruct { part: u32 },
    /// A step of a volume's background job, under a lock.
    Background { part: u32, band: u64, repair: bool },
    /// A flush of members for the controller.
    ControlFlush { ticket: u32 },
    /// A flush of members before a log's next unit.
    LogFlush { log: u32 },
    /// A write of a volume's bitmap, or the flush before bits are cleared.
    Bitmap { volume: u8 },
}

impl Work {
    /// The chain of parts of work under a lock.
    pub fn parts(self) -> u32 {
        match self {
            Work::Write { parts } => parts,
            Work::Reconstruct { part } | Work::Background { part, .. } => part,
            Work::Direct { .. }
            | Work::ControlFlush { .. }
            | Work::LogFlush { .. }
            | Work::Bitmap { .. } => NONE,
        }
    }
}

/// How a plan continues whose reads have failed, whose zeroing cannot be planned at once, or one piece of whose work is
/// done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Next {
    /// With other steps, which are to be started.
    Start,
    /// Nothing is to be done now. The plan waits for the record, or, as a direct read, until enough parts are free to
    /// read again what has failed. Or it is gone: its work is queued again or has been handed on, its read has been
    /// answered with an error, or it was a trim and has been dropped.
    Nothing,
    /// It does not: its work has been done as far as it can be, and is to be reported.
    End,
}

/// A plan under way. Its first cache line has all that most answers change, the next two what its end needs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Running {
    pub states: StepStates,
    /// Part of the commands' names; see [`crate::token`].
    pub generation: u16,
    outstanding: u16,
    /// First step of the next stage.
    next: u16,
    /// A write step has gone out.
    wrote: bool,
    read_failed: bool,
    pub work: Work,
    pub scratch: Option<ScratchBlock>,
    /// The lock held, or [`NONE`].
    pub lock: u32,
    /// The write-hole log that it is in or waits for, or [`NONE`].
    pub log: u32,
    /// The single request that the plan was, while commands bear that request's name, or [`NONE`].
    pub single: u32,
    /// Commands that are not waited for any more and have not come back; see `left_with`.
    left: u16,
    pub volume: u8,
    /// Members that missed a write of this plan.
    missed: MemberSet,
    /// The work met an unreadable block and is done in pieces.
    pub piecewise: Option<Piecewise>,
    pub started: Nanos,
    /// Bit `i`: the comparison in step `i` found a difference; the last bit stands for all steps behind.
    differing_steps: u64,
    pub plan: Plan,
    /// For direct reads: the failed step being handed on, and how far.
    recover: (u16, u64),
    /// The members that hold the commands counted in `left`.
    left_with: MemberSet,
    /// Some of those commands use memory of clients.
    payload_left: bool,
    /// For background work: some of the band could not be done.
    band_failed: bool,
    /// Room for those commands when the plan ends.
    promised: Room,
}

const _: () = assert!(core::mem::offset_of!(Running, work) == 64);

const _: () = assert!(core::mem::offset_of!(Running, plan) == 192);

impl Running {
    /// An unused one, with room for so many steps.
    pub fn new(plan: Plan, steps: usize) -> Running {
        Running {
            states: StepStates::with_capacity(steps),
            generation: 0,
            outstanding: 0,
            next: 0,
            wrote: false,
            read_failed: false,
            work: Work::Direct { request: NONE },
            scratch: None,
            lock: NONE,
            log: NONE,
            single: NONE,
            left: 0,
            volume: 0,
            missed: MemberSet::default(),
            piecewise: None,
            started: Nanos(0),
            differing_steps: 0,
            plan,
            recover: (0, 0),
            left_with: MemberSet::default(),
            payload_left: false,
            band_failed: false,
            promised: Room::default(),
        }
    }

    /// Makes a fresh plan of a used one.
    #[inline]
    pub fn prepare(&mut self, work: Work, volume: u8, lock: u32) {
        self.work = work;
        self.volume = volume;
        self.lock = lock;
        self.scratch = None;
        self.log = NONE;
        self.single = NONE;
        self.differing_steps = 0;
        self.missed = MemberSet::default();
        self.recover = (0, 0);
        self.piecewise = None;
        self.band_failed = false;
        self.clear();
    }

    /// Forgets the steps, but not what the work has met so far.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.plan.clear();
        self.next = 0;
        self.outstanding = 0;
        self.wrote = false;
        self.read_failed = false;
    }
}

/// Steps, from the time at which they go out.
impl Running {
    /// The first step that has not gone out, if there is one.
    #[inline]
    pub fn next_step(&self) -> Option<usize> {
        let next = usize::from(self.next);
        (next != self.plan.steps().len()).then_some(next)
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

    /// The only stage has gone out already, at `started`; `outstanding` of its steps are not back.
    pub fn issued_already(&mut self, outstanding: u16, started: Nanos, wrote: bool) {
        self.next = self.plan.steps().len() as u16;
        self.outstanding = outstanding;
        self.started = started;
        self.wrote = wrote;
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

    /// Forgets the differences, because they are being corrected.
    pub fn forget_differences(&mut self) {
        self.differing_steps = 0;
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

/// Commands that are not waited for any more and have not come back.
impl Running {
    /// How many such commands there are.
    #[inline]
    pub fn left(&self) -> u16 {
        self.left
    }

    /// The members that hold them.
    pub fn left_with(&self) -> MemberSet {
        self.left_with
    }

    /// Whether some of them use memory of clients.
    pub fn is_payload_left(&self) -> bool {
        self.payload_left
    }

    /// Room has been promised for what the plan leaves behind.
    pub fn promise(&mut self, room: Room) {
        self.promised = room;
    }

    /// The room that has been promised.
    pub fn promised(&self) -> Room {
        self.promised
    }

    /// A command that has gone out is not waited for any more; it may use memory of clients.
    pub fn leave(&mut self, member: MemberId, uses_payload: bool) {
        self.left += 1;
        self.left_with.insert(member);
        self.payload_left |= uses_payload;
        self.outstanding -= 1;
    }

    /// One of these commands has come back. Returns whether it was the last.
    ///
    /// # Panics
    /// No such command is out.
    pub fn one_came_back(&mut self) -> bool {
        assert!(
            self.left > 0,
            "a step of {:?} was answered twice",
            self.work
        );
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.forget_left();
        true
    }

    /// The leftovers keep these commands from now on.
    pub fn forget_left(&mut self) {
        self.left = 0;
        self.left_with = MemberSet::default();
        self.payload_left = false;
    }
}
