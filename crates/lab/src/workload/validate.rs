//! The rules of a workload that its types do not express.

use super::{Api, Broken, Operation, Workload};

/// Most threads, and most outstanding requests per thread: what one machine can hold.
const THREADS_MAX: u32 = 4096;
const DEPTH_MAX: u32 = 65_536;
/// Most requests per second that can be demanded: several times what any array of today reaches.
const DEMAND_MAX_IOPS: u64 = 100_000_000;
/// Fastest replay of a trace: a hundred times as fast as it was recorded.
const SPEED_MAX_PERCENT: u32 = 10_000;
/// Longest burst and longest pause: a minute, so that a run has several.
const BURST_MAX_MS: u32 = 60_000;
/// Longest window: a month.
const SECONDS_MAX: u32 = 31 * 24 * 3600;

fn broken(key: &'static str, rule: impl Into<String>) -> Result<(), Broken> {
    let rule = rule.into();
    Err(Broken { key, rule })
}

pub(super) fn check(workload: &Workload) -> Result<(), Broken> {
    belonging(workload)?;
    ranges(workload)?;
    if let (Some(bs), Some(align)) = (workload.bs, workload.align)
        && bs.bytes() % align.bytes() != 0
        && align.bytes() % bs.bytes() != 0
    {
        return broken(
            "align",
            format!("must divide bs ({bs}) or be a multiple of it, is {align}"),
        );
    }
    if workload.api == Some(Api::Sync) && workload.qd.unwrap_or(1) > 1 {
        return broken(
            "qd",
            "must be 1 with api = \"sync\", where a thread waits for each request",
        );
    }
    Ok(())
}

/// Checks which keys are allowed with which `op`, and which with each other.
fn belonging(workload: &Workload) -> Result<(), Broken> {
    let is_act = workload.op == Operation::Act;
    let is_replay = workload.op == Operation::Replay;
    let is_mix = matches!(workload.op, Operation::RandMix | Operation::SeqMix);
    let is_random = matches!(
        workload.op,
        Operation::RandRead | Operation::RandWrite | Operation::RandMix
    );
    for (key, is_there, is_fixed) in [
        ("bs", workload.bs.is_some(), is_act || is_replay),
        ("qd", workload.qd.is_some(), is_act),
        ("trace", workload.trace.is_some(), !is_replay),
    ] {
        if is_fixed && is_there {
            return not_of(workload, key);
        }
        if !is_fixed && !is_there {
            return broken(key, "is missing");
        }
    }
    for (key, is_there) in [
        ("align", workload.align.is_some()),
        ("demand_iops", workload.demand_iops.is_some()),
        ("demand_pct", workload.demand_pct.is_some()),
        ("arrivals", workload.arrivals.is_some()),
        ("on_ms", workload.on_ms.is_some()),
        ("off_ms", workload.off_ms.is_some()),
    ] {
        if (is_act || is_replay) && is_there {
            return not_of(workload, key);
        }
    }
    if workload.speed_pct.is_some() && !is_replay {
        return not_of(workload, "speed_pct");
    }
    match (is_mix, workload.read_pct.is_some()) {
        (true, false) => return broken("read_pct", "is missing: a mix needs its share of reads"),
        (false, true) => return broken("read_pct", "goes with randmix and seqmix only"),
        _ => {}
    }
    demanding(workload)?;
    match (workload.hot_access_pct, workload.hot_span_pct) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) if is_random => Ok(()),
        (Some(_), Some(_)) => broken("hot_access_pct", "goes with random offsets only"),
        (Some(_), None) => broken("hot_span_pct", "is missing: it goes with hot_access_pct"),
        (None, Some(_)) => broken("hot_access_pct", "is missing: it goes with hot_span_pct"),
    }
}

/// Refuses a key that this operation has no use for.
fn not_of(workload: &Workload, key: &'static str) -> Result<(), Broken> {
    match workload.op {
        Operation::Act => broken(
            key,
            "does not go with op = \"act\", which fixes its own requests",
        ),
        Operation::Replay => broken(
            key,
            "does not go with op = \"replay\", whose trace has the requests",
        ),
        _ => broken(key, "goes with op = \"replay\" only"),
    }
}

/// Checks the keys of a demanded rate.
fn demanding(workload: &Workload) -> Result<(), Broken> {
    if workload.demand_iops.is_some() && workload.demand_pct.is_some() {
        return broken(
            "demand_pct",
            "does not go with demand_iops; one of them is the rate",
        );
    }
    for (key, is_there) in [
        ("arrivals", workload.arrivals.is_some()),
        ("on_ms", workload.on_ms.is_some()),
        ("off_ms", workload.off_ms.is_some()),
    ] {
        if is_there && !workload.is_open() {
            return broken(key, "goes with demand_iops or demand_pct only");
        }
    }
    match (workload.on_ms, workload.off_ms) {
        (Some(_), None) => broken("off_ms", "is missing: it goes with on_ms"),
        (None, Some(_)) => broken("on_ms", "is missing: it goes with off_ms"),
        _ => Ok(()),
    }
}

/// Refuses what depends on a measurement or on another file.
pub(super) fn check_known(workload: &Workload) -> Result<(), Broken> {
    if workload.op == Operation::Replay {
        return broken(
            "op",
            "is replay, and a trace is not planned: \"lab run\" replays it on a target",
        );
    }
    if workload.demand_pct.is_some() {
        return broken(
            "demand_pct",
            "is a share of what a target does at most, which \"lab run\" measures; give demand_iops here",
        );
    }
    Ok(())
}

fn ranges(workload: &Workload) -> Result<(), Broken> {
    let numbers = [
        (
            "threads",
            Some(u64::from(workload.threads)),
            u64::from(THREADS_MAX),
        ),
        ("qd", workload.qd.map(u64::from), u64::from(DEPTH_MAX)),
        ("demand_iops", workload.demand_iops, DEMAND_MAX_IOPS),
        ("demand_pct", workload.demand_pct.map(u64::from), 100),
        (
            "speed_pct",
            workload.speed_pct.map(u64::from),
            u64::from(SPEED_MAX_PERCENT),
        ),
        (
            "on_ms",
            workload.on_ms.map(u64::from),
            u64::from(BURST_MAX_MS),
        ),
        (
            "off_ms",
            workload.off_ms.map(u64::from),
            u64::from(BURST_MAX_MS),
        ),
        (
            "hot_access_pct",
            workload.hot_access_pct.map(u64::from),
            100,
        ),
        ("hot_span_pct", workload.hot_span_pct.map(u64::from), 100),
        (
            "skip_seconds",
            workload.skip_seconds.map(u64::from),
            u64::from(SECONDS_MAX),
        ),
        (
            "seconds",
            workload.seconds.map(u64::from),
            u64::from(SECONDS_MAX),
        ),
    ];
    for (key, value, most) in numbers {
        if let Some(value) = value
            && !(1..=most).contains(&value)
        {
            return broken(key, format!("must be from 1 to {most}, is {value}"));
        }
    }
    match workload.read_pct {
        Some(percent) if percent > 100 => {
            broken("read_pct", format!("must be from 0 to 100, is {percent}"))
        }
        _ => Ok(()),
    }
}
