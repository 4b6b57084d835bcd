//! Deadlines: members whose commands take too long are failed, and what failed members do not give back is given up.
//!
//! What that means for memory, and for answers that come later, is in [`crate::shard::plans::abandon`].

use crate::event::Event;
use crate::flight::leftovers::Room;
use crate::limits::ABANDON_AFTER;
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::Step;
use crate::policy::ErrorClass;
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{MemberId, MemberSet};

impl Engine {
    /// Fails members whose I/O has been outstanding for too long, and asks for early answers to all that
    /// failed members have. What does not come back after that is given up ([`crate::shard::plans::abandon`]).
    pub(crate) fn check_deadlines(&mut self) {
        self.plan_overdue_singles();
        let mut late = self.overdue_units();
        for index in self.flight.plan_numbers() {
            let running = self.flight.running(index);
            let is_late =
                self.desk.now().since(running.started()) >= self.desk.options().member_deadline;
            if running.outstanding() == 0 || (!is_late && self.members.failed().is_empty()) {
                continue;
            }
            for at in 0..running.states().len() {
                let state = self.flight.running(index).states()[at];
                let member = state.member();
                let waits = state.is_with_drive();
                if waits && !state.is_cancelled() && (is_late || self.members.failed().has(member))
                {
                    late.insert(member);
                    self.flight.running_mut(index).cancel_step(at);
                    let token = self.name_of(index, at);
                    self.desk.ask(Output::Cancel(token));
                }
            }
        }
        for member in MemberSet(late.0 & !self.members.failed().0).iter() {
            self.desk.emit(Event::MemberOverdue(member));
            self.fail_member(member, ErrorClass::Path, 110);
        }
        self.flight
            .set_abandon_due(!self.members.failed().is_empty());
    }

    /// The name that a command of a plan went out with.
    fn name_of(&self, index: u32, at: usize) -> Token {
        let running = self.flight.running(index);
        let single = Some(running.single()).filter(|&single| single != NONE);
        single
            .and_then(|single| self.flight.single(single).name_of(single, at as u8))
            .unwrap_or(running.name_of(index, at))
    }

    /// Stops waiting for what failed members have held for too long. Called while no output is queued,
    /// because an output may name a command that goes here.
    pub(crate) fn abandon_overdue(&mut self) {
        if !self.flight.take_abandon_due() {
            return;
        }
        let overdue = |member: &MemberId| {
            self.members.failed_for(*member, self.desk.now()) >= ABANDON_AFTER
                && self.members.in_flight(*member) > 0
        };
        let members: MemberSet = self.members.failed().iter().filter(overdue).collect();
        if members.is_empty() {
            return;
        }
        for index in self.flight.plan_numbers() {
            if self.flight.running(index).outstanding() > 0 {
                self.abandon_commands(index, members);
            }
        }
        self.abandon_units(members);
    }

    fn abandon_commands(&mut self, index: u32, members: MemberSet) {
        for at in 0..self.flight.running(index).states().len() {
            let running = self.flight.running(index);
            let state = running.states()[at];
            let is_theirs = state.is_with_drive() && members.has(state.member());
            if !is_theirs {
                continue;
            }
            if running.left() == 0 && !self.promise_room(index) {
                // Too much has been left behind already: this plan waits for its commands.
                return;
            }
            let touches =
                self.touches_payload(index, &self.flight.running(index).plan().steps()[at]);
            let running = self.flight.running_mut(index);
            running.leave(state.member(), touches);
            self.members.answered(state.member());
            self.desk.stats.abandoned += 1;
            self.step_lost(index, at, false);
        }
        if self.flight.running(index).left() > 0 && self.flight.running(index).outstanding() == 0 {
            self.advance(index);
        }
    }

    /// Keeps room for what the plan may leave behind when it goes; false if there is not enough.
    fn promise_room(&mut self, index: u32) -> bool {
        let parts = self
            .order
            .ranges
            .chain(self.flight.running(index).work().parts());
        let room = Room::of_plan(1 + parts.count());
        self.flight.promise(index, room)
    }

    /// Whether a step reads from or writes to memory of clients.
    fn touches_payload(&self, index: u32, step: &Step) -> bool {
        let running = self.flight.running(index);
        running.plan().segments_of(step).any(|segment| {
            let own = running
                .scratch()
                .is_some_and(|block| block.holds(segment.buffer));
            !own && !self.is_zeros(segment.buffer)
        })
    }
}
