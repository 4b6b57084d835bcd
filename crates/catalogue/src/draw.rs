//! Draws from the priors: which value of its range each prior takes in which draw.
//!
//! All drives and all plans use the same draws (common random numbers). Two setups of a plan therefore see the same drives, and
//! are compared draw by draw.
//!
//! Each prior takes each of [`DRAWS`] equal parts of its range once (a Latin hypercube), in an order of its own.

use repeatable::random::Stream;

/// How many drives are drawn from a data sheet.
pub const DRAWS: u32 = 20;

/// A drive that a data sheet may describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Every prior has its usual value.
    Usual,
    /// One of the draws, from 0 below [`DRAWS`].
    Number(u32),
}

impl Draw {
    /// The share of drives that have less of `key`.
    ///
    /// # Panics
    /// If there is no draw of this number.
    #[must_use]
    pub fn share(self, key: &str) -> f64 {
        let Draw::Number(number) = self else {
            return 0.5;
        };
        assert!(number < DRAWS, "draw {number} of {DRAWS}");
        let mut order: Vec<(u64, u32)> = (0..DRAWS)
            .map(|part| (Stream::new(0, key, u64::from(part)).draw(), part))
            .collect();
        order.sort_unstable();
        let (_, part) = order[number as usize];
        (f64::from(part) + 0.5) / f64::from(DRAWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_takes_every_part_of_its_range_once_in_an_order_of_its_own() {
        let shares = |key: &str| -> Vec<f64> {
            let draws = (0..DRAWS).map(Draw::Number);
            draws.map(|draw| draw.share(key)).collect()
        };
        let (one, other) = (shares("read_us"), shares("write_us"));
        assert_ne!(one, other);
        let mut sorted = one.clone();
        sorted.sort_by(f64::total_cmp);
        let parts: Vec<f64> = (0..DRAWS)
            .map(|part| (f64::from(part) + 0.5) / 20.0)
            .collect();
        assert_eq!(sorted, parts);
        assert_eq!(Draw::Usual.share("read_us"), 0.5);
    }
}
