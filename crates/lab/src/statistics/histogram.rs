//! Latencies: counted in buckets and merged, to give percentiles.
//!
//! A run keeps one histogram per batch of samples, for two uses. Merged, they give percentiles. Separately, they show
//! how much the share of slow samples varies from batch to batch, and so how many independent samples the run is worth
//! at that percentile.

mod written;

use super::interval::Interval;
use super::order_statistics::{self, Ranks};
use super::replications::mean_and_variance;
use super::student;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use written::Written;

/// Decimal digits that buckets keep.
const DIGITS: u8 = 3;
/// Number of batches at which neighbours are joined, which leaves half as many.
const BATCHES_MAX: usize = 32;
/// Fewest whole batches that show how samples depend on each other.
const BATCHES_MIN: usize = 10;
/// Samples of a batch at the start.
const BATCH_LENGTH_MIN: u64 = 256;

/// Counted latencies, exact to three digits; count, mean, least and greatest are exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Latencies {
    buckets: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            buckets: Histogram::new(DIGITS).expect("the digits are constant and valid"),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Latencies {
    /// An empty histogram with memory for latencies like these.
    fn like(&self) -> Latencies {
        Latencies {
            buckets: Histogram::new_from(&self.buckets),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Counts one latency. A latency above 2^62 ns (146 years) counts as 2^62 ns.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Counts a latency `count` times, as [`Latencies::record`] does once.
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        let latency_ns = latency_ns.min(1 << 62);
        self.buckets
            .record_n(latency_ns, count)
            .expect("the histogram grows to any value below 2^63");
        self.sum_ns += u128::from(latency_ns) * u128::from(count);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Latencies) {
        self.buckets
            .add(&other.buckets)
            .expect("the histogram grows to any value below 2^63");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Exact mean in nanoseconds; `None` without any.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Exact sum in nanoseconds: what Little's law is checked with.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Exact least and greatest in nanoseconds; `None` without any.
    #[must_use]
    pub fn extremes_ns(&self) -> Option<(u64, u64)> {
        (self.count() > 0).then_some((self.min_ns, self.max_ns))
    }

    /// The sample with this `rank` (the least has rank 1), as the middle of its bucket; the least and the greatest
    /// sample are exact. `None` if there is no such sample.
    #[must_use]
    pub fn at_rank_ns(&self, rank: u64) -> Option<u64> {
        if rank == 0 || rank > self.count() {
            return None;
        }
        let mut passed = 0;
        for bucket in self.buckets.iter_recorded() {
            passed += bucket.count_since_last_iteration();
            if passed >= rank {
                let middle = self.buckets.median_equivalent(bucket.value_iterated_to());
                return Some(middle.clamp(self.min_ns, self.max_ns));
            }
        }
        None
    }

    /// Number of samples in the buckets up to and including that of `latency_ns`.
    #[must_use]
    pub fn count_up_to(&self, latency_ns: u64) -> u64 {
        self.buckets.count_between(0, latency_ns)
    }

    /// The rank of a quantile: that of the least sample at or below which this share of all samples lies.
    fn rank_of(&self, quantile: f64) -> u64 {
        ((self.count() as f64 * quantile).ceil() as u64).clamp(1, self.count().max(1))
    }
}

/// A percentile and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// The sample at the percentile, in nanoseconds.
    pub value_ns: f64,
    /// The 95 % confidence interval of the true percentile. It has no upper end if there are too few samples.
    pub interval_ns: Interval,
    /// Number of independent samples that would give the same certainty.
    pub effective_samples: f64,
    /// Whether at least ten effective samples lie beyond it.
    pub is_supported: bool,
}

impl Percentile {
    /// Its interval in microseconds.
    #[must_use]
    pub fn interval_us(&self) -> Interval {
        let Interval { low, high } = self.interval_ns;
        Interval::new(low / 1000.0, high / 1000.0)
    }
}

/// Latencies of one run in their order.
#[derive(Clone, Debug)]
pub struct BatchedLatencies {
    batch_length: u64,
    whole: Vec<Latencies>,
    open: Latencies,
}

impl Default for BatchedLatencies {
    fn default() -> BatchedLatencies {
        BatchedLatencies {
            batch_length: BATCH_LENGTH_MIN,
            whole: Vec::new(),
            open: Latencies::default(),
        }
    }
}

impl BatchedLatencies {
    /// Counts the run's next latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.open.record(latency_ns);
        if self.open.count() < self.batch_length {
            return;
        }
        let next = self.open.like();
        self.whole.push(std::mem::replace(&mut self.open, next));
        if self.whole.len() == BATCHES_MAX {
            let mut batches = std::mem::take(&mut self.whole).into_iter();
            while let (Some(mut first), Some(second)) = (batches.next(), batches.next()) {
                first.merge(&second);
                self.whole.push(first);
            }
            self.batch_length *= 2;
        }
    }

    /// Latencies that were counted apart in equal slices of a window. Slices without samples show nothing.
    #[must_use]
    pub fn of_slices(slices: Vec<Latencies>) -> BatchedLatencies {
        BatchedLatencies {
            whole: slices
                .into_iter()
                .filter(|slice| slice.count() > 0)
                .collect(),
            ..BatchedLatencies::default()
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Latencies> {
        self.whole.iter().chain([&self.open])
    }

    /// Exact mean in nanoseconds; `None` without samples.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        let count: u64 = self.parts().map(Latencies::count).sum();
        let sum_ns: u128 = self.parts().map(Latencies::sum_ns).sum();
        (count > 0).then(|| sum_ns as f64 / count as f64)
    }

    /// Exact greatest in nanoseconds; `None` without samples.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        let greatest = self.parts().filter_map(Latencies::extremes_ns);
        greatest.map(|(_, max_ns)| max_ns).max()
    }

    /// All batches merged.
    #[must_use]
    pub fn merged(&self) -> Latencies {
        JoinedLatencies::of([self]).all
    }

    /// See [`JoinedLatencies::percentile`].
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> Option<Percentile> {
        JoinedLatencies::of([self]).percentile(quantile)
    }
}

/// Latencies of several runs together. Percentiles are those of all samples, and the batches of all runs together show
/// how samples depend on each other.
#[derive(Debug)]
pub struct JoinedLatencies<'a> {
    batches: Vec<&'a Latencies>,
    all: Latencies,
}

impl<'a> JoinedLatencies<'a> {
    /// The latencies of these runs.
    #[must_use]
    pub fn of(runs: impl IntoIterator<Item = &'a BatchedLatencies>) -> JoinedLatencies<'a> {
        let (mut batches, mut all) = (Vec::new(), Latencies::default());
        for run in runs {
            batches.extend(&run.whole);
            run.parts().for_each(|part| all.merge(part));
        }
        JoinedLatencies { batches, all }
    }

    /// All samples together.
    #[must_use]
    pub fn into_all(self) -> Latencies {
        self.all
    }

    /// Latencies whose order is not known: nothing shows how they depend on each other.
    #[must_use]
    pub fn without_order(all: Latencies) -> JoinedLatencies<'a> {
        JoinedLatencies {
            batches: Vec::new(),
            all,
        }
    }

    /// The percentile at `quantile` (0.99 for p99) with its interval; `None` without samples.
    ///
    /// While there are too few batches to show how samples depend on each other, each [`BATCH_LENGTH_MIN`] samples
    /// count as one independent sample, which leaves the interval open.
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> Option<Percentile> {
        let all = &self.all;
        let value_ns = all.at_rank_ns(all.rank_of(quantile))?;
        let effective = self.effective_samples(all.count(), value_ns);
        let Ranks { low, high } = order_statistics::ranks(effective as u64, quantile);
        let scale = all.count() as f64 / (effective as u64).max(1) as f64;
        let at = |rank: f64| {
            let rank = (rank as u64).clamp(1, all.count());
            all.at_rank_ns(rank).map(|ns| ns as f64)
        };
        Some(Percentile {
            value_ns: value_ns as f64,
            interval_ns: Interval::new(
                low.and_then(|rank| at(((rank - 1) as f64 * scale).floor() + 1.0))
                    .unwrap_or(0.0),
                high.and_then(|rank| at((rank as f64 * scale).ceil()))
                    .unwrap_or(f64::INFINITY),
            ),
            effective_samples: effective,
            is_supported: order_statistics::is_supported(effective as u64, quantile),
        })
    }

    /// The number of samples, times the variance that the share of samples up to `value_ns` would have if they were
    /// independent, divided by the variance that it has. The result is reduced because few batches give an uncertain
    /// estimate.
    fn effective_samples(&self, count: u64, value_ns: u64) -> f64 {
        let unknown = (count / BATCH_LENGTH_MIN).max(1) as f64;
        if self.batches.len() < BATCHES_MIN {
            return unknown;
        }
        let shares: Vec<f64> = self
            .batches
            .iter()
            .map(|batch| batch.count_up_to(value_ns) as f64 / batch.count() as f64)
            .collect();
        let (share, of_batch) = mean_and_variance(&shares);
        let of_share = of_batch / shares.len() as f64;
        if of_share == 0.0 {
            return count as f64;
        }
        let unsure = student::NORMAL / student::quantile(shares.len() - 1);
        let effective = share * (1.0 - share) / of_share * unsure * unsure;
        effective.clamp(1.0, count as f64)
    }
}

#[cfg(test)]
mod tests;
