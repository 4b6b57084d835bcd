//! A request under way that needs no plan, in one cache line.

use crate::limits::SINGLE_COPIES_MAX;
use crate::order::ranges::NONE;
use crate::plan::Segment;
use crate::request::{Operation, Request};
use crate::token::Token;
use crate::units::{MemberId, Nanos, ShardId, Slot, VolumeId};

/// A request under way without a plan. Fits a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Single {
    request: Request,
    started: Nanos,
    /// The lock of a mirrored write, or [`NONE`].
    lock: u32,
    /// The plan that it was turned into, or [`NONE`]. Its commands in flight keep their old names.
    plan: u32,
    members: [MemberId; SINGLE_COPIES_MAX],
    slots: [Slot; SINGLE_COPIES_MAX],
    copies: u8,
    /// The shard that forwarded it; the tag is that shard's ticket. None for a port's request.
    from: Option<ShardId>,
    /// Commands that have not come back, by bit.
    outstanding: u8,
    /// Part of the commands' names; see [`crate::token`].
    generation: u16,
}

const _: () = assert!(size_of::<Single>() == 64);

/// A command of a single request: to the drive of a slot, which may have answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub slot: Slot,
    pub member: MemberId,
    pub is_out: bool,
}

impl Single {
    /// An unused one.
    pub fn idle() -> Single {
        Single {
            request: Request::NONE,
            started: Nanos(0),
            lock: NONE,
            plan: NONE,
            members: [MemberId(0); SINGLE_COPIES_MAX],
            slots: [Slot(0); SINGLE_COPIES_MAX],
            copies: 0,
            from: None,
            outstanding: 0,
            generation: 0,
        }
    }

    /// Becomes this request, of which nothing is under way; it may come `from` another shard.
    #[inline]
    pub(in crate::flight) fn begin(&mut self, request: &Request, from: Option<ShardId>) {
        self.from = from;
        self.request = *request;
        self.plan = NONE;
        self.lock = NONE;
        self.outstanding = 0;
    }

    /// Command number `copy` goes out to the drive of a slot. Returns the command's name; `index` is the request's
    /// place in the pool.
    #[inline]
    pub fn send(&mut self, index: u32, copy: u8, slot: Slot, member: MemberId) -> Token {
        self.members[usize::from(copy)] = member;
        self.slots[usize::from(copy)] = slot;
        Token::of_single(index, self.generation, copy)
    }

    /// All its commands have gone out at `now`, so many `copies`, under a lock or [`NONE`].
    #[inline]
    pub fn start(&mut self, now: Nanos, lock: u32, copies: u8) {
        self.started = now;
        self.lock = lock;
        self.copies = copies;
        self.outstanding = (1 << copies) - 1;
    }

    /// What was asked for.
    #[inline]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The shard that asked, if it was not a port of this one.
    #[inline]
    pub fn from(&self) -> Option<ShardId> {
        self.from
    }

    /// Its lock, or [`NONE`].
    #[inline]
    pub fn lock(&self) -> u32 {
        self.lock
    }

    /// The plan that it was turned into, or [`NONE`].
    #[inline]
    pub fn plan(&self) -> u32 {
        self.plan
    }

    /// It has become a plan, which has its lock.
    pub(in crate::flight) fn become_plan(&mut self, plan: u32) {
        self.plan = plan;
        self.lock = NONE;
    }

    /// When its commands went out.
    pub fn started(&self) -> Nanos {
        self.started
    }

    /// The time when its commands went out, to be corrected.
    pub(in crate::flight) fn started_mut(&mut self) -> &mut Nanos {
        &mut self.started
    }

    /// How many of its commands have not come back.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.count_ones()
    }

    /// Part of its commands' names.
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Whether its commands bear this token's name.
    #[inline]
    pub fn has_name(&self, token: Token) -> bool {
        self.generation == token.generation()
    }

    /// Its next commands bear names of this generation.
    pub(in crate::flight) fn set_generation(&mut self, generation: u16) {
        self.generation = generation;
    }

    #[inline]
    fn is_out(&self, copy: u8) -> bool {
        self.outstanding >> copy & 1 == 1
    }

    /// The drive that holds a command.
    ///
    /// # Panics
    /// The drive has given the command back already.
    #[inline]
    pub fn holder_of(&self, copy: u8) -> MemberId {
        assert!(
            self.is_out(copy),
            "command {copy} of {:?} was answered twice",
            self.request
        );
        self.members[usize::from(copy)]
    }

    /// A command has come back. Returns whether it was the last.
    #[inline]
    pub fn came_back(&mut self, copy: u8) -> bool {
        self.outstanding &= !(1 << copy);
        self.outstanding == 0
    }

    /// All its commands.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        (0..self.copies).map(|copy| Command {
            slot: self.slots[usize::from(copy)],
            member: self.members[usize::from(copy)],
            is_out: self.is_out(copy),
        })
    }

    /// The drives that hold its commands, unless a plan has taken these over.
    pub fn waits_for(&self) -> impl Iterator<Item = MemberId> {
        let is_own = self.plan == NONE;
        let out = self
            .commands()
            .filter(move |command| is_own && command.is_out);
        out.map(|command| command.member)
    }

    /// The name of a command of it that has not come back.
    pub fn name_of(&self, index: u32, copy: u8) -> Option<Token> {
        let token = Token::of_single(index, self.generation, copy);
        self.is_out(copy).then_some(token)
    }

    /// Forgets its commands; returns how many have not come back, and their generation.
    pub fn give_up(&mut self) -> (u16, u16) {
        let commands = core::mem::take(&mut self.outstanding).count_ones();
        (commands as u16, self.generation)
    }

    /// Whether it is a write to `volume` that has not ended.
    pub fn writes_to(&self, volume: VolumeId) -> bool {
        let is_write = self.request.operation == Operation::Write;
        self.outstanding != 0 && is_write && self.request.volume == volume
    }

    /// The client's memory.
    pub fn memory(&self) -> Segment {
        Segment::alone(self.request.buffer, self.request.length_bytes)
    }
}
