//! Which of many differences to believe.
//!
//! Of a hundred comparisons of what is alike, five would be told as different at 5 % each. The procedure of Benjamini and Hochberg
//! (1995) takes as many as it can so that at most the given share of those that are told is expected to be chance.

/// Of each probability, whether its difference is told, if at most the share `rate` of all that are told may be chance.
#[must_use]
pub fn told(probabilities: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted = probabilities.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len() as f64;
    let ranked = sorted.iter().enumerate();
    let held = ranked.filter(|(at, p)| **p <= (*at + 1) as f64 / all * rate);
    let limit = held.map(|(_, p)| *p).fold(f64::NEG_INFINITY, f64::max);
    probabilities.iter().map(|p| *p <= limit).collect()
}

#[cfg(test)]
mod tests {
    use super::told;

    /// The example of the paper: 15 tests, of which the four least are told at 5 %.
    #[test]
    fn the_example_of_benjamini_and_hochberg_is_met() {
        let probabilities = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = told(&probabilities, 0.05);
        assert_eq!(found.iter().filter(|told| **told).count(), 4);
        assert!(found[..4].iter().all(|told| *told));
    }

    #[test]
    fn one_comparison_is_judged_by_itself_and_none_by_nothing() {
        assert_eq!(told(&[0.04], 0.05), [true]);
        assert_eq!(told(&[0.06], 0.05), [false]);
        assert_eq!(told(&[], 0.05), Vec::<bool>::new());
        // A later one that holds takes the earlier ones along.
        assert_eq!(told(&[0.04, 0.05], 0.05), [true, true]);
    }
}
