//! Runs of fio, which many trust more than any other generator: closed loops on block devices and files.
//!
//! The job is that of [`lab::fio::job`], so fio issues the same kinds of requests; what makes its figures doubtful is said as for any
//! result of fio ([`lab::fio`]).

use super::marks::{few, unsteady};
use super::outcome::{Asked, point, steadiness};
use super::run::Lengths;
use anyhow::{Context, Result, bail, ensure};
use lab::fio::file::Version;
use lab::fio::job::{Target, text};
use lab::fio::marks::OLDEST;
use lab::fio::{Direction, FioPoint, RunFigures, points};
use lab::schema::measurement::{Measurement, RunResult};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::{Metrics, PointResult, Value};
use lab::workload::Workload;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::{Command, Stdio};

/// fio's version, which is not too old.
///
/// # Errors
///
/// It is not.
pub(crate) fn version() -> Result<Version> {
    let said = Command::new("fio").arg("--version").output();
    let said = match said {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("fio is not installed; install it (apt install fio), or leave out --fio")
        }
        other => other.context("fio cannot be started")?,
    };
    let said = String::from_utf8_lossy(&said.stdout);
    let version = Version::of(said.trim());
    let version =
        version.with_context(|| format!("fio says \"{}\" of its version", said.trim()))?;
    ensure!(
        version >= OLDEST,
        "fio {version} is older than {OLDEST}, the oldest version whose faults are known here; install a newer one, or leave out --fio"
    );
    Ok(version)
}

/// The job of `load` on the block device or file that this process has open as `fd`. fio opens that, not a name: a name could lead
/// to another file by then, and fio understands some names in ways of its own.
///
/// # Errors
///
/// fio cannot do it.
pub(crate) fn job(fd: BorrowedFd<'_>, load: &Workload, lengths: Lengths) -> Result<String> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    let load = Workload {
        seconds: Some(lengths.measured.as_secs() as u32),
        skip_seconds: Some(lengths.skipped.as_secs() as u32),
        ..load.clone()
    };
    text("load", &load, &Target::Path(path)).map_err(anyhow::Error::msg)
}

/// Runs fio once; gives its result as text, which has been read once to see that it is one. fio ends with this process, however that ends:
/// otherwise it would go on writing to a drive that is somebody else's by then.
///
/// # Errors
///
/// fio fails.
pub(crate) fn run(job: &str) -> Result<String> {
    let mut fio = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "fio", "--output-format=json+", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("fio cannot be started")?;
    // A job is far shorter than what a pipe holds, and the pipe is closed behind it.
    let mut input = fio.stdin.take().expect("it is piped");
    let given = input.write_all(job.as_bytes());
    drop(input);
    let said = fio
        .wait_with_output()
        .context("fio's end cannot be waited for")?;
    if !said.status.success() {
        let reason = String::from_utf8_lossy(&said.stderr);
        let reason = reason
            .trim()
            .lines()
            .last()
            .unwrap_or("it does not say why")
            .to_owned();
        bail!("fio has failed ({}): {reason}", said.status);
    }
    given.context("fio does not take its job")?;
    let result = String::from_utf8(said.stdout).context("fio's result is no text")?;
    check(&result)?;
    Ok(result)
}

/// Checks that a text is a result of fio.
///
/// # Errors
///
/// It is not, or it has no requests.
pub(crate) fn check(result: &str) -> Result<()> {
    let found = points(&[("fio's result".to_owned(), result.to_owned())])?;
    ensure!(!found.is_empty(), "fio's result has no requests");
    Ok(())
}

/// Puts the results of a load together.
///
/// # Errors
///
/// One of them is no result of fio.
pub(crate) fn outcome(
    version: Version,
    asked: &Asked<'_>,
    results: &[String],
) -> Result<PointResult> {
    let Asked {
        name,
        load: workload,
        ..
    } = *asked;
    let files = (1..)
        .zip(results)
        .map(|(run, text)| (format!("run {run} of load {name}"), text.clone()));
    let points = points(&files.collect::<Vec<_>>())?;
    let of = |direction| points.iter().find(|point| point.direction == direction);
    let mix = of(Direction::Read).zip(of(Direction::Write));
    let first = points.first().expect("each result has requests");
    let runs: Vec<RunResult> = match mix {
        Some((reads, writes)) => of_mix(reads, writes),
        None => {
            let runs = first.runs.iter().map(figures);
            let alone = |metrics| RunResult {
                metrics,
                ..RunResult::default()
            };
            runs.map(alone).collect()
        }
    };
    let rates: Vec<f64> = runs.iter().map(|run| run.metrics[&Metric::Iops]).collect();
    let steady_state = steadiness(workload, &rates);
    let mut marks: Vec<String> = few(results.len())
        .into_iter()
        .chain(steady_state.and_then(unsteady))
        .collect();
    for mark in points.iter().flat_map(|point| &point.marks) {
        if !marks.contains(mark) {
            marks.push(mark.clone());
        }
    }
    let metrics = match mix {
        Some(_) => means(&runs),
        None => first.metrics.clone(),
    };
    let of_kind = |point: Option<&FioPoint>| point.map(|point| point.metrics.clone());
    let measurement = Measurement {
        workload: workload.clone(),
        skipped_s: asked.lengths.skipped.as_secs_f64(),
        measured_s: asked.lengths.measured.as_secs_f64(),
        trace_digest: None,
        generator: format!("fio {version}"),
        runs,
        reads: of_kind(mix.map(|(reads, _)| reads)).unwrap_or_default(),
        writes: of_kind(mix.map(|(_, writes)| writes)).unwrap_or_default(),
        effective_queue_depth: points.iter().map(|point| point.effective_queue_depth).sum(),
        demanded_iops: None,
        generator_iops: None,
        generator_late_p99_us: None,
        steady_state,
        invalid: None,
        latencies: None,
        responses: None,
    };
    Ok(point(name, metrics, Vec::new(), measurement, marks))
}

/// The figures that each run of fio has.
fn figures(run: &RunFigures) -> BTreeMap<Metric, f64> {
    BTreeMap::from([
        (Metric::Iops, run.iops),
        (Metric::BytesPerSecond, run.bytes_per_s),
        (Metric::Latency(Statistic::Mean), run.mean_us),
        (Metric::Latency(Statistic::Max), run.max_us),
    ])
}

/// The runs of a mix, with the figures of all requests that those of its reads and writes determine; percentiles are not among them.
fn of_mix(reads: &FioPoint, writes: &FioPoint) -> Vec<RunResult> {
    let pairs = reads.runs.iter().filter_map(|read| {
        let write = writes.runs.iter().find(|write| write.file == read.file)?;
        Some((read, write))
    });
    let run = |(read, write): (&RunFigures, &RunFigures)| {
        let iops = read.iops + write.iops;
        let all = RunFigures {
            file: read.file.clone(),
            iops,
            bytes_per_s: read.bytes_per_s + write.bytes_per_s,
            mean_us: (read.mean_us * read.iops + write.mean_us * write.iops) / iops,
            max_us: read.max_us.max(write.max_us),
        };
        RunResult {
            metrics: figures(&all),
            reads: figures(read),
            writes: figures(write),
        }
    };
    pairs.map(run).collect()
}

/// The means over the runs.
fn means(runs: &[RunResult]) -> Metrics {
    let names = runs.first().map(|run| run.metrics.keys());
    let mean = |metric: &Metric| {
        let values: Vec<f64> = runs.iter().map(|run| run.metrics[metric]).collect();
        (*metric, Value::mean_of_runs(*metric, &values))
    };
    names.into_iter().flatten().map(mean).collect()
}
