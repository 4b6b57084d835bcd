//! Runs of fio, which many trust more than any other generator: closed loops on block devices and files.
//!
//! The job is that of [`lab::fio::job`], so fio issues the same kinds of requests; what makes its figures doubtful is said as for any
//! result of fio ([`lab::fio`]).

use super::marks::{few, unsteady};
use super::outcome::{LoadOutcome, Metrics, steadiness};
use super::run::Lengths;
use anyhow::{Context, Result, bail, ensure};
use lab::fio::file::Version;
use lab::fio::job::{Target, text};
use lab::fio::marks::OLDEST;
use lab::fio::{Direction, FioPoint, RunFigures, points};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Value;
use lab::workload::Workload;
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
    let found = points(&[("fio's result".to_owned(), result.clone())])?;
    ensure!(!found.is_empty(), "fio's result has no requests");
    Ok(result)
}

/// Puts the results of a load together.
///
/// # Errors
///
/// One of them is no result of fio.
pub(crate) fn outcome(
    version: Version,
    (name, workload): &(String, Workload),
    results: &[String],
) -> Result<LoadOutcome> {
    let files = (1..)
        .zip(results)
        .map(|(run, text)| (format!("run {run} of load {name}"), text.clone()));
    let points = points(&files.collect::<Vec<_>>())?;
    let of = |direction| points.iter().find(|point| point.direction == direction);
    let of_kind = |direction| {
        of(direction)
            .map(|point| point.metrics.clone())
            .unwrap_or_default()
    };
    let first = points.first().expect("each result has requests");
    let mut outcome = LoadOutcome {
        name: name.clone(),
        workload: workload.clone(),
        generator: format!("fio {version}"),
        runs: results.len(),
        seeds: Vec::new(),
        metrics: first.metrics.clone(),
        reads: Metrics::new(),
        writes: Metrics::new(),
        effective_queue_depth: points.iter().map(|point| point.effective_queue_depth).sum(),
        generator_iops: None,
        generator_late_p99_us: None,
        steady_state: steadiness(workload, &rates(&points)),
        invalid: None,
        marks: few(results.len()).into_iter().collect(),
    };
    outcome
        .marks
        .extend(outcome.steady_state.and_then(unsteady));
    for mark in points.iter().flat_map(|point| &point.marks) {
        if !outcome.marks.contains(mark) {
            outcome.marks.push(mark.clone());
        }
    }
    if let (Some(reads), Some(writes)) = (of(Direction::Read), of(Direction::Write)) {
        outcome.metrics = together(reads, writes);
        outcome.reads = of_kind(Direction::Read);
        outcome.writes = of_kind(Direction::Write);
    }
    Ok(outcome)
}

/// Requests per second of each run.
fn rates(points: &[FioPoint]) -> Vec<f64> {
    let of_run = |run: &RunFigures| -> f64 {
        let parts = points.iter().flat_map(|point| &point.runs);
        parts
            .filter(|other| other.file == run.file)
            .map(|other| other.iops)
            .sum()
    };
    let first = points.first().map(|point| point.runs.iter().map(of_run));
    first.into_iter().flatten().collect()
}

/// The figures of a mix that those of its reads and writes determine; percentiles are not among them.
fn together(reads: &FioPoint, writes: &FioPoint) -> Metrics {
    let of_runs = |figure: fn(&RunFigures, &RunFigures) -> f64| -> Vec<f64> {
        let pair = |read: &RunFigures| {
            let write = writes.runs.iter().find(|write| write.file == read.file)?;
            Some(figure(read, write))
        };
        reads.runs.iter().filter_map(pair).collect()
    };
    let mean_us = |read: &RunFigures, write: &RunFigures| {
        (read.mean_us * read.iops + write.mean_us * write.iops) / (read.iops + write.iops)
    };
    let iops = of_runs(|read, write| read.iops + write.iops);
    let bytes_per_s = of_runs(|read, write| read.bytes_per_s + write.bytes_per_s);
    let figures: [(Metric, Vec<f64>); 3] = [
        (Metric::Iops, iops),
        (Metric::BytesPerSecond, bytes_per_s),
        (Metric::Latency(Statistic::Mean), of_runs(mean_us)),
    ];
    let figures = figures.into_iter();
    figures
        .map(|(metric, values)| (metric, Value::mean_of_runs(metric, &values)))
        .collect()
}
