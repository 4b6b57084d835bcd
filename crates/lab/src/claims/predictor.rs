//! Who answers questions, and with what.

use super::book::{PointName, Questions};
use crate::schema::configuration::Configuration;
use crate::schema::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One figure of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Samples {
    /// Computed without chance.
    Exact(f64),
    /// One value per run; run n of every configuration has the same seed.
    Runs(Vec<f64>),
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Figures by name. One that is wanted and missing is not modelled.
    pub metrics: BTreeMap<Metric, Samples>,
    /// The resource that limits the point, if it is known.
    pub limited_by: Option<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotModelled {
    /// As a sentence: which profile or behaviour is missing.
    pub reason: String,
}

/// Answers questions. It sees a configuration and the names of figures, and nothing else.
pub trait Predictor {
    /// The figures `wanted` of `configuration`; more do no harm.
    ///
    /// # Errors
    ///
    /// When something of the configuration is not modelled.
    fn predict(
        &mut self,
        configuration: &Configuration,
        wanted: &BTreeSet<Metric>,
    ) -> Result<Prediction, NotModelled>;
}

impl<F> Predictor for F
where
    F: FnMut(&Configuration, &BTreeSet<Metric>) -> Result<Prediction, NotModelled>,
{
    fn predict(
        &mut self,
        configuration: &Configuration,
        wanted: &BTreeSet<Metric>,
    ) -> Result<Prediction, NotModelled> {
        self(configuration, wanted)
    }
}

/// Answers by point.
pub type Answers = BTreeMap<PointName, Result<Prediction, NotModelled>>;

/// Asks every question. Points with the same configuration are asked once, for all that any of them
/// wants.
pub fn answer_all(questions: &Questions, predictor: &mut impl Predictor) -> Answers {
    let mut wanted = BTreeMap::<&Configuration, BTreeSet<Metric>>::new();
    for question in questions.values() {
        wanted
            .entry(&question.configuration)
            .or_default()
            .extend(&question.wanted);
    }
    let answers: BTreeMap<_, _> = wanted
        .into_iter()
        .map(|(configuration, metrics)| (configuration, predictor.predict(configuration, &metrics)))
        .collect();
    questions
        .iter()
        .map(|(name, question)| (name.clone(), answers[&question.configuration].clone()))
        .collect()
}
