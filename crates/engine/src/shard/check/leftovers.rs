//! Invariants of what plans have left behind, between two turns: see [`crate::shard::check`].

use crate::flight::leftovers::Room;
use crate::shard::Engine;
use crate::token::Token;

impl Engine {
    /// Checks the room that plans have been promised for what they may leave behind, and that no leftover command's
    /// name has been given out again.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which.
    pub(crate) fn check_leftovers(&self, plans: &[u32], singles: &[u32]) {
        let promised = plans.iter().map(|&index| self.flight.running(index));
        let promised = promised.filter(|running| running.left() > 0);
        let promised = promised.fold(Room::default(), |sum, running| sum.and(running.promised()));
        self.flight.leftovers().check(promised);
        let plans = plans
            .iter()
            .map(|&index| self.flight.running(index).name_of(index, 0));
        let singles = singles
            .iter()
            .map(|&index| Token::of_single(index, self.flight.single(index).generation(), 0));
        for token in plans.chain(singles) {
            assert!(
                !self.flight.leftovers().has_name(token),
                "{token:?} was left behind, and is given out again"
            );
        }
    }
}
