//! The loads of a plan: those of a file, one load, or a small suite.

use anyhow::{Context, Result, ensure};
use indexmap::IndexMap;
use lab::schema::document::{Refusal, check_version, read};
use lab::workload::size::Size;
use lab::workload::{Broken, Operation, Workload};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The loads that are asked for: a file of loads, one load, or a small suite.
#[derive(Clone, Debug, Default)]
pub struct LoadQuestion {
    /// A file of loads by name, as TOML.
    pub workload: Option<PathBuf>,
    /// Kind of requests, for one load.
    pub op: Option<Operation>,
    /// Bytes of a request.
    pub bs: Option<Size>,
    /// Threads of clients.
    pub threads: Option<u32>,
    /// Requests outstanding per thread.
    pub qd: Option<u32>,
    /// Reads among the requests of a mix, in percent.
    pub read_pct: Option<u8>,
    /// Requests per second that clients demand, however fast the array is.
    pub demand: Option<u64>,
}

/// The form of a file of loads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loads {
    schema: u32,
    workload: IndexMap<String, Workload>,
}

/// The loads of a plan that names none.
fn suite() -> Vec<(String, Workload)> {
    [
        (Operation::RandRead, 4, 8, 64),
        (Operation::RandWrite, 4, 8, 64),
        (Operation::Read, 128, 4, 16),
        (Operation::Write, 128, 4, 16),
    ]
    .map(|(op, kib, threads, qd)| {
        let load = load(op, Size::new(kib * 1024), threads, qd);
        (name_of(&load), load)
    })
    .into()
}

/// One load, of clients that keep `qd` requests outstanding each.
#[must_use]
pub fn load(op: Operation, bs: Option<Size>, threads: u32, qd: u32) -> Workload {
    Workload {
        op,
        read_pct: None,
        bs,
        align: None,
        threads,
        qd: Some(qd),
        demand_iops: None,
        arrivals: None,
        on_ms: None,
        off_ms: None,
        demand_pct: None,
        trace: None,
        speed_pct: None,
        hot_access_pct: None,
        hot_span_pct: None,
        api: None,
        completion: None,
        skip_seconds: None,
        seconds: None,
    }
}

fn name_of(load: &Workload) -> String {
    let op = match load.op {
        Operation::RandRead => "randread",
        Operation::RandWrite => "randwrite",
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::RandMix => "randmix",
        Operation::SeqMix => "seqmix",
        Operation::Act => "act",
        Operation::Replay => "replay",
    };
    load.bs
        .map_or_else(|| op.to_owned(), |bs| format!("{op} {bs}"))
}

/// The loads that are asked for, with their names.
pub(super) fn loads(asked: &LoadQuestion) -> Result<Vec<(String, Workload)>> {
    if let Some(path) = &asked.workload {
        let loads = of_file(path)?;
        for (name, load) in &loads {
            load.check_known()
                .map_err(|broken| refusal(path, name, broken))?;
        }
        return Ok(loads);
    }
    let says_more = asked.bs.is_some() || asked.read_pct.is_some() || asked.demand.is_some();
    let Some(op) = asked.op else {
        ensure!(
            !says_more,
            "--op is missing: --bs, --read-pct and --demand describe the load of --op"
        );
        let mut suite = suite();
        for (_, load) in &mut suite {
            load.threads = asked.threads.unwrap_or(load.threads);
            load.qd = asked.qd.or(load.qd);
        }
        return Ok(suite);
    };
    let bs = asked.bs.or(Size::new(4096));
    let (threads, qd) = (asked.threads.unwrap_or(8), asked.qd.unwrap_or(64));
    let load = Workload {
        read_pct: asked.read_pct,
        demand_iops: asked.demand,
        ..load(op, bs, threads, qd)
    };
    Ok(vec![(name_of(&load), load)])
}

/// The loads of a file with their names, in its order.
///
/// # Errors
/// The file cannot be read, or a load in it has the wrong form.
pub fn of_file(path: &Path) -> Result<Vec<(String, Workload)>> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let loads: Loads = read(&file, &text)?;
    check_version(&file, loads.schema)?;
    if loads.workload.is_empty() {
        return Err(Refusal::new(&file, "workload", "has no load; name at least one").into());
    }
    for (name, load) in &loads.workload {
        load.check().map_err(|broken| refusal(path, name, broken))?;
    }
    Ok(loads.workload.into_iter().collect())
}

fn refusal(path: &Path, name: &str, broken: Broken) -> Refusal {
    let key = format!("workload.{name}.{}", broken.key);
    Refusal::new(&path.display().to_string(), key, broken.rule)
}
