//! How predictions are made, and a bar of how far they are ([`Bar`]).

use super::bar::Bar;
use crate::terminal::print::print_note;
use clap::builder::RangedU64ValueParser;
use planner::work::{Watch, Work};
use std::sync::OnceLock;

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

/// A bar that there is from when something is to be computed, until it is dropped.
#[derive(Default)]
pub struct PointsBar(OnceLock<Bar>);

impl Watch for PointsBar {
    fn done(&self, done: u64, all: u64) {
        self.0.get_or_init(|| Bar::new("points", all)).at(done);
    }

    fn note(&self, sentence: &str) {
        print_note(sentence);
    }
}
