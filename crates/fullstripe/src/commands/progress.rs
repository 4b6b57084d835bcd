//! How predictions are made, and a bar of how far they are ([`Bar`]).

use super::bar::Bar;
use crate::terminal::print::print_note;
use clap::builder::RangedU64ValueParser;
use planner::work::{Watch, Work};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads at most: more than any machine has cores for.
const JOBS_MAX: u64 = 1024;

/// How predictions are made, whatever is predicted.
#[derive(clap::Args, Debug)]
pub struct HowArgs {
    /// Run long enough for 99.999 %, which takes five times as long.
    #[arg(long)]
    pub deep: bool,
    #[command(flatten)]
    pub work: WorkArgs,
}

/// What computing takes of the machine.
#[derive(clap::Args, Debug)]
pub struct WorkArgs {
    /// Threads; as many as the machine has cores unless given. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=JOBS_MAX))]
    jobs: Option<usize>,
    /// Compute everything, and remember nothing for the next time (in ~/.cache/fullstripe).
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
