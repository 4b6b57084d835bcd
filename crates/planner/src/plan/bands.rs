//! Ranges of figures where a drive is known from its data sheet only.
//!
//! Such a drive is drawn several times from what is usual of its kind ([`catalogue::draw`]), and each point of a plan is run for each
//! draw. All points use the same draws and the same seeds. A range leaves out the least and the largest of the draws.

use crate::predict::CoresByBook;
use crate::predict::library::Library;
use crate::predict::many::Answered;
use crate::sizing::Sizing;
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use lab::schema::results::Value;
use lab::statistics::interval::Interval;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of a point in each draw, in the order of the draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// Figures by name. A figure that some draw does not have is missing.
    pub metrics: BTreeMap<Metric, Vec<f64>>,
    /// The range of each of these figures: without the least and the largest draw, widened to contain the usual drive's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bands: BTreeMap<Metric, Interval>,
    /// Busy cores; empty if no processors are modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoresByBook>,
    /// Bytes that a rebuild writes on each drive in a second; empty without a rebuild.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuild_bytes_per_s: Vec<f64>,
    /// What the array of each draw holds, costs, uses and risks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizing: Vec<Sizing>,
}

/// The configurations of all draws of a configuration; none if its drive is not drawn.
pub fn drawn(configuration: &Configuration, library: &Library) -> Vec<Configuration> {
    let draws = library.draws(&configuration.setup.drive).into_iter();
    let of_draw = |drive| {
        let mut drawn = configuration.clone();
        drawn.setup.drive = drive;
        drawn
    };
    draws.map(of_draw).collect()
}

impl Drawn {
    /// The figures of the draws of a configuration; `None` if its drive is not drawn.
    ///
    /// # Errors
    /// A draw has no answer: a note that says why.
    pub fn of(
        configuration: &Configuration,
        library: &Library,
        answered: &Answered,
    ) -> Result<Option<Drawn>, String> {
        let draws = drawn(configuration, library);
        let mut all = Drawn::default();
        for draw in &draws {
            let answer = answered.get(draw).ok_or("a draw was not run")?;
            let answer = answer
                .as_ref()
                .map_err(|missing| format!("not modelled: {}", missing.reason))?;
            for (metric, value) in &answer.summary {
                all.metrics.entry(*metric).or_default().push(value.value);
            }
            all.cores.extend(answer.cores);
            all.rebuild_bytes_per_s
                .extend(answer.rebuild.map(|rebuild| rebuild.bytes_per_s));
        }
        all.metrics.retain(|_, values| values.len() == draws.len());
        if let Some(Ok(usual)) = answered.get(configuration) {
            all = all.ranged(&usual.summary);
        }
        Ok((!draws.is_empty()).then_some(all))
    }

    /// The same with the range of each figure, which contains that of the `usual` drive.
    #[must_use]
    pub fn ranged(mut self, usual: &BTreeMap<Metric, Value>) -> Drawn {
        let both = self.metrics.iter().filter(|(_, draws)| !draws.is_empty());
        let both = both.filter_map(|(metric, draws)| Some((*metric, usual.get(metric)?, draws)));
        self.bands = both
            .map(|(metric, usual, draws)| (metric, band(usual.value, draws)))
            .collect();
        self
    }
}

/// The range of draws without the least and the largest of them, widened to contain the figure of the usual drive.
///
/// # Panics
/// If there are fewer than three draws.
pub fn band(usual: f64, draws: &[f64]) -> Interval {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    assert!(
        sorted.len() >= 3,
        "{} draws are too few for a range",
        sorted.len()
    );
    let outermost = sorted.len() - 1;
    Interval::new(usual.min(sorted[1]), usual.max(sorted[outermost - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_leaves_out_the_outermost_draws_and_contains_the_usual_drive() {
        let draws = [5.0, 1.0, 9.0, 3.0, 4.0];
        assert_eq!(band(4.0, &draws), Interval::new(3.0, 5.0));
        assert_eq!(band(7.0, &draws), Interval::new(3.0, 7.0));
        assert_eq!(band(2.0, &[1.0, 3.0, 9.0]), Interval::new(2.0, 3.0));
    }
}
