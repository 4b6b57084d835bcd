//! Whether a queue that has no chain is looked at again and again for a while, or its driver is asked to tell of the next.
//!
//! To tell, a guest leaves its virtual processor and a thread of the server is woken, which costs tens of microseconds on
//! many machines. A busy guest sends its next request within that time. So a queue is looked at for [`WINDOW`] if its last
//! requests came that soon after the queue had become empty; the thread does not sleep meanwhile. It costs nothing where
//! requests come later, and one window where they stop.
//!
//! Where the guest needs the processor on which the thread looks, looks are in vain, or end only when the system takes the
//! processor away from the thread. The latter shows in the time between the last look and the chain, if the thread had no
//! other work meanwhile: then the look counts as one in vain. The more looks were in vain, the more requests have to come
//! soon before the next one.
//!
//! A chain that comes while the thread looks says more: the guest runs beside the thread. Such a guest is answered after a
//! few requests already ([`Looking::runs_beside`]), so that it goes on while the thread serves the next ones. With all
//! requests that it has sent in one turn, guest and thread would sleep in turns. A guest on the thread's own processor
//! would only be woken too soon.

use engine::units::Nanos;

/// How long a queue is looked at: as long as a NAND drive's read takes, which is also the default of `--completion hybrid`.
/// QEMU's threads look for up to 32 us.
pub const WINDOW: Nanos = Nanos(50_000);
/// The longest time between two looks of a thread that has neither lost its processor nor served other requests: such a turn
/// takes less than a microsecond, and a guest that gets the processor needs longer than this to send a request.
const TURN_MAX: Nanos = Nanos(3_000);
/// How many requests have to come soon before a queue is looked at: minimum and maximum.
const SOON_NEEDED_MIN: u16 = 2;
const SOON_NEEDED_MAX: u16 = 256;

/// Of one queue. See the module's documentation.
#[derive(Debug)]
pub struct Looking {
    /// When the queue was found empty first, since its last chain.
    empty_since: Option<Nanos>,
    /// When it was found empty last.
    empty_last: Nanos,
    /// How many chains in a row came soon after the queue was empty.
    soon: u16,
    /// How many have to, before the queue is looked at.
    soon_needed: u16,
    is_on: bool,
    /// Whether the last look has ended without a chain.
    is_vain: bool,
    /// Whether the last look has found a chain.
    runs_beside: bool,
}

impl Looking {
    /// Of a new queue, of which nothing is known.
    pub fn new() -> Looking {
        Looking {
            empty_since: None,
            empty_last: Nanos(0),
            soon: 0,
            soon_needed: SOON_NEEDED_MIN,
            is_on: false,
            is_vain: false,
            runs_beside: false,
        }
    }

    /// The queue has a chain. `was_busy` says that requests were served since it was found empty last.
    #[inline]
    pub fn found(&mut self, now: Nanos, was_busy: bool) {
        let Some(since) = self.empty_since.take() else {
            return;
        };
        let is_on = std::mem::take(&mut self.is_on);
        if is_on && now.since(self.empty_last) <= TURN_MAX {
            self.soon_needed = SOON_NEEDED_MIN;
            self.runs_beside = true;
            return;
        }
        if is_on && was_busy {
            // The thread needed the time itself: that says nothing about the guest.
            return;
        }
        self.is_vain |= is_on;
        if std::mem::take(&mut self.is_vain) {
            self.soon_needed = (2 * self.soon_needed).min(SOON_NEEDED_MAX);
            self.soon = 0;
            self.runs_beside = false;
        } else if now.since(since) <= WINDOW {
            self.soon = self.soon.saturating_add(1);
        } else {
            self.soon = 0;
        }
    }

    /// The queue has no chain: whether to look again, and not to ask the driver yet.
    #[inline]
    pub fn goes_on(&mut self, now: Nanos) -> bool {
        let since = *self.empty_since.get_or_insert(now);
        self.empty_last = now;
        let is_over = now.since(since) > WINDOW;
        self.is_vain |= self.is_on && is_over;
        self.is_on = self.soon >= self.soon_needed && !is_over;
        self.is_on
    }

    /// Whether the guest was seen to send a request while the thread was running.
    #[inline]
    #[must_use]
    pub fn runs_beside(&self) -> bool {
        self.runs_beside
    }

    /// What [`Looking::goes_on`] said last; false since the queue has had a chain.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Nanos {
        Nanos(1000 * us)
    }

    /// How long the queue is looked at when it becomes empty, and is then told of a request after `gap_us`.
    fn looked_us(looking: &mut Looking, now_us: &mut u64, gap_us: u64) -> u64 {
        let begun_us = *now_us;
        let end_us = begun_us + gap_us;
        while *now_us < end_us && looking.goes_on(at(*now_us)) {
            *now_us += 1;
        }
        let looked_us = *now_us - begun_us;
        *now_us = end_us;
        looking.found(at(end_us), false);
        looked_us
    }

    fn looked(gaps_us: &[u64]) -> Vec<u64> {
        let (mut looking, mut now_us) = (Looking::new(), 0);
        let mut one = |gap_us: &u64| looked_us(&mut looking, &mut now_us, *gap_us);
        gaps_us.iter().map(&mut one).collect()
    }

    #[test]
    fn a_queue_is_looked_at_while_its_requests_come_soon() {
        assert_eq!(looked(&[40, 40, 40, 30, 50]), [0, 0, 40, 30, 50]);
    }

    #[test]
    fn a_queue_that_becomes_idle_is_looked_at_in_vain_once() {
        let looked = looked(&[1, 1, 1, 1000, 1000, 1000, 60]);
        assert_eq!(looked, [0, 0, 1, 51, 0, 0, 0]);
    }

    #[test]
    fn looks_that_are_always_in_vain_become_rare() {
        // The guest runs only when the thread sleeps: its request comes 8 us after that.
        let (mut looking, mut now_us, mut vain_us) = (Looking::new(), 0, 0);
        for _ in 0..10_000 {
            let begun_us = now_us;
            while looking.goes_on(at(now_us)) {
                now_us += 1;
            }
            vain_us += now_us - begun_us;
            now_us += 8;
            looking.found(at(now_us), false);
        }
        assert!(vain_us > 0, "it was tried");
        assert!(vain_us < 10_000 * 8 / 30, "looks in vain took {vain_us} us");
    }

    /// The guest gets the processor only when the system takes it away from the thread, which happens after some looks.
    #[test]
    fn a_guest_that_needs_the_processor_is_rarely_looked_at() {
        let (mut looking, mut now_us, mut looks_us) = (Looking::new(), 0, 0);
        for _ in 0..10_000 {
            let begun_us = now_us;
            while now_us < begun_us + 9 && looking.goes_on(at(now_us)) {
                now_us += 1;
            }
            looks_us += now_us - begun_us;
            now_us += 8;
            looking.found(at(now_us), false);
            assert!(!looking.runs_beside());
        }
        assert!(looks_us > 0, "it was tried");
        assert!(looks_us < 10_000 / 20, "looks took {looks_us} us");
    }

    /// Other queues of the thread have requests, so its turns are long.
    #[test]
    fn a_thread_with_other_work_still_looks() {
        let (mut looking, mut now_us) = (Looking::new(), 0);
        for _ in 0..3 {
            looked_us(&mut looking, &mut now_us, 40);
        }
        assert!(looking.runs_beside());
        for _ in 0..100 {
            assert!(looking.goes_on(at(now_us)));
            now_us += 20;
            looking.found(at(now_us), true);
            assert!(looking.runs_beside());
        }
    }

    #[test]
    fn a_guest_that_runs_beside_the_thread_is_known_until_a_look_is_in_vain() {
        let (mut looking, mut now_us) = (Looking::new(), 0);
        let mut one = |gap_us: u64| {
            looked_us(&mut looking, &mut now_us, gap_us);
            looking.runs_beside()
        };
        assert_eq!([40, 40, 40].map(&mut one), [false, false, true]);
        // Chains that were there at once say nothing.
        assert_eq!([0, 0, 1000, 40].map(&mut one), [true, true, false, false]);
    }

    #[test]
    fn requests_that_come_together_say_nothing() {
        let mut looking = Looking::new();
        for _ in 0..10 {
            looking.found(at(0), false);
        }
        assert!(!looking.goes_on(at(1)));
    }
}
