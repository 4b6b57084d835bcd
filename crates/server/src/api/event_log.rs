//! The newest events, kept for readers that ask later.
//!
//! Events are numbered from 1 on. A reader remembers the last number it has seen and asks for the events
//! after it. If it was away for longer than the log reaches back, it is given the number of events it missed.
//! When the log is full, it [folds](fold) older events of one kind about the same thing before it drops
//! the oldest.
//!
//! After a restart the log begins with the events that the process before left in a file
//! ([`crate::state_folder::keeper`]), and the numbering continues from there.

pub mod fold;

use super::schema::{Events, NumberedEvent};
use crate::events::Told;
use crate::runtime::lock;
use fold::fold;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use tokio::sync::watch;

/// Maximum number of events kept.
pub const KEPT_MAX: usize = 1000;
/// How many of the oldest events are folded at once when room is needed; newer ones stay single.
const FOLDED_AT_ONCE: usize = KEPT_MAX / 2;

/// The log; cheap to clone. Writing never blocks on readers.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Mutex<Kept>,
    /// Number of the newest event.
    newest: watch::Sender<u64>,
    /// The thread that writes events to the file.
    writer: OnceLock<Thread>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<NumberedEvent>,
    /// How many of the oldest events have been through `fold` already and could not be folded any further.
    unlike: usize,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            kept: Mutex::new(Kept {
                events: VecDeque::with_capacity(KEPT_MAX),
                unlike: 0,
            }),
            newest: watch::Sender::new(0),
            writer: OnceLock::new(),
        }
    }
}

impl Kept {
    /// Makes room for one more event.
    fn make_room(&mut self) {
        if self.events.len() < KEPT_MAX {
            return;
        }
        // Folding takes time, so events that it could not shorten are all dropped before it is tried again.
        if self.unlike == 0 {
            let older = fold(self.events.drain(..FOLDED_AT_ONCE).collect());
            let unlike = older.len();
            older
                .into_iter()
                .rev()
                .for_each(|event| self.events.push_front(event));
            if unlike < FOLDED_AT_ONCE {
                return;
            }
            self.unlike = unlike;
        }
        self.events.pop_front();
        self.unlike -= 1;
    }
}

impl EventLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> EventLog {
        EventLog::default()
    }

    /// Adds an event; if the log is full, the oldest one is dropped or folded.
    pub fn add(&self, event: Told) {
        let mut kept = lock(&self.0.kept);
        kept.make_room();
        let number = *self.0.newest.borrow() + 1;
        kept.events.push_back(NumberedEvent::new(number, event));
        // While the lock is held, so that number and events always agree.
        self.0.newest.send_replace(number);
        drop(kept);
        if let Some(writer) = self.0.writer.get() {
            writer.unpark();
        }
    }

    /// Adds the events kept by earlier processes, oldest first; the next event gets a number above `newest`. Only for a
    /// log to which nothing has been added yet.
    pub fn begin_with(&self, earlier: Vec<NumberedEvent>, newest: u64) {
        let mut kept = lock(&self.0.kept);
        assert_eq!(
            *self.0.newest.borrow(),
            0,
            "events were added to the log before the earlier ones"
        );
        for event in earlier {
            kept.make_room();
            kept.events.push_back(event);
        }
        self.0.newest.send_replace(newest);
    }

    /// Registers `writer`, a thread to be woken by every event from now on.
    pub fn wake(&self, writer: Thread) {
        // There is only one writer, so it is set only once.
        let _ = self.0.writer.set(writer);
    }

    /// At most `count` events with a number above `since`, oldest first.
    #[must_use]
    pub fn since(&self, since: u64, count: usize) -> Events {
        let kept = &lock(&self.0.kept).events;
        let newest = *self.0.newest.borrow();
        let oldest = kept
            .front()
            .map_or(newest + 1, |event| event.span().first_number);
        let wanted = kept.iter().filter(|event| event.number > since);
        Events {
            newest,
            forgotten: (oldest - 1).saturating_sub(since),
            events: wanted.take(count).cloned().collect(),
        }
    }

    /// Number of the newest event, and a way to wait for the next.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    #[test]
    fn the_newest_thousand_are_kept_and_the_rest_is_counted() {
        let log = EventLog::new();
        let empty = log.since(0, KEPT_MAX);
        assert_eq!(
            (empty.newest, empty.forgotten, empty.events.len()),
            (0, 0, 0)
        );
        (1..=1003).for_each(|number| log.add(event(&format!("event {number}"))));
        let all = log.since(0, KEPT_MAX);
        assert_eq!(
            (all.newest, all.forgotten, all.events.len()),
            (1003, 3, 1000)
        );
        assert_eq!(all.events[0].number, 4);
        assert_eq!(all.events[0].event.text, "event 4");
        let last = log.since(1001, KEPT_MAX);
        assert_eq!(last.forgotten, 0);
        assert_eq!(
            last.events
                .iter()
                .map(|event| event.number)
                .collect::<Vec<_>>(),
            [1002, 1003]
        );
        assert!(log.since(u64::MAX, KEPT_MAX).events.is_empty());
    }

    #[test]
    fn a_hundred_times_more_events_than_are_kept_cost_no_memory() {
        const EVENTS: u64 = 100 * KEPT_MAX as u64;
        let log = EventLog::new();
        let room = || lock(&log.0.kept).events.capacity();
        let before = room();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut since, mut heard, mut missed) = (0, 0, 0);
                while since < EVENTS {
                    let events = log.since(since, 100);
                    assert!(events.events.len() <= 100);
                    missed += events.forgotten;
                    let mut next = since + events.forgotten;
                    for NumberedEvent { number, event, .. } in events.events {
                        next += 1;
                        assert_eq!((number, event.text), (next, format!("event {next}")));
                        heard += 1;
                    }
                    since = next;
                }
                (heard, missed)
            });
            (1..=EVENTS).for_each(|number| log.add(event(&format!("event {number}"))));
            let (heard, missed) = reader.join().unwrap();
            assert_eq!(heard + missed, EVENTS);
        });
        let all = log.since(0, usize::MAX);
        assert_eq!(
            (all.newest, all.forgotten),
            (EVENTS, EVENTS - KEPT_MAX as u64)
        );
        assert_eq!(all.events.len(), KEPT_MAX);
        assert_eq!(room(), before);
    }

    /// Thirty reports on each of 339 unreadable blocks do not push out the drive's failure.
    #[test]
    fn a_storm_about_one_thing_does_not_push_out_its_cause() {
        let log = EventLog::new();
        let mut cause = event("d1 is failed: it is gone");
        cause.kind = "member-failed".to_owned();
        log.add(cause);
        for number in 0..30 * 339 {
            let mut one = event(&format!(
                "LBA {number} can be neither read nor reconstructed"
            ));
            one.kind = "unrecoverable".to_owned();
            log.add(one);
        }
        let all = log.since(0, usize::MAX);
        assert_eq!((all.newest, all.forgotten), (1 + 30 * 339, 0));
        assert!(all.events.len() <= KEPT_MAX);
        assert_eq!(all.events[0].event.kind, "member-failed");
        let told: u64 = all.events.iter().map(|event| event.span().count).sum();
        assert_eq!(told, 1 + 30 * 339);
        assert_eq!(all.events[1].span().first_number, 2);
        // The newest events are not folded.
        let newest = log.since(all.newest - 400, usize::MAX).events;
        assert_eq!(newest.len(), 400);
        assert!(newest.iter().all(|event| event.folded.is_none()));
    }

    #[test]
    fn a_log_goes_on_where_another_one_ended() {
        let log = EventLog::new();
        let earlier = (1..=1200).map(|number| NumberedEvent::new(number, event("old")));
        log.begin_with(earlier.collect(), 2200);
        assert_eq!(log.since(0, usize::MAX).forgotten, 200);
        assert_eq!(log.since(1000, usize::MAX).events.len(), 200);
        assert!(log.since(1200, usize::MAX).events.is_empty());
        log.add(event("new"));
        let new = log.since(1200, usize::MAX);
        assert_eq!((new.newest, new.events[0].number), (2201, 2201));
    }
}
