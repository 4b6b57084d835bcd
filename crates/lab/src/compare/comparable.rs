//! Points of results that can be compared, whoever measured them.

use crate::fio::{Direction, FioPoint};
use crate::schema::measurement::Measurement;
use crate::schema::metric::{Metric, Statistic};
use crate::schema::results::{PointResult, Results};
use serde::Serialize;
use std::collections::BTreeMap;

/// Options of fio that say where a job ran, which is what is compared.
const PLACES: [&str; 3] = ["filename", "uri", "directory"];

/// What was run. Points of two sets belong together if all of it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct What {
    /// The name of the load or job.
    pub name: String,
    /// What its requests do; of a mix, which of them are meant.
    pub requests: String,
    /// Bytes of a request, as they were written.
    pub bs: String,
    /// Threads, and requests that each of them has outstanding.
    pub depth: String,
    /// All that was asked for.
    pub options: BTreeMap<String, String>,
}

/// A point with its runs.
#[derive(Clone, Debug)]
pub struct Comparable {
    /// What was run.
    pub what: What,
    /// Where it ran.
    pub places: Vec<String>,
    /// The figures of each run.
    pub runs: Vec<BTreeMap<Metric, f64>>,
    /// Whether it is the reads or the writes of a load that is there as a whole too.
    pub is_part: bool,
    /// Why its figures do not count; then it is not compared.
    pub invalid: Option<String>,
}

/// A point of fio.
#[must_use]
pub fn of_fio(point: &FioPoint) -> Comparable {
    let mut options = point.options.clone();
    let places = PLACES.iter().filter_map(|name| options.remove(*name));
    let places = places.collect();
    let option = |name: &str, usual: &str| {
        let value = point.options.get(name).map(String::as_str);
        value.unwrap_or(usual).to_owned()
    };
    let runs = point.runs.iter().map(|run| {
        BTreeMap::from([
            (Metric::Iops, run.iops),
            (Metric::Latency(Statistic::Mean), run.mean_us),
        ])
    });
    Comparable {
        what: What {
            name: point.job.clone(),
            requests: requests(&point.options, point.direction),
            bs: option("bs", "4k"),
            depth: format!("{} x {}", option("numjobs", "1"), option("iodepth", "1")),
            options,
        },
        places,
        runs: runs.collect(),
        is_part: false,
        invalid: None,
    }
}

/// What the requests of a job do: of a mix, its part of the mix.
#[must_use]
pub fn requests(options: &BTreeMap<String, String>, direction: Direction) -> String {
    let rw = options.get("rw").or(options.get("readwrite"));
    match rw {
        Some(rw) if rw.ends_with("rw") || rw == "readwrite" => {
            format!("{rw}, {}s", direction.word())
        }
        Some(rw) => rw.clone(),
        None => direction.word().to_owned(),
    }
}

/// The points of results of this program that were measured: of a mix also its reads and its writes.
#[must_use]
pub fn of_results(results: &Results) -> Vec<Comparable> {
    let target = results
        .conditions
        .iter()
        .map(|conditions| conditions.target.clone());
    let places: Vec<String> = target.collect();
    results
        .points
        .iter()
        .flat_map(|point| of_point(point, &places))
        .collect()
}

fn of_point(point: &PointResult, places: &[String]) -> Vec<Comparable> {
    let Some(measurement) = &point.measurement else {
        return Vec::new();
    };
    let runs = &measurement.runs;
    let kinds = [
        ("", runs.iter().map(|run| &run.metrics).collect::<Vec<_>>()),
        (", reads", runs.iter().map(|run| &run.reads).collect()),
        (", writes", runs.iter().map(|run| &run.writes).collect()),
    ];
    let load = &measurement.workload;
    let options = options(measurement);
    let op = options["op"].clone();
    let comparable = |(kind, runs): (&str, Vec<&BTreeMap<Metric, f64>>)| {
        let is_part = !kind.is_empty();
        let has_figures = !runs.is_empty() && runs.iter().all(|run| !run.is_empty());
        (has_figures || !is_part).then(|| Comparable {
            what: What {
                name: point.name.clone(),
                requests: format!("{op}{kind}"),
                bs: load.bs.map_or("-".to_owned(), |bs| bs.to_string()),
                depth: format!("{} x {}", load.threads, load.qd.unwrap_or(1)),
                options: options.clone(),
            },
            places: places.to_vec(),
            runs: runs.into_iter().cloned().collect(),
            is_part,
            invalid: measurement.invalid.clone(),
        })
    };
    kinds.into_iter().filter_map(comparable).collect()
}

/// The keys of a load as it was written, how long it ran, and the kind of generator that issued it: what differs in one of these is
/// not compared.
fn options(measurement: &Measurement) -> BTreeMap<String, String> {
    let generator = &measurement.generator;
    let written =
        serde_json::to_value(&measurement.workload).expect("a load has names and numbers only");
    let keys = written.as_object().expect("a load is a table").iter();
    let mut options: BTreeMap<String, String> = keys
        .map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), text)
        })
        .collect();
    let kind = generator.split(' ').next().unwrap_or(generator);
    let more = [
        ("generator", Some(kind.to_owned())),
        ("skipped_s", Some(measurement.skipped_s.to_string())),
        ("measured_s", Some(measurement.measured_s.to_string())),
        ("trace_digest", measurement.trace_digest.clone()),
    ];
    let more = more
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    options.extend(more);
    options
}

/// Points of several files: runs of the same load in the same place are those of one point. If they are invalid in one file, also those
/// of its reads and writes in the others are.
#[must_use]
pub fn joined(points: Vec<Comparable>) -> Vec<Comparable> {
    let mut joined: Vec<Comparable> = Vec::new();
    for point in points {
        let is_same =
            |known: &&mut Comparable| (&known.what, &known.places) == (&point.what, &point.places);
        match joined.iter_mut().find(is_same) {
            Some(known) => {
                known.runs.extend(point.runs);
                known.invalid = known.invalid.take().or(point.invalid);
            }
            None => joined.push(point),
        }
    }
    for at in 0..joined.len() {
        let of_load = joined.iter().find(|other| {
            other.invalid.is_some()
                && other.what.is_of_same_load(&joined[at].what)
                && other.places == joined[at].places
        });
        joined[at].invalid = of_load.and_then(|other| other.invalid.clone());
    }
    joined
}

impl What {
    /// Whether both are of one load: of a mix there are three points.
    #[must_use]
    pub fn is_of_same_load(&self, other: &What) -> bool {
        (&self.name, &self.options) == (&other.name, &other.options)
    }
}
