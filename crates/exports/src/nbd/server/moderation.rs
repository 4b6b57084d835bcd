//! Decides when to receive a client's next requests: at once, or a little later so that one receive gets several.
//!
//! A client with many requests in flight sends them one by one. A server that is faster than its client would be woken
//! for each of them, and a wake-up costs more than serving a request. A client that has not yet read all of its replies
//! is busy and cannot be waiting for the server, so the server may rest. Meanwhile requests gather without waking
//! anybody, and their replies leave together. A client with one request in flight has always read its reply before it
//! sends the next request, so it never has to wait.
//!
//! The length of the rest adapts (a receive is called a look here). It grows while looks find few requests. It shrinks
//! when a look finds that the client has read everything, because then the client may have waited. If even the shortest
//! rest was too long, the next attempt is made later each time. A rest that the system has prolonged, because others
//! used the processor, is not counted.

use engine::units::Nanos;

/// The shortest rest. A timer itself costs a few microseconds.
const DELAY_US_MIN: u8 = 16;
/// The longest rest, which bounds what a wrong guess can cost a request.
const DELAY_US_MAX: u8 = 100;
/// This many requests in one look share the cost of the wake-up well enough.
const REQUESTS_ENOUGH: u32 = 12;
/// A look that is this late was held up by others. On virtual machines timers alone are sometimes late by a tenth of a
/// millisecond.
const LATE: Nanos = Nanos(200_000);
/// How many looks in a row must find the client busy before a rest is tried: minimum and maximum.
const BUSY_LOOKS_MIN: u16 = 8;
const BUSY_LOOKS_MAX: u16 = 256;

/// After this many looks in a row that find the client waiting, only one look in this many checks whether the client is
/// busy, because the check is a system call.
const IDLE_LOOKS: u16 = 8;

/// The state for one connection. See the module's documentation.
#[derive(Debug)]
pub(super) struct Moderation {
    delay_us: u8,
    /// When the present look is due, if it is delayed.
    due: Option<Nanos>,
    /// Looks in a row that found the client busy, without a rest before them.
    busy_looks: u16,
    busy_looks_needed: u16,
    /// Looks since the client was last found busy.
    idle_looks: u16,
}

impl Moderation {
    pub fn new() -> Moderation {
        Moderation {
            delay_us: 0,
            due: None,
            busy_looks: 0,
            busy_looks_needed: BUSY_LOOKS_MIN,
            idle_looks: 0,
        }
    }

    /// How long to rest before the next look; 0 for not at all. The last look found `requests`, at least one.
    /// `client_is_busy` checks whether the client has replies left to read.
    #[inline]
    pub fn next_delay_us(
        &mut self,
        requests: u32,
        client_is_busy: impl FnOnce() -> bool,
        mut clock: impl FnMut() -> Nanos,
    ) -> u8 {
        let was_due = self.due.take();
        let was_late = was_due.is_some_and(|due| clock() > due.after(LATE));
        self.idle_looks = self.idle_looks.wrapping_add(1);
        if self.idle_looks > IDLE_LOOKS && !self.idle_looks.is_multiple_of(IDLE_LOOKS) {
            return 0;
        }
        if !client_is_busy() {
            self.busy_looks = 0;
            if was_due.is_some() && !was_late {
                self.shorten();
            }
            return 0;
        }
        self.idle_looks = 0;
        if was_due.is_none() {
            self.consider(requests);
        } else if !was_late {
            self.busy_looks_needed = BUSY_LOOKS_MIN;
            self.adjust(requests);
        }
        if self.delay_us > 0 {
            self.due = Some(clock().after(Nanos(1000 * u64::from(self.delay_us))));
        }
        self.delay_us
    }

    /// Decides whether to rest, after a look without a rest that found the client busy.
    fn consider(&mut self, requests: u32) {
        if requests >= REQUESTS_ENOUGH {
            // Enough requests gather while the server works.
            self.delay_us = 0;
        } else if self.delay_us == 0 {
            self.busy_looks += 1;
            if self.busy_looks >= self.busy_looks_needed {
                self.busy_looks = 0;
                self.delay_us = DELAY_US_MIN;
            }
        }
    }

    /// Shortens the rest, which was longer than the client's work.
    fn shorten(&mut self) {
        self.delay_us /= 2;
        if self.delay_us < DELAY_US_MIN {
            self.delay_us = 0;
            self.busy_looks_needed = (2 * self.busy_looks_needed).min(BUSY_LOOKS_MAX);
        }
    }

    /// The rest was not too long: adjusts it so that a look finds just enough requests.
    fn adjust(&mut self, requests: u32) {
        let step = (self.delay_us / 8).max(1);
        self.delay_us = if requests < REQUESTS_ENOUGH {
            (self.delay_us + step).min(DELAY_US_MAX)
        } else {
            (self.delay_us - step).max(DELAY_US_MIN)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a client that needs `client_us` for each request and has `depth` in flight, and a server that takes no
    /// time. `late_us` pass between the end of a delay and the look. Returns the requests found per look, and by how
    /// many percent the run took longer than the client's own work.
    fn simulate(depth: u32, client_us: u32, late_us: u32) -> (f64, f64) {
        let mut moderation = Moderation::new();
        let (mut looks, mut requests, mut elapsed_us) = (0u32, 0u32, 0u32);
        // The client's pending work: replies to read, each of which is followed by a request.
        let mut work_us = depth * client_us;
        let mut delay_us = 0;
        while requests < 200_000 {
            // A server without a delay is woken by the next request.
            let until_look_us = match delay_us {
                0 => client_us,
                delay_us => (delay_us + late_us).max(client_us),
            };
            elapsed_us += until_look_us;
            let left_us = work_us.saturating_sub(until_look_us);
            let found = (work_us - left_us).div_ceil(client_us);
            let now = Nanos(1000 * u64::from(elapsed_us));
            delay_us = u32::from(moderation.next_delay_us(found, || left_us > 0, || now));
            work_us = left_us + found * client_us;
            looks += 1;
            requests += found;
        }
        let ideal_us = f64::from(requests * client_us);
        let longer = 100.0 * (f64::from(elapsed_us) / ideal_us - 1.0);
        (f64::from(requests) / f64::from(looks), longer)
    }

    /// The delays after `looks` that all found the same and came on time.
    fn delays(moderation: &mut Moderation, looks: usize, requests: u32, busy: bool) -> Vec<u8> {
        let look = |_| moderation.next_delay_us(requests, || busy, || Nanos(0));
        (0..looks).map(look).collect()
    }

    #[test]
    fn a_busy_client_is_looked_at_rarely_and_loses_nothing() {
        for (client_us, late_us) in [(7, 5), (5, 40), (3, 10)] {
            let (per_look, longer) = simulate(32, client_us, late_us);
            assert!(per_look > 6.0, "{client_us}: {per_look}");
            assert!(longer < 1.0, "{client_us}: {longer} %");
        }
    }

    #[test]
    fn a_client_with_few_requests_in_flight_hardly_waits() {
        for depth in [2, 3, 4, 8] {
            let (_, longer) = simulate(depth, 6, 40);
            assert!(longer < 5.0, "{depth}: {longer} %");
        }
    }

    #[test]
    fn a_client_that_reads_each_reply_first_never_waits() {
        let mut moderation = Moderation::new();
        assert_eq!(delays(&mut moderation, 1000, 1, false), [0; 1000]);
    }

    #[test]
    fn a_client_that_waits_is_asked_about_rarely_and_noticed_when_it_changes() {
        let mut moderation = Moderation::new();
        let mut asked = 0;
        for _ in 0..800 {
            let waits = || {
                asked += 1;
                false
            };
            moderation.next_delay_us(1, waits, || Nanos(0));
        }
        assert!((100..120).contains(&asked), "{asked}");
        let noticed = delays(&mut moderation, 20, 1, true);
        assert!(noticed.iter().any(|delay| *delay > 0), "{noticed:?}");
    }

    #[test]
    fn requests_that_gather_by_themselves_are_not_delayed() {
        let mut moderation = Moderation::new();
        let enough = REQUESTS_ENOUGH;
        assert_eq!(delays(&mut moderation, 1000, enough, true), [0; 1000]);
    }

    #[test]
    fn the_delay_stays_within_its_bounds() {
        let mut moderation = Moderation::new();
        let begin = usize::from(BUSY_LOOKS_MIN) - 1;
        let growing = delays(&mut moderation, 200, 1, true);
        assert!(growing[..begin].iter().all(|delay| *delay == 0));
        assert_eq!(growing[begin], DELAY_US_MIN);
        assert!(growing[begin..].is_sorted());
        assert_eq!(growing.last(), Some(&DELAY_US_MAX));
        let shrinking = delays(&mut moderation, 200, 1000, true);
        assert_eq!(shrinking.iter().min(), Some(&DELAY_US_MIN));
        assert_eq!(shrinking.last(), Some(&DELAY_US_MIN));
    }

    #[test]
    fn a_look_that_others_held_up_teaches_nothing() {
        let mut moderation = Moderation::new();
        delays(&mut moderation, 20, 1, true);
        let before = moderation.delay_us;
        let late = || Nanos(1_000_000_000);
        assert_eq!(moderation.next_delay_us(32, || false, late), 0);
        assert_eq!((moderation.delay_us, moderation.due), (before, None));
        assert_eq!(moderation.busy_looks_needed, BUSY_LOOKS_MIN);
        // A look that came on time changes the delay.
        delays(&mut moderation, 1, 1, true);
        assert_eq!(moderation.next_delay_us(32, || false, || Nanos(0)), 0);
        assert_eq!(moderation.delay_us, before / 2);
    }
}
