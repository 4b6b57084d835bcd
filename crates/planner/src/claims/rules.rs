//! F rows: rules of the claims that hold exactly or not at all, as far as runs can show it.
//!
//! | row | what is checked |
//! |---|---|
//! | I-16 | every array that was run is compared with one drive under the same load per drive: it is at most as fast as the ideal of its level and at least as fast as one drive. Of loads that differ only in depth, only those within 5 % of the fastest are compared, both for the drive and for the array, because the rule is about loads that saturate |
//! | O-34 | sixteen threads at queue depth 1: mean latency is sixteen divided by IOPS |
//! | P-29 | reads of a fresh drive are faster than reads of a filled one, and the result says that it is not representative |
//! | O-08.mode | a worn P4800X limits writes and reads as before |
//! | O-11 | an Optane drive writes no faster than its medium, and a flush waits for nothing |
//! | O-35 | the load of Aerospike's certification test at 1x, and its limits |
//! | P-01.rule | no platform has a VMD of more than 16 lanes or four direct drives, a socket with more than three of them, or a drive in two |
//! | A-70, P-33 | which keys, and which tools in the trial, take which levels and drives: data, each row of one publication |
//! | A-71 | of every platform, drives behind a VMD are grouped by it |
//! | A-72 | the slots of that board; four drives in one that is not split are refused, unless there is a switch |
//! | P-02 | firmware boots from an array of one VMD only; arrays for data span VMDs |
//! | O-09.refresh | an Optane drive works more slowly for three hours after power-on, and then as usual |
//!
//! O-16 is not checked: it is about a step of the lab that formats drives, which there is not. Its verdict is `not-modelled`.

mod of_vroc;
mod without_runs;

use crate::predict::many::{Answered, Wanted};
use crate::predict::{Answer, UNWRITTEN, Virtual};
use crate::work::{Watch, Work};
use anyhow::{Context, Result};
use lab::schema::configuration::{Configuration, read_configurations};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::setup::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Points that are always run for the rules, whatever else is run.
const POINTS: &str = include_str!("rules.toml");
const MEAN: Metric = Metric::Latency(Statistic::Mean);

/// The results of the rules.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// For each rule that was checked, whether it holds.
    pub holds: BTreeMap<String, bool>,
    /// What breaks a rule, as a sentence.
    pub broken: Vec<String>,
}

impl Checked {
    fn note(&mut self, id: &str, broken: Option<String>) {
        self.holds.insert(id.to_owned(), broken.is_none());
        self.broken
            .extend(broken.map(|what| format!("{id} is broken: {what}.")));
    }
}

/// Checks the rules, also with the answers computed for other rows.
///
/// # Errors
///
/// When one of the points for rules cannot be run.
pub(super) fn check((work, watch): (Work, &dyn Watch), mut answered: Answered) -> Result<Checked> {
    let predictor = Virtual::default();
    let points = read_configurations("rules.toml", POINTS, &predictor.library.catalogue())?;
    let metrics = BTreeSet::from([Metric::Iops, MEAN]);
    let wanted = points
        .values()
        .map(|point| (point.clone(), metrics.clone()));
    let own = work
        .answer(&predictor, &wanted.collect::<Wanted>(), watch)
        .0;
    let mut of_points = BTreeMap::new();
    for (name, configuration) in &points {
        let answer = own.get(configuration).context("it was asked")?;
        let answer = answer
            .as_ref()
            .map_err(|missing| anyhow::anyhow!("{name}: {}", missing.reason))?;
        of_points.insert(name.as_str(), answer);
    }
    let mut checked = Checked::default();
    checked.note("O-34", mean_is_reciprocal(of_points["sixteen"]));
    checked.note(
        "P-29",
        fresh_is_marked(of_points["fresh"], of_points["filled"]),
    );
    for (id, broken) in without_runs::all().into_iter().chain(of_vroc::all()) {
        checked.note(id, broken);
    }
    answered.extend(own.clone());
    checked.note("I-16", scaling_is_bounded(&answered));
    Ok(checked)
}

fn value(answer: &Answer, metric: Metric) -> f64 {
    answer.summary.get(&metric).map_or(0.0, |value| value.value)
}

/// O-34, to within a thousandth.
fn mean_is_reciprocal(answer: &Answer) -> Option<String> {
    let product = value(answer, MEAN) / 1e6 * value(answer, Metric::Iops);
    let is_off = (product / 16.0 - 1.0).abs() > 1e-3;
    is_off.then(|| format!("mean latency times IOPS is {product}, and 16 are outstanding"))
}

fn fresh_is_marked(fresh: &Answer, filled: &Answer) -> Option<String> {
    let is_marked = |answer: &Answer| answer.notes.iter().any(|note| note == UNWRITTEN);
    if !is_marked(fresh) || is_marked(filled) {
        return Some("reads of a fresh drive are to be marked, and no others".to_owned());
    }
    let [fresh, filled] = [fresh, filled].map(|answer| value(answer, MEAN));
    (fresh >= filled)
        .then(|| format!("a fresh drive answers in {fresh} us, a filled one in {filled}"))
}

/// Whether `array` and `single` have the same load per drive, and all else is the same.
fn is_comparable(array: &Configuration, single: &Configuration) -> bool {
    let outstanding = |of: &Configuration| {
        let workload = &of.workload;
        u64::from(workload.threads) * u64::from(workload.qd.unwrap_or(1))
    };
    let mut alike = array.workload.clone();
    alike.threads = single.workload.threads;
    alike.qd = single.workload.qd;
    let is_same = alike == single.workload
        && array.state == single.state
        && array.setup.drive == single.setup.drive
        && array.setup.host == single.setup.host;
    let is_closed = alike.demand_iops.is_none() && alike.seconds.is_none();
    let drives = u64::from(array.setup.count);
    is_same && is_closed && outstanding(array) == outstanding(single) * drives
}

/// Fraction of the fastest rate at any depth from which an array counts as saturated: as the claims define it.
const SATURATED: f64 = 0.95;

/// Whether two configurations differ in nothing but how much is outstanding.
fn differ_in_depth(one: &Configuration, other: &Configuration) -> bool {
    let mut alike = one.clone();
    alike.workload.threads = other.workload.threads;
    alike.workload.qd = other.workload.qd;
    alike == *other
}

/// I-16, for all arrays for which a comparable single drive was run.
fn scaling_is_bounded(answered: &Answered) -> Option<String> {
    let known = || {
        let answers = answered.iter();
        answers.filter_map(|(configuration, answer)| Some((configuration, answer.as_ref().ok()?)))
    };
    let is_single = |configuration: &Configuration| configuration.setup.level == Level::Single;
    let is_saturated = |(one, answer): &(&Configuration, &Answer)| {
        let sweep = known().filter(|(other, _)| differ_in_depth(other, one));
        let most = sweep.map(|(_, answer)| value(answer, Metric::Iops));
        value(answer, Metric::Iops) >= SATURATED * most.fold(0.0, f64::max)
    };
    let saturated: Vec<_> = known().filter(is_saturated).collect();
    let (singles, arrays): (Vec<_>, Vec<_>) =
        saturated.into_iter().partition(|(one, _)| is_single(one));
    for (array, of_array) in arrays {
        let Some((ideal, least)) = bounds(array) else {
            continue;
        };
        for &(single, of_single) in &singles {
            if !is_comparable(array, single) {
                continue;
            }
            let times = value(of_array, Metric::Iops) / value(of_single, Metric::Iops).max(1e-9);
            if times > 1.005 * ideal || times < least {
                let (setup, workload) = (&array.setup, &array.workload);
                return Some(format!(
                    "{} drives at level {:?} on \"{}\" do {times:.3} times as much as one, at most {ideal} and at \
                     least {least} can be ({workload:?})",
                    setup.count,
                    setup.level,
                    setup.platform.text()
                ));
            }
        }
    }
    None
}

/// The most and the least that an array may do, as multiples of one drive; `None` if the rule says nothing about it.
fn bounds(array: &Configuration) -> Option<(f64, f64)> {
    let drives = f64::from(array.setup.count);
    let reads = array.workload.read_percent()?;
    match (array.setup.level, reads) {
        (Level::Single, _) => None,
        (Level::Raid0, _) | (_, 100) => Some((drives, 0.98)),
        (Level::Raid10, 0) => Some((drives / 2.0, 0.0)),
        (Level::Raid5, 0) => Some((drives - 1.0, 0.0)),
        _ => None,
    }
}
