//! Which two samples enclose a percentile, whatever the distribution.
//!
//! Of n independent samples, the number at or below the true quantile has a binomial distribution. So the ranks between
//! which the quantile lies with 95 % confidence follow from n and the quantile alone. Far in the tail there may be no
//! sample that is high enough: then the interval has no upper end, because there are too few samples for this
//! percentile.

/// Probability that the quantile lies outside the interval, on each side.
const TAIL: f64 = 0.025;
/// Probability, relative to the largest one, below which the sums end.
const NEGLIGIBLE: f64 = 1e-20;
/// Samples that must lie beyond a percentile before it is worth printing.
pub const BEYOND_MIN: f64 = 10.0;

/// Ranks (the smallest sample has rank 1) that enclose a quantile with at least 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The largest rank that is low enough; `None` if even the smallest sample is too high.
    pub low: Option<u64>,
    /// The smallest rank that is high enough; `None` if even the largest sample is too low.
    pub high: Option<u64>,
}

/// The ranks for the `quantile` (above 0, below 1) of `count` independent samples.
///
/// # Panics
///
/// If `quantile` is not between 0 and 1.
#[must_use]
pub fn ranks(count: u64, quantile: f64) -> Ranks {
    assert!(
        quantile > 0.0 && quantile < 1.0,
        "not a quantile: {quantile}"
    );
    let odds = quantile / (1.0 - quantile);
    // Begins with the most probable number and proceeds outwards by the ratio of neighbours: no powers are needed, only
    // negligible terms underflow, and the work is proportional to the standard deviation.
    let mode = (((count as f64) + 1.0) * quantile) as u64;
    let mode = mode.min(count);
    let above = weights(mode..count, |at| {
        (count - at) as f64 / (at + 1) as f64 * odds
    });
    let below = weights((0..mode).rev(), |at| {
        (at + 1) as f64 / (count - at) as f64 / odds
    });
    let total = 1.0 + above.iter().sum::<f64>() + below.iter().sum::<f64>();
    Ranks {
        low: low_rank(mode, &below, total),
        high: high_rank(mode, &above, total).filter(|rank| *rank <= count),
    }
}

/// Probabilities relative to that of the mode, from its neighbour outwards. `ratio` receives the lower one of two
/// neighbouring numbers and returns the probability of the outer one relative to the inner one.
fn weights(lower: impl Iterator<Item = u64>, ratio: impl Fn(u64) -> f64) -> Vec<f64> {
    let mut weight = 1.0;
    let mut all = Vec::new();
    for at in lower {
        weight *= ratio(at);
        if weight < NEGLIGIBLE {
            break;
        }
        all.push(weight);
    }
    all
}

/// The largest l with P(fewer than l lie below) at most [`TAIL`].
fn low_rank(mode: u64, below: &[f64], total: f64) -> Option<u64> {
    let mut sum = 0.0;
    // below[i] belongs to the number mode - 1 - i.
    for (index, weight) in below.iter().enumerate().rev() {
        sum += weight;
        if sum > TAIL * total {
            return Some(mode - 1 - index as u64).filter(|rank| *rank > 0);
        }
    }
    Some(mode).filter(|rank| *rank > 0)
}

/// The smallest u with P(at least u lie below) at most [`TAIL`].
fn high_rank(mode: u64, above: &[f64], total: f64) -> Option<u64> {
    let mut sum = 0.0;
    // above[i] belongs to the number mode + 1 + i.
    for (index, weight) in above.iter().enumerate().rev() {
        sum += weight;
        if sum > TAIL * total {
            return Some(mode + 2 + index as u64);
        }
    }
    Some(mode + 1)
}

/// Whether enough samples lie beyond the quantile for its value to mean something.
#[must_use]
pub fn is_supported(count: u64, quantile: f64) -> bool {
    // 1 - 0.99999 is not exactly 0.00001.
    count as f64 * (1.0 - quantile) >= BEYOND_MIN * (1.0 - 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use repeatable::random::Stream;

    fn pair(count: u64, quantile: f64) -> (Option<u64>, Option<u64>) {
        let ranks = ranks(count, quantile);
        (ranks.low, ranks.high)
    }

    #[test]
    fn the_ranks_of_medians_are_those_of_the_tables() {
        // Binomial tables: P(B(10, 1/2) <= 1) = 0.0107 and <= 2 is 0.0547; P(B(5, 1/2) = 0) =
        // 0.031.
        assert_eq!(pair(10, 0.5), (Some(2), Some(9)));
        assert_eq!(pair(100, 0.5), (Some(40), Some(61)));
        assert_eq!(pair(6, 0.5), (Some(1), Some(6)));
        assert_eq!(pair(5, 0.5), (None, None));
    }

    #[test]
    fn too_few_samples_leave_the_tail_open() {
        // 0.99^n <= 0.025 from n = 368 on.
        assert_eq!(pair(367, 0.99).1, None);
        assert_eq!(pair(368, 0.99).1, Some(368));
        assert!(!is_supported(999, 0.99));
        assert!(is_supported(1000, 0.99));
        assert!(is_supported(1_000_000, 0.99999));
    }

    #[test]
    fn the_extremes_work() {
        assert_eq!(pair(0, 0.5), (None, None));
        assert_eq!(pair(1, 0.5), (None, None));
        let ranks = ranks(1_000_000_000, 0.5);
        // 1.959964 standard deviations of 15 811.39 are 30 989.75; half a rank is the continuity correction.
        assert_eq!(ranks.low, Some(499_969_010));
        assert_eq!(ranks.high, Some(500_030_991));
    }

    #[test]
    fn the_interval_holds_the_truth_in_at_least_95_of_100_cases() {
        for (count, quantile) in [(50, 0.5), (1000, 0.99), (400, 0.9)] {
            let ranks = ranks(count, quantile);
            let (low, high) = (ranks.low.expect("enough"), ranks.high.expect("enough"));
            let held = (0..1000)
                .filter(|run| {
                    let mut stream = Stream::new(*run, "shares", count);
                    let mut samples: Vec<f64> = (0..count).map(|_| stream.share()).collect();
                    samples.sort_by(f64::total_cmp);
                    let at = |rank: u64| samples[rank as usize - 1];
                    at(low) <= quantile && quantile <= at(high)
                })
                .count();
            assert!((940..=990).contains(&held), "{count} at {quantile}: {held}");
        }
    }
}
