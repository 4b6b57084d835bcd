//! Virtual time: what happens next. Whole nanoseconds, and what happens at the same one happens in the
//! order in which it was asked for.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

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

/// Events to come, and the clock.
pub struct Queue<E> {
    now_ns: u64,
    number: u64,
    heap: BinaryHeap<Entry<E>>,
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue {
            now_ns: 0,
            number: 0,
            heap: BinaryHeap::new(),
        }
    }
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
        self.heap.push(Entry {
            at_ns: at_ns.max(self.now_ns),
            number: self.number,
            event,
        });
    }

    /// Lets `event` happen `after_ns` from now.
    pub fn after(&mut self, after_ns: u64, event: E) {
        self.at(self.now_ns + after_ns, event);
    }

    /// Takes the next event and moves the clock to it.
    pub fn take(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
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
}
