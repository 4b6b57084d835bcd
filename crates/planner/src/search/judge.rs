//! Whether an array does what is asked, and by how much.
//!
//! Each thing that is asked for has a [`Margin`]. What needs no run comes first ([`without_run`]): capacity to the byte, the least
//! that the load wears drives, and a rate that is certainly not exceeded. An array that fails one of these is not run. The others
//! are judged by their run ([`of_run`]).

use super::Question;
use super::bound::{BOUND_SLACK, bound, written_at_least};
use super::wanted::{LatencyLimit, Lifetime, Wanted};
use crate::predict::Answer;
use crate::predict::library::Library;
use crate::predict::many::Answered;
use crate::sizing::endurance::{Endurance, endurance};
use crate::sizing::{Load, Sizing};
use anyhow::Result;
use lab::schema::configuration::Configuration;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Value;
use serde::{Deserialize, Serialize};
use words::number;

/// The share of the demanded rate from which a rate counts as met, as the metric `demand_met` has it.
const MET: f64 = 0.99;

/// What is missed by more than this share, beyond the interval of its figure, is missed [clearly](lacks_clearly). Figures of arrays that
/// differ by a drive differ by about as much by chance.
const NEAR: f64 = 0.01;
/// The key of the margin of an array that cannot be built or run.
const POSSIBLE: &str = "possible";

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

    /// Whether it is about an array that can be built and run.
    pub(super) fn is_of_possible(&self) -> bool {
        self.key != POSSIBLE
    }
}

/// Judges arrays by what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub question: &'a Question,
    pub library: &'a Library,
}

impl Judge<'_> {
    /// What is too little without a run.
    pub(super) fn bound(&self, configuration: &Configuration) -> Option<Margin> {
        if self.question.run_all {
            return None;
        }
        without_run(self.question, configuration, self.library)
    }

    /// The margins of an array that has been run; `None` if it has not.
    pub(super) fn by_run(
        &self,
        configuration: &Configuration,
        answered: &Answered,
    ) -> Option<Vec<Margin>> {
        let margins = match answered.get(configuration)? {
            Ok(answer) => self
                .sized(configuration, answer)
                .map(|sizing| of_run(&self.question.wanted, answer, &sizing, None)),
            Err(missing) => Ok(vec![impossible(&missing.reason)]),
        };
        Some(margins.unwrap_or_else(|why| vec![impossible(&format!("{why:#}"))]))
    }

    /// What there is least of in an array that has been run, or need not be.
    ///
    /// # Panics
    /// If it has not been run.
    pub(super) fn least_of(&self, configuration: &Configuration, answered: &Answered) -> Margin {
        self.bound(configuration).unwrap_or_else(|| {
            let margins = self.by_run(configuration, answered);
            let margins = margins.expect("it has been run");
            least(&margins).expect("a rate is asked for").clone()
        })
    }

    /// Whether an array that has been run clearly lacks something: see [`lacks_clearly`].
    pub(super) fn lacks_clearly(&self, configuration: &Configuration, answered: &Answered) -> bool {
        let Some(Ok(answer)) = answered.get(configuration) else {
            return false;
        };
        let sizing = self.sized(configuration, answer);
        sizing.is_ok_and(|sizing| {
            lacks_clearly(&self.question.wanted, answer, sizing.endurance.as_ref())
        })
    }

    fn sized(&self, configuration: &Configuration, answer: &Answer) -> Result<Sizing> {
        let sizer = &self.question.sizer;
        sizer.sized(configuration, answer, None, self.library)
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

/// Terabytes, with more digits if a few would hide that it is less than `wanted`.
fn terabytes(bytes: u64, wanted: u64) -> String {
    let with = |digits: usize, bytes: u64| format!("{:.digits$} TB", bytes as f64 / 1e12);
    let is_hidden = bytes < wanted && with(3, bytes) == with(3, wanted);
    with(if is_hidden { 6 } else { 3 }, bytes)
}

/// What an array does not have that cannot be built or run.
pub(super) fn impossible(reason: &str) -> Margin {
    Margin {
        key: POSSIBLE.to_owned(),
        wanted: "an array that can be built".to_owned(),
        times: 0.0,
        found: reason.to_owned(),
    }
}

/// What there is least of without any run, if it is too little: capacity, endurance, or the rate.
fn without_run(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let margins = [
        capacity_margin(question, configuration, library),
        endurance_at_most(question, configuration, library),
        rate_at_most(question, configuration, library),
    ];
    let failing: Vec<Margin> = margins
        .into_iter()
        .flatten()
        .filter(|margin| !margin.holds())
        .collect();
    least(&failing).cloned()
}

fn capacity_margin(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    match question.sizer.usable_bytes(&configuration.setup, library) {
        Ok(held) => of_capacity(&question.wanted, held),
        Err(why) => Some(impossible(&format!("{why:#}"))),
    }
}

fn of_capacity(wanted: &Wanted, held: u64) -> Option<Margin> {
    let usable = wanted.usable.as_ref()?;
    Some(Margin {
        key: "usable".to_owned(),
        wanted: usable.text.clone(),
        times: held as f64 / usable.bytes as f64,
        found: format!("{} usable", terabytes(held, usable.bytes)),
    })
}

/// The endurance if RAID software wrote as little as its level allows, at the least rate that counts as met. If that is missed by a
/// little, an array is run all the same.
fn endurance_at_most(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let wanted = &question.wanted;
    let lifetime = wanted.lifetime.as_ref()?;
    let setup = &configuration.setup;
    let drive = question.sizer.drive(setup, library).ok()?;
    let writes = 1.0 - f64::from(configuration.workload.read_percent()?) / 100.0;
    let load = Load {
        iops: wanted.iops as f64,
        drives_watts: 0.0,
        written_bytes_per_s: MET * wanted.iops as f64 * f64::from(wanted.bs.bytes()) * writes,
        amplification: Some(written_at_least(configuration)),
        written_drives: setup.count,
        rebuild_bytes_per_s: None,
    };
    let at_most = endurance(&drive, &load)?.years;
    (at_most * BOUND_SLACK < lifetime.years).then(|| Margin {
        key: "years".to_owned(),
        wanted: lifetime.text.clone(),
        times: at_most / lifetime.years,
        found: format!("at most {} years", number(at_most)),
    })
}

/// The rate that is certainly not exceeded: see [`super::bound`]. If it is missed by a little, an array is run all the same.
fn rate_at_most(
    question: &Question,
    configuration: &Configuration,
    library: &Library,
) -> Option<Margin> {
    let most = bound(configuration, library)?;
    let wanted = question.wanted.iops as f64;
    (most.iops * BOUND_SLACK < wanted).then(|| Margin {
        key: "iops".to_owned(),
        wanted: question.wanted.load_text.clone(),
        times: most.iops / wanted,
        found: format!("at most {} ({})", rate(most.iops), most.by),
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
        wanted: wanted.load_text.clone(),
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
            wanted: limit.text.clone(),
            // A latency that is the limit is not below it.
            times: match limit.below_us / found_us {
                times if found_us < limit.below_us => times,
                times => times.min(1.0 - f64::EPSILON),
            },
            found: match found_us.is_finite() {
                true => format!("{name} is {} us at the asked rate", number(found_us)),
                false => format!("{name} cannot be told of so few requests"),
            },
        });
    }
    margins.extend(of_capacity(wanted, sizing.capacity.usable_bytes));
    if let (Some(lifetime), Some(endurance)) = (&wanted.lifetime, &sizing.endurance) {
        margins.push(Margin {
            key: "years".to_owned(),
            wanted: lifetime.text.clone(),
            times: endurance.years / lifetime.years,
            found: format!("{} years", number(endurance.years)),
        });
    }
    margins
}

/// Whether something is too little by more than chance: by more than [`NEAR`] at the kind end of its figure's interval. A latency that
/// cannot be told of so few requests is not.
fn lacks_clearly(wanted: &Wanted, answer: &Answer, endurance: Option<&Endurance>) -> bool {
    let figure = |metric| answer.summary.get(&metric);
    let most = |value: &Value| value.interval.map_or(value.value, |interval| interval.high);
    let least = |value: &Value| value.interval.map_or(value.value, |interval| interval.low);
    let served_most = figure(Metric::Iops).map_or(0.0, most);
    let is_slow = |limit: &LatencyLimit| {
        let value = figure(Metric::Latency(limit.statistic));
        value.is_some_and(|value| least(value) > limit.below_us * (1.0 + NEAR))
    };
    let is_worn = |lifetime: &Lifetime, endurance: &Endurance| {
        endurance.years < lifetime.years * (1.0 - NEAR)
    };
    let worn = wanted.lifetime.as_ref().zip(endurance);
    served_most < (MET - NEAR) * wanted.iops as f64
        || wanted.latencies.iter().any(is_slow)
        || worn.is_some_and(|(lifetime, endurance)| is_worn(lifetime, endurance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::schema::metric::Metric::{Iops, Latency};
    use lab::statistics::interval::Interval;

    /// An answer with these figures: a rate, and a latency with its interval.
    fn answer(iops: f64, p99_us: f64, interval: Option<Interval>) -> Answer {
        let text = r#"{"prediction": {"metrics": {}, "limited_by": null}, "summary": {}, "seeds": [], "notes": [],
            "digest": 0, "commands": 0, "cores": null, "size_bytes": 0, "rebuild": null, "read_per_written": null,
            "written_per_written": null, "limits": null}"#;
        let mut answer: Answer = serde_json::from_str(text).expect("it has the form");
        let latency = Latency(Statistic::P99);
        let p99 = Value {
            interval,
            ..Value::new(latency, p99_us)
        };
        answer.summary.insert(Iops, Value::new(Iops, iops));
        answer.summary.insert(latency, p99);
        answer
    }

    #[test]
    fn what_chance_may_explain_is_not_clear() {
        let wanted = Wanted::parse("10k reads 4k, p99 < 100us").expect("it is of the form");
        let clear = |answer: &Answer| lacks_clearly(&wanted, answer, None);
        assert!(!clear(&answer(10_000.0, 99.0, None)));
        assert!(!clear(&answer(10_000.0, 100.9, None)));
        assert!(clear(&answer(10_000.0, 101.1, None)));
        let wide = Some(Interval::new(100.5, 110.0));
        assert!(!clear(&answer(10_000.0, 105.0, wide)));
        let narrow = Some(Interval::new(101.5, 110.0));
        assert!(clear(&answer(10_000.0, 105.0, narrow)));
        // A rate is met from 99 % on.
        assert!(!clear(&answer(9_850.0, 99.0, None)));
        assert!(clear(&answer(9_790.0, 99.0, None)));
        // A latency that cannot be told is not clearly too long.
        let mut silent = answer(10_000.0, 99.0, None);
        silent.summary.remove(&Latency(Statistic::P99));
        assert!(!clear(&silent));
    }

    #[test]
    fn endurance_that_is_short_by_a_little_is_not_clear() {
        let wanted = Wanted::parse("10k writes 4k, two years").expect("it is of the form");
        let met = answer(10_000.0, 1.0, None);
        let clear = |years: f64| {
            let endurance = Endurance {
                amplification: 2.0,
                drive_writes_per_day: 1.0,
                years,
            };
            lacks_clearly(&wanted, &met, Some(&endurance))
        };
        assert!(!clear(1.99));
        assert!(clear(1.97));
    }
}
