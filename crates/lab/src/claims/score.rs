//! Compares predictions with what was published: rows, facts, score.

use super::book::{Book, Claim, Kind, Mechanism, Use, frozen_hash};
use super::predictor::{Answers, Prediction, Samples};
use crate::schema::metric::Metric;
use crate::statistics::interval::{Interval, Verdict};
use crate::statistics::replications::estimate;
use repeatable::logarithm::natural_logarithm;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A C or V row with its result. The keys of its JSON are fixed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The row.
    pub id: String,
    /// C or V.
    #[serde(rename = "use")]
    pub usage: Use,
    /// The fact that it belongs to.
    pub fact: String,
    /// What was published; `null` as the upper end means no limit.
    pub interval: Interval,
    /// Mean over the runs; `null` if not modelled.
    pub predicted: Option<f64>,
    /// |ln(predicted / published)|; `null` if the publication gives no figure.
    pub error: Option<f64>,
    /// Whether the interval of the prediction lies within the published one.
    pub verdict: Verdict,
    /// The limit of the point that decides the value.
    pub limited_by: Option<String>,
    /// The part of a model that must produce the claim.
    pub mechanism: Option<Mechanism>,
    /// The publication that the row comes from.
    #[serde(skip)]
    pub seed: String,
    /// What kind of statement it is.
    #[serde(skip)]
    pub kind: Kind,
    /// Whether it is about throughput alone.
    #[serde(skip)]
    pub is_throughput: bool,
}

/// An F row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The row.
    pub id: String,
    /// The fact that it belongs to.
    pub fact: String,
    /// Pass or miss; not-modelled if the rule was not checked.
    pub verdict: Verdict,
}

/// Facts of one use, counted by the worst verdict among their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// All facts.
    pub facts: usize,
    /// All rows pass.
    pub passed: usize,
    /// Some row is marginal, the others pass.
    pub marginal: usize,
    /// Some row is not modelled, and none misses.
    pub not_modelled: usize,
    /// Some row misses.
    pub missed: usize,
    /// The facts that have not passed, with their verdict.
    pub failed: BTreeMap<String, Verdict>,
    /// Median of the errors of facts about throughput. The error of a fact is the greatest error of its rows.
    pub throughput_error_median: Option<f64>,
    /// 90th percentile of these errors.
    pub throughput_error_p90: Option<f64>,
}

/// The score by use. The uses are never added up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Residuals of rows that may be fitted to.
    #[serde(rename = "C")]
    pub fitted: Tally,
    /// The evidence.
    #[serde(rename = "V")]
    pub validation: Tally,
    /// Rules that must hold.
    #[serde(rename = "F")]
    pub rules: Tally,
}

/// The complete score of one set of predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scorecard {
    /// Version of the form.
    pub schema: u32,
    /// Which claims: the hash of their content.
    pub claims_sha256: String,
    /// C and V rows in the order of the files.
    pub rows: Vec<Row>,
    /// F rows.
    pub rules: Vec<Rule>,
    /// The score.
    pub totals: Totals,
}

/// Compares answers with what was published. `rules` contains, for each F row that was checked, whether it holds; the
/// other F rows count as not checked.
#[must_use]
pub fn score(book: &Book, answers: &Answers, rules: &BTreeMap<String, bool>) -> Scorecard {
    let rows: Vec<Row> = book
        .claims
        .iter()
        .map(|claim| row(claim, answers))
        .collect();
    let rules: Vec<Rule> = book
        .rules
        .iter()
        .map(|(id, fact)| Rule {
            id: id.clone(),
            fact: fact.clone(),
            verdict: match rules.get(id) {
                Some(true) => Verdict::Pass,
                Some(false) => Verdict::Miss,
                None => Verdict::NotModelled,
            },
        })
        .collect();
    let of_rules = rules
        .iter()
        .map(|rule| (rule.fact.as_str(), rule.verdict, None));
    let totals = Totals {
        fitted: tally(&rows, |row| row.usage == Use::C),
        validation: tally(&rows, |row| row.usage == Use::V),
        rules: count(of_rules),
    };
    Scorecard {
        schema: crate::schema::SCHEMA,
        claims_sha256: frozen_hash().to_string(),
        rows,
        rules,
        totals,
    }
}

impl Scorecard {
    /// As indented JSON that ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names are strings and figures are numbers") + "\n"
    }
}

/// What a predictor achieves beyond a plainer one on the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Beyond {
    /// V rows that the plainer predictor does not pass.
    pub not_passed_by_the_plainer: usize,
    /// Those of them that this predictor passes.
    pub passed: usize,
}

impl Beyond {
    /// From the V rows of two scorecards of the same book.
    #[must_use]
    pub fn of(own: &[Row], plainer: &[Row]) -> Beyond {
        let pairs = own.iter().zip(plainer);
        let harder =
            pairs.filter(|(own, plainer)| own.usage == Use::V && plainer.verdict != Verdict::Pass);
        let passes: Vec<bool> = harder
            .map(|(own, _)| own.verdict == Verdict::Pass)
            .collect();
        Beyond {
            not_passed_by_the_plainer: passes.len(),
            passed: passes.iter().filter(|passes| **passes).count(),
        }
    }
}

/// Counts the facts of the rows for which `keep` is true.
#[must_use]
pub fn tally(rows: &[Row], keep: impl Fn(&Row) -> bool) -> Tally {
    count(rows.iter().filter(|row| keep(row)).map(|row| {
        let error = row.error.filter(|_| row.is_throughput);
        (row.fact.as_str(), row.verdict, error)
    }))
}

/// Counts facts from the verdicts and errors of their rows.
fn count<'a>(rows: impl Iterator<Item = (&'a str, Verdict, Option<f64>)>) -> Tally {
    let mut facts = BTreeMap::<&str, (Verdict, Option<f64>)>::new();
    for (fact, verdict, error) in rows {
        let entry = facts.entry(fact).or_insert((Verdict::Pass, None));
        entry.0 = entry.0.max(verdict);
        entry.1 = match (entry.1, error) {
            (Some(one), Some(other)) => Some(f64::max(one, other)),
            (one, other) => one.or(other),
        };
    }
    let of = |wanted| {
        facts
            .values()
            .filter(|(verdict, _)| *verdict == wanted)
            .count()
    };
    let mut errors: Vec<f64> = facts.values().filter_map(|(_, error)| *error).collect();
    errors.sort_by(f64::total_cmp);
    // The least error at or below which this share of the facts lies.
    let at = |percent: usize| {
        let rank = (errors.len() * percent).div_ceil(100).max(1);
        errors.get(rank - 1).copied()
    };
    Tally {
        facts: facts.len(),
        passed: of(Verdict::Pass),
        marginal: of(Verdict::Marginal),
        not_modelled: of(Verdict::NotModelled),
        missed: of(Verdict::Miss),
        throughput_error_median: at(50),
        throughput_error_p90: at(90),
        failed: facts
            .iter()
            .filter(|(_, (verdict, _))| *verdict != Verdict::Pass)
            .map(|(fact, (verdict, _))| ((*fact).to_string(), *verdict))
            .collect(),
    }
}

/// One row with its result.
fn row(claim: &Claim, answers: &Answers) -> Row {
    let mut needed = BTreeMap::<String, BTreeSet<Metric>>::new();
    claim.value.figures(&mut needed);
    let predictions: BTreeMap<&str, &Prediction> = needed
        .keys()
        .filter_map(|point| {
            let answer = answers.get(&(claim.seed.clone(), point.clone()))?;
            Some((point.as_str(), answer.as_ref().ok()?))
        })
        .collect();
    let (predicted, verdict) = judge(claim, &predictions);
    let first_run = |point: &str, metric| figure(&predictions, point, metric, 0);
    let limited_by = predicted
        .and_then(|_| claim.value.deciding_point(&first_run))
        .and_then(|point| predictions[point].limited_by.clone());
    let is_throughput = needed
        .values()
        .flatten()
        .all(|metric| matches!(metric, Metric::Iops | Metric::BytesPerSecond));
    Row {
        id: claim.id.clone(),
        usage: claim.usage,
        fact: claim.fact.clone(),
        interval: claim.interval,
        predicted,
        error: predicted
            .zip(claim.nominal)
            .and_then(|(predicted, nominal)| {
                let error = natural_logarithm(predicted / nominal).abs();
                error.is_finite().then_some(error)
            }),
        verdict,
        limited_by,
        mechanism: claim.mechanism,
        seed: claim.seed.clone(),
        kind: claim.kind,
        is_throughput,
    }
}

/// The figure of one run.
fn figure(
    predictions: &BTreeMap<&str, &Prediction>,
    point: &str,
    metric: Metric,
    run: usize,
) -> Option<f64> {
    match predictions.get(point)?.metrics.get(&metric)? {
        Samples::Exact(value) => Some(*value),
        Samples::Runs(values) => values.get(run).copied(),
    }
}

/// The value of a claim, computed run by run with common random numbers, and the verdict of its interval.
///
/// With fewer than five runs the verdict is marginal.
fn judge(claim: &Claim, predictions: &BTreeMap<&str, &Prediction>) -> (Option<f64>, Verdict) {
    let value = |run: usize| {
        claim
            .value
            .evaluate(&|point, metric| figure(predictions, point, metric, run))
    };
    let Some(first) = value(0) else {
        return (None, Verdict::NotModelled);
    };
    let Some(runs) = runs(claim, predictions) else {
        return (Some(first), Interval::exact(first).judge(claim.interval));
    };
    let Some(values) = (0..runs).map(value).collect::<Option<Vec<f64>>>() else {
        return (None, Verdict::NotModelled);
    };
    match estimate(&values) {
        Some(estimate) => {
            // With few runs the interval may extend to values that no run can have: that part is cut off.
            let interval = estimate.interval.within(claim.value.range());
            (Some(estimate.mean), interval.judge(claim.interval))
        }
        None => {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (Some(mean), Verdict::Marginal)
        }
    }
}

/// Number of runs that all figures of a claim have; `None` if none of them is random.
fn runs(claim: &Claim, predictions: &BTreeMap<&str, &Prediction>) -> Option<usize> {
    let mut needed = BTreeMap::new();
    claim.value.figures(&mut needed);
    let of_figure =
        |point: &str, metric: &Metric| match predictions.get(point)?.metrics.get(metric)? {
            Samples::Exact(_) => None,
            Samples::Runs(values) => Some(values.len()),
        };
    let all = needed.iter().flat_map(|(point, metrics)| {
        metrics
            .iter()
            .filter_map(move |metric| of_figure(point, metric))
    });
    all.min()
}

#[cfg(test)]
mod tests;
