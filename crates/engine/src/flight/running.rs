//! A plan under way: what it is for, its steps' states, what it holds, and what it has met.

mod left;
mod steps;

use crate::flight::leftovers::Room;
use crate::flight::piecewise::Piecewise;
use crate::flight::scratch::ScratchBlock;
use crate::flight::states::StepStates;
use crate::order::ranges::NONE;
use crate::plan::Plan;
use crate::token::Token;
use crate::units::{MemberSet, Nanos};

/// Why a plan's [`Piecewise`] can be expected: it is wanted only while its work is done in pieces.
const IN_PIECES: &str = "the work is done in pieces";

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
    states: StepStates,
    /// Part of the commands' names; see [`crate::token`].
    generation: u16,
    outstanding: u16,
    /// First step of the next stage.
    next: u16,
    /// A write step has gone out.
    wrote: bool,
    read_failed: bool,
    work: Work,
    scratch: Option<ScratchBlock>,
    /// The lock held, or [`NONE`].
    lock: u32,
    /// The write-hole log that it is in or waits for, or [`NONE`].
    log: u32,
    /// The single request that the plan was, while commands bear that request's name, or [`NONE`].
    single: u32,
    /// Commands that are not waited for any more and have not come back; see `left_with`.
    left: u16,
    volume: u8,
    /// Members that missed a write of this plan.
    missed: MemberSet,
    /// The work met an unreadable block and is done in pieces.
    piecewise: Option<Piecewise>,
    started: Nanos,
    /// Bit `i`: the comparison in step `i` found a difference; the last bit stands for all steps behind.
    differing_steps: u64,
    plan: Plan,
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
    pub(in crate::flight) fn prepare(&mut self, work: Work, volume: u8, lock: u32) {
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

    /// Makes room for another plan of the same work: forgets the steps and where they stand, but not what the work has
    /// met so far.
    pub fn forget_steps(&mut self) {
        self.clear();
        self.states.clear();
    }

    /// Items for which it has memory.
    pub fn room(&self) -> usize {
        self.plan.room() + self.states.capacity()
    }

    #[inline]
    fn clear(&mut self) {
        self.plan.clear();
        self.next = 0;
        self.outstanding = 0;
        self.wrote = false;
        self.read_failed = false;
    }
}

/// What it is for.
impl Running {
    /// What it is for.
    #[inline]
    pub fn work(&self) -> Work {
        self.work
    }

    /// The number of its volume; for a flush of the controller, a number that no volume has.
    #[inline]
    pub fn volume(&self) -> u8 {
        self.volume
    }

    /// The steps that it consists of.
    #[inline]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan, for a planner to add steps to before it starts. Once its steps have states, more are added together
    /// with theirs: see [`Running::add_awaited`] and [`Running::add_sent`].
    #[inline]
    pub fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    /// A check has found differences, and its band is planned anew: from now on it corrects them, and they are forgotten.
    pub fn correct_band(&mut self) {
        let Work::Background { repair, .. } = &mut self.work else {
            unreachable!("{:?} is no job's", self.work);
        };
        *repair = true;
        self.differing_steps = 0;
    }
}

/// What it holds: a lock, a place in a log, scratch memory.
impl Running {
    /// The lock that it holds, or [`NONE`].
    #[inline]
    pub fn lock(&self) -> u32 {
        self.lock
    }

    /// It gives up its lock, which the caller releases. Returns the lock, or [`NONE`] if there is none.
    #[inline]
    pub fn give_up_lock(&mut self) -> u32 {
        core::mem::replace(&mut self.lock, NONE)
    }

    /// The write-hole log that it is in or waits for, or [`NONE`].
    #[inline]
    pub fn log(&self) -> u32 {
        self.log
    }

    /// It waits for a unit of a log from now on, and is in that unit later.
    #[inline]
    pub fn enter_log(&mut self, log: u32) {
        self.log = log;
    }

    /// It is in no log any more, and waits for none. Returns the log that it has left, or [`NONE`].
    #[inline]
    pub fn give_up_log(&mut self) -> u32 {
        core::mem::replace(&mut self.log, NONE)
    }

    /// It gets the scratch memory that its steps want.
    pub(in crate::flight) fn bind_scratch(&mut self, block: ScratchBlock) {
        self.plan.bind_scratch(block.buffer);
        self.scratch = Some(block);
    }

    /// Its scratch memory, if it has some.
    pub fn scratch(&self) -> Option<ScratchBlock> {
        self.scratch
    }

    /// It gives up its scratch memory, if it has some.
    #[inline]
    pub(in crate::flight) fn give_up_scratch(&mut self) -> Option<ScratchBlock> {
        self.scratch.take()
    }
}

/// Work that is done in pieces: see [`Piecewise`].
impl Running {
    /// Whether its work is done in pieces.
    #[inline]
    pub fn is_in_pieces(&self) -> bool {
        self.piecewise.is_some()
    }

    /// Where the pieces stand, if its work is done in pieces.
    #[inline]
    pub fn piecewise(&self) -> Option<Piecewise> {
        self.piecewise
    }

    /// The piece under way.
    ///
    /// # Panics
    /// The work is not done in pieces.
    pub fn piece(&self) -> Piecewise {
        self.piecewise.expect(IN_PIECES)
    }

    /// The piece under way, to be narrowed, passed, or told what has become of its parity.
    ///
    /// # Panics
    /// The work is not done in pieces.
    pub fn piece_mut(&mut self) -> &mut Piecewise {
        self.piecewise.as_mut().expect(IN_PIECES)
    }

    /// The work continues with this piece.
    pub fn continue_with(&mut self, piece: Piecewise) {
        self.piecewise = Some(piece);
    }

    /// The work is not done in pieces any more.
    pub fn end_pieces(&mut self) {
        self.piecewise = None;
    }
}

/// Its name, and what it was before.
impl Running {
    /// The name that a step's command goes out with; `index` is the plan's place in the pool.
    #[inline]
    pub fn name_of(&self, index: u32, step: usize) -> Token {
        Token::new(index, self.generation, step)
    }

    /// Whether a command that bears this name, and was sent from the plan's place in the pool, is one of its own. It is
    /// not if a plan that has gone left it behind.
    #[inline]
    pub fn has_name(&self, token: Token) -> bool {
        self.generation == token.generation()
    }

    /// Part of its commands' names; see [`crate::token`].
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Commands of its present name are left behind: the next ones bear names of this generation.
    pub(in crate::flight) fn rename(&mut self, generation: u16) {
        self.generation = generation;
    }

    /// It continues a single request, whose commands went out at `started`; `outstanding` of them are not back. No
    /// further stage follows.
    pub(in crate::flight) fn continue_single(
        &mut self,
        single: u32,
        outstanding: u16,
        started: Nanos,
        wrote: bool,
    ) {
        self.next = self.plan.steps().len() as u16;
        self.outstanding = outstanding;
        self.started = started;
        self.wrote = wrote;
        self.single = single;
    }

    /// The single request that the plan was, while commands bear that request's name, or [`NONE`].
    pub fn single(&self) -> u32 {
        self.single
    }

    /// No command bears the single request's name any more. Returns that request, or [`NONE`] if there was none.
    pub fn forget_single(&mut self) -> u32 {
        core::mem::replace(&mut self.single, NONE)
    }
}
