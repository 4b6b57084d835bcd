//! Two sets of results, point by point: how many times the figures of one are those of the other, and what to believe of it.
//!
//! A point of both sets is the same load, or the same job of fio with the same options; only where it ran may differ. The runs of
//! both are compared by ranks ([`crate::statistics::rank_sum`]). Over all comparisons together, at most 5 % of the differences that are told are expected to be
//! chance ([`crate::statistics::false_discovery`]). Two sets are called the same only if two one-sided tests say that the ratio lies
//! within a margin that the user states; everything else is undecided, which more runs may change.
//!
//! `comparable` makes such points of results of this program and of fio.

mod comparable;

pub use comparable::{Comparable, What, joined, of_fio, of_results, requests};

use crate::schema::metric::{Metric, Statistic};
use crate::statistics::false_discovery::told;
use crate::statistics::interval::Interval;
use crate::statistics::rank_sum::ratio;
use serde::Serialize;

/// The share of the differences that are told of which chance may be the reason.
const FALSE_SHARE: f64 = 0.05;
/// The figures that are compared, of those that each run has.
const FIGURES: [Metric; 5] = [
    Metric::Iops,
    Metric::Latency(Statistic::Mean),
    Metric::Latency(Statistic::P99),
    Metric::Response(Statistic::Mean),
    Metric::Response(Statistic::P99),
];

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
    /// What was run, as in the first set.
    #[serde(flatten)]
    pub point: What,
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
    /// Point by point: rate, means and 99th percentiles of latencies of each, as far as each of its runs has them.
    pub comparisons: Vec<Comparison>,
    /// Points without a partner.
    pub alone: Vec<What>,
    /// Loads without valid figures in one of the sets; they are not compared.
    pub invalid: Vec<Invalid>,
}

/// A point without valid figures.
#[derive(Clone, Debug, Serialize)]
pub struct Invalid {
    /// What was run.
    #[serde(flatten)]
    pub point: What,
    /// Whether it is in the first set; otherwise it is in the second.
    pub is_first: bool,
    /// Why.
    pub reason: String,
}

/// Compares two sets of points. Figures within `margin` of each other (0.02 for 2 %) may be called the same.
#[must_use]
pub fn compare(first: &[Comparable], second: &[Comparable], margin: f64) -> Compared {
    let mut judged: Vec<(Comparison, Interval)> = Vec::new();
    for point in first {
        let Some(at) = partner(point, first, second) else {
            continue;
        };
        let compared = FIGURES
            .iter()
            .filter_map(|metric| one(point, &second[at], *metric));
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
    let is_invalid = |point: &Comparable| {
        let mut all = first.iter().chain(second);
        all.any(|other| other.invalid.is_some() && other.what.is_of_same_load(&point.what))
    };
    let alone = |from: &[Comparable], in_other: &[Comparable]| -> Vec<What> {
        let alone = from
            .iter()
            .filter(|point| partner(point, from, in_other).is_none() && !is_invalid(point));
        alone.map(|point| point.what.clone()).collect()
    };
    Compared {
        margin,
        comparisons: comparisons.collect(),
        alone: [alone(first, second), alone(second, first)].concat(),
        invalid: [invalid(first, true), invalid(second, false)].concat(),
    }
}

fn invalid(points: &[Comparable], is_first: bool) -> Vec<Invalid> {
    let invalid = |point: &Comparable| {
        Some(Invalid {
            point: point.what.clone(),
            is_first,
            reason: point.invalid.clone()?,
        })
    };
    let whole = points.iter().filter(|point| !point.is_part);
    whole.filter_map(invalid).collect()
}

/// The place of the point in `others` that `point`, one of `own`, is compared with: the same load in the same place. If there is none, and
/// the same load ran in one place only in either set, that one.
fn partner(point: &Comparable, own: &[Comparable], others: &[Comparable]) -> Option<usize> {
    let alike: Vec<usize> = (0..others.len())
        .filter(|&at| point.what == others[at].what)
        .collect();
    let in_same_place = alike
        .iter()
        .copied()
        .find(|&at| point.places == others[at].places);
    let of_own = own.iter().filter(|other| point.what == other.what).count();
    let alone = (alike.len() == 1 && of_own == 1).then(|| alike[0]);
    in_same_place.or(alone)
}

fn one(first: &Comparable, second: &Comparable, metric: Metric) -> Option<(Comparison, Interval)> {
    if first.invalid.is_some() || second.invalid.is_some() {
        return None;
    }
    let values = |point: &Comparable| -> Option<Vec<f64>> {
        let runs = point.runs.iter();
        runs.map(|run| run.get(&metric).copied()).collect()
    };
    let found = ratio(&values(second)?, &values(first)?)?;
    let comparison = Comparison {
        point: first.what.clone(),
        metric,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A mix, or its reads, with five runs; an invalid one has none.
    fn point(requests: &str, invalid: Option<&str>) -> Comparable {
        let run = BTreeMap::from([(Metric::Iops, 1000.0)]);
        Comparable {
            what: What {
                name: "mix".to_owned(),
                requests: requests.to_owned(),
                bs: "4k".to_owned(),
                depth: "1 x 4".to_owned(),
                options: BTreeMap::new(),
            },
            places: vec!["/dev/a".to_owned()],
            runs: vec![run; if invalid.is_some() { 0 } else { 5 }],
            is_part: requests != "randmix",
            invalid: invalid.map(str::to_owned),
        }
    }

    #[test]
    fn a_mix_that_is_invalid_in_one_set_is_told_once_and_not_compared() {
        let valid = || joined(vec![point("randmix", None), point("randmix, reads", None)]);
        let invalid = || joined(vec![point("randmix", Some("too slow"))]);
        let both = compare(&valid(), &valid(), 0.02);
        assert_eq!((both.comparisons.len(), both.invalid.len()), (2, 0));
        let one = compare(&valid(), &invalid(), 0.02);
        assert!(one.comparisons.is_empty() && one.alone.is_empty());
        let told: Vec<_> = one
            .invalid
            .iter()
            .map(|one| (one.is_first, one.reason.as_str()))
            .collect();
        assert_eq!(told, [(false, "too slow")]);
        // If another file of the first set has valid runs of the load, its parts do not count either.
        let mixed = joined([valid(), invalid()].concat());
        let one = compare(&mixed, &valid(), 0.02);
        assert!(one.comparisons.is_empty() && one.alone.is_empty());
        assert_eq!(one.invalid.len(), 1);
    }
}
