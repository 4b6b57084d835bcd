//! Fresh runs with different seeds, and what follows from them together.

use super::interval::Interval;
use super::student;

/// Fewest runs from which anything is judged. Even with four degrees of freedom the interval is 40 % wider than with a
/// known variance; with fewer, its width is mostly chance.
pub const REPLICATIONS_MIN: usize = 5;

/// Seeds of `count` runs.
///
/// Every configuration runs with the same seeds, and so with the same arrivals and offsets. A difference or ratio taken
/// run by run is then due to the configurations (common random numbers).
pub fn seeds(first: u64, count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(move |run| first.wrapping_add(run))
}

/// The combined result of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean of the runs.
    pub mean: f64,
    /// The 95 % confidence interval of the mean of infinitely many runs.
    pub interval: Interval,
}

/// The mean of independent `runs` with its interval; `None` for fewer than [`REPLICATIONS_MIN`].
#[must_use]
pub fn estimate(runs: &[f64]) -> Option<Estimate> {
    (runs.len() >= REPLICATIONS_MIN).then(|| mean_with_interval(runs))
}

/// Mean and interval of at least two independent values that are about normally distributed.
pub(super) fn mean_with_interval(values: &[f64]) -> Estimate {
    let (mean, variance) = mean_and_variance(values);
    let half_width = student::quantile(values.len() - 1) * (variance / values.len() as f64).sqrt();
    Estimate {
        mean,
        interval: Interval::around(mean, half_width),
    }
}

/// Mean and variance, estimated from at least two values. The mean of equal values is exactly that value.
pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let first = values[0];
    let mean = first + values.iter().map(|value| value - first).sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (mean, squares / (count - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use repeatable::random::Stream;

    #[test]
    fn fewer_than_five_runs_say_nothing() {
        assert_eq!(estimate(&[1.0; 4]), None);
        let five = estimate(&[0.1; 5]).expect("enough runs");
        assert_eq!((five.mean, five.interval), (0.1, Interval::exact(0.1)));
    }

    #[test]
    fn the_interval_is_the_textbook_one() {
        // Mean 3, variance 2.5, so 2.776 x sqrt(2.5 / 5).
        let found = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("enough runs");
        assert_eq!(found.mean, 3.0);
        assert!((found.interval.half_width() - 1.963_24).abs() < 1e-4);
    }

    #[test]
    fn the_interval_holds_the_truth_in_95_of_100_cases() {
        let mut stream = Stream::new(3, "runs", 0);
        let held = (0..2000)
            .filter(|_| {
                // Sums of twelve shares less six are about normal, with mean 0 (and half a step of 2^-53).
                let runs: [f64; 5] =
                    std::array::from_fn(|_| (0..12).map(|_| stream.share()).sum::<f64>() - 6.0);
                estimate(&runs).expect("enough runs").interval.holds(0.0)
            })
            .count();
        assert!((1870..=1930).contains(&held), "{held} of 2000");
    }

    #[test]
    fn common_seeds_are_the_same_for_all() {
        assert!(seeds(7, 5).eq([7, 8, 9, 10, 11]));
    }
}
