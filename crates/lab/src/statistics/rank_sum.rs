//! Whether one set of runs is higher than another, and how many times: by ranks, whatever the distribution.
//!
//! Runs of storage are few and skewed, so a t test would say more than it knows. The rank-sum test (Wilcoxon 1945; Mann and Whitney
//! 1947) asks in how many of all arrangements of the runs the first set would lie as high as it does. The ratio is that of Hodges
//! and Lehmann (1963): the median of all ratios of a run of the first set to one of the second. Its interval holds the ratios of
//! which the test would still accept that they are the true one. All arrangements are counted; no normal distribution stands for them.

use super::interval::Interval;

/// How many times higher a set of runs is than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of all pairwise ratios.
    pub value: f64,
    /// Its 95 % confidence interval; open if there are too few runs.
    pub interval: Interval,
    /// Its 90 % confidence interval, for two one-sided tests at 5 % each.
    pub narrow: Interval,
    /// The probability of ranks as uneven as these if both sets were alike, to either side.
    pub p: f64,
}

/// Most runs of a set: with more, the numbers of arrangements exceed what a float holds.
pub const RUNS_MAX: usize = 200;

/// Compares two sets of runs, of [`RUNS_MAX`] at most. `None` if one is empty, or a value is not above 0.
///
/// # Panics
///
/// If a set has more runs.
#[must_use]
pub fn ratio(first: &[f64], second: &[f64]) -> Option<Ratio> {
    let are_positive =
        |values: &[f64]| values.iter().all(|value| value.is_finite() && *value > 0.0);
    assert!(
        first.len().max(second.len()) <= RUNS_MAX,
        "the caller refuses more than {RUNS_MAX} runs"
    );
    if first.is_empty() || second.is_empty() || !are_positive(first) || !are_positive(second) {
        return None;
    }
    let pairs = first
        .iter()
        .flat_map(|one| second.iter().map(move |other| one / other));
    let mut ratios: Vec<f64> = pairs.collect();
    ratios.sort_by(f64::total_cmp);
    let counts = arrangements(first.len(), second.len());
    Some(Ratio {
        value: median(&ratios),
        interval: interval(&ratios, &counts, 0.025),
        narrow: interval(&ratios, &counts, 0.05),
        p: two_sided(first, second, &counts),
    })
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// In how many arrangements of `first` and `second` runs so many pairs have the higher one in the first set, by that number.
fn arrangements(first: usize, second: usize) -> Vec<f64> {
    let most = first * second;
    // Partitions of a number into at most `first` parts of at most `second`: the coefficients of the Gaussian binomial, which are
    // multiplied out factor by factor.
    let mut counts = vec![0.0; most + 1];
    counts[0] = 1.0;
    for part in 1..=first {
        for at in (second + part..=most).rev() {
            counts[at] -= counts[at - second - part];
        }
        for at in part..=most {
            counts[at] += counts[at - part];
        }
    }
    // The upper half is that of the lower one in reverse. As computed above, small counts at its end would be differences of large ones.
    for at in 0..counts.len() / 2 {
        counts[most - at] = counts[at];
    }
    counts
}

/// The ratios at the ranks that leave at most the share `tail` of all arrangements outside, on each side.
fn interval(sorted: &[f64], counts: &[f64], tail: f64) -> Interval {
    let all: f64 = counts.iter().sum();
    let (mut below, mut rank) = (0.0, 0);
    for count in counts {
        below += count;
        if below > tail * all {
            break;
        }
        rank += 1;
    }
    match rank {
        0 => Interval::new(0.0, f64::INFINITY),
        rank => Interval::new(sorted[rank - 1], sorted[sorted.len() - rank]),
    }
}

fn two_sided(first: &[f64], second: &[f64], counts: &[f64]) -> f64 {
    let pairs = first
        .iter()
        .flat_map(|one| second.iter().map(move |other| (one, other)));
    let higher: f64 = pairs
        .map(|(one, other)| match one.total_cmp(other) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        })
        .sum();
    let most = (counts.len() - 1) as f64;
    // Equal values count half; rounding towards the middle never makes a difference look surer.
    let extreme = higher.min(most - higher).ceil() as usize;
    let tail: f64 = counts[..=extreme.min(counts.len() - 1)].iter().sum();
    (2.0 * tail / counts.iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_counted_exactly() {
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(1, 3), [1.0; 4]);
        let five = arrangements(5, 5);
        assert_eq!(five[..6], [1.0, 1.0, 2.0, 3.0, 5.0, 7.0]);
        assert_eq!(five.iter().sum::<f64>(), 252.0);
        let most = arrangements(RUNS_MAX, RUNS_MAX);
        assert!(most.iter().all(|count| count.is_finite() && *count >= 1.0));
        // 40 choose 20.
        assert_eq!(arrangements(20, 20).iter().sum::<f64>(), 137_846_528_820.0);
    }

    #[test]
    fn a_set_that_is_wholly_higher_has_the_least_probability() {
        let higher = ratio(&[11.0, 12.0, 13.0, 14.0, 15.0], &[6.0, 7.0, 8.0, 9.0, 10.0])
            .expect("they are positive");
        assert!((higher.p - 2.0 / 252.0).abs() < 1e-12, "{higher:?}");
        let lower = ratio(&[6.0, 7.0, 8.0, 9.0, 10.0], &[11.0, 12.0, 13.0, 14.0, 15.0])
            .expect("they are positive");
        assert_eq!(lower.p, higher.p);
        assert!((lower.value * higher.value - 1.0).abs() < 1e-12);
    }

    /// Published tables: of five and five runs, the third least and third greatest of the 25 differences enclose 95 %.
    #[test]
    fn the_interval_has_the_ranks_of_published_tables() {
        let sorted: Vec<f64> = (1..=25).map(f64::from).collect();
        let counts = arrangements(5, 5);
        assert_eq!(interval(&sorted, &counts, 0.025), Interval::new(3.0, 23.0));
        assert_eq!(interval(&sorted, &counts, 0.05), Interval::new(5.0, 21.0));
        let few: Vec<f64> = (1..=9).map(f64::from).collect();
        let open = interval(&few, &arrangements(3, 3), 0.025);
        assert_eq!(
            open,
            Interval::new(0.0, f64::INFINITY),
            "three runs are too few"
        );
    }

    #[test]
    fn equal_runs_are_alike() {
        let same = ratio(&[5.0; 6], &[5.0; 6]).expect("they are positive");
        assert_eq!((same.value, same.p), (1.0, 1.0));
        assert_eq!(same.interval, Interval::exact(1.0));
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[0.0], &[1.0]), None);
    }

    /// Of many pairs of alike sets, the interval misses the true ratio of 1 in at most 5 %, and the test errs as rarely.
    #[test]
    fn intervals_and_tests_err_as_rarely_as_they_say() {
        let mut stream = repeatable::random::Stream::new(1, "runs", 0);
        let mut run = || -> Vec<f64> {
            (0..6)
                .map(|_| 1.0 + (stream.below(1000) as f64 / 100.0).powi(2))
                .collect()
        };
        let (mut missed, mut found) = (0, 0);
        let trials = 2000;
        for _ in 0..trials {
            let compared = ratio(&run(), &run()).expect("they are positive");
            let Interval { low, high } = compared.interval;
            missed += usize::from(low > 1.0 || high < 1.0);
            found += usize::from(compared.p <= 0.05);
        }
        assert!(
            missed * 20 <= trials && found * 20 <= trials,
            "{missed} and {found} of {trials}"
        );
        assert!(found * 60 > trials, "{found}: the test is not that careful");
    }
}
