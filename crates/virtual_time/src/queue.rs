//! The queue of events in virtual time. Times are whole nanoseconds; events at the same time happen in the order
//! in which they were queued.
//!
//! ```text
//! slots of 2 us ─ 2048 of them are a fine wheel of 4 ms ─┐
//!                 slots of 4 ms ─ 2048 are a coarse wheel of 8.6 s ─┐
//!                                                    beyond that, a heap
//! ```
//!
//! An event waits in the finest structure that can tell its time from the present slot: in a slot of the coarse
//! wheel, and when that slot begins, in one of the fine wheel. So the cost of an event does not depend on the
//! number of events. A slot is one contiguous list, sorted when the slot begins, because with thousands of events
//! memory accesses dominate the cost.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Nanoseconds of a slot of the fine wheel, as a power of two.
const SLOT_SHIFT: u32 = 11;
/// Slots of a wheel, as a power of two.
const WHEEL_SHIFT: u32 = 11;
const SLOTS: usize = 1 << WHEEL_SHIFT;
const WORDS: usize = SLOTS / 64;

struct Entry<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn rank(&self) -> Reverse<(u64, u64)> {
        Reverse((self.at_ns, self.number))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Slots with their events, unsorted.
struct Wheel<E> {
    slots: Vec<Vec<Entry<E>>>,
    /// Bit set of the slots with events.
    occupied: [u64; WORDS],
}

impl<E> Wheel<E> {
    fn new() -> Wheel<E> {
        Wheel {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; WORDS],
        }
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry<E>) {
        self.slots[place].push(entry);
        self.occupied[place / 64] |= 1 << (place % 64);
    }

    /// Exchanges the events of a slot for an empty list.
    fn take(&mut self, place: usize, empty: &mut Vec<Entry<E>>) {
        std::mem::swap(&mut self.slots[place], empty);
        self.occupied[place / 64] &= !(1 << (place % 64));
    }

    /// The first slot with events, from this one on.
    fn next_from(&self, place: usize) -> Option<usize> {
        let mut at = place / 64;
        let mut word = self.occupied[at] & (!0 << (place % 64));
        while word == 0 {
            at += 1;
            word = *self.occupied.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

/// Events to come, and the clock.
pub struct Queue<E> {
    now_ns: u64,
    number: u64,
    /// The present slot of the fine wheel, counted from time zero.
    slot: u64,
    /// The events of the present slot, the next one last.
    current: Vec<Entry<E>>,
    fine: Wheel<E>,
    coarse: Wheel<E>,
    far: BinaryHeap<Entry<E>>,
    /// The empty list of a slot whose events have been distributed, kept for its memory.
    spare: Vec<Entry<E>>,
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue {
            now_ns: 0,
            number: 0,
            slot: 0,
            current: Vec::new(),
            fine: Wheel::new(),
            coarse: Wheel::new(),
            far: BinaryHeap::new(),
            spare: Vec::new(),
        }
    }
}

fn slot_of(at_ns: u64) -> u64 {
    at_ns >> SLOT_SHIFT
}

/// The place in a wheel.
fn place(slot: u64) -> usize {
    slot as usize % SLOTS
}

/// The first slot of the same turn of the wheel.
fn first_of_turn(slot: u64) -> u64 {
    slot >> WHEEL_SHIFT << WHEEL_SHIFT
}

impl<E> Queue<E> {
    /// The time of the event taken last.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Lets `event` happen at `at_ns`, or now if that has passed.
    pub fn at(&mut self, at_ns: u64, event: E) {
        self.number += 1;
        let at_ns = at_ns.max(self.now_ns);
        let entry = Entry {
            at_ns,
            number: self.number,
            event,
        };
        if slot_of(at_ns) == self.slot {
            // Among events at the same time, the new one comes last.
            let behind = |other: &Entry<E>| other.at_ns > at_ns;
            let place = self.current.partition_point(behind);
            self.current.insert(place, entry);
        } else {
            self.wait(entry);
        }
    }

    /// Lets `event` happen `after_ns` from now.
    pub fn after(&mut self, after_ns: u64, event: E) {
        self.at(self.now_ns + after_ns, event);
    }

    /// Puts an event into the finest structure that can tell its time from the present slot.
    #[inline]
    fn wait(&mut self, entry: Entry<E>) {
        let slot = slot_of(entry.at_ns);
        let differs = slot ^ self.slot;
        if differs < 1 << WHEEL_SHIFT {
            self.fine.put(place(slot), entry);
        } else if differs < 1 << (2 * WHEEL_SHIFT) {
            self.coarse.put(place(slot >> WHEEL_SHIFT), entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Takes the next event and moves the clock to it.
    pub fn take(&mut self) -> Option<E> {
        if self.current.is_empty() {
            self.next_slot()?;
        }
        let entry = self.current.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }

    /// Moves to the next slot with events.
    fn next_slot(&mut self) -> Option<()> {
        let found = loop {
            match self.fine.next_from(place(self.slot)) {
                Some(found) => break found,
                None => self.next_turn()?,
            }
        };
        self.slot = first_of_turn(self.slot) + found as u64;
        self.fine.take(found, &mut self.current);
        self.current
            .sort_unstable_by_key(|entry| Reverse((entry.at_ns, entry.number)));
        Some(())
    }

    /// Called when the fine wheel is empty: distributes the next slot of the coarse wheel that has events.
    fn next_turn(&mut self) -> Option<()> {
        let coarse = self.slot >> WHEEL_SHIFT;
        let Some(found) = self.coarse.next_from(place(coarse)) else {
            return self.far_away();
        };
        self.slot = (first_of_turn(coarse) + found as u64) << WHEEL_SHIFT;
        let mut entries = std::mem::take(&mut self.spare);
        self.coarse.take(found, &mut entries);
        for entry in entries.drain(..) {
            self.wait(entry);
        }
        self.spare = entries;
        Some(())
    }

    /// Called when both wheels are empty: moves to the first event of the heap, and distributes the events of the
    /// same turn of the coarse wheel.
    fn far_away(&mut self) -> Option<()> {
        self.slot = first_of_turn(slot_of(self.far.peek()?.at_ns));
        while let Some(entry) = self.far.peek()
            && slot_of(entry.at_ns) ^ self.slot < 1 << (2 * WHEEL_SHIFT)
            && let Some(entry) = self.far.pop()
        {
            self.wait(entry);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        let mut queue = Queue::default();
        queue.at(5, "later");
        queue.at(3, "first");
        queue.at(3, "second");
        assert_eq!(queue.take(), Some("first"));
        queue.at(1, "too late is now");
        queue.after(2, "after later");
        let rest: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(rest, ["second", "too late is now", "later", "after later"]);
        assert_eq!(queue.now_ns(), 5);
    }

    #[test]
    fn wheels_and_a_heap_keep_the_order_of_a_list() {
        let mut random = repeatable::random::Stream::new(1, "queue", 0);
        let (mut queue, mut list) = (Queue::default(), Vec::new());
        let mut number = 0;
        for _ in 0..200_000 {
            // As many come as go, up to a hundred at first.
            if list.len() < 100 && random.chance(2, 3) {
                let reach = [1, 300, 50_000, 1 << 20, 1 << 24, 1 << 34][random.below(6) as usize];
                let at_ns = queue.now_ns() + random.below(reach);
                number += 1;
                queue.at(at_ns, number);
                list.push((at_ns, number));
            } else {
                list.sort_unstable();
                let expected = (!list.is_empty()).then(|| list.remove(0));
                assert_eq!(queue.take(), expected.map(|(_, number)| number));
                if let Some((at_ns, _)) = expected {
                    assert_eq!(queue.now_ns(), at_ns);
                }
            }
        }
    }
}
