//! The scorecard and everything that belongs to it.

use super::orderings::Orderings;
use lab::claims::book::Book;
use lab::claims::predictor::Answers;
use lab::claims::score::{Beyond, Row, Scorecard, Totals};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scorecard of the models, and the calculator's next to it.
#[derive(Serialize, Debug)]
pub struct ScoreReport {
    /// The models' scorecard.
    #[serde(flatten)]
    pub card: Scorecard,
    /// The same rows by a plain RAID calculator.
    pub calculator: Calculated,
    /// Orderings without the mechanism that each names, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orderings: Option<Orderings>,
    /// Broken rules, as sentences.
    pub broken_rules: Vec<String>,
    /// Points that could not be computed, by reason.
    pub not_modelled: BTreeMap<String, Vec<String>>,
    /// S rows, if asked for: specifications that are known beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<BTreeMap<String, serde_json::Value>>,
    /// U rows, if asked for: why they are not scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<BTreeMap<String, String>>,
}

/// The calculator's score, and what the models add to it.
#[derive(Serialize, Debug)]
pub struct Calculated {
    /// Its rows.
    pub rows: Vec<Row>,
    /// Their totals.
    pub totals: Totals,
    /// V rows that the calculator does not pass, and how many of them the models pass.
    pub beyond: Beyond,
}

impl Calculated {
    /// From the calculator's scorecard and the models' own.
    pub fn new(card: Scorecard, own: &Scorecard) -> Calculated {
        Calculated {
            beyond: Beyond::of(&own.rows, &card.rows),
            rows: card.rows,
            totals: card.totals,
        }
    }
}

/// Points that could not be computed, by reason.
pub fn not_modelled(answers: &Answers) -> BTreeMap<String, Vec<String>> {
    let mut reasons = BTreeMap::<String, Vec<String>>::new();
    for ((seed, point), answer) in answers {
        if let Err(missing) = answer {
            let points = reasons.entry(missing.reason.clone()).or_default();
            points.push(format!("{seed}.{point}"));
        }
    }
    reasons
}

/// S rows as JSON.
pub fn inputs(book: &Book) -> BTreeMap<String, serde_json::Value> {
    let rows = book.specifications();
    let shown = rows.map(|(id, inputs)| {
        let value = serde_json::to_value(inputs).unwrap_or_default();
        (id.to_owned(), value)
    });
    shown.collect()
}

/// U rows with their reasons.
pub fn remarks(book: &Book) -> BTreeMap<String, String> {
    let rows = book.remarks();
    rows.map(|(id, reason)| (id.to_owned(), reason.to_owned()))
        .collect()
}
