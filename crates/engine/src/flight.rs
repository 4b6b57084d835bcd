//! Work under way: requests that run without a plan, plans, their scratch memory, what they wait for, and commands
//! that failed drives have not given back.

mod leaving;
pub(crate) mod leftovers;
pub(crate) mod piecewise;
pub(crate) mod running;
pub(crate) mod scratch;
pub(crate) mod single;
pub(crate) mod states;

use crate::flight::leftovers::Leftovers;
use crate::flight::running::{Running, Work};
use crate::flight::scratch::Scratch;
use crate::flight::single::Single;
use crate::limits::PLANS_MAX;
use crate::plan::{Plan, Step};
use crate::pool::Pool;
use crate::request::{Operation, Request};
use crate::units::{Buffer, Nanos, ShardId, Slot};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Flight {
    running: Pool<Running>,
    /// Requests that run without a plan.
    singles: Pool<Single>,
    /// How many of them may yet need a plan.
    unplanned: usize,
    scratch: Scratch,
    /// Plans that wait for scratch memory.
    waiting_scratch: VecDeque<u32>,
    /// Direct reads with failed steps that wait to be handed on.
    recovering: VecDeque<u32>,
    /// Finished plans that may not be acknowledged before a failed mark is durable.
    held: Vec<u32>,
    leftovers: Leftovers,
    /// Failed members may hold commands for too long.
    abandon_due: bool,
}

impl Flight {
    /// Nothing is under way. Each plan has room for `steps` steps, and `scratch` is the memory that they use.
    pub fn new(steps: usize, scratch: Scratch) -> Flight {
        let plan = || Running::new(Plan::with_capacity(steps, 2 * steps), steps);
        Flight {
            running: Pool::new(PLANS_MAX, plan),
            singles: Pool::new(PLANS_MAX, Single::idle),
            unplanned: 0,
            scratch,
            waiting_scratch: VecDeque::with_capacity(PLANS_MAX),
            recovering: VecDeque::with_capacity(PLANS_MAX),
            held: Vec::with_capacity(PLANS_MAX),
            leftovers: Leftovers::new(),
            abandon_due: false,
        }
    }

    /// How many plans can still be started: one is kept for every single request that may need it.
    #[inline]
    pub fn plans_available(&self) -> usize {
        self.running.available() - self.unplanned
    }

    /// A plan without steps for some work on a volume, with the lock that it needs or `NONE`. The caller has checked
    /// that one is available.
    #[inline]
    pub fn take_plan(&mut self, work: Work, volume: u8, lock: u32) -> u32 {
        let index = self.running.take().expect("a plan is available");
        self.running[index].prepare(work, volume, lock);
        index
    }

    /// A plan that has given back all that it held is free for other work.
    #[inline]
    pub fn give_plan(&mut self, index: u32) {
        self.running.give(index);
    }

    /// A plan under way.
    #[inline]
    pub fn running(&self, index: u32) -> &Running {
        &self.running[index]
    }

    /// A plan under way, to be continued.
    #[inline]
    pub fn running_mut(&mut self, index: u32) -> &mut Running {
        &mut self.running[index]
    }

    /// How many plans are under way.
    #[inline]
    pub fn plans_used(&self) -> usize {
        self.running.used()
    }

    /// The numbers of all plans, under way or not.
    #[inline]
    pub fn plan_numbers(&self) -> Range<u32> {
        0..self.running.capacity() as u32
    }

    /// The plans under way, in ascending order. For the checks: see [`Pool::in_use`].
    pub fn plans_in_use(&self) -> Vec<u32> {
        self.running.in_use("plan")
    }

    /// How many plans are free, those included that are kept for single requests.
    pub fn plans_free(&self) -> usize {
        self.running.available()
    }

    /// Moves the times forward from which deadlines count.
    pub fn shift_times(&mut self, shift: impl Fn(&mut Nanos)) {
        for index in self.plan_numbers() {
            shift(self.running[index].started_mut());
        }
        for index in self.single_numbers() {
            shift(self.singles[index].started_mut());
        }
    }
}

/// Requests that run without a plan.
impl Flight {
    /// A request begins without a plan, and nothing of it is under way yet; it may come `from` another shard. The
    /// caller has checked that there is room for it.
    #[inline]
    pub fn take_single(&mut self, request: &Request, from: Option<ShardId>) -> u32 {
        let index = self.singles.take().expect("a single is available");
        self.singles[index].begin(request, from);
        index
    }

    /// A single request has ended, and no command bears its name any more.
    #[inline]
    pub fn give_single(&mut self, index: u32) {
        self.singles.give(index);
    }

    /// A single request.
    #[inline]
    pub fn single(&self, index: u32) -> &Single {
        &self.singles[index]
    }

    /// A single request, to be continued.
    #[inline]
    pub fn single_mut(&mut self, index: u32) -> &mut Single {
        &mut self.singles[index]
    }

    /// How many single requests are under way.
    #[inline]
    pub fn singles_used(&self) -> usize {
        self.singles.used()
    }

    /// How many more there may be.
    #[inline]
    pub fn singles_available(&self) -> usize {
        self.singles.available()
    }

    /// The numbers of all single requests, under way or not.
    #[inline]
    pub fn single_numbers(&self) -> Range<u32> {
        0..self.singles.capacity() as u32
    }

    /// The single requests under way, in ascending order. For the checks: see [`Pool::in_use`].
    pub fn singles_in_use(&self) -> Vec<u32> {
        self.singles.in_use("single request")
    }

    /// A single request becomes a plan that stands where the request stood. `step` says what its command to a slot is
    /// as a step.
    pub fn continue_as_plan(&mut self, single: u32, plan: u32, step: impl Fn(Slot) -> Step) {
        let (running, before) = (&mut self.running[plan], &mut self.singles[single]);
        let request = before.request();
        running.forget_steps();
        for command in before.commands() {
            let step = step(command.slot);
            running.add_sent(step, request.buffer, command.member, command.is_out);
        }
        let outstanding = before.outstanding() as u16;
        let wrote = request.operation != Operation::Read;
        running.continue_single(single, outstanding, before.started(), wrote);
        before.become_plan(plan);
        self.single_needs_none();
    }

    /// A single request has begun: it may need a plan.
    #[inline]
    pub fn single_begins(&mut self) {
        self.unplanned += 1;
    }

    /// A single request has ended, or has its plan now.
    #[inline]
    pub fn single_needs_none(&mut self) {
        self.unplanned -= 1;
    }

    /// Single requests that may yet need a plan.
    pub fn unplanned(&self) -> usize {
        self.unplanned
    }
}

/// Scratch memory.
impl Flight {
    /// Lends a plan the scratch memory that it wants; if it has to wait for that, queues it and returns false.
    #[inline]
    pub fn lend_scratch(&mut self, index: u32) -> bool {
        // In order, so that a large plan gets its turn, unless all blocks that are lent may never come back.
        let waits = !self.waiting_scratch.is_empty() && !self.scratch.is_stuck();
        let is_lent = !waits && self.bind_scratch(index);
        if !is_lent {
            self.waiting_scratch.push_back(index);
        }
        is_lent
    }

    fn bind_scratch(&mut self, index: u32) -> bool {
        let running = &mut self.running[index];
        let wanted = running.plan().scratch_bytes();
        let Some(block) = self.scratch.take(wanted) else {
            return false;
        };
        running.bind_scratch(block);
        true
    }

    /// Takes the scratch memory of a plan back, if it has some.
    #[inline]
    pub fn return_scratch(&mut self, index: u32) {
        if let Some(block) = self.running[index].give_up_scratch() {
            self.scratch.give(block);
        }
    }

    /// Scratch memory that is never given back.
    pub fn take_scratch_for_good(&mut self, length_bytes: u32) -> Option<Buffer> {
        self.scratch.take_for_good(length_bytes)
    }

    /// Scratch blocks that are lent, and how many of them may never come back.
    pub fn scratch_out(&self) -> (usize, usize) {
        self.scratch.out()
    }

    /// Takes scratch memory for nobody, to see whether the checks notice.
    #[cfg(test)]
    pub fn lose_scratch(&mut self) {
        self.scratch.take(4096);
    }

    /// How many plans wait for scratch memory.
    #[inline]
    pub fn waiting_for_scratch(&self) -> usize {
        self.waiting_scratch.len()
    }

    /// Lends scratch memory to the next waiting plan that can have it. Plans get it in order; only when all blocks
    /// that are lent may never come back, smaller plans pass one that does not fit any more. `passed` counts the
    /// plans passed: zero before the first call, and kept by the caller until there is no next plan.
    pub fn lend_next_scratch(&mut self, passed: &mut usize) -> Option<u32> {
        while *passed < self.waiting_scratch.len() {
            let index = *self.waiting_scratch.front()?;
            if self.bind_scratch(index) || {
                self.scratch.coalesce();
                self.bind_scratch(index)
            } {
                self.waiting_scratch.pop_front();
                return Some(index);
            }
            if !self.scratch.is_stuck() {
                return None;
            }
            self.waiting_scratch.rotate_left(1);
            *passed += 1;
        }
        None
    }
}

/// Plans that wait.
impl Flight {
    /// A direct read has failed steps to be handed on.
    pub fn wait_to_recover(&mut self, index: u32) {
        self.recovering.push_back(index);
    }

    /// The direct read that is handed on first.
    #[inline]
    pub fn first_to_recover(&self) -> Option<u32> {
        self.recovering.front().copied()
    }

    /// All failed steps of the first one have been handed on.
    pub fn first_is_recovered(&mut self) {
        let first = self.recovering.pop_front();
        assert!(first.is_some(), "no direct read waits for reconstruction");
    }

    /// How many direct reads wait to be handed on.
    pub fn waiting_to_recover(&self) -> usize {
        self.recovering.len()
    }

    /// A plan has finished and may not be acknowledged yet.
    pub fn hold(&mut self, index: u32) {
        self.held.push(index);
    }

    /// How many plans may not be acknowledged yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The plan at some place among those that may not be acknowledged yet.
    pub fn held_at(&self, place: usize) -> Option<u32> {
        self.held.get(place).copied()
    }

    /// The plan at that place may be acknowledged now; another one takes the place.
    pub fn release_held(&mut self, place: usize) {
        self.held.swap_remove(place);
    }

    /// Notes whether failed members may hold commands for too long.
    pub fn set_abandon_due(&mut self, is_due: bool) {
        self.abandon_due = is_due;
    }

    /// Whether that was noted, which is forgotten by this call.
    #[inline]
    pub fn take_abandon_due(&mut self) -> bool {
        core::mem::take(&mut self.abandon_due)
    }

    /// Plans that wait for scratch memory, to be handed on, or to be acknowledged.
    pub fn waiting_plans(&self) -> impl Iterator<Item = u32> {
        let queues = self.waiting_scratch.iter().chain(&self.recovering);
        queues.chain(&self.held).copied()
    }

    /// Items for which all queues, and the plans' steps, have memory.
    pub fn room(&self) -> usize {
        let plans = self.plan_numbers().map(|index| self.running[index].room());
        let queues = self.waiting_scratch.capacity() + self.recovering.capacity();
        queues + self.held.capacity() + plans.sum::<usize>()
    }
}
