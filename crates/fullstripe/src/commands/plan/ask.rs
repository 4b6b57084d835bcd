//! From the command line, a file of loads and a plan to compare with to configurations.

use super::args::{LoadArgs, PlanArgs};
use super::left_out::{LeftOut, USUAL_LEVELS, reasons, sorted_out};
use super::sweep::{Sweep, Variation};
use crate::commands::predict::{add_drive, add_platform};
use anyhow::{Context, Result, anyhow, bail, ensure};
use lab::schema::configuration::{Configuration, State};
use lab::schema::document::{Refusal, check_version, read};
use lab::schema::nearest::nearest;
use lab::schema::setup::{Condition, Level, Reference, Setup};
use lab::workload::size::Size;
use lab::workload::{Broken, Operation, Workload};
use planner::predict::library::Library;
use planner::predict::point::STACKS;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Limits of a rebuild that are tried unless somebody says which, in MB per second; 0 is none.
const REBUILD_RATES_MB_S: [u32; 4] = [50, 200, 500, 0];

/// One point of a plan.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of its setup.
    pub setup: String,
    /// The name of its load.
    pub load: String,
    /// Whether it is of the plan that is compared with.
    pub is_other: bool,
    /// Values of what is varied.
    pub varied: Vec<u64>,
    /// All that it depends on.
    pub configuration: Configuration,
}

/// What is asked.
pub struct Asked {
    /// All points, setup by setup.
    pub cases: Vec<Case>,
    /// What varies, if something does.
    pub sweep: Option<Sweep>,
    /// What is not among the points because it is impossible.
    pub left_out: Vec<LeftOut>,
}

/// A file of loads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loads {
    schema: u32,
    workload: BTreeMap<String, Workload>,
}

/// A file of setups; its points, if it has any, are not asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setups {
    schema: u32,
    setup: BTreeMap<String, Setup>,
    #[serde(rename = "points")]
    _points: Option<IgnoredAny>,
}

/// The suite of a plan that names no load.
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

fn load(op: Operation, bs: Option<Size>, threads: u32, qd: u32) -> Workload {
    Workload {
        op,
        read_pct: None,
        bs,
        align: None,
        threads,
        qd: Some(qd),
        demand_iops: None,
        arrivals: None,
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
    };
    load.bs
        .map_or_else(|| op.to_owned(), |bs| format!("{op} {bs}"))
}

/// The loads that are asked for, with their names.
fn loads(args: &LoadArgs) -> Result<Vec<(String, Workload)>> {
    if let Some(path) = &args.workload {
        return of_file(path);
    }
    let says_more = args.bs.is_some() || args.read_pct.is_some() || args.demand.is_some();
    let Some(op) = args.op else {
        ensure!(
            !says_more,
            "--op is missing: --bs, --read-pct and --demand say more about one load"
        );
        let mut suite = suite();
        for (_, load) in &mut suite {
            load.threads = args.threads.unwrap_or(load.threads);
            load.qd = args.qd.or(load.qd);
        }
        return Ok(suite);
    };
    let bs = args.bs.or(Size::new(4096));
    let (threads, qd) = (args.threads.unwrap_or(8), args.qd.unwrap_or(64));
    let load = Workload {
        read_pct: args.read_pct,
        demand_iops: args.demand,
        ..load(op.into(), bs, threads, qd)
    };
    Ok(vec![(name_of(&load), load)])
}

fn of_file(path: &Path) -> Result<Vec<(String, Workload)>> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let loads: Loads = read(&file, &text)?;
    check_version(&file, loads.schema)?;
    if loads.workload.is_empty() {
        return Err(Refusal::new(&file, "workload", "has no load: nothing is asked for").into());
    }
    for (name, load) in &loads.workload {
        load.check().map_err(|broken| {
            Refusal::new(
                &file,
                format!("workload.{name}.{}", broken.key),
                broken.rule,
            )
        })?;
    }
    Ok(loads.workload.into_iter().collect())
}

/// A key of a configuration as the option that sets it.
pub fn option(broken: &Broken, setup: &Setup) -> anyhow::Error {
    let name = match broken.key {
        "chunk_kib" => "--chunk",
        "stack" if setup.stack == "none" || setup.level == Level::Single => {
            return anyhow!(
                "--stack none and --level none go together only: give both, or leave out --stack"
            );
        }
        "engine_cores" => "--engine-cores",
        "demand_iops" => "--demand",
        "read_pct" => "--read-pct",
        "rebuild_mb_s" => "--rebuild-rate",
        "condition" => "--degraded or --rebuilding",
        other => return anyhow!("--{other} {}", broken.rule),
    };
    anyhow!("{name} {}", broken.rule)
}

/// Setups of the command line, with their names.
fn setups(args: &PlanArgs) -> Vec<(String, Setup)> {
    let conditions: Vec<(Option<Condition>, Option<u32>)> = match args {
        _ if args.degraded => vec![(None, None), (Some(Condition::Degraded), None)],
        _ if args.rebuilding => {
            let rates = match args.rebuild_rate.as_slice() {
                [] => &REBUILD_RATES_MB_S,
                rates => rates,
            };
            let rates = rates.iter().map(|rate| (*rate > 0).then_some(*rate));
            let rebuilds = rates.map(|rate| (Some(Condition::Rebuilding), rate));
            [(None, None)].into_iter().chain(rebuilds).collect()
        }
        _ => vec![(None, None)],
    };
    let mut setups = Vec::new();
    let levels = match args.level.as_slice() {
        [] => &USUAL_LEVELS,
        asked => asked,
    };
    for level in levels {
        for (condition, rebuild_mb_s) in &conditions {
            let is_single = *level == Level::Single;
            let setup = Setup {
                drive: Reference::from(args.drive.clone()),
                count: args.count,
                level: *level,
                platform: Reference::from(args.platform.clone()),
                host: args.host.clone(),
                stack: args
                    .stack
                    .clone()
                    .unwrap_or_else(|| if is_single { "none" } else { "fullstripe" }.to_owned()),
                chunk_kib: args.chunk,
                engine_cores: args.engine_cores,
                export: args.export.map(Into::into),
                condition: *condition,
                rebuild_mb_s: *rebuild_mb_s,
            };
            setups.push((name_of_setup(&setup), setup));
        }
    }
    setups
}

fn name_of_setup(setup: &Setup) -> String {
    let level = setup.level.name();
    match (setup.condition, setup.rebuild_mb_s) {
        (None, _) => level.to_owned(),
        (Some(Condition::Degraded), _) => format!("{level} degraded"),
        (Some(Condition::Rebuilding), None) => format!("{level} rebuilding"),
        (Some(Condition::Rebuilding), Some(rate)) => {
            format!("{level} rebuilding at most {rate} MB/s")
        }
    }
}

/// Setups of the plan that is compared with; drives and platforms by file are relative to it.
fn others(path: &PathBuf, library: &mut Library) -> Result<Vec<(String, Setup)>> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let setups: Setups = read(&file, &text)?;
    check_version(&file, setups.schema)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for (name, setup) in &setups.setup {
        setup.check(&library.catalogue()).map_err(|broken| {
            Refusal::new(&file, format!("setup.{name}.{}", broken.key), broken.rule)
        })?;
        add_drive(library, folder, &setup.drive)?;
        add_platform(library, folder, &setup.platform)?;
    }
    Ok(setups.setup.into_iter().collect())
}

/// Fails unless drive, platform, host and stack are modelled; offers the nearest that would be accepted.
fn is_modelled(args: &PlanArgs, library: &Library) -> Result<()> {
    let known = |option: &str, id: &str, known: &[&str], offered: &[&str]| {
        ensure!(
            known.contains(&id),
            "{option} does not know \"{id}\"; nearest: {}",
            nearest(id, offered.iter().copied())
        );
        Ok(())
    };
    if let Reference::Id(id) = Reference::from(args.drive.clone()) {
        let drives: Vec<&str> = library.drives().collect();
        known("--drive", &id, &drives, &drives)?;
    }
    if let Reference::Id(id) = Reference::from(args.platform.clone()) {
        let platforms: Vec<&str> = library.platforms().collect();
        let has_room = |name: &&str| {
            let graph = library.platform(&Reference::Id((*name).to_owned()));
            graph.is_ok_and(|graph| graph.bays.len() >= args.count as usize)
        };
        let roomy: Vec<&str> = platforms.iter().copied().filter(has_room).collect();
        known("--platform", &id, &platforms, &roomy)?;
    }
    let hosts: Vec<&str> = library.hosts().collect();
    known("--host", &args.host, &hosts, &hosts)?;
    let is_single = args.level.contains(&Level::Single);
    if let Some(stack) = args.stack.as_deref() {
        let of_level = |stack: &&str| (*stack == "none") == is_single;
        let offered: Vec<&str> = STACKS.into_iter().filter(of_level).collect();
        known("--stack", stack, &STACKS, &offered)?;
    }
    Ok(())
}

/// How reviews prepare drives for a load.
fn usual_state(op: Operation) -> State {
    match op {
        Operation::Read | Operation::Write | Operation::SeqMix => State::Filled,
        Operation::RandRead | Operation::RandWrite | Operation::RandMix | Operation::Act => {
            State::Steady
        }
    }
}

/// What is asked.
///
/// # Errors
/// What is not known, not of its form or impossible: one sentence with option or file, key and rule.
pub fn asked(args: &PlanArgs, library: &mut Library) -> Result<Asked> {
    let here = Path::new("");
    add_drive(library, here, &Reference::from(args.drive.clone()))?;
    add_platform(library, here, &Reference::from(args.platform.clone()))?;
    is_modelled(args, library)?;
    let mut loads = loads(&args.load)?;
    for (_, load) in &mut loads {
        load.completion = load.completion.or(args.completion.map(Into::into));
    }
    let sweep = args.sweep.as_deref().map(Sweep::parse).transpose()?;
    if sweep.is_some() {
        loads.truncate(1);
    }
    let mut cases = Vec::new();
    let state: Option<State> = args.state.map(Into::into);
    let mut add = |setups: Vec<(String, Setup)>, is_other: bool| {
        for (setup_name, setup) in setups {
            for (load_name, workload) in &loads {
                cases.push(Case {
                    setup: setup_name.clone(),
                    load: load_name.clone(),
                    is_other,
                    varied: Vec::new(),
                    configuration: Configuration {
                        setup: setup.clone(),
                        state: state.unwrap_or(usual_state(workload.op)),
                        workload: workload.clone(),
                    },
                });
            }
        }
    };
    add(setups(args), false);
    if let Some(path) = &args.compare {
        add(others(path, library)?, true);
    }
    if let Some(sweep) = &sweep {
        cases = sweep.vary(&cases);
    }
    let is_usual = args.level.is_empty();
    let (cases, left_out) = sorted_out(cases, library, |case, key| {
        let is_of_level = matches!(key, "count" | "condition");
        sweep.is_some() || (is_usual && !case.is_other && is_of_level)
    })?;
    if cases.iter().all(|case| case.is_other) {
        bail!(
            "nothing is left to plan: {}{}",
            reasons(&left_out),
            if args.count == 1 && sweep.is_none() {
                "; for one drive alone give --level none"
            } else {
                ""
            }
        );
    }
    Ok(Asked {
        cases,
        sweep,
        left_out,
    })
}

/// Sets what varies to one of its values.
pub fn set(configuration: &mut Configuration, what: Variation, value: u64) {
    let number = u32::try_from(value).unwrap_or(u32::MAX);
    let Configuration {
        setup, workload, ..
    } = configuration;
    match what {
        Variation::Count => setup.count = number,
        Variation::Chunk => setup.chunk_kib = Some(number),
        Variation::EngineCores => setup.engine_cores = Some(number),
        Variation::Depth => workload.qd = Some(number),
        Variation::Threads => workload.threads = number,
    }
}
