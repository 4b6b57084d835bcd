//! The intended start times of an open loop's requests.
//!
//! The times are a function of rate and seed alone. There is no queue: the backlog is the distance between two places
//! in the same sequence, one for requests that have arrived and one for requests that have been issued. So memory stays
//! constant however far the target falls behind.

use super::Arrivals;
use repeatable::random::Stream;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a second.
const SECOND_NS: u128 = 1_000_000_000;
/// Binary places of the sums of gaps: rounding errors stay invisible for a century.
const FRACTION_BITS: u32 = 32;

/// Requests per second as a fraction, so that each thread's share of a rate is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests ...
    pub requests: u64,
    /// ... in so many seconds.
    pub seconds: u64,
}

impl Rate {
    /// Requests per second.
    #[must_use]
    pub fn iops(self) -> f64 {
        self.requests as f64 / self.seconds as f64
    }
}

/// Bursts of arrivals with pauses between them. The first burst begins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst, above 0.
    pub on_ns: u64,
    /// Length of a pause.
    pub off_ns: u64,
}

impl Bursts {
    /// From the beginning of a burst to that of the next.
    #[must_use]
    pub fn period_ns(self) -> u64 {
        self.on_ns + self.off_ns
    }

    /// When something happens that would happen at `busy_ns` without pauses.
    fn with_pauses_ns(self, busy_ns: u64) -> u64 {
        let pauses = busy_ns / self.on_ns;
        busy_ns.saturating_add(pauses.saturating_mul(self.off_ns))
    }

    /// What would have happened by this time without pauses has happened by `now_ns` with them, and nothing more.
    fn without_pauses_ns(self, now_ns: u64) -> u64 {
        let since_ns = now_ns % self.period_ns();
        now_ns / self.period_ns() * self.on_ns + since_ns.min(self.on_ns - 1)
    }
}

/// A place in a sequence of arrivals.
#[derive(Clone, Debug)]
struct Place {
    gaps: Stream,
    /// Arrivals before this one.
    index: u64,
    /// Sum of all gaps up to this arrival, in mean gaps, with [`FRACTION_BITS`] binary places.
    sum: u128,
}

/// Times of arrivals, in order.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    rate: Rate,
    /// Where the first paced arrival lies, as a fraction of a gap: `phase.0 / phase.1`.
    phase: (u64, u64),
    bursts: Option<Bursts>,
    next: Place,
    arriving: Place,
}

impl Schedule {
    /// Arrivals at `rate`. Paced arrivals begin at `phase.0 / phase.1` of a gap, so that threads that share a rate
    /// alternate; Poisson arrivals draw their gaps from `gaps`.
    #[must_use]
    pub fn new(arrivals: Arrivals, rate: Rate, phase: (u64, u64), gaps: Stream) -> Schedule {
        let mut first = Place {
            gaps,
            index: 0,
            sum: 0,
        };
        if arrivals == Arrivals::Poisson {
            first.sum = first.gap();
        }
        Schedule {
            arrivals,
            rate,
            phase,
            bursts: None,
            arriving: first.clone(),
            next: first,
        }
    }

    /// The same arrivals in bursts, at this rate while they last. Before the first call of any other method.
    #[must_use]
    pub fn in_bursts(self, bursts: Option<Bursts>) -> Schedule {
        Schedule { bursts, ..self }
    }

    /// The intended start of the next request that has not been taken.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        let busy_ns = self.at_ns(&self.next);
        self.bursts
            .map_or(busy_ns, |bursts| bursts.with_pauses_ns(busy_ns))
    }

    /// Takes the next request.
    pub fn take(&mut self) {
        self.next.advance(self.arrivals);
    }

    /// Number of requests whose intended start is at or before `now_ns` and that have not been taken. `now_ns` must not
    /// decrease.
    pub fn backlog(&mut self, now_ns: u64) -> u64 {
        let now_ns = self
            .bursts
            .map_or(now_ns, |bursts| bursts.without_pauses_ns(now_ns));
        if self.arriving.index < self.next.index {
            self.arriving = self.next.clone();
        }
        match self.arrivals {
            Arrivals::Paced => self.arriving.index = self.paced_until(now_ns).max(self.next.index),
            // Each gap has to be drawn, so the cost is proportional to the growth of the backlog.
            Arrivals::Poisson => {
                while self.at_ns(&self.arriving) <= now_ns {
                    self.arriving.advance(self.arrivals);
                }
            }
        }
        self.arriving.index - self.next.index
    }

    /// Number of paced arrivals up to `now_ns`, which is the smallest index whose time is later.
    fn paced_until(&self, now_ns: u64) -> u64 {
        let Rate { requests, seconds } = self.rate;
        let (part, of) = (u128::from(self.phase.0), u128::from(self.phase.1));
        let gaps = (u128::from(now_ns) + 1) * u128::from(requests) * of;
        // Counts the k with (k of + part) gap <= now, in whole nanoseconds rounded down.
        let last = (gaps - 1) / (SECOND_NS * u128::from(seconds));
        let arrived = last.checked_sub(part).map_or(0, |shares| shares / of + 1);
        u64::try_from(arrived).unwrap_or(u64::MAX)
    }

    /// When an arrival is, without pauses.
    fn at_ns(&self, place: &Place) -> u64 {
        let Rate { requests, seconds } = self.rate;
        let gap_ns = SECOND_NS * u128::from(seconds);
        let at_ns = match self.arrivals {
            Arrivals::Paced => {
                let (part, of) = (u128::from(self.phase.0), u128::from(self.phase.1));
                (u128::from(place.index) * of + part) * gap_ns / (u128::from(requests) * of)
            }
            Arrivals::Poisson => (place.sum * gap_ns / u128::from(requests)) >> FRACTION_BITS,
        };
        u64::try_from(at_ns).unwrap_or(u64::MAX)
    }
}

impl Place {
    fn advance(&mut self, arrivals: Arrivals) {
        self.index += 1;
        if arrivals == Arrivals::Poisson {
            self.sum += self.gap();
        }
    }

    fn gap(&mut self) -> u128 {
        // A draw is at most 37 mean gaps, so the product is exact enough and cannot overflow.
        (self.gaps.exponential() * (1u64 << FRACTION_BITS) as f64) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, requests: u64) -> Schedule {
        let rate = Rate {
            requests,
            seconds: 1,
        };
        Schedule::new(arrivals, rate, (0, 1), Stream::new(1, "arrivals", 0))
    }

    #[test]
    fn paced_arrivals_never_drift() {
        let mut paced = schedule(Arrivals::Paced, 640_000);
        let mut times = Vec::new();
        for _ in 0..4 {
            times.push(paced.next_ns());
            paced.take();
        }
        assert_eq!(times, [0, 1562, 3125, 4687]);
        (4..640_000).for_each(|_| paced.take());
        assert_eq!(paced.next_ns(), 1_000_000_000);
    }

    #[test]
    fn threads_that_share_a_rate_take_turns() {
        let rate = Rate {
            requests: 1000,
            seconds: 4,
        };
        let first_ns = |thread| {
            Schedule::new(Arrivals::Paced, rate, (thread, 4), Stream::new(1, "", 0)).next_ns()
        };
        assert_eq!(
            [0, 1, 2, 3].map(first_ns),
            [0, 1_000_000, 2_000_000, 3_000_000]
        );
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let mut poisson = schedule(Arrivals::Poisson, 1000);
        let mut counts = vec![0u64; 1000];
        while poisson.next_ns() < 1_000_000_000_000 {
            counts[(poisson.next_ns() / 1_000_000_000) as usize] += 1;
            poisson.take();
        }
        let mean = counts.iter().sum::<u64>() as f64 / 1000.0;
        let variance = counts
            .iter()
            .map(|count| (*count as f64 - mean).powi(2))
            .sum::<f64>()
            / 999.0;
        // The counts of a Poisson process have equal variance and mean.
        assert!((mean - 1000.0).abs() < 4.0, "{mean}");
        assert!(
            (variance / mean - 1.0).abs() < 0.15,
            "{variance} over {mean}"
        );
    }

    #[test]
    fn the_first_poisson_arrivals_are_fixed() {
        let mut poisson = schedule(Arrivals::Poisson, 1_000_000);
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(poisson.next_ns());
            poisson.take();
        }
        assert_eq!(times, FIRST_ARRIVALS_NS);
    }

    /// Computed outside of this program from the definition of the stream.
    const FIRST_ARRIVALS_NS: [u64; 5] = [461, 712, 2090, 2675, 2852];

    /// Bursts of 30 ms with pauses of 70 ms.
    const BURSTS: Bursts = Bursts {
        on_ns: 30_000_000,
        off_ns: 70_000_000,
    };

    #[test]
    fn bursts_have_the_rate_and_nothing_arrives_in_a_pause() {
        let mut paced = schedule(Arrivals::Paced, 100).in_bursts(Some(BURSTS));
        let mut times_ms = Vec::new();
        for _ in 0..7 {
            times_ms.push(paced.next_ns() / 1_000_000);
            paced.take();
        }
        assert_eq!(times_ms, [0, 10, 20, 100, 110, 120, 200]);
        let mut poisson = schedule(Arrivals::Poisson, 10_000).in_bursts(Some(BURSTS));
        let mut arrived = 0;
        while poisson.next_ns() < 100_000_000_000 {
            assert!(poisson.next_ns() % BURSTS.period_ns() < BURSTS.on_ns);
            poisson.take();
            arrived += 1;
        }
        // 30 % of a million, give or take five standard deviations.
        assert!((297_260..302_740).contains(&arrived), "{arrived}");
    }

    #[test]
    fn what_waits_is_counted_without_a_queue() {
        for arrivals in [Arrivals::Paced, Arrivals::Poisson] {
            for (bursts, now_ns) in [
                (None, 50_000_000),
                (Some(BURSTS), 29_999_999),
                (Some(BURSTS), 30_000_000),
                (Some(BURSTS), 99_999_999),
                (Some(BURSTS), 100_000_000),
                (Some(BURSTS), 512_345_678),
            ] {
                let mut schedule = schedule(arrivals, 1000).in_bursts(bursts);
                let mut reference = schedule.clone();
                let mut due = 0;
                while reference.next_ns() <= now_ns {
                    reference.take();
                    due += 1;
                }
                assert_eq!(schedule.backlog(now_ns), due, "{bursts:?} {now_ns}");
                (0..due).for_each(|_| schedule.take());
                assert_eq!(schedule.backlog(now_ns), 0);
                // A request taken before it is due does not make the backlog negative.
                schedule.take();
                assert_eq!(schedule.backlog(now_ns), 0);
            }
        }
    }
}
