//! Options that all predictions share, and a bar that shows their progress ([`Bar`]).

use super::bar::Bar;
use crate::terminal::print::print_note;
use clap::builder::RangedU64ValueParser;
use planner::work::{Watch, Work};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most threads: more than any machine has cores.
const JOBS_MAX: u64 = 1024;

/// Options of every prediction.
#[derive(clap::Args, Debug)]
pub struct HowArgs {
    /// Run long enough to measure the 99.999th percentile, which takes many times as long.
    #[arg(long)]
    pub deep: bool,
    #[command(flatten)]
    pub work: WorkArgs,
}

/// How the machine is used for computing.
#[derive(clap::Args, Debug)]
pub struct WorkArgs {
    /// Number of threads; one per core unless given. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=JOBS_MAX))]
    jobs: Option<usize>,
    /// Compute everything anew: neither use nor fill the cache of results (in ~/.cache/fullstripe).
    #[arg(long)]
    no_cache: bool,
}

impl WorkArgs {
    /// As the planner takes it.
    pub fn work(&self) -> Work {
        Work {
            jobs: self.jobs,
            remember: !self.no_cache,
        }
    }
}

/// A bar while something is computed.
#[derive(Default)]
pub struct PointsBar(Mutex<Option<Bar>>);

impl PointsBar {
    fn bar(&self) -> MutexGuard<'_, Option<Bar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for PointsBar {
    fn begin(&self, all: u64) {
        *self.bar() = Some(Bar::new("points", all));
    }

    fn done(&self, done: u64) {
        self.bar().iter().for_each(|bar| bar.at(done));
    }

    fn end(&self) {
        self.bar().take();
    }

    fn note(&self, sentence: &str) {
        print_note(sentence);
    }
}
