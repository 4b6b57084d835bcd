//! Intervals and verdicts.

use serde::{Deserialize, Serialize};

/// From `low` to `high`, both included. Either may be infinite; written as JSON that is `null`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    from = "(Option<f64>, Option<f64>)",
    into = "(Option<f64>, Option<f64>)"
)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The verdict of a figure on a bound that it should keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval of the figure lies within the bound.
    Pass,
    /// The interval contains an end of the bound: more runs may decide.
    Marginal,
    /// There is no figure: something that it needs is not modelled, or was not run.
    NotModelled,
    /// The whole interval lies outside.
    Miss,
}

impl Interval {
    /// From `low` to `high`.
    #[must_use]
    pub fn new(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    /// One number, known exactly.
    #[must_use]
    pub fn exact(value: f64) -> Interval {
        Interval::new(value, value)
    }

    /// `half_width` to both sides of `middle`.
    #[must_use]
    pub fn around(middle: f64, half_width: f64) -> Interval {
        Interval::new(middle - half_width, middle + half_width)
    }

    /// The part of the interval that lies within a range that no value can leave.
    #[must_use]
    pub fn within(self, range: Interval) -> Interval {
        Interval::new(self.low.max(range.low), self.high.min(range.high))
    }

    /// Whether it is a proper interval: its ends are in order and neither is NaN.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self.low <= self.high
    }

    /// Whether `value` lies in it.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of its length.
    #[must_use]
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The verdict of a figure with this interval on `bound`. An interval that is not ordered does not pass.
    #[must_use]
    pub fn judge(self, bound: Interval) -> Verdict {
        if bound.low <= self.low && self.high <= bound.high && self.is_ordered() {
            Verdict::Pass
        } else if self.high >= bound.low && self.low <= bound.high {
            Verdict::Marginal
        } else {
            Verdict::Miss
        }
    }
}

impl From<(Option<f64>, Option<f64>)> for Interval {
    fn from((low, high): (Option<f64>, Option<f64>)) -> Interval {
        Interval {
            low: low.unwrap_or(f64::NEG_INFINITY),
            high: high.unwrap_or(f64::INFINITY),
        }
    }
}

impl From<Interval> for (Option<f64>, Option<f64>) {
    fn from(interval: Interval) -> (Option<f64>, Option<f64>) {
        let finite = |end: f64| Some(end).filter(|end| end.is_finite());
        (finite(interval.low), finite(interval.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_straddles_a_bound_is_marginal() {
        let bound = Interval::new(2.9, 3.4);
        for (low, high, verdict) in [
            (2.9, 3.4, Verdict::Pass),
            (3.0, 3.0, Verdict::Pass),
            (2.8, 3.0, Verdict::Marginal),
            (3.3, 3.5, Verdict::Marginal),
            (2.0, 4.0, Verdict::Marginal),
            (2.0, 2.9, Verdict::Marginal),
            (2.0, 2.89, Verdict::Miss),
            (3.41, 9.0, Verdict::Miss),
        ] {
            assert_eq!(Interval::new(low, high).judge(bound), verdict);
        }
    }

    #[test]
    fn a_bound_may_be_open_above_and_what_is_not_a_number_never_passes() {
        let bound = Interval::new(1.02, f64::INFINITY);
        assert_eq!(Interval::exact(1e300).judge(bound), Verdict::Pass);
        assert_eq!(
            Interval::new(1.1, f64::INFINITY).judge(bound),
            Verdict::Pass
        );
        assert_eq!(Interval::exact(f64::NAN).judge(bound), Verdict::Miss);
    }
}
