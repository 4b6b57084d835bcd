//! The scorecard as people and programs read it.

use super::orderings::Orderings;
use crate::commands::predict::number;
use crate::terminal::table::plain_table;
use lab::claims::book::{Book, Use};
use lab::claims::predictor::Answers;
use lab::claims::score::{Beyond, Row, Scorecard, Tally, Totals};
use lab::statistics::interval::{Interval, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scorecard, and the calculator's beside it.
#[derive(Serialize, Debug)]
pub(super) struct Report {
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
pub(super) struct Calculated {
    rows: Vec<Row>,
    totals: Totals,
    /// V rows that it does not pass, and those of them that the models pass.
    beyond: Beyond,
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
pub(super) fn not_modelled(answers: &Answers) -> BTreeMap<String, Vec<String>> {
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
pub(super) fn inputs(book: &Book) -> BTreeMap<String, serde_json::Value> {
    let rows = book.specifications();
    let shown = rows.map(|(id, inputs)| {
        let value = serde_json::to_value(inputs).unwrap_or_default();
        (id.to_owned(), value)
    });
    shown.collect()
}

/// U rows with their reasons.
pub(super) fn remarks(book: &Book) -> BTreeMap<String, String> {
    let rows = book.remarks();
    rows.map(|(id, reason)| (id.to_owned(), reason.to_owned()))
        .collect()
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Marginal => "marginal",
        Verdict::NotModelled => "not-modelled",
        Verdict::Miss => "MISS",
    }
}

fn interval(interval: Interval) -> String {
    if interval.high.is_finite() {
        return format!("{} to {}", number(interval.low), number(interval.high));
    }
    format!("from {}", number(interval.low))
}

impl Report {
    fn row(row: &Row, calculated: &Row) -> Vec<String> {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let error = row.error.map(|error| format!("{:.1} %", error * 100.0));
        vec![
            row.id.clone(),
            format!("{:?}", row.usage),
            interval(row.interval),
            shown(row.predicted),
            error.unwrap_or("-".to_owned()),
            verdict(row.verdict).to_owned(),
            format!(
                "{} {}",
                shown(calculated.predicted),
                verdict(calculated.verdict)
            ),
            row.limited_by.clone().unwrap_or("-".to_owned()),
        ]
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.card.rows.is_empty() {
            let head = "ROW,USE,PUBLISHED,PREDICTED,ERROR,VERDICT,CALCULATOR,LIMITED BY";
            let mut rows = vec![head.split(',').map(str::to_owned).collect()];
            let pairs = self.card.rows.iter().zip(&self.calculator.rows);
            rows.extend(pairs.map(|(row, calculated)| Report::row(row, calculated)));
            text += &plain_table(0, &rows);
            text += "\n";
        }
        if !self.not_modelled.is_empty() {
            text += "Not modelled:\n";
        }
        for (reason, points) in &self.not_modelled {
            text += &format!("  {} points: {reason}\n", points.len());
        }
        for broken in &self.broken_rules {
            text += &format!("{broken}\n");
        }
        for (id, reason) in self.remarks.iter().flatten() {
            text += &format!("{id}  {reason}\n");
        }
        if let Some(orderings) = &self.orderings {
            text += &orderings.text();
        }
        for (id, inputs) in self.inputs.iter().flatten() {
            text += &format!("{id}  {inputs}\n");
        }
        text + &self.totals()
    }

    /// A line per use; uses are never added.
    fn totals(&self) -> String {
        let (own, other) = (&self.card.totals, &self.calculator.totals);
        let lines = [
            (
                "V facts, the evidence",
                Use::V,
                &own.validation,
                &other.validation,
            ),
            (
                "C facts, may be fitted to",
                Use::C,
                &own.fitted,
                &other.fitted,
            ),
            ("F facts, rules", Use::F, &own.rules, &other.rules),
        ];
        let line = |(what, usage, own, other): (&str, Use, &Tally, &Tally)| {
            if own.facts == 0 {
                return String::new();
            }
            let mut line = format!(
                "{what}: {} of {} passed, {} marginal, {} missed, {} not modelled",
                own.passed, own.facts, own.marginal, own.missed, own.not_modelled
            );
            if usage != Use::F {
                line += &format!("; the calculator {}", other.passed);
            }
            if let (Some(median), Some(p90)) =
                (own.throughput_error_median, own.throughput_error_p90)
            {
                let (median, p90) = (median * 100.0, p90 * 100.0);
                line += &format!("; throughput off by {median:.1} % (median), {p90:.1} % (90 %)");
            }
            line + "\n"
        };
        let mut text: String = lines.into_iter().map(line).collect();
        let beyond = self.calculator.beyond;
        if beyond.not_passed_by_the_plainer > 0 {
            let Beyond {
                not_passed_by_the_plainer: harder,
                passed,
            } = beyond;
            text += &format!(
                "V rows that the calculator does not pass: {harder}; of these passed: {passed}\n"
            );
        }
        text
    }
}
