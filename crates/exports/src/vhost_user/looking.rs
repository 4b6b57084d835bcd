//! Whether a queue that has no chain is looked at again and again for a while, or its driver is asked to tell of the next.
//!
//! To tell, a guest leaves its virtual processor and a thread of the server is woken, which costs tens of microseconds on
//! many machines. A busy guest sends its next request within that time. So a queue is looked at for [`WINDOW`] if its last
//! requests came that soon after the queue had become empty; the thread does not sleep meanwhile. It costs nothing where
//! requests come later, and one window where they stop.
//!
//! Where the guest needs the processor on which the thread looks, each look is in vain. So the more looks were in vain, the
//! more requests have to come soon before the next one.

use engine::units::Nanos;

/// How long a queue is looked at: as long as a NAND drive's read takes, which is also the default of `--completion hybrid`.
/// QEMU's threads look for up to 32 us.
pub const WINDOW: Nanos = Nanos(50_000);
/// How many requests have to come soon before a queue is looked at: minimum and maximum.
const SOON_NEEDED_MIN: u16 = 2;
const SOON_NEEDED_MAX: u16 = 256;

/// Of one queue. See the module's documentation.
#[derive(Debug)]
pub struct Looking {
    /// When the queue was found empty first, since its last chain.
    empty_since: Option<Nanos>,
    /// How many chains in a row came soon after the queue was empty.
    soon: u16,
    /// How many have to, before the queue is looked at.
    soon_needed: u16,
    is_on: bool,
    /// Whether the last look has ended without a chain.
    is_vain: bool,
}

impl Looking {
    /// Of a new queue, of which nothing is known.
    pub fn new() -> Looking {
        Looking {
            empty_since: None,
            soon: 0,
            soon_needed: SOON_NEEDED_MIN,
            is_on: false,
            is_vain: false,
        }
    }

    /// The queue has a chain.
    #[inline]
    pub fn found(&mut self, now: Nanos) {
        let Some(since) = self.empty_since.take() else {
            return;
        };
        if std::mem::take(&mut self.is_on) {
            self.soon_needed = SOON_NEEDED_MIN;
        } else if std::mem::take(&mut self.is_vain) {
            self.soon_needed = (2 * self.soon_needed).min(SOON_NEEDED_MAX);
            self.soon = 0;
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
        let is_over = now.since(since) > WINDOW;
        self.is_vain |= self.is_on && is_over;
        self.is_on = self.soon >= self.soon_needed && !is_over;
        self.is_on
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
        looking.found(at(end_us));
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
            looking.found(at(now_us));
        }
        assert!(vain_us > 0, "it was tried");
        assert!(vain_us < 10_000 * 8 / 30, "looks in vain took {vain_us} us");
    }

    #[test]
    fn requests_that_come_together_say_nothing() {
        let mut looking = Looking::new();
        for _ in 0..10 {
            looking.found(at(0));
        }
        assert!(!looking.goes_on(at(1)));
    }
}
