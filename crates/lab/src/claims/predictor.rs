//! The interface of predictors, and their answers.

use super::book::{PointName, Questions};
use crate::schema::configuration::Configuration;
use crate::schema::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One figure of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Samples {
    /// Computed without random numbers.
    Exact(f64),
    /// One value per run; run n of every configuration has the same seed.
    Runs(Vec<f64>),
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Figures by name. A wanted figure that is missing is not modelled.
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

/// Answers questions. A predictor receives a configuration and the names of figures, and nothing else.
pub trait Predictor {
    /// Predicts the figures `wanted` of `configuration`. It may return more of them.
    ///
    /// # Errors
    ///
    /// If a part of the configuration is not modelled.
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

/// Asks every question. Points with the same configuration are predicted once, for all figures that any of them wants.
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
