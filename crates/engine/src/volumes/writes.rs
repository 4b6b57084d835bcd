//! The writes of a volume: those under way, and those that wait until the volume may be written to.

use crate::units::Nanos;
use alloc::vec::{Drain, Vec};

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Writes {
    /// Requests that modify the volume, under way on this shard.
    running: u32,
    /// When one of them began last.
    last: Nanos,
    /// The controller knows that none has begun for a while.
    idle_reported: bool,
    /// Write plans under way.
    plans: u32,
    /// Write plans that have ended, wrapping.
    plans_ended: u32,
    /// Requests that wait until they may write.
    blocked: Vec<u32>,
    /// The controller has been told that some wait.
    intent_sent: bool,
}

impl Writes {
    /// No write is under way; as many as `requests_max` may wait.
    pub fn new(requests_max: usize) -> Writes {
        Writes {
            running: 0,
            last: Nanos(0),
            idle_reported: true,
            plans: 0,
            plans_ended: 0,
            blocked: Vec::with_capacity(requests_max),
            intent_sent: false,
        }
    }

    /// A request begins to write. Returns whether the controller has been told that the volume is idle: it is to be
    /// told now that it is not.
    #[inline]
    pub fn begin(&mut self, now: Nanos) -> bool {
        self.running += 1;
        self.last = now;
        core::mem::replace(&mut self.idle_reported, false)
    }

    /// A request that writes has ended.
    #[inline]
    pub fn end(&mut self) {
        self.running -= 1;
    }

    /// How many requests that write are under way.
    #[inline]
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Writes are allowed from now on. The time after which the volume counts as idle begins now, as after a write.
    pub(super) fn allow(&mut self, now: Nanos) {
        self.idle_reported = false;
        self.last = now;
    }

    /// Whether the controller knows that nothing is written.
    #[inline]
    pub fn is_idle_reported(&self) -> bool {
        self.idle_reported
    }

    /// Whether the controller is to be told now that no write has begun for the time `after`; it counts as told then.
    pub fn report_idle(&mut self, now: Nanos, after: Nanos) -> bool {
        let is_idle = self.running == 0 && now.since(self.last) >= after;
        is_idle && !core::mem::replace(&mut self.idle_reported, true)
    }

    /// A plan that writes begins.
    #[inline]
    pub fn plan_begins(&mut self) {
        self.plans += 1;
    }

    /// A plan that writes has ended.
    #[inline]
    pub fn plan_ends(&mut self) {
        self.plans -= 1;
        self.plans_ended = self.plans_ended.wrapping_add(1);
    }

    /// Plans that write, under way.
    #[inline]
    pub fn plans(&self) -> u32 {
        self.plans
    }

    /// What the count of ended plans will be when so many more have ended.
    pub fn count_after(&self, plans: u32) -> u32 {
        self.plans_ended.wrapping_add(plans)
    }

    /// Whether the count of ended plans has reached `count`.
    pub fn has_come_to(&self, count: u32) -> bool {
        self.plans_ended.wrapping_sub(count) as i32 >= 0
    }

    /// A request waits until it may write. Returns whether the controller is to be told now that requests wait: if it
    /// has to allow writes (`is_asked`), and has not been told yet.
    pub(super) fn block(&mut self, request: u32, is_asked: bool) -> bool {
        self.blocked.push(request);
        is_asked && !core::mem::replace(&mut self.intent_sent, true)
    }

    /// The requests that wait, in order.
    pub fn blocked(&self) -> &[u32] {
        &self.blocked
    }

    /// No request waits any more: those that waited have been refused.
    pub fn clear_blocked(&mut self) {
        self.blocked.clear();
    }

    /// The requests that waited, in order: they may continue. The controller is told again when others wait.
    pub fn unblock(&mut self) -> Drain<'_, u32> {
        self.intent_sent = false;
        self.blocked.drain(..)
    }

    /// How many may wait without more memory.
    pub fn room(&self) -> usize {
        self.blocked.capacity()
    }
}
