//! `sim cuts`: cuts the power at every instant of small operations, and checks every state that this can leave.
//!
//! The [`sim`] crate does the checks ([`sim::cuts`]); this command selects the operations and prints the result. The
//! same selection gives the same result on any number of threads and any machine.

use super::super::bar::Bar;
use super::JOBS_MAX;
use super::kept::{self, Manifest};
use crate::commands::arguments::parse_level;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::plain_table;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use engine::layout::Level;
use serde::Serialize;
use sim::cuts::images::Limits;
use sim::cuts::scenes::{KINDS, Kind};
use sim::cuts::{CutsOutcome, Looked, Selection};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Cut the power at every instant of small operations, and check every state that this can leave.
///
/// Nothing on this machine is written but the folder of --keep. Exit code 0: no state lost anything that was promised.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct CutsArgs {
    /// Only arrays of this level: 0, 1, 10 or 5.
    #[arg(long, value_parser = parse_level)]
    level: Option<Level>,
    /// Only this operation.
    #[arg(long, value_parser = operations())]
    operation: Option<Kind>,
    /// Fewer states: every state only up to 4 open writes instead of 12, and beyond that 10 instead of 4,096.
    #[arg(long)]
    quick: bool,
    /// Save some of the states in this new folder: drives, what the volume may hold, and kept.json to describe them.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// How many states of each level and operation --keep saves, drawn at random; 2 unless given.
    #[arg(long, value_name = "N", requires = "keep", value_parser = RangedU64ValueParser::<usize>::new().range(1..=SAMPLES_MAX))]
    samples: Option<usize>,
    /// Number of threads; one per core unless given. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=JOBS_MAX))]
    jobs: Option<usize>,
    /// Print JSON; it contains no times.
    #[arg(long)]
    json: bool,
}

/// Most states kept of a level and an operation: they are in memory until all states have been checked.
const SAMPLES_MAX: u64 = 1000;
/// Default number of states that are kept.
const SAMPLES: usize = 2;

fn operations() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(KINDS.map(Kind::name)).try_map(|name| {
        let named = KINDS.into_iter().find(|kind| kind.name() == name);
        named.ok_or("there is no such operation")
    })
}

#[derive(Serialize, Debug)]
struct CutsReport {
    /// Version of this schema: 1.
    version: u32,
    /// Nothing that was promised was lost.
    passed: bool,
    quick: bool,
    /// States, duplicates included.
    images: u64,
    /// Different states, from which the array was started and checked.
    judged: u64,
    classes: Vec<Class>,
}

/// A level and an operation.
#[derive(Serialize, Debug)]
struct Class {
    level: u8,
    operation: &'static str,
    /// Instants at which the power was cut.
    cuts: u64,
    /// Of those, instants with too many open writes for all combinations: some states were drawn at random.
    drawn_cuts: u64,
    /// Most open writes at an instant.
    open_most: u32,
    images: u64,
    judged: u64,
    /// Of the checked states, those in which the array did not exist yet.
    without_array: u64,
    /// The first check that failed.
    failure: Option<String>,
    /// The command that checks this class again.
    again: Option<String>,
}

impl Class {
    fn new(args: &CutsArgs, outcome: CutsOutcome) -> Class {
        let level = outcome.level.number();
        let quick = if args.quick { " --quick" } else { "" };
        let operation = outcome.kind.name();
        let again = format!("fullstripe sim cuts --level {level} --operation {operation}{quick}");
        Class {
            level,
            operation,
            cuts: outcome.cuts,
            drawn_cuts: outcome.drawn_cuts,
            open_most: outcome.open_most,
            images: outcome.images,
            judged: outcome.judged,
            without_array: outcome.without_array,
            again: outcome.failure.is_some().then_some(again),
            failure: outcome.failure,
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.level.to_string(),
            self.operation.to_owned(),
            self.cuts.to_string(),
            self.drawn_cuts.to_string(),
            self.open_most.to_string(),
            self.images.to_string(),
            self.judged.to_string(),
            if self.failure.is_some() {
                "FAILED"
            } else {
                "held"
            }
            .to_owned(),
        ]
    }
}

impl CutsReport {
    fn new(args: &CutsArgs, outcomes: Vec<CutsOutcome>) -> CutsReport {
        let class = |outcome| Class::new(args, outcome);
        let classes: Vec<Class> = outcomes.into_iter().map(class).collect();
        CutsReport {
            version: 1,
            passed: classes.iter().all(|class| class.failure.is_none()),
            quick: args.quick,
            images: classes.iter().map(|class| class.images).sum(),
            judged: classes.iter().map(|class| class.judged).sum(),
            classes,
        }
    }

    fn text(&self) -> String {
        let head = "LEVEL,OPERATION,CUTS,DRAWN,OPEN,STATES,JUDGED,OUTCOME";
        let mut rows = vec![head.split(',').map(str::to_owned).collect()];
        rows.extend(self.classes.iter().map(Class::row));
        let mut text = plain_table(0, &rows);
        for class in &self.classes {
            if let (Some(failure), Some(again)) = (&class.failure, &class.again) {
                text += &format!("RAID {}, {}: {failure}\n", class.level, class.operation);
                text += &format!("  again: {again}\n");
            }
        }
        let verdict = if self.passed {
            "all held"
        } else {
            "NOT all held"
        };
        text += &format!(
            "{} states after a power cut, {} of them different and judged: {verdict}\n",
            self.images, self.judged
        );
        text
    }
}

fn keep(folder: &Path, looked: &[Looked]) -> Result<()> {
    let mut manifest = Manifest::new();
    for (outcome, samples) in looked {
        let class = (outcome.level.number(), outcome.kind.name());
        manifest.add(folder, class, samples)?;
    }
    manifest.write(folder)
}

/// Runs `sim cuts`. The exit code is 0 only if every state held.
///
/// # Errors
/// Standard output or the folder of --keep cannot be written.
pub(super) fn run(args: &CutsArgs) -> Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = if args.quick {
        Limits::QUICK
    } else {
        Limits::WHOLE
    };
    if let Some(folder) = &args.keep {
        kept::prepare(folder)?;
    }
    let samples = args.samples.unwrap_or(SAMPLES);
    let selection = Selection {
        level: args.level,
        kind: args.operation,
        limits,
        samples: args.keep.as_ref().map_or(0, |_| samples),
        jobs: args.jobs.unwrap_or(cores),
    };
    let bar = Bar::new("operations", 0);
    let looked = selection.run(|done, all| {
        bar.set_steps(all as u64);
        bar.at(done as u64);
    });
    drop(bar);
    if let Some(folder) = &args.keep {
        keep(folder, &looked)?;
    }
    let outcomes = looked.into_iter().map(|(outcome, _)| outcome).collect();
    let report = CutsReport::new(args, outcomes);
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&report.text())?;
    }
    Ok(if report.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
