//! Messages to a shard from threads that are not shards: the API, the watch, helper threads of members.
//!
//! These threads put messages into queues under a lock, one thread at a time. The shard only tries the lock, and only
//! when a flag says that there are messages. If the try fails, a sender is just adding a message; it will raise the
//! flag after it has released the lock, and will wake the shard if that sleeps by then. So the shard need not try again
//! before the flag is raised. A message is delayed only while its sender, or another one that got the lock in between,
//! is not running.
//!
//! There are two queues, because members answer all the time and shards' messages should not wait for that: they wait
//! for late orders (see [`super`], "Order"), but never for answers.

use super::{Apart, Mail};
use crate::atomic::{AtomicBool, Mutex, Ordering, PoisonError, TryLockError};
use std::collections::VecDeque;

/// Initial capacity of each queue in messages: several orders about every member and volume, or the answers to all jobs
/// that a member's queue has room for.
pub(super) const ROOM: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Outside {
    orders: Apart<Mutex<VecDeque<Mail>>>,
    answers: Apart<Mutex<VecDeque<Mail>>>,
    /// Whether there may be messages that have not been taken.
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

    /// Adds a message. The caller must then wake the receiver if it sleeps.
    pub fn put(&self, mail: Mail) {
        let Apart(queue) = match mail {
            Mail::Moved(_) => &self.answers,
            _ => &self.orders,
        };
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(mail);
        // Only after the lock is released: see `take`. This is an exchange, not a store, so that the thread that clears
        // the flag acquires the writes of every sender that has raised it since it was last cleared.
        self.flag.0.swap(true, Ordering::Release);
    }

    /// Whether [`Outside::take`] may find messages that it has not found before.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }

    /// Moves all messages to the end of `opened`. Returns false if the orders are locked just now; then
    /// [`Outside::has_messages`] will become true again, and the sender that makes it so wakes the receiver.
    ///
    /// No message is missed, because the flag is cleared before the locks are tried. A sender that raised the flag
    /// earlier had released its lock before, and the exchange acquires that; so it is not the one that makes the try
    /// fail. The sender that does has yet to raise the flag.
    pub fn take(&self, opened: &mut VecDeque<Mail>) -> bool {
        self.flag.0.swap(false, Ordering::AcqRel);
        move_all(&self.answers.0, opened);
        move_all(&self.orders.0, opened)
    }

    /// Holds the lock of the orders, as if a sender stopped while it adds one.
    #[cfg(test)]
    pub fn stand_still(&self) -> impl std::ops::Deref<Target = VecDeque<Mail>> {
        self.orders.0.lock().unwrap()
    }
}

/// Returns false if the lock is taken.
fn move_all(queue: &Mutex<VecDeque<Mail>>, opened: &mut VecDeque<Mail>) -> bool {
    let mut messages = match queue.try_lock() {
        Ok(messages) => messages,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    opened.append(&mut messages);
    true
}
