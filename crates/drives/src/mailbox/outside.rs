//! Messages to a shard from threads that are no shards: the API, the watch, threads of members.
//!
//! These threads put their messages into queues under a lock, one after the other. The shard only tries
//! the lock, and only when a flag says that there is something. When the try fails, somebody is just
//! putting a message in, who raises the flag once the lock is free again, and wakes the shard if it has
//! gone to sleep meanwhile. So the shard need not even try again before that, and a message is late by
//! as long as its sender, or one that came in between, is off its processor.
//!
//! There are two queues, because members answer all the time and nobody's messages should wait for that:
//! those of shards wait for orders that are late (see [`super`], "Order"), never for answers.

use super::{Apart, Mail};
use crate::atomic::{AtomicBool, Mutex, Ordering, PoisonError, TryLockError};
use std::collections::VecDeque;

/// Messages that fit into each queue without growing: several orders about every member and volume, and
/// answers of what a member's queue has room for.
pub(super) const ROOM: usize = 1024;

/// See the module's prose.
#[derive(Debug)]
pub(super) struct Outside {
    orders: Apart<Mutex<VecDeque<Mail>>>,
    answers: Apart<Mutex<VecDeque<Mail>>>,
    /// Some message may not have been taken.
    flag: Apart<AtomicBool>,
}

impl Outside {
    pub fn new() -> Outside {
        let queue = || Apart(Mutex::new(VecDeque::with_capacity(ROOM)));
        Outside {
            orders: queue(),
            answers: queue(),
            flag: Apart(AtomicBool::new(false)),
        }
    }

    /// Puts a message in. Whoever does so must wake the receiver afterwards if it sleeps.
    pub fn put(&self, mail: Mail) {
        let Apart(queue) = match mail {
            Mail::Moved(_) => &self.answers,
            _ => &self.orders,
        };
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(mail);
        // After the lock is free: see `take`. An exchange, not a store, so that whoever takes the flag down
        // acquires what everybody released who has raised it since it was taken down last.
        self.flag.0.swap(true, Ordering::Release);
    }

    /// Whether [`Outside::take`] may find something that it has not found before.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }

    /// Moves what is there to the end of `opened`. False when orders cannot be looked at just now; then
    /// [`Outside::has_messages`] will be true again, and whoever makes it so wakes the receiver.
    ///
    /// Nothing is overlooked: the flag is taken down before the locks are tried. A sender that raised it
    /// before that had released its lock, which the exchange acquires, so it cannot be the one that makes
    /// the try fail; whoever does make it fail has yet to raise the flag.
    pub fn take(&self, opened: &mut VecDeque<Mail>) -> bool {
        self.flag.0.swap(false, Ordering::AcqRel);
        move_all(&self.answers.0, opened);
        move_all(&self.orders.0, opened)
    }

    /// As if a sender stood still while it puts an order in.
    #[cfg(test)]
    pub fn stand_still(&self) -> impl std::ops::Deref<Target = VecDeque<Mail>> {
        self.orders.0.lock().unwrap()
    }
}

/// False when the lock is taken.
fn move_all(queue: &Mutex<VecDeque<Mail>>, opened: &mut VecDeque<Mail>) -> bool {
    let mut messages = match queue.try_lock() {
        Ok(messages) => messages,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    opened.append(&mut messages);
    true
}
