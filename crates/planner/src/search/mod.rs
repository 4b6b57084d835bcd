//! The cheapest arrays that do what is asked: a search over drives, levels, numbers of drives and chunk sizes.
//!
//! [`ask`] collects what there is to choose from, and [`wanted`] understands what is asked. Arrays are looked at from the
//! cheapest on (`candidate`). Of each drive and level, the number of drives grows until one holds; then that drive and level is
//! done, since more of the same cost more. An array whose capacity, endurance or certain rate (`bound`) is too little is not run
//! (`judge`). The others are run under the demanded load, several at a time. If its drive is known from a data sheet only, an array
//! holds if it does in as many draws as a plan's range covers (`draws`). Where a larger number of drives shows that smaller ones
//! cannot hold, these are passed over (`counts`, which says what that takes for granted). The search ends with [`MOST_FOUND`] arrays;
//! what they do at most is run at the end (`holding`). [`report`] has them, with what was too little of the cheaper ones.
//!
//! The result is the same as if every array had been run: tests compare both.

pub mod ask;
mod bound;
mod candidate;
mod counts;
mod draws;
mod holding;
mod judge;
pub mod report;
pub mod wanted;

pub use judge::Margin;

use crate::plan::ideal::narrowest_bytes_per_s;
use crate::plan::size::Sizer;
use crate::predict::library::Library;
use crate::predict::many::Answered;
use crate::predict::{Answer, Virtual};
use crate::work::{Watch, Work};
use anyhow::{Result, anyhow};
use candidate::{Candidate, Cheapest, Kind};
use counts::Lack;
use draws::TooFew;
use holding::Holding;
use judge::{Judge, impossible, least, of_run};
use lab::schema::SCHEMA;
use lab::schema::configuration::{Configuration, State};
use lab::schema::metric::Metric;
use lab::schema::setup::{Export, Level};
use lab::workload::Workload;
use models::platform::{Bay, Graph};
use report::{Bought, Failed, SearchReport};
use std::collections::{BTreeMap, BTreeSet};
use wanted::Wanted;

/// Arrays that a search ends with.
pub const MOST_FOUND: usize = 5;

/// What a search is about. The library has its drives and its machine.
#[derive(Debug)]
pub struct Question {
    /// What is asked for, as it was given.
    pub text: String,
    /// What is asked for.
    pub wanted: Wanted,
    /// The drives to choose from, by name.
    pub drives: Vec<String>,
    /// The levels to choose from.
    pub levels: Vec<Level>,
    /// The number of drives, if it is given.
    pub count: Option<u32>,
    /// The chunk size, if it is given.
    pub chunk_kib: Option<u32>,
    /// The machine.
    pub platform: String,
    /// The operating system.
    pub host: String,
    /// Cores that run the engine.
    pub engine_cores: Option<u32>,
    /// How clients of other processes reach the engine.
    pub export: Option<Export>,
    /// The state of the drives.
    pub state: State,
    /// The load without its demand.
    pub load: Workload,
    /// Sizes arrays, and has prices and spares.
    pub sizer: Sizer,
    /// What the machine costs; 0 if it is not counted.
    pub platform_price: f64,
    /// Whether arrays are run that cannot hold by their bounds: for a test of these.
    pub run_all: bool,
}

/// An array that has been judged.
enum Judged {
    Holds(Box<Holding>),
    Fails(Failed, Shown),
}

/// What has shown that an array does not hold.
enum Shown {
    /// Figures alone.
    WithoutRun,
    /// The run with the usual drive.
    Usual,
    /// The runs of these draws.
    Draws(Vec<usize>),
}

struct Search<'a> {
    question: &'a Question,
    predictor: Virtual,
    work: Work,
    watch: &'a dyn Watch,
    metrics: BTreeSet<Metric>,
    bays: u32,
    /// Whether it makes no difference in which bay a drive is.
    has_like_bays: bool,
    /// Price of each drive of the question.
    prices: Vec<f64>,
    /// Answers so far.
    answered: Answered,
    /// Of drives and levels, their draws: those with least first. The one that was judged last is the last.
    worst_draws: Vec<(Kind, Vec<usize>)>,
    /// What drives and levels have too little of.
    lacks: BTreeMap<Kind, Lack>,
    /// The arrays that were looked at, by their numbers of drives, and whether they were run.
    looked_at: BTreeMap<(Kind, u32), bool>,
}

/// Searches.
///
/// # Errors
/// The machine is not in the library, a drive has no price, or a point cannot be run.
pub fn search(
    question: &Question,
    library: Library,
    work: Work,
    watch: &dyn Watch,
    left_out: Vec<String>,
) -> Result<SearchReport> {
    let platform = library.platform(&question.platform.clone().into());
    let graph = platform.map_err(|missing| anyhow!(missing.reason))?;
    let (bays, has_like_bays) = (graph.bays.len(), has_like_bays(graph));
    let prices = question
        .drives
        .iter()
        .map(|drive| question.sizer.price(drive));
    let latencies = question.wanted.latencies.iter();
    let latencies = latencies.map(|limit| Metric::Latency(limit.statistic));
    let plain = [Metric::Iops, Metric::BytesPerSecond, Metric::Watts];
    let mut search = Search {
        question,
        work,
        watch,
        metrics: plain.into_iter().chain(latencies).collect(),
        bays: bays as u32,
        has_like_bays,
        prices: prices.collect::<Result<_>>()?,
        predictor: Virtual {
            quick: true,
            library,
            ..Virtual::default()
        },
        answered: Answered::new(),
        worst_draws: Vec::new(),
        lacks: BTreeMap::new(),
        looked_at: BTreeMap::new(),
    };
    search.run(left_out)
}

impl Search<'_> {
    fn run(&mut self, left_out: Vec<String>) -> Result<SearchReport> {
        let mut queue = self.question.first(&self.prices, self.bays);
        let mut found: Vec<Holding> = Vec::new();
        let mut failed: BTreeMap<Kind, Failed> = BTreeMap::new();
        let mut nearest: Option<Failed> = None;
        while found.len() < MOST_FOUND
            && let Some(cheapest) = queue.pop()
        {
            if let Some(smallest) = self.narrowed(&cheapest, &queue) {
                queue.push(smallest);
                continue;
            }
            match self.judged(&cheapest, &queue) {
                Judged::Holds(one) => {
                    failed.remove(&cheapest.kind());
                    found.push(*one);
                }
                Judged::Fails(one, shown) => {
                    nearest = nearer(nearest, &one);
                    failed.insert(cheapest.kind(), one);
                    match self.after(&cheapest, shown, &queue) {
                        Ok(next) => queue.extend(next),
                        Err(largest) => nearest = nearer(nearest, &largest),
                    }
                }
            }
        }
        let mut failed: Vec<Failed> = failed.into_values().collect();
        failed.sort_by(|one, other| one.bought.price.total_cmp(&other.bought.price));
        Ok(SearchReport {
            schema: SCHEMA,
            program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
            wanted: self.question.text.clone(),
            platform: self.question.platform.clone(),
            currency: self.question.sizer.currency().to_owned(),
            nearest: nearest.filter(|_| found.is_empty()),
            found: self.finished(found)?,
            failed,
            left_out,
            considered: self.looked_at.len() as u64,
            simulated: self.looked_at.values().filter(|is_run| **is_run).count() as u64,
        })
    }

    fn bought(&self, candidate: &Candidate, chunk_kib: Option<u32>) -> Bought {
        Bought {
            drive: self.question.drives[candidate.drive].clone(),
            level: candidate.level,
            count: candidate.count,
            spares: self.question.sizer.spares_of(candidate.level),
            chunk_kib,
            price: candidate.price,
        }
    }

    /// Judges a candidate with each chunk, until it holds with one. If it does not, the chunk with which most is there counts.
    fn judged(&mut self, candidate: &Candidate, queue: &Cheapest) -> Judged {
        let mut nearest: Option<(Failed, Shown)> = None;
        for chunk_kib in self.question.chunks(candidate.level) {
            let bought = self.bought(candidate, chunk_kib);
            let configuration = self.question.configuration(candidate, chunk_kib, true);
            let bound = self.judge().bound(&configuration);
            self.look_at(candidate, bound.is_none());
            let (margin, shown) = match bound {
                Some(margin) => (margin, Shown::WithoutRun),
                None => match self.judged_by_run(&configuration, candidate, queue) {
                    Ok(holding) => return Judged::Holds(Box::new(holding)),
                    Err(fails) => fails,
                },
            };
            let is_nearer = |known: &(Failed, Shown)| margin.times > known.0.margin.times;
            if nearest.as_ref().is_none_or(is_nearer) {
                nearest = Some((Failed { bought, margin }, shown));
            }
        }
        let (failed, shown) = nearest.expect("each level has a chunk");
        Judged::Fails(failed, shown)
    }

    fn judge(&self) -> Judge<'_> {
        Judge {
            question: self.question,
            library: &self.predictor.library,
        }
    }

    /// Counts an array that is looked at. What is run ahead of its turn is not counted, so that the number does not depend on the
    /// threads.
    fn look_at(&mut self, candidate: &Candidate, is_run: bool) {
        let array = (candidate.kind(), candidate.count);
        *self.looked_at.entry(array).or_default() |= is_run;
    }

    /// Judges an array by its runs. If it does not hold, what is too little, and what has shown it.
    fn judged_by_run(
        &mut self,
        configuration: &Configuration,
        candidate: &Candidate,
        queue: &Cheapest,
    ) -> Result<Holding, (Margin, Shown)> {
        self.answer_with_next(configuration, queue);
        let sizer = &self.question.sizer;
        let drive = &self.question.drives[candidate.drive];
        let prices = sizer.prices_of(drive, &configuration.setup);
        let library = &self.predictor.library;
        let sized = self.answer(configuration).and_then(|answer| {
            let sizing = sizer.sized(configuration, &answer, prices.as_ref(), library)?;
            Ok((answer, sizing))
        });
        let (answer, sizing) =
            sized.map_err(|why| (impossible(&format!("{why:#}")), Shown::WithoutRun))?;
        let margins = of_run(&self.question.wanted, &answer, &sizing, None);
        if let Some(margin) = least(&margins).filter(|margin| !margin.holds()) {
            return Err((margin.clone(), Shown::Usual));
        }
        let draws = self
            .in_draws(configuration, candidate)
            .map_err(|TooFew { decides, failing }| (decides, Shown::Draws(failing)))?;
        Ok(Holding {
            bought: self.bought(candidate, configuration.setup.chunk_kib),
            configuration: configuration.clone(),
            answer,
            sizing,
            draws,
        })
    }

    /// Runs a configuration, and with it what the next candidates probably have to run, one for each further thread.
    fn answer_with_next(&mut self, configuration: &Configuration, queue: &Cheapest) {
        if self.answered.contains_key(configuration) {
            return;
        }
        let threads = self.work.threads();
        let mut to_run = vec![configuration.clone()];
        let mut next: Vec<&Candidate> = queue.iter().collect();
        next.sort_by(|one, other| other.cmp(one));
        for candidate in next {
            if to_run.len() >= threads {
                break;
            }
            let other = self.probable(candidate);
            if self.judge().bound(&other).is_none() && !to_run.contains(&other) {
                to_run.push(other);
            }
        }
        self.run_until(&to_run, &|_, _| false);
    }

    /// Runs configurations that have no answer yet, one after the other until it `is_enough`, given all answers so far.
    fn run_until(
        &mut self,
        configurations: &[Configuration],
        is_enough: &(dyn Fn(Judge<'_>, &Answered) -> bool + Sync),
    ) {
        let known = std::mem::take(&mut self.answered);
        let missing = configurations
            .iter()
            .filter(|one| !known.contains_key(*one));
        let order: Vec<_> = missing.map(|one| (one, &self.metrics)).collect();
        let judge = self.judge();
        let (answered, _) =
            self.work
                .answer_until(&self.predictor, &order, known, self.watch, &|answered| {
                    is_enough(judge, answered)
                });
        self.answered = answered;
    }

    fn answer(&self, configuration: &Configuration) -> Result<Answer> {
        let answer = self.answered.get(configuration).expect("it has been run");
        let answer = answer
            .as_ref()
            .map_err(|missing| anyhow!(missing.reason.clone()))?;
        Ok(answer.clone())
    }
}

/// The one of both that is nearer to what is asked; `known` if they are as near.
fn nearer(known: Option<Failed>, other: &Failed) -> Option<Failed> {
    known
        .filter(|known| known.margin.times >= other.margin.times)
        .or_else(|| Some(other.clone()))
}

/// Whether all bays are on one socket and have the same link and the same way to it, and more drives never move less together. They may
/// if shared links have different numbers of bays: the drives that are added then crowd behind one of these links.
fn has_like_bays(graph: &Graph) -> bool {
    let speeds = |&at: &usize| {
        let link = &graph.links[at];
        (link.to_host_bytes_per_s, link.to_drive_bytes_per_s)
    };
    let way = |bay: &Bay| {
        let link = (bay.lanes, bay.generation);
        let shared: Vec<_> = bay.links.iter().map(speeds).collect();
        (bay.socket, link, bay.latency_ns, bay.interrupt_ns, shared)
    };
    let mut pairs = graph.bays.windows(2);
    let are_alike = pairs.all(|pair| way(&pair[0]) == way(&pair[1]));
    let counts = 1..=graph.bays.len();
    let moved_bytes_per_s = counts.map(|drives| narrowest_bytes_per_s(graph, drives));
    are_alike && moved_bytes_per_s.is_sorted()
}

#[cfg(test)]
mod tests;
