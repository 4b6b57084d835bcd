//! What a plan leaves out because it is impossible with so many drives: levels that the user did not name, and points
//! of a sweep. The plan reports whatever it leaves out, with the reason. What the user asked for by name is refused
//! instead.

use super::ask::{Case, option};
use super::sweep::{Sweep, Variation};
use crate::predict::library::Library;
use crate::slots::unsplit;
use lab::schema::catalogue::Catalogue;
use lab::schema::setup::{Level, Setup};
use lab::workload::Broken;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The levels of a plan that names none.
pub const USUAL_LEVELS: [Level; 3] = [Level::Raid0, Level::Raid5, Level::Raid10];

/// A setup, or a point of a sweep, that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The setup's name.
    pub setup: String,
    /// The values of what a sweep varies, in the order of its axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<u64>,
    /// The rule that it breaks, as a sentence without its full stop.
    pub reason: String,
}

/// Why something is impossible.
pub struct Impossible {
    /// The rule that it breaks, without the offending value.
    pub rule: String,
    /// The key of the configuration that breaks the rule.
    pub key: &'static str,
    /// The whole error, for a request that is refused.
    pub refusal: anyhow::Error,
}

/// What is wrong with a case, if something is.
pub fn impossible(case: &Case, catalogue: &Catalogue, library: &Library) -> Option<Impossible> {
    let configuration = &case.configuration;
    let setup = &configuration.setup;
    let checked = setup.check(catalogue);
    if let Err(broken) = checked.and_then(|()| configuration.workload.check_known()) {
        let rule = rule(setup, &broken);
        let refusal = match broken.key {
            "count" => anyhow::anyhow!(
                "--count {} is impossible: {rule}; give another --count or --level",
                setup.count
            ),
            _ => option(&broken, setup),
        };
        let key = broken.key;
        return Some(Impossible { rule, key, refusal });
    }
    if case.is_other {
        return None;
    }
    let graph = library.platform(&setup.platform).ok()?;
    let bays = graph.bays.len();
    let platform = setup.platform.text();
    if setup.count as usize > bays {
        return Some(Impossible {
            rule: format!("{platform} has bays and lanes for at most {bays}"),
            key: "platform",
            refusal: anyhow::anyhow!(
                "--count must be at most {bays}, which is what {platform} has bays and lanes for, is {}",
                setup.count
            ),
        });
    }
    let rule = unsplit(graph, setup.count)?;
    Some(Impossible {
        refusal: anyhow::anyhow!(
            "--count {} is impossible: {rule}; give a smaller --count, or another --platform",
            setup.count
        ),
        rule,
        key: "platform",
    })
}

/// The rule that a setup breaks.
fn rule(setup: &Setup, broken: &Broken) -> String {
    let level = setup.level.name();
    match broken.key {
        "count" => format!("{level} needs {}", setup.level.drives_in_words()),
        "condition" if setup.level == Level::Raid0 => {
            format!("{level} does not survive the loss of a drive")
        }
        _ => {
            let refusal = option(broken, setup).to_string();
            let rule = refusal.rsplit_once(", is ").map(|(rule, _)| rule);
            rule.unwrap_or(&refusal).to_owned()
        }
    }
}

/// Separates possible cases from impossible ones. A case may be left out if `is_optional` says so for the key that
/// breaks a rule. Returns the cases that remain, and those left out.
///
/// # Errors
/// The first case that may not be left out.
pub fn sorted_out(
    cases: Vec<Case>,
    library: &Library,
    is_optional: impl Fn(&Case, &str) -> bool,
) -> anyhow::Result<(Vec<Case>, Vec<LeftOut>)> {
    let catalogue = library.catalogue();
    let mut possible = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    for case in cases {
        let Some(Impossible { rule, key, refusal }) = impossible(&case, &catalogue, library) else {
            possible.push(case);
            continue;
        };
        if !is_optional(&case, key) {
            return Err(refusal);
        }
        let one = LeftOut {
            setup: case.setup,
            varied: case.varied,
            reason: rule,
        };
        // Every load of a setup breaks the same rule: it is listed once.
        if !left_out.contains(&one) {
            left_out.push(one);
        }
    }
    Ok((possible, left_out))
}

/// Each reason once, joined. It is the error text when nothing is left.
pub fn reasons(left_out: &[LeftOut]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for one in left_out {
        if !reasons.contains(&one.reason.as_str()) {
            reasons.push(&one.reason);
        }
    }
    reasons.join("; ")
}

/// For people: one sentence for all levels, or for a sweep one sentence per reason with the values that it applies to.
pub fn in_words(left_out: &[LeftOut], sweep: Option<&Sweep>) -> String {
    let Some(sweep) = sweep else {
        return match left_out {
            [] => String::new(),
            some => format!("left out: {}\n", reasons(some)),
        };
    };
    let mut text = String::new();
    let mut told: Vec<(&str, &str)> = Vec::new();
    for one in left_out {
        let key = (one.setup.as_str(), one.reason.as_str());
        if told.contains(&key) {
            continue;
        }
        told.push(key);
        let same = left_out.iter();
        let same = same.filter(|other| (other.setup.as_str(), other.reason.as_str()) == key);
        let at = values_in_words(&same.collect::<Vec<_>>(), sweep);
        let whose = if one.reason.starts_with(&one.setup) {
            String::new()
        } else {
            format!("{}: ", one.setup)
        };
        let _ = writeln!(text, "left out at {at}: {whose}{}", one.reason);
    }
    text
}

/// Values such as `count 1, 2 and 3`. If two things vary, an axis all of whose values are left out is not mentioned.
fn values_in_words(points: &[&LeftOut], sweep: &Sweep) -> String {
    let values_of = |axis: usize| {
        let mut values: Vec<u64> = Vec::new();
        for point in points {
            if !values.contains(&point.varied[axis]) {
                values.push(point.varied[axis]);
            }
        }
        values
    };
    let mut parts: Vec<String> = Vec::new();
    for (axis, (what, all)) in sweep.axes.iter().enumerate() {
        let values = values_of(axis);
        if values.len() < all.len() || sweep.axes.len() == 1 {
            parts.push(format!("{} {}", what.name(), self::values(*what, &values)));
        }
    }
    if parts.is_empty() {
        return "every value".to_owned();
    }
    parts.join(", ")
}

/// `1, 2 and 3`, or `9 to 24` if there are more than two consecutive values.
pub fn values(what: Variation, values: &[u64]) -> String {
    let follow = values.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match values {
        [first, .., last] if follow && values.len() > 2 => {
            format!("{} to {}", what.value(*first), what.value(*last))
        }
        [others @ .., last] if !others.is_empty() => {
            let others: Vec<String> = others.iter().map(|value| what.value(*value)).collect();
            format!("{} and {}", others.join(", "), what.value(*last))
        }
        _ => values
            .first()
            .map_or_else(String::new, |value| what.value(*value)),
    }
}
