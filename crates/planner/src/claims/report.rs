//! The scorecard, with all that goes with it.

use super::orderings::Orderings;
use lab::claims::book::Book;
use lab::claims::predictor::Answers;
use lab::claims::score::{Beyond, Row, Scorecard, Totals};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scorecard, and the calculator's beside it.
#[derive(Serialize, Debug)]
pub struct Report {
    /// The models' scorecard.
    #[serde(flatten)]
    pub card: Scorecard,
    /// The same rows by a plain RAID calculator.
    pub calculator: Calculated,
    /// Orderings without the mechanism that each names, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orderings: Option<Orderings>,
    /// What breaks a rule, in words.
    pub broken_rules: Vec<String>,
    /// Points that could not be computed, by reason.
    pub not_modelled: BTreeMap<String, Vec<String>>,
    /// S rows, where they were asked for: what is known beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<BTreeMap<String, serde_json::Value>>,
    /// U rows, where they were asked for: why they are not scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<BTreeMap<String, String>>,
}

/// What the calculator says, and what the models add to it.
#[derive(Serialize, Debug)]
pub struct Calculated {
    /// Its rows.
    pub rows: Vec<Row>,
    /// Their sums.
    pub totals: Totals,
    /// V rows that it does not pass, and those of them that the models pass.
    pub beyond: Beyond,
}

impl Calculated {
    /// The calculator's scorecard beside the models'.
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
