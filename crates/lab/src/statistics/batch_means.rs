//! The mean of one run, with an interval that takes into account that successive samples depend on each other.
//!
//! The run is divided into equal batches. Means of long batches are almost independent, however much their samples
//! depend on each other, so their spread gives the interval. The length of a batch need not be known beforehand: when
//! there are [`BATCHES_MAX`], neighbouring batches are joined in pairs.

use super::replications::{Estimate, mean_and_variance, mean_with_interval};

/// Number of batches at which neighbours are joined, which leaves half as many.
const BATCHES_MAX: usize = 64;
/// Fewest whole batches that give an interval. With fewer, samples cannot be told apart from one long wave.
const BATCHES_MIN: usize = 10;

/// Samples of one run, in their order, as batch means.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    batch_length: u64,
    /// Sums of whole batches.
    sums: Vec<f64>,
    open_sum: f64,
    open_count: u64,
    count: u64,
    mean: f64,
    squares: f64,
}

impl Default for BatchMeans {
    fn default() -> BatchMeans {
        BatchMeans {
            batch_length: 1,
            sums: Vec::with_capacity(BATCHES_MAX),
            open_sum: 0.0,
            open_count: 0,
            count: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl BatchMeans {
    /// Adds the run's next sample.
    pub fn push(&mut self, sample: f64) {
        // Welford's method: it does not subtract large squares from each other.
        self.count += 1;
        let before = sample - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (sample - self.mean);

        self.open_sum += sample;
        self.open_count += 1;
        if self.open_count < self.batch_length {
            return;
        }
        self.sums.push(self.open_sum);
        self.open_sum = 0.0;
        self.open_count = 0;
        if self.sums.len() == BATCHES_MAX {
            for pair in 0..BATCHES_MAX / 2 {
                self.sums[pair] = self.sums[2 * pair] + self.sums[2 * pair + 1];
            }
            self.sums.truncate(BATCHES_MAX / 2);
            self.batch_length *= 2;
        }
    }

    /// Samples so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of all samples; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The mean of all whole batches with its interval; `None` while there are too few of them.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        (self.sums.len() >= BATCHES_MIN).then(|| mean_with_interval(&self.means()))
    }

    /// How many independent samples would give a mean that is as certain as this one; `None` while that is unknown.
    ///
    /// Variance of a sample over variance of the mean; at least 1, at most the number of samples.
    #[must_use]
    pub fn effective_samples(&self) -> Option<f64> {
        if self.sums.len() < BATCHES_MIN {
            return None;
        }
        let count = self.count as f64;
        let of_sample = self.squares / (count - 1.0);
        let (_, of_batch) = mean_and_variance(&self.means());
        let of_mean = of_batch / self.sums.len() as f64;
        if of_mean == 0.0 {
            return Some(count);
        }
        Some((of_sample / of_mean).clamp(1.0, count))
    }

    fn means(&self) -> Vec<f64> {
        let length = self.batch_length as f64;
        self.sums.iter().map(|sum| sum / length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::SingleServer;
    use super::*;
    use repeatable::random::Stream;

    #[test]
    fn few_samples_have_a_mean_and_no_interval() {
        let mut means = BatchMeans::default();
        (1..10).for_each(|sample| means.push(f64::from(sample)));
        assert_eq!((means.count(), means.mean()), (9, 5.0));
        assert_eq!(means.estimate(), None);
        means.push(10.0);
        assert!(means.estimate().is_some());
    }

    #[test]
    fn independent_samples_count_in_full() {
        let mut stream = Stream::new(5, "independent", 0);
        let mut means = BatchMeans::default();
        (0..100_000).for_each(|_| means.push(stream.share()));
        let effective = means.effective_samples().expect("enough batches");
        // A variance estimated from 32 to 63 batches is right within a factor of two, with a margin.
        assert!((50_000.0..=100_000.0).contains(&effective), "{effective}");
    }

    #[test]
    fn the_interval_of_a_queue_holds_the_closed_form() {
        // M/M/1 at half load: the mean time in the system is 1 / (2 - 1) = 1.
        let runs = 200;
        let held = (0..runs)
            .filter(|run| {
                let mut queue = SingleServer::new(*run, 0.5);
                let mut means = BatchMeans::default();
                (0..40_000).for_each(|_| means.push(queue.next_sojourn()));
                means.estimate().expect("enough").interval.holds(1.0)
            })
            .count();
        // 95 % of 200 are 190, with a standard deviation of 3.
        assert!((180..=199).contains(&held), "{held} of {runs}");
    }

    #[test]
    fn samples_of_a_busy_queue_count_little() {
        let mut queue = SingleServer::new(1, 0.8);
        let mut means = BatchMeans::default();
        (0..400_000).for_each(|_| means.push(queue.next_sojourn()));
        let effective = means.effective_samples().expect("enough");
        // Times in the system of M/M/1 are correlated. The sum of their autocorrelations is about
        // 2 rho (1 + ...) / (1 - rho)^2, so here about 90 samples count as one.
        let share = 400_000.0 / effective;
        assert!((30.0..=300.0).contains(&share), "{share}");
    }
}
