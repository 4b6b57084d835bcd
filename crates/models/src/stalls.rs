//! Rare long waits inside a drive: two exponential components, each with a rate per operation.
//!
//! Internal work of a drive (recovering a read, moving a map page, erasing) delays few commands, but for long.
//! Collisions on flash units alone would end far below the published 99.99th and 99.999th percentiles.

use repeatable::random::Stream;

/// A rate of 1 is this many of the 2^64 values of a draw.
const DRAWS: f64 = 18_446_744_073_709_551_616.0;

/// One component: how often and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Component {
    /// Probability per operation.
    pub rate: f64,
    /// Mean of an exponentially distributed time.
    pub mean_ns: u64,
}

/// Both components, for one kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct Stalls {
    short_below: u64,
    any_below: u64,
    short_mean_ns: u64,
    long_mean_ns: u64,
}

impl Stalls {
    /// Stalls with these two components. An operation meets at most one of them.
    #[must_use]
    pub fn new(short: Component, long: Component) -> Stalls {
        let short_below = (short.rate * DRAWS) as u64;
        Stalls {
            short_below,
            any_below: short_below.saturating_add((long.rate * DRAWS) as u64),
            short_mean_ns: short.mean_ns,
            long_mean_ns: long.mean_ns,
        }
    }

    /// How long the next operation is delayed: almost always 0.
    pub fn draw_ns(&self, stream: &mut Stream) -> u64 {
        let draw = stream.draw();
        if draw >= self.any_below {
            return 0;
        }
        let mean_ns = if draw < self.short_below {
            self.short_mean_ns
        } else {
            self.long_mean_ns
        };
        (stream.exponential() * mean_ns as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_strikes_at_its_rate_for_its_time() {
        let short = Component {
            rate: 0.01,
            mean_ns: 1_000,
        };
        let long = Component {
            rate: 0.001,
            mean_ns: 1_000_000,
        };
        let mut stream = Stream::new(3, "stalls", 0);
        let stalls = Stalls::new(short, long);
        let mut struck = 0;
        let mut sum_ns = 0;
        let count = 1_000_000;
        for _ in 0..count {
            let stall_ns = stalls.draw_ns(&mut stream);
            struck += u32::from(stall_ns > 0);
            sum_ns += stall_ns;
        }
        // Expected 11,000, standard deviation 104; a stall below one nanosecond counts as none.
        assert!((10_500..11_500).contains(&struck), "{struck}");
        // Expected 10 + 1000 ns an operation; the standard error is 45 ns.
        let mean_ns = sum_ns / count;
        assert!((830..1190).contains(&mean_ns), "{mean_ns}");
    }
}
