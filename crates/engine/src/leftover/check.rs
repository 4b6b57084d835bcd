//! What must hold of what is left behind, between two turns: see [`crate::check`].

use super::{Leftovers, NONE, Room};
use crate::shard::Engine;
use crate::token::Token;
use alloc::vec::Vec;

impl Engine {
    /// Room for what plans may leave behind, and the names of what they have.
    ///
    /// # Panics
    /// Something does not hold that must; the message says what.
    pub(crate) fn check_leftovers(&self, plans: &[u32], singles: &[u32]) {
        let promised = plans.iter().map(|&index| &self.flight.running[index]);
        let promised = promised.filter(|running| running.left > 0);
        let promised = promised.fold(Room::default(), |sum, running| Room {
            leftovers: sum.leftovers + running.promised.leftovers,
            pins: sum.pins + running.promised.pins,
        });
        assert_eq!(
            self.flight.leftovers.promised, promised,
            "room that is promised, and that of plans which have left commands"
        );
        self.flight.leftovers.check();
        let plans = plans
            .iter()
            .map(|&index| Token::new(index, self.flight.running[index].generation, 0));
        let singles = singles
            .iter()
            .map(|&index| Token::of_single(index, self.flight.singles[index].generation, 0));
        for token in plans.chain(singles) {
            let left = self.flight.leftovers.position(token.owner());
            assert_eq!(
                left, None,
                "{token:?} was left behind, and is given out again"
            );
        }
    }
}

impl Leftovers {
    fn check(&self) {
        let entries = self.list.in_use("leftover");
        let mut named: Vec<u32> = self.owners.iter().map(|&(_, at)| at).collect();
        named.sort_unstable();
        assert_eq!(
            named, entries,
            "leftovers that have a name, and those that are there"
        );
        let mut names: Vec<u64> = self.owners.iter().map(|&(owner, _)| owner).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len(),
            entries.len(),
            "two leftovers have the same name"
        );
        let mut pinned = Vec::new();
        for &at in &entries {
            let leftover = &self.list[at];
            assert!(
                leftover.commands > 0 && !leftover.members.is_empty(),
                "nobody has the commands of leftover {at}: {leftover:?}"
            );
            let mut pin = leftover.pins;
            while pin != NONE {
                assert!(
                    pinned.len() < self.pins.used(),
                    "the pins of leftover {at} have no end"
                );
                pinned.push(pin);
                pin = self.pins[pin].next;
            }
        }
        pinned.sort_unstable();
        let there = self.pins.in_use("pin");
        assert_eq!(
            pinned, there,
            "pins that leftovers have, and those that are there"
        );
    }
}
