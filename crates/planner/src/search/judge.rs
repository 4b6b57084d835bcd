//! Whether an array does what is asked, and by how much.
//!
//! Each thing that is asked for has a [`Margin`]. What needs no run comes first ([`without_run`]): capacity to the byte, the least
//! that the load wears drives, and what a plain calculator allows. An array that fails one of these is not run. The others are
//! judged by their run ([`of_run`]).

use super::Question;
use super::wanted::Wanted;
use crate::plan::ideal::ideal;
use crate::predict::Answer;
use crate::predict::library::Library;
use crate::sizing::Sizing;
use lab::schema::configuration::Configuration;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::setup::Level;
use serde::{Deserialize, Serialize};
use words::number;

/// An array is not run if even this many times what the calculator allows is too little: the calculator is plain, and a run may
/// exceed it a little.
const CALCULATOR_SLACK: f64 = 1.25;
/// The share of the demanded rate from which a rate counts as met, as the metric `demand_met` has it.
const MET: f64 = 0.99;

/// How much there is of something that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// What it is about: `iops`, `usable`, `years`, or the name of a latency.
    pub key: String,
    /// What is asked for, in words.
    pub wanted: String,
    /// How much of it there is: 1 is just enough, less is too little.
    pub times: f64,
    /// What there is, in words.
    pub found: String,
}

impl Margin {
    /// Whether there is enough.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.times >= 1.0
    }
}

/// The margin that is least.
pub(super) fn least(margins: &[Margin]) -> Option<&Margin> {
    margins
        .iter()
        .min_by(|one, other| one.times.total_cmp(&other.times))
}

/// A name of a latency, as the question has it.
pub(super) fn name(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Mean => "mean",
        Statistic::P50 => "p50",
        Statistic::P99 => "p99",
        Statistic::P99_9 => "p99.9",
        Statistic::P99_99 => "p99.99",
        Statistic::P99_999 => "p99.999",
        Statistic::Max => "maximum",
    }
}

/// Terabytes, rounded down, so that a little less than what is asked does not look like it.
fn terabytes(bytes: u64) -> String {
    format!("{:.3} TB", (bytes as f64 / 1e9).floor() / 1e3)
}

fn years(years: f64) -> String {
    format!("{} years", number(years))
}

/// What is too little without any run: capacity, endurance, or what the calculator allows.
pub(super) fn without_run(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let margins = [
        capacity_margin(question, configuration, library),
        endurance_at_most(question, configuration, library),
        rate_at_most(question, configuration, library),
    ];
    margins.into_iter().flatten().find(|margin| !margin.holds())
}

fn capacity_margin(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let wanted = question.wanted.usable_bytes;
    let held = question
        .sizer
        .usable_bytes(&configuration.setup, library)
        .ok()?;
    (wanted > 0).then(|| of_capacity(wanted, held))
}

fn of_capacity(wanted: u64, held: u64) -> Margin {
    Margin {
        key: "usable".to_owned(),
        wanted: format!("{} usable", terabytes(wanted)),
        times: held as f64 / wanted as f64,
        found: format!("{} usable", terabytes(held)),
    }
}

/// The endurance if RAID software wrote as little as its level allows.
fn endurance_at_most(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let wanted = question.wanted.years?;
    let setup = &configuration.setup;
    let drive = question.sizer.drive(setup, library).ok()?;
    let count = f64::from(setup.count);
    let amplification = match setup.level {
        Level::Single | Level::Raid0 => 1.0,
        Level::Raid1 | Level::Raid10 => 2.0,
        Level::Raid5 => count / (count - 1.0),
    };
    let writes = 1.0 - f64::from(configuration.workload.read_percent()?) / 100.0;
    let bytes_per_s = question.wanted.iops as f64 * f64::from(question.wanted.bs.bytes()) * writes;
    let a_day = bytes_per_s * amplification / count * 86_400.0 / drive.capacity_bytes as f64;
    let rated = drive.endurance_dwpd * drive.warranty_years;
    (a_day > 0.0).then(|| {
        let at_most = rated / a_day;
        Margin {
            key: "years".to_owned(),
            wanted: years(wanted),
            times: at_most / wanted,
            found: format!("at most {}", years(at_most)),
        }
    })
}

/// What the calculator allows.
fn rate_at_most(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let mut free = configuration.clone();
    free.workload.demand_iops = None;
    let ideal = ideal(&free, library)?;
    let wanted = question.wanted.iops as f64;
    Some(Margin {
        key: "iops".to_owned(),
        wanted: rate(wanted),
        times: CALCULATOR_SLACK * ideal.iops / wanted,
        found: format!(
            "the calculator allows {} ({})",
            rate(ideal.iops),
            ideal.limited_by
        ),
    })
}

fn rate(iops: f64) -> String {
    format!("{} a second", number(iops))
}

/// The margins of an array that has been run under the demand. `most_iops` is what it does without a limit, if that is known.
pub(super) fn of_run(
    wanted: &Wanted,
    answer: &Answer,
    sizing: &Sizing,
    most_iops: Option<f64>,
) -> Vec<Margin> {
    let figure = |metric| answer.summary.get(&metric).map(|value| value.value);
    let demand = wanted.iops as f64;
    let served = figure(Metric::Iops).unwrap_or(0.0);
    let is_met = served >= MET * demand;
    let mut margins = vec![Margin {
        key: "iops".to_owned(),
        wanted: rate(demand),
        times: match most_iops {
            Some(most) if is_met => (most / demand).max(1.0),
            _ if is_met => 1.0,
            _ => served / demand,
        },
        found: match most_iops {
            Some(most) if is_met => format!("at most {}", rate(most)),
            _ => rate(served),
        },
    }];
    for limit in &wanted.latencies {
        let found_us = figure(Metric::Latency(limit.statistic)).unwrap_or(f64::INFINITY);
        let name = name(limit.statistic);
        margins.push(Margin {
            key: name.to_owned(),
            wanted: format!("{name} below {} us", number(limit.below_us)),
            // A latency that is the limit is not below it.
            times: match limit.below_us / found_us {
                times if found_us < limit.below_us => times,
                times => times.min(1.0 - f64::EPSILON),
            },
            found: match found_us.is_finite() {
                true => format!("{name} is {} us", number(found_us)),
                false => format!("{name} cannot be told of so few requests"),
            },
        });
    }
    if wanted.usable_bytes > 0 {
        margins.push(of_capacity(
            wanted.usable_bytes,
            sizing.capacity.usable_bytes,
        ));
    }
    if let (Some(wanted), Some(endurance)) = (wanted.years, &sizing.endurance) {
        margins.push(Margin {
            key: "years".to_owned(),
            wanted: years(wanted),
            times: endurance.years / wanted,
            found: years(endurance.years),
        });
    }
    margins
}
