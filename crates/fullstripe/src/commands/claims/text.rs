//! The scorecard for people.

use crate::terminal::table::plain_table;
use lab::claims::book::Use;
use lab::claims::score::{Beyond, Row, Tally};
use lab::statistics::interval::{Interval, Verdict};
use planner::claims::orderings::Orderings;
use planner::claims::report::ScoreReport;
use words::number;

fn verdict(verdict: Verdict) -> &'static str {
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

fn line_of(row: &Row, calculated: &Row) -> Vec<String> {
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

/// The whole scorecard.
pub fn text(report: &ScoreReport) -> String {
    let mut text = String::new();
    if !report.card.rows.is_empty() {
        let head = "ROW,USE,PUBLISHED,PREDICTED,ERROR,VERDICT,CALCULATOR,LIMITED BY";
        let mut rows = vec![head.split(',').map(str::to_owned).collect()];
        let pairs = report.card.rows.iter().zip(&report.calculator.rows);
        rows.extend(pairs.map(|(row, calculated)| line_of(row, calculated)));
        text += &plain_table(0, &rows);
        text += "\n";
    }
    if !report.not_modelled.is_empty() {
        text += "Not modelled:\n";
    }
    for (reason, points) in &report.not_modelled {
        text += &format!("  {} points: {reason}\n", points.len());
    }
    for broken in &report.broken_rules {
        text += &format!("{broken}\n");
    }
    for (id, reason) in report.remarks.iter().flatten() {
        text += &format!("{id}  {reason}\n");
    }
    if let Some(orderings) = &report.orderings {
        text += &orderings_text(orderings);
    }
    for (id, inputs) in report.inputs.iter().flatten() {
        text += &format!("{id}  {inputs}\n");
    }
    text + &totals(report)
}

/// A line for each use; figures of different uses are never added up.
fn totals(report: &ScoreReport) -> String {
    let (own, other) = (&report.card.totals, &report.calculator.totals);
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
        if let (Some(median), Some(p90)) = (own.throughput_error_median, own.throughput_error_p90) {
            let (median, p90) = (median * 100.0, p90 * 100.0);
            line += &format!("; throughput off by {median:.1} % (median), {p90:.1} % (90 %)");
        }
        line + "\n"
    };
    let mut text: String = lines.into_iter().map(line).collect();
    let beyond = report.calculator.beyond;
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

/// Orderings with and without their mechanisms.
fn orderings_text(orderings: &Orderings) -> String {
    let head = "ORDERING,MECHANISM,SWITCHED OFF,PREDICTED,WITHOUT,";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let shown = |value: Option<f64>, found| {
        format!(
            "{} {}",
            value.map_or("-".to_owned(), number),
            verdict(found)
        )
    };
    for one in &orderings.rows {
        let word = serde_json::to_value(one.mechanism).unwrap_or_default();
        rows.push(vec![
            one.id.clone(),
            word.as_str().unwrap_or("").to_owned(),
            one.switched_off.join(" + "),
            shown(one.predicted, one.verdict),
            shown(one.predicted_without, one.verdict_without),
            if one.is_trivial { "trivial" } else { "" }.to_owned(),
        ]);
    }
    let Orderings {
        trivial,
        non_trivial,
        hold,
        ..
    } = orderings;
    let count =
        format!("Orderings: {non_trivial} not trivial, of which {hold} hold; {trivial} trivial\n");
    plain_table(0, &rows) + &count
}
