//! Commands of a plan that are not waited for any more and have not come back.

use crate::flight::leftovers::Room;
use crate::flight::running::Running;
use crate::units::{MemberId, MemberSet};

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
    pub(in crate::flight) fn promise(&mut self, room: Room) {
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
    pub(in crate::flight) fn one_came_back(&mut self) -> bool {
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
