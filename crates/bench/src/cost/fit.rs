//! Finds prices from totals: by least squares of relative errors, with no price below zero.

/// Most sweeps over all prices; each reduces the sum of squares.
const SWEEPS_MAX: usize = 20_000;
/// If a sweep changes no price by more than this many instructions, it is the last.
const SETTLED: f64 = 1e-4;

/// One equation: how often each class occurred, and the instructions of all of it.
#[derive(Clone, Debug)]
pub(super) struct Equation {
    pub counts: Vec<f64>,
    pub total: f64,
}

impl Equation {
    /// The instructions according to these prices.
    pub fn predicted(&self, prices: &[f64]) -> f64 {
        let paid = self.counts.iter().zip(prices);
        paid.map(|(count, price)| count * price).sum()
    }

    /// The relative error of that, without its sign.
    pub fn relative_error(&self, prices: &[f64]) -> f64 {
        (self.predicted(prices) / self.total - 1.0).abs()
    }
}

/// The prices, one for each class, and the relative error of each equation.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub prices: Vec<f64>,
    pub errors: Vec<f64>,
}

/// The prices that fit all equations best.
///
/// Each price in turn is set to its best value while the others stay constant (coordinate descent). As this problem is
/// convex, that leads to the optimum. If classes only occur together, only their sum is known, and they share it.
pub(super) fn fit(equations: &[Equation], classes: usize) -> Fit {
    let mut prices = vec![0.0; classes];
    let scale = |equation: &Equation| -> Vec<f64> {
        let shares = equation.counts.iter().map(|count| count / equation.total);
        shares.collect()
    };
    let scaled: Vec<Vec<f64>> = equations.iter().map(scale).collect();
    let mut missing = vec![1.0; equations.len()];
    for _ in 0..SWEEPS_MAX {
        let mut moved: f64 = 0.0;
        for class in 0..classes {
            let squares: f64 = scaled.iter().map(|row| row[class] * row[class]).sum();
            if squares == 0.0 {
                continue;
            }
            let pulls = scaled.iter().zip(&missing);
            let pull: f64 = pulls.map(|(row, rest)| row[class] * rest).sum();
            let better = (prices[class] + pull / squares).max(0.0);
            let change = better - prices[class];
            prices[class] = better;
            moved = moved.max(change.abs());
            for (row, rest) in scaled.iter().zip(&mut missing) {
                *rest -= change * row[class];
            }
        }
        if moved < SETTLED {
            break;
        }
    }
    let errors = equations.iter();
    let errors = errors
        .map(|equation| equation.relative_error(&prices))
        .collect();
    Fit { prices, errors }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation(counts: [f64; 3], truth: [f64; 3]) -> Equation {
        let total = counts
            .iter()
            .zip(truth)
            .map(|(count, price)| count * price)
            .sum();
        Equation {
            counts: counts.to_vec(),
            total,
        }
    }

    #[test]
    fn known_prices_are_found_again() {
        let truth = [300.0, 40.0, 1000.0];
        let counts = [
            [1.0, 1.0, 0.0],
            [1.0, 4.0, 0.0],
            [2.0, 9.0, 1.0],
            [0.0, 3.0, 5.0],
        ];
        let equations: Vec<Equation> = counts.map(|counts| equation(counts, truth)).to_vec();
        let Fit { prices, errors } = fit(&equations, 3);
        for (price, true_price) in prices.iter().zip(truth) {
            assert!((price - true_price).abs() < 0.01, "{prices:?}");
        }
        assert!(errors.iter().all(|error| *error < 1e-4), "{errors:?}");
    }

    #[test]
    fn no_price_is_negative_and_the_error_is_told() {
        let equations = [([1.0, 0.0], 10.0), ([1.0, 1.0], 8.0)].map(|(counts, total)| Equation {
            counts: counts.to_vec(),
            total,
        });
        let Fit { prices, errors } = fit(&equations, 2);
        assert_eq!(prices[1], 0.0);
        assert!(prices[0] > 8.0 && prices[0] < 10.0, "{prices:?}");
        assert!(errors.iter().any(|error| *error > 0.09), "{errors:?}");
    }
}
