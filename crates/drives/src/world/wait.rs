//! How a shard waits when it has nothing to do.

use super::{RingWorld, WATCH_MAILBOX, clock};
use crate::completion::CompletionMode;
use crate::port::Port;
use engine::units::Nanos;

/// The kernel extends sleeps by about this much, so shorter waits are spun.
const SLEEP_MIN: Nanos = Nanos(60_000);
/// How often a spinning shard returns to its loop, so that its port is polled.
const SPIN_TURN: Nanos = Nanos(20_000);
/// When messages are held back because the receiver's mailbox is full, the shard offers them again after this time. It
/// is long enough to sleep, in case the receiver needs this core.
const OFFER_AGAIN: Nanos = Nanos(100_000);

impl<P: Port> RingWorld<P> {
    /// See `World::wait`. May return early; the loop then calls it again.
    pub(super) fn wait_until(&mut self, until: Option<Nanos>) {
        if self.has_input() {
            return;
        }
        let held = match self.completion {
            CompletionMode::Polling => self.held.next(),
            CompletionMode::Interrupt | CompletionMode::Hybrid { .. } => self.held.next_look(),
        };
        let offer_again = self.mailbox.holds_back();
        let offer_again = offer_again.then(|| clock().after(OFFER_AGAIN));
        let wake = [until, held, self.port.next_wake(), offer_again]
            .into_iter()
            .flatten()
            .min();
        match self.completion {
            CompletionMode::Interrupt => {
                if !self.linger(wake) {
                    self.sleep(wake);
                }
            }
            CompletionMode::Polling => {
                self.spin(wake, SPIN_TURN);
            }
            CompletionMode::Hybrid { poll_ns } => {
                if !self.spin(wake, Nanos(poll_ns)) {
                    self.sleep(wake);
                }
            }
        }
    }

    fn has_input(&mut self) -> bool {
        !self.ready.is_empty() || self.mailbox.has_mail() || self.ring.has_completions()
    }

    /// Polls for at most `patience`; true when there is a reason to stop waiting.
    fn spin(&mut self, wake: Option<Nanos>, patience: Nanos) -> bool {
        self.ring.submit();
        let start = clock();
        loop {
            if self.has_input() {
                return true;
            }
            let now = clock();
            if wake.is_some_and(|wake| wake <= now) {
                return true;
            }
            if now.since(start) >= patience {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Polls for a moment if a message may come soon; true when there is a reason to stop waiting.
    fn linger(&mut self, wake: Option<Nanos>) -> bool {
        let Some(patience) = self.linger.patience() else {
            return false;
        };
        let found = self.spin(wake, patience);
        self.linger.learn(found);
        found
    }

    fn sleep(&mut self, wake: Option<Nanos>) {
        let timeout = wake.map(|wake| wake.since(clock()));
        if let Some(timeout) = timeout
            && timeout < SLEEP_MIN
        {
            self.spin(wake, timeout);
            return;
        }
        if !self.mailbox_watched {
            self.mailbox_watched = true;
            self.ring
                .watch_internal(self.mailbox.wake_fd(), WATCH_MAILBOX);
        }
        if self.mailbox.fall_asleep() {
            self.ring.wait(timeout);
            self.mailbox.wake_up();
        }
    }
}
