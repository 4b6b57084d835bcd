//! Whether rounds of a measurement have come to a steady state, by SNIA's rule for drives.
//!
//! A drive that is written changes for hours: its cache fills, its free blocks run out. SNIA's Solid State Storage Performance Test
//! Specification (PTS 2.0.2, "Steady State") calls five rounds in a row steady if two things hold of a figure in them: all values lie within 20 %
//! of their average, from least to greatest, and the line of best fit rises or falls by no more than 10 % of the average from the first
//! round to the last. One of the two alone is not enough: rounds may scatter around a level line, or climb slowly without scatter.

use serde::{Deserialize, Serialize};

/// Rounds that are judged together.
pub const ROUNDS: usize = 5;
/// Most that the values may lie apart, in percent of their average.
pub const RANGE_MAX_PERCENT: f64 = 20.0;
/// Most that the line may rise or fall, in percent of the average.
pub const SLOPE_MAX_PERCENT: f64 = 10.0;

/// The last rounds of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// The first of the rounds, counted from 1.
    pub first_round: usize,
    /// The last of them.
    pub last_round: usize,
    /// How far the values lie apart.
    pub range_percent: f64,
    /// How far the line of best fit rises, or falls if negative.
    pub slope_percent: f64,
    /// Whether both are within their limits.
    pub is_attained: bool,
}

/// Judges the last five of `rounds`; `None` if there are fewer, or if their average is not above 0.
#[must_use]
pub fn steady_state(rounds: &[f64]) -> Option<SteadyState> {
    let from = rounds.len().checked_sub(ROUNDS)?;
    let values = &rounds[from..];
    let average = values.iter().sum::<f64>() / ROUNDS as f64;
    if average.is_nan() || average <= 0.0 {
        return None;
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Least squares over the rounds -2, -1, 0, 1, 2.
    let middle = (ROUNDS / 2) as f64;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let round = at as f64 - middle;
        products += round * value;
        squares += round * round;
    }
    let rise = products / squares * (ROUNDS - 1) as f64;
    let range_percent = (greatest - least) / average * 100.0;
    let slope_percent = rise / average * 100.0;
    Some(SteadyState {
        first_round: from + 1,
        last_round: rounds.len(),
        range_percent,
        slope_percent,
        is_attained: range_percent <= RANGE_MAX_PERCENT && slope_percent.abs() <= SLOPE_MAX_PERCENT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[f64]) -> SteadyState {
        steady_state(rounds).expect("there are five")
    }

    #[test]
    fn both_rules_are_needed() {
        let level = of(&[100.0, 101.0, 99.0, 100.0, 100.0]);
        assert!(level.is_attained && level.range_percent == 2.0, "{level:?}");
        // Scatter around a level line.
        let scattered = of(&[100.0, 115.0, 90.0, 115.0, 100.0]);
        assert!(scattered.slope_percent.abs() < 1e-9, "{scattered:?}");
        assert!(!scattered.is_attained && scattered.range_percent > 20.0);
        // A slow fall without scatter: 12 % from the first round to the last.
        let falling = of(&[106.0, 103.0, 100.0, 97.0, 94.0]);
        assert!((falling.slope_percent + 12.0).abs() < 1e-9, "{falling:?}");
        assert!(!falling.is_attained && falling.range_percent < 20.0);
    }

    #[test]
    fn the_limits_themselves_are_allowed() {
        let at_limits = of(&[95.0, 97.5, 100.0, 102.5, 105.0]);
        assert_eq!(
            (at_limits.range_percent, at_limits.slope_percent),
            (10.0, 10.0)
        );
        assert!(at_limits.is_attained);
    }

    #[test]
    fn only_the_last_five_rounds_count() {
        let settled = of(&[500.0, 300.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!((settled.first_round, settled.last_round), (3, 7));
        assert!(settled.is_attained);
        assert_eq!(steady_state(&[100.0; 4]), None);
        assert_eq!(steady_state(&[0.0; 5]), None);
    }
}
