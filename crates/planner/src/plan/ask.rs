//! Turns a question, a file of loads and a plan to compare with into configurations. Errors name the options of
//! `fullstripe plan`.

use super::left_out::{LeftOut, USUAL_LEVELS, reasons, sorted_out};
use super::loads::{LoadQuestion, loads};
use super::size::SizeQuestion;
use super::sweep::{Sweep, Variation};
use crate::files::{add_drive, add_from_catalogue, add_platform};
use crate::predict::library::Library;
use crate::predict::point::STACKS;
use anyhow::{Context, Result, anyhow, bail, ensure};
use catalogue::Catalogue;
use lab::schema::configuration::{Configuration, State};
use lab::schema::document::{Refusal, check_version, read};
use lab::schema::nearest::nearest;
use lab::schema::setup::{Condition, Export, Level, Reference, Setup};
use lab::workload::{Broken, Completion, Operation};
use models::platform::Machine;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The operating system unless another is asked for.
pub const HOST: &str = "linux-6.12";
/// Drives of an array unless their number is given.
pub const COUNT: u32 = 4;
/// Rebuild limits that are tried if the user gives none, in MB per second; 0 means no limit.
const REBUILD_RATES_MB_S: [u32; 4] = [50, 200, 500, 0];

/// What the user asks of a plan.
#[derive(Clone, Debug)]
pub struct Question {
    /// The drives, all alike: an id, or a profile (PATH or PATH#ID).
    pub drive: String,
    /// Whether the plan is made from the drive's data sheet in the catalogue although there is a profile of it.
    pub from_sheet: bool,
    /// Number of drives.
    pub count: u32,
    /// RAID levels; if empty, those of the usual levels that are possible with so many drives.
    pub levels: Vec<Level>,
    /// The machine around the drives: an id, or a file.
    pub platform: String,
    /// That machine, if it is the one at hand and not of the program.
    pub here: Option<Machine>,
    /// Whether the drives are those that this machine has, which then have the queues that it shows.
    pub drives_are_here: bool,
    /// The operating system and its drivers; by default the one that the RAID software is a driver of, or [`HOST`].
    pub host: Option<String>,
    /// The RAID software. By default it is the engine, or none for one drive alone.
    pub stack: Option<String>,
    /// Chunk size; by default the RAID software's own.
    pub chunk_kib: Option<u32>,
    /// Cores that run the engine; by default one.
    pub engine_cores: Option<u32>,
    /// How clients of other processes reach the engine.
    pub export: Option<Export>,
    /// How completions are noticed.
    pub completion: Option<Completion>,
    /// The loads.
    pub load: LoadQuestion,
    /// State of the drives. By default the state in which reviews prepare drives for the load.
    pub state: Option<State>,
    /// Whether to plan each setup also with one drive missing.
    pub degraded: bool,
    /// Whether to plan each setup also while a new drive is being rebuilt.
    pub rebuilding: bool,
    /// Limits of that rebuild; 0 means no limit. If empty, the usual ones are tried.
    pub rebuild_rates_mb_s: Vec<u32>,
    /// A file of other setups, which are planned with the same loads.
    pub compare: Option<PathBuf>,
    /// What a sweep varies.
    pub sweep: Option<Sweep>,
    /// What the arrays are for, if the report is to say what Intel VROC would take.
    pub as_vroc: Option<vroc::Purpose>,
    /// Spares, prices and failure rates.
    pub size: SizeQuestion,
    /// Whether the report lists the figures that it was computed from, with their sources.
    pub provenance: bool,
}

impl Question {
    /// A plan of four of these drives on this platform, and nothing else said.
    #[must_use]
    pub fn new(drive: impl Into<String>, platform: impl Into<String>) -> Question {
        Question {
            drive: drive.into(),
            from_sheet: false,
            count: COUNT,
            levels: Vec::new(),
            platform: platform.into(),
            here: None,
            drives_are_here: false,
            host: None,
            stack: None,
            chunk_kib: None,
            engine_cores: None,
            export: None,
            completion: None,
            load: LoadQuestion::default(),
            state: None,
            degraded: false,
            rebuilding: false,
            rebuild_rates_mb_s: Vec::new(),
            compare: None,
            sweep: None,
            as_vroc: None,
            size: SizeQuestion::default(),
            provenance: false,
        }
    }
}

/// One point of a plan.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of its setup.
    pub setup: String,
    /// The name of its load.
    pub load: String,
    /// Whether the setup comes from the plan to compare with.
    pub is_other: bool,
    /// Values of what the sweep varies.
    pub varied: Vec<u64>,
    /// Everything that the figures depend on.
    pub configuration: Configuration,
}

/// The points of a plan, and what it leaves out.
pub struct Asked {
    /// All points, setup by setup.
    pub cases: Vec<Case>,
    /// What is not among the points because it is impossible.
    pub left_out: Vec<LeftOut>,
}

/// The form of a file of setups. It may have points too, which are ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setups {
    schema: u32,
    setup: BTreeMap<String, Setup>,
    #[serde(rename = "points")]
    _points: Option<IgnoredAny>,
}

/// The error for a broken key of a configuration, in terms of the option that sets the key.
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

/// The operating system of a question.
fn host_of<'a>(question: &'a Question, library: &'a Library) -> &'a str {
    let stack = question.stack.as_deref();
    let of_stack = || stack.and_then(|stack| library.host_of_stack(stack));
    question.host.as_deref().or_else(of_stack).unwrap_or(HOST)
}

/// Setups of the question, with their names.
fn setups(question: &Question, library: &Library) -> Vec<(String, Setup)> {
    let conditions: Vec<(Option<Condition>, Option<u32>)> = match question {
        _ if question.degraded => vec![(None, None), (Some(Condition::Degraded), None)],
        _ if question.rebuilding => {
            let rates = match question.rebuild_rates_mb_s.as_slice() {
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
    let levels = match question.levels.as_slice() {
        [] => &USUAL_LEVELS,
        asked => asked,
    };
    for level in levels {
        for (condition, rebuild_mb_s) in &conditions {
            let is_single = *level == Level::Single;
            let setup = Setup {
                drive: Reference::from(question.drive.clone()),
                count: question.count,
                level: *level,
                platform: Reference::from(question.platform.clone()),
                host: host_of(question, library).to_owned(),
                stack: question
                    .stack
                    .clone()
                    .unwrap_or_else(|| if is_single { "none" } else { "fullstripe" }.to_owned()),
                chunk_kib: question.chunk_kib,
                engine_cores: question.engine_cores,
                export: question.export,
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

/// Setups of the plan to compare with. Files of drives and platforms are relative to its path.
fn others(path: &Path, library: &mut Library) -> Result<Vec<(String, Setup)>> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let setups: Setups = read(&file, &text)?;
    check_version(&file, setups.schema)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for (name, setup) in &setups.setup {
        add_drive(library, folder, &setup.drive)?;
        setup.check(&library.catalogue()).map_err(|broken| {
            Refusal::new(&file, format!("setup.{name}.{}", broken.key), broken.rule)
        })?;
        add_platform(library, folder, &setup.platform)?;
    }
    Ok(setups.setup.into_iter().collect())
}

/// Fails unless drive, platform, host and stack are modelled. The error names the nearest that would be accepted.
fn is_modelled(question: &Question, library: &Library) -> Result<()> {
    let known = |option: &str, id: &str, known: &[&str], offered: &[&str]| {
        ensure!(
            known.contains(&id),
            "{option} does not know \"{id}\"; nearest: {}",
            nearest(id, offered.iter().copied())
        );
        Ok(())
    };
    if let Reference::Id(id) = Reference::from(question.drive.clone()) {
        let drives: Vec<&str> = library.drives().collect();
        known("--drive", &id, &drives, &drives)?;
    }
    if let Reference::Id(id) = Reference::from(question.platform.clone()) {
        let platforms: Vec<&str> = library.platforms().collect();
        let has_room = |name: &&str| {
            let graph = library.platform(&Reference::Id((*name).to_owned()));
            graph.is_ok_and(|graph| graph.bays.len() >= question.count as usize)
        };
        let roomy: Vec<&str> = platforms.iter().copied().filter(has_room).collect();
        known("--platform", &id, &platforms, &roomy)?;
    }
    let hosts: Vec<&str> = library.hosts().collect();
    known("--host", host_of(question, library), &hosts, &hosts)?;
    let is_single = question.levels.contains(&Level::Single);
    if let Some(stack) = question.stack.as_deref() {
        let of_level = |stack: &&str| (*stack == "none") == is_single;
        let offered: Vec<&str> = STACKS.into_iter().filter(of_level).collect();
        known("--stack", stack, &STACKS, &offered)?;
    }
    Ok(())
}

/// The state in which reviews prepare drives for a load.
#[must_use]
pub fn usual_state(op: Operation) -> State {
    match op {
        Operation::Read | Operation::Write | Operation::SeqMix => State::Filled,
        Operation::RandRead
        | Operation::RandWrite
        | Operation::RandMix
        | Operation::Act
        | Operation::Replay => State::Steady,
    }
}

/// Turns a question into the points of a plan.
///
/// # Errors
/// If something is unknown, malformed or impossible, or if nothing is left to plan: one sentence that names the option or file, the
/// key and the rule.
pub fn asked(question: &Question, library: &mut Library) -> Result<Asked> {
    let asked = understood(question, library)?;
    if asked.cases.iter().all(|case| case.is_other) {
        bail!(
            "nothing is left to plan: {}{}",
            reasons(&asked.left_out),
            if question.count == 1 && question.sweep.is_none() {
                "; for one drive alone give --level none"
            } else {
                ""
            }
        );
    }
    Ok(asked)
}

/// The same, although nothing may be left.
///
/// # Errors
/// If something is unknown, malformed or impossible and may not be left out.
pub fn understood(question: &Question, library: &mut Library) -> Result<Asked> {
    let here = Path::new("");
    if question.from_sheet {
        Catalogue::built_in().with_id(&question.drive)?;
        add_from_catalogue(library, &question.drive)?;
    }
    add_drive(library, here, &Reference::from(question.drive.clone()))?;
    match &question.here {
        Some(machine) => {
            library.add_machine(&question.platform, machine)?;
            if question.drives_are_here {
                library.keep_queues_of(&question.platform, machine);
            }
        }
        None => add_platform(library, here, &Reference::from(question.platform.clone()))?,
    }
    is_modelled(question, library)?;
    let mut loads = loads(&question.load)?;
    for (_, load) in &mut loads {
        load.completion = load.completion.or(question.completion);
    }
    let sweep = question.sweep.as_ref();
    if sweep.is_some() {
        loads.truncate(1);
    }
    let mut cases = Vec::new();
    let state: Option<State> = question.state;
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
    add(setups(question, library), false);
    if let Some(path) = &question.compare {
        add(others(path, library)?, true);
    }
    if let Some(sweep) = sweep {
        cases = sweep.vary(&cases);
    }
    let is_usual = question.levels.is_empty();
    let (cases, left_out) = sorted_out(cases, library, |case, key| {
        let is_of_level = matches!(key, "count" | "condition");
        sweep.is_some() || (is_usual && !case.is_other && is_of_level)
    })?;
    Ok(Asked { cases, left_out })
}

/// Sets what a sweep varies to one of its values.
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
