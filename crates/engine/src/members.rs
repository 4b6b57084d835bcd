//! The drives as one shard sees them: which it still uses, since when it does not, and how many commands each has.

use crate::limits::CONTAINER_MEMBERS_MAX;
use crate::units::{MemberId, MemberSet, Nanos};

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Members {
    failed: MemberSet,
    watched: MemberSet,
    durable_failed: MemberSet,
    volatile: MemberSet,
    failed_since: [Nanos; CONTAINER_MEMBERS_MAX],
    in_flight: [u32; CONTAINER_MEMBERS_MAX],
}

impl Members {
    /// All members serve; `volatile` ones have a cache that a power cut empties.
    pub fn new(volatile: MemberSet) -> Members {
        Members {
            failed: MemberSet::default(),
            watched: MemberSet::default(),
            durable_failed: MemberSet::default(),
            volatile,
            failed_since: [Nanos(0); CONTAINER_MEMBERS_MAX],
            in_flight: [0; CONTAINER_MEMBERS_MAX],
        }
    }

    /// Members that this shard will not use any more, whether or not the controller knows.
    #[inline]
    pub fn failed(&self) -> MemberSet {
        self.failed
    }

    /// Members that need a second look: failed ones, those with recorded bad blocks, and those that are being
    /// filled; see [`crate::shard::repair::bad_blocks`].
    #[inline]
    pub fn watched(&self) -> MemberSet {
        self.watched
    }

    /// Members whose failure is on record and known to every shard.
    #[inline]
    pub fn durable_failed(&self) -> MemberSet {
        self.durable_failed
    }

    /// Members whose cache has to be flushed before what they have acknowledged is durable.
    #[inline]
    pub fn volatile(&self) -> MemberSet {
        self.volatile
    }

    /// How long ago this shard learned that a member has failed.
    pub fn failed_for(&self, member: MemberId, now: Nanos) -> Nanos {
        now.since(self.failed_since[usize::from(member.0)])
    }

    /// These members have failed; those that had failed before keep their time.
    pub fn fail(&mut self, members: MemberSet, now: Nanos) {
        for member in MemberSet(members.0 & !self.failed.0).iter() {
            self.failed_since[usize::from(member.0)] = now;
        }
        self.failed.0 |= members.0;
    }

    /// The failure of these is on record, and every shard knows.
    pub fn failure_is_durable(&mut self, members: MemberSet) {
        self.durable_failed.0 |= members.0;
    }

    /// Beside failed members these need a second look.
    pub fn watch(&mut self, members: MemberSet) {
        self.watched = MemberSet(self.failed.0 | members.0);
    }

    /// The controller says which members have a volatile cache.
    pub fn set_volatile(&mut self, members: MemberSet) {
        self.volatile = members;
    }

    /// Moves the times at which members failed.
    pub fn shift_times(&mut self, shift: impl FnMut(&mut Nanos)) {
        self.failed_since.iter_mut().for_each(shift);
    }

    /// How many commands a member holds that it has not answered.
    #[inline]
    pub fn in_flight(&self, member: MemberId) -> u32 {
        self.in_flight[usize::from(member.0)]
    }

    /// A command goes to a member.
    #[inline]
    pub fn sent(&mut self, member: MemberId) {
        self.in_flight[usize::from(member.0)] += 1;
    }

    /// A member has answered a command, or it is not waited for any more.
    #[inline]
    pub fn answered(&mut self, member: MemberId) {
        self.in_flight[usize::from(member.0)] -= 1;
    }

    /// Forgets a member's commands, to see whether the checks notice.
    #[cfg(test)]
    pub fn forget_commands(&mut self, member: MemberId) {
        self.in_flight[usize::from(member.0)] = 0;
    }
}
