//! Invariants of what plans have left behind, between two turns.

use crate::flight::leftovers::{Leftovers, Pins, Room};
use crate::order::ranges::NONE;
use alloc::vec::Vec;

impl Leftovers {
    /// Checks names, pins, and the room that is promised: as much as plans say that they were `promised`.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which.
    pub fn check(&self, promised: Room) {
        assert_eq!(
            self.promised, promised,
            "room promised in all, and to plans that have abandoned commands"
        );
        let entries = self.list.in_use("leftover");
        let mut named: Vec<u32> = self.owners.iter().map(|&(_, at)| at).collect();
        named.sort_unstable();
        assert_eq!(
            named, entries,
            "leftovers with a name, and all leftovers in use"
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
                "leftover {at} has no commands, or no drives that hold them: {leftover:?}"
            );
            let Pins(mut pin) = leftover.pins;
            while pin != NONE {
                assert!(
                    pinned.len() < self.pins.used(),
                    "the pins of leftover {at} run in a circle"
                );
                pinned.push(pin);
                Pins(pin) = self.pins[pin].next;
            }
        }
        pinned.sort_unstable();
        let there = self.pins.in_use("pin");
        assert_eq!(pinned, there, "pins of leftovers, and all pins in use");
    }
}
