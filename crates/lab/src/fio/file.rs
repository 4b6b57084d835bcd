//! One file of fio: `--output-format=json` or `json+`.
//!
//! Only what is needed is read, and all else is passed over, because each version of fio adds keys. Engines may print text before
//! the JSON, which is passed over too. Jobs of one name and group are threads of one job (`numjobs` without `group_reporting`), and
//! are added up.

use super::Direction;
use crate::schema::document::Refusal;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A version of fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// The version in fio's own words: `fio-3.33`, `fio-3.36-12-gabc`.
    #[must_use]
    pub fn of(text: &str) -> Option<Version> {
        let numbers = text.strip_prefix("fio-")?;
        let (major, rest) = numbers.split_once('.')?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit());
        Some(Version {
            major: major.parse().ok()?,
            minor: rest[..digits.unwrap_or(rest.len())].parse().ok()?,
        })
    }
}

/// A file's content.
#[derive(Clone, Debug)]
pub struct FioFile {
    /// The version that wrote it.
    pub version: Version,
    jobs: Vec<JobForm>,
    global: BTreeMap<String, String>,
}

/// Latencies as fio sums them up.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Greatest.
    pub max_ns: f64,
    /// Percent and latency in nanoseconds, as fio printed them.
    pub percentiles: Vec<(f64, f64)>,
    /// Requests by latency in nanoseconds, each the middle of a bucket that is less than 1 % wide; empty without json+.
    pub bins: BTreeMap<u64, u64>,
}

/// One run of a job, in one direction.
#[derive(Clone, Debug)]
pub struct Run {
    /// The job's name.
    pub job: String,
    /// What its requests do.
    pub direction: Direction,
    /// Its options, those of the whole file included, without logs.
    pub options: BTreeMap<String, String>,
    /// fio's error number; 0 without.
    pub error: i64,
    /// Requests that were measured.
    pub requests: u64,
    /// Requests that transferred less than they should have.
    pub short_requests: u64,
    /// Requests per second.
    pub iops: f64,
    /// Their payload per second.
    pub bytes_per_s: f64,
    /// From submission to completion.
    pub total: Latency,
    /// From the kernel's acceptance to completion.
    pub completion: Latency,
}

impl Run {
    /// Whether two runs are of the same point.
    #[must_use]
    pub fn is_like(&self, other: &Run) -> bool {
        (&self.job, self.direction, &self.options) == (&other.job, other.direction, &other.options)
    }

    /// The latencies whose percentiles are told: from submission on where fio kept these.
    #[must_use]
    pub fn told(&self) -> &Latency {
        let has = |latency: &Latency| !latency.bins.is_empty() || !latency.percentiles.is_empty();
        if has(&self.total) {
            &self.total
        } else {
            &self.completion
        }
    }

    /// An option as a number; `None` if it is missing or has another form.
    #[must_use]
    pub fn number(&self, option: &str) -> Option<u64> {
        self.options.get(option)?.parse().ok()
    }
}

#[derive(Deserialize)]
struct Form {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    #[serde(default)]
    jobs: Vec<JobForm>,
    #[serde(default)]
    client_stats: Vec<JobForm>,
}

#[derive(Clone, Debug, Deserialize)]
struct JobForm {
    jobname: String,
    #[serde(default)]
    groupid: u64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: DirectionForm,
    write: DirectionForm,
    trim: Option<DirectionForm>,
}

#[derive(Clone, Debug, Deserialize)]
struct DirectionForm {
    iops: f64,
    bw_bytes: f64,
    total_ios: u64,
    #[serde(default)]
    short_ios: u64,
    lat_ns: LatencyForm,
    #[serde(default)]
    clat_ns: LatencyForm,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct LatencyForm {
    mean: f64,
    max: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

impl FioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no result of fio, or has no jobs.
    pub fn read(name: &str, text: &str) -> Result<FioFile, Refusal> {
        let refused = |rule: String| Refusal::new(name, "", rule);
        let begin = text.find('{').ok_or_else(|| {
            refused("is no result of fio: run fio with --output-format=json+".to_owned())
        })?;
        let mut forms = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Form>();
        let form = match forms.next() {
            Some(Ok(form)) => form,
            Some(Err(why)) => {
                return Err(refused(format!(
                    "is no result of fio that is understood: {why}"
                )));
            }
            None => return Err(refused("is empty".to_owned())),
        };
        let version = Version::of(&form.version).ok_or_else(|| {
            refused(format!(
                "was written by \"{}\", which is no version of fio",
                form.version
            ))
        })?;
        let mut jobs = form.jobs;
        // A client of several servers adds a job of all together, which would count twice and has no histogram.
        jobs.extend(
            form.client_stats
                .into_iter()
                .filter(|job| job.jobname != "All clients"),
        );
        if jobs.is_empty() {
            return Err(refused("has no jobs".to_owned()));
        }
        Ok(FioFile {
            version,
            jobs,
            global: form.global,
        })
    }

    /// The runs in it, in the order of the file; directions without requests are left out.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<(u64, Run)> = Vec::new();
        for job in &self.jobs {
            let directions = [
                (Direction::Read, Some(&job.read)),
                (Direction::Write, Some(&job.write)),
                (Direction::Trim, job.trim.as_ref()),
            ];
            for (direction, form) in directions {
                let Some(form) = form.filter(|form| form.total_ios > 0) else {
                    continue;
                };
                let run = self.run(job, direction, form);
                let is_same =
                    |(group, other): &&mut (u64, Run)| *group == job.groupid && other.is_like(&run);
                match runs.iter_mut().find(is_same) {
                    Some((_, other)) => add(other, &run),
                    None => runs.push((job.groupid, run)),
                }
            }
        }
        runs.into_iter().map(|(_, run)| run).collect()
    }

    fn run(&self, job: &JobForm, direction: Direction, form: &DirectionForm) -> Run {
        let mut options = self.global.clone();
        options.extend(job.options.clone());
        // Where logs go does not change what is measured.
        options.retain(|name, _| {
            !name.starts_with("write_") && !name.starts_with("log_") && name != "name"
        });
        Run {
            job: job.jobname.clone(),
            direction,
            options,
            error: job.error,
            requests: form.total_ios,
            short_requests: form.short_ios,
            iops: form.iops,
            bytes_per_s: form.bw_bytes,
            total: latency(&form.lat_ns),
            completion: latency(&form.clat_ns),
        }
    }
}

fn latency(form: &LatencyForm) -> Latency {
    let percentiles = form.percentile.iter();
    let percentiles = percentiles.filter_map(|(percent, ns)| Some((percent.parse().ok()?, *ns)));
    let bins = form.bins.iter();
    let bins = bins.filter_map(|(ns, count)| Some((ns.parse().ok()?, *count)));
    Latency {
        mean_ns: form.mean,
        max_ns: form.max,
        percentiles: percentiles.collect(),
        bins: bins.collect(),
    }
}

/// Adds a further thread of the same job.
fn add(run: &mut Run, more: &Run) {
    let requests = (run.requests + more.requests) as f64;
    for (mine, other) in [
        (&mut run.total, &more.total),
        (&mut run.completion, &more.completion),
    ] {
        mine.mean_ns =
            (mine.mean_ns * run.requests as f64 + other.mean_ns * more.requests as f64) / requests;
        mine.max_ns = mine.max_ns.max(other.max_ns);
        // Percentiles cannot be added; those of the histogram can.
        mine.percentiles.clear();
        for (ns, count) in &other.bins {
            *mine.bins.entry(*ns).or_default() += count;
        }
    }
    run.requests += more.requests;
    run.short_requests += more.short_requests;
    run.iops += more.iops;
    run.bytes_per_s += more.bytes_per_s;
    if run.error == 0 {
        run.error = more.error;
    }
}
