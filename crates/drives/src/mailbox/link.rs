//! Messages from one shard to another: a ring with one writer and one reader.
//!
//! What a shard writes during a turn leaves together at its end. What does not fit into the ring stays
//! with its writer, in order and before anything newer, and is offered again at the end of every turn:
//! nobody waits, and nothing is lost or overtaken. How many messages can be under way at once follows from
//! the engine's limits but is far more than usual: the pieces of requests that a shard may have with
//! others ([`engine::limits::FORWARDED_MAX`] and more), as many answers, and messages about each region of
//! a bitmap. So the ring has room for what two shards exchange in a turn or two, and the rest waits.

use super::{Mail, MailSender};
use engine::limits::REAP_MAX;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;

/// Messages in a ring: two turns of a reader.
pub(super) const RING_MESSAGES: usize = 2 * REAP_MAX;

/// The writing end.
#[derive(Debug)]
pub(super) struct Link {
    ring: Producer<Mail>,
    /// What has not left yet.
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

    /// Puts a message to the others of this turn.
    #[inline]
    pub fn post(&mut self, mail: Mail) {
        self.outbox.push_back(mail);
    }

    /// How many messages have not left.
    #[inline]
    pub fn held_back(&self) -> usize {
        self.outbox.len()
    }

    /// Sends what fits, with at most one signal.
    #[inline]
    pub fn deliver(&mut self) {
        if !self.outbox.is_empty() {
            self.fill();
        }
    }

    // Apart, because most turns have no messages.
    #[inline(never)]
    fn fill(&mut self) {
        let messages = self.outbox.len();
        // The reader's end of the ring is another core's cache line: it is looked at only when what was
        // seen there last is not enough.
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
