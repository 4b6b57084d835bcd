//! Two sets of results of fio, point by point: how many times the figures of one are those of the other, and what to believe of it.
//!
//! A point of both sets is the same job with the same options; only where it ran may differ. The runs of both are compared by ranks
//! ([`crate::statistics::rank_sum`]). Over all comparisons together, at most 5 % of the differences that are told are expected to be
//! chance ([`crate::statistics::false_discovery`]). Two sets are called the same only if two one-sided tests say that the ratio lies
//! within a margin that the user states; everything else is undecided, which more runs may change.

use crate::fio::{Direction, FioPoint, RunFigures};
use crate::schema::metric::{Metric, Statistic};
use crate::statistics::false_discovery::told;
use crate::statistics::interval::Interval;
use crate::statistics::rank_sum::ratio;
use serde::Serialize;
use std::collections::BTreeMap;

/// The share of the differences that are told of which chance may be the reason.
const FALSE_SHARE: f64 = 0.05;
/// Options that say where a job ran, which is what is compared.
const PLACES: [&str; 3] = ["filename", "uri", "directory"];

/// What to believe of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is higher.
    Higher,
    /// The second is lower.
    Lower,
    /// They are the same within the margin.
    Same,
    /// Neither is shown.
    Undecided,
}

/// One figure of a point in both sets.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The job's name.
    pub job: String,
    /// What its requests do.
    pub direction: Direction,
    /// Its options, those of the first set.
    pub options: BTreeMap<String, String>,
    /// The figure.
    pub metric: Metric,
    /// Runs of the first set and of the second.
    pub runs: (usize, usize),
    /// How many times the figure of the first set the second has.
    pub ratio: f64,
    /// Its 95 % confidence interval.
    pub interval: Interval,
    /// The probability of ranks as uneven if both were alike.
    pub p: f64,
    /// What to believe.
    pub verdict: Verdict,
}

/// The comparisons of two sets, and the points that only one of them has.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Within which share two figures count as the same.
    pub margin: f64,
    /// Point by point, first the rate and then the mean latency of each.
    pub comparisons: Vec<Comparison>,
    /// Points without a partner: the job and what its requests do.
    pub alone: Vec<(String, Direction)>,
}

type Figure = (Metric, fn(&RunFigures) -> f64);

/// The figures that are compared: those that each run has.
const FIGURES: [Figure; 2] = [
    (Metric::Iops, |run| run.iops),
    (Metric::Latency(Statistic::Mean), |run| run.mean_us),
];

/// Compares two sets of points. Figures within `margin` of each other (0.02 for 2 %) may be called the same.
#[must_use]
pub fn compare(first: &[FioPoint], second: &[FioPoint], margin: f64) -> Compared {
    let mut judged: Vec<(Comparison, Interval)> = Vec::new();
    for point in first {
        let Some(at) = partner(point, first, second) else {
            continue;
        };
        let compared = FIGURES
            .iter()
            .filter_map(|figure| one(point, &second[at], figure));
        judged.extend(compared);
    }
    let probabilities: Vec<f64> = judged.iter().map(|(one, _)| one.p).collect();
    let differ = told(&probabilities, FALSE_SHARE);
    let comparisons = judged
        .into_iter()
        .zip(differ)
        .map(|((mut one, narrow), differs)| {
            one.verdict = verdict(&one, narrow, differs, margin);
            one
        });
    let alone = |from: &[FioPoint], in_other: &[FioPoint]| -> Vec<(String, Direction)> {
        let alone = from
            .iter()
            .filter(|point| partner(point, from, in_other).is_none());
        alone
            .map(|point| (point.job.clone(), point.direction))
            .collect()
    };
    Compared {
        margin,
        comparisons: comparisons.collect(),
        alone: [alone(first, second), alone(second, first)].concat(),
    }
}

/// The place of the point in `others` that `point`, one of `own`, is compared with: the same job in the same place. If there is none, and
/// the same job ran in one place only in either set, that one.
fn partner(point: &FioPoint, own: &[FioPoint], others: &[FioPoint]) -> Option<usize> {
    let places = |point: &FioPoint| PLACES.map(|name| point.options.get(name).cloned());
    let alike: Vec<usize> = (0..others.len())
        .filter(|&at| is_same(point, &others[at]))
        .collect();
    let in_same_place = alike
        .iter()
        .copied()
        .find(|&at| places(point) == places(&others[at]));
    let of_own = own.iter().filter(|other| is_same(point, other)).count();
    let alone = (alike.len() == 1 && of_own == 1).then(|| alike[0]);
    in_same_place.or(alone)
}

fn is_same(one: &FioPoint, other: &FioPoint) -> bool {
    let load = |point: &FioPoint| {
        let mut options = point.options.clone();
        options.retain(|name, _| !PLACES.contains(&name.as_str()));
        options
    };
    (&one.job, one.direction) == (&other.job, other.direction) && load(one) == load(other)
}

fn one(
    first: &FioPoint,
    second: &FioPoint,
    (metric, of): &Figure,
) -> Option<(Comparison, Interval)> {
    let values = |point: &FioPoint| -> Vec<f64> { point.runs.iter().map(of).collect() };
    let found = ratio(&values(second), &values(first))?;
    let comparison = Comparison {
        job: first.job.clone(),
        direction: first.direction,
        options: first.options.clone(),
        metric: *metric,
        runs: (first.runs.len(), second.runs.len()),
        ratio: found.value,
        interval: found.interval,
        p: found.p,
        verdict: Verdict::Undecided,
    };
    Some((comparison, found.narrow))
}

fn verdict(one: &Comparison, narrow: Interval, differs: bool, margin: f64) -> Verdict {
    let within = Interval::new(1.0 / (1.0 + margin), 1.0 + margin);
    // A difference may be certain and still be within the margin: then it does not matter.
    if narrow.low >= within.low && narrow.high <= within.high {
        return Verdict::Same;
    }
    match differs {
        true if one.ratio > 1.0 => Verdict::Higher,
        true if one.ratio < 1.0 => Verdict::Lower,
        _ => Verdict::Undecided,
    }
}
