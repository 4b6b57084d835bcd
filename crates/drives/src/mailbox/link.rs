//! Messages from one shard to another: a ring with one writer and one reader.
//!
//! The messages that a shard writes during a turn are sent together at its end. Messages that do not fit into the ring
//! stay with the writer, in order and before newer ones, and are offered again at the end of every turn. So nobody
//! waits, and no message is lost or overtaken. The engine's limits bound how many messages can be in flight, but far
//! above the usual number: the pieces of requests that a shard may have at other shards
//! ([`engine::limits::FORWARDED_MAX`] and more), as many answers, and messages about each region of a bitmap. So the
//! ring has room for the messages of a turn or two, and the others wait.

use super::{Mail, MailSender};
use engine::limits::REAP_MAX;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;

/// Messages in a ring: as many as a reader takes in two turns.
pub(super) const RING_MESSAGES: usize = 2 * REAP_MAX;

/// The writing end.
#[derive(Debug)]
pub(super) struct Link {
    ring: Producer<Mail>,
    /// Messages that have not been sent yet.
    outbox: VecDeque<Mail>,
    reader: MailSender,
}

impl Link {
    /// Both ends of a link to the shard that `reader` delivers to.
    pub fn new(reader: MailSender) -> (Link, Consumer<Mail>) {
        let (ring, messages) = RingBuffer::new(RING_MESSAGES);
        let link = Link {
            ring,
            outbox: VecDeque::with_capacity(2 * REAP_MAX),
            reader,
        };
        (link, messages)
    }

    /// Adds a message to those of this turn.
    #[inline]
    pub fn post(&mut self, mail: Mail) {
        self.outbox.push_back(mail);
    }

    /// How many messages have not been sent.
    #[inline]
    pub fn held_back(&self) -> usize {
        self.outbox.len()
    }

    /// Sends as many messages as fit, with at most one signal.
    #[inline]
    pub fn deliver(&mut self) {
        if !self.outbox.is_empty() {
            self.fill();
        }
    }

    // Not inlined, because most turns have no messages.
    #[inline(never)]
    fn fill(&mut self) {
        let messages = self.outbox.len();
        // The reader's position in the ring is on a cache line of another core: it is read only if the position seen
        // last leaves too little room.
        let mut room = self.ring.cached_slots();
        if room < messages {
            room = self.ring.slots();
        }
        let count = messages.min(room);
        if count == 0 {
            if self.ring.is_abandoned() {
                self.outbox.clear();
            }
            return;
        }
        let places = self.ring.write_chunk_uninit(count);
        let places = places.expect("only this side uses places up");
        places.fill_from_iter(self.outbox.drain(..count));
        self.reader.wake_sleeper();
    }
}
