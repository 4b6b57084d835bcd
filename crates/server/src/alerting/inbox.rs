//! Events that wait to be written into the book.

use crate::events::Told;
use crate::runtime::lock;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Most events that wait.
pub(super) const QUEUE_MAX: usize = 256;

/// The queue. Whoever puts an event into it waits for nobody.
#[derive(Default)]
pub(super) struct Inbox {
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Default)]
struct Content {
    events: VecDeque<Told>,
    /// Events that had no room.
    dropped: u64,
    is_closed: bool,
}

impl Inbox {
    /// Queues an event, unless the queue is closed; if it is full, the event is only counted.
    pub fn put(&self, event: &Told) {
        let mut content = lock(&self.content);
        if content.is_closed {
            return;
        }
        match content.events.len() < QUEUE_MAX {
            true => content.events.push_back(event.clone()),
            false => content.dropped += 1,
        }
        self.changed.notify_one();
    }

    /// No event is accepted any more.
    pub fn close(&self) {
        lock(&self.content).is_closed = true;
        self.changed.notify_one();
    }

    pub fn is_closed(&self) -> bool {
        lock(&self.content).is_closed
    }

    /// Waits, for at most `within`, until an event is there or the queue is closed. Returns whether an event is there.
    pub fn wait(&self, within: Duration) -> bool {
        let is_idle = |content: &mut Content| content.events.is_empty() && !content.is_closed;
        let content = lock(&self.content);
        let waited = self.changed.wait_timeout_while(content, within, is_idle);
        let (content, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !content.events.is_empty()
    }

    /// All events, and how many had no room since the last call.
    pub fn take(&self) -> (VecDeque<Told>, u64) {
        let mut content = lock(&self.content);
        let events = std::mem::take(&mut content.events);
        (events, std::mem::take(&mut content.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    #[test]
    fn events_are_taken_in_order_and_those_without_room_are_counted() {
        let inbox = Inbox::default();
        assert!(!inbox.wait(Duration::ZERO));
        for number in 0..QUEUE_MAX + 3 {
            inbox.put(&event(&number.to_string()));
        }
        assert!(inbox.wait(Duration::from_secs(20)));
        let (events, dropped) = inbox.take();
        assert_eq!((events.len(), dropped), (QUEUE_MAX, 3));
        assert_eq!(events[1].text, "1");
        inbox.close();
        inbox.put(&event("late"));
        assert!(inbox.is_closed() && !inbox.wait(Duration::from_secs(20)));
        assert_eq!(inbox.take().1, 0);
    }
}
