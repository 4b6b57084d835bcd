//! Every power cut: an operation is carried out on drives that record all writes ([`tape`]). At every instant of
//! it the power is cut, and every state that this can leave ([`images`]) is assembled by the real code, read and
//! compared with the oracle, made whole, and judged.
//!
//! Histories are random; this module enumerates small operations ([`scenes`]) and all possible outcomes of each.
//! With up to twelve writes that are not safe, all 4,096 combinations are examined, and some with torn writes;
//! with more, as many combinations are drawn. A state that was examined before, while clients had received no
//! more answers, is only counted. Some states can be kept ([`sample`]), so that other programs can be run on
//! them.

mod create;
pub mod images;
pub mod sample;
pub mod scenes;
pub mod tape;

use crate::container::create::drive;
use crate::drive::Drive;
use crate::history::{History, Topology};
use crate::oracle::{Oracle, Value};
use crate::random::Stream;
use crate::run::Failure;
use crate::run::cut::{Moment, judge, moments, moments_of_start};
use engine::control::record::Record;
use engine::layout::Level;
use images::{Image, Limits};
use sample::{Sample, Sampler, Start, kept_drives};
use scenes::{KINDS, Kind, LEVELS, Scene, scene};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;

/// The result of one scene.
#[derive(Clone, Debug)]
pub struct CutsOutcome {
    /// The level.
    pub level: Level,
    /// What was under way.
    pub kind: Kind,
    /// Instants at which the power was cut.
    pub cuts: u64,
    /// Cuts with too many open writes to examine every combination: states were drawn.
    pub drawn_cuts: u64,
    /// The largest number of open writes at an instant.
    pub open_most: u32,
    /// States.
    pub images: u64,
    /// States that differ from all before, in the content of the drives or in the answers that clients have:
    /// these are started and judged.
    pub judged: u64,
    /// Judged states without an array, because it had not been created yet.
    pub without_array: u64,
    /// The first violated expectation.
    pub failure: Option<String>,
}

/// The result of one scene, and its states that were kept.
pub type Looked = (CutsOutcome, Vec<Sample>);

/// What to examine.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Only this level.
    pub level: Option<Level>,
    /// Only this kind.
    pub kind: Option<Kind>,
    /// How many states.
    pub limits: Limits,
    /// How many states of each scene are kept.
    pub samples: usize,
    /// Threads.
    pub jobs: usize,
}

impl Selection {
    /// Examines all selected scenes. The result does not depend on the number of threads.
    ///
    /// # Panics
    /// If an assertion of the engine does not hold.
    #[must_use]
    pub fn run(&self, progress: impl Fn(usize, usize) + Sync) -> Vec<Looked> {
        let chosen: Vec<(Level, Kind)> = LEVELS
            .into_iter()
            .flat_map(|level| KINDS.map(|kind| (level, kind)))
            .filter(|(level, _)| self.level.is_none_or(|only| only == *level))
            .filter(|(_, kind)| self.kind.is_none_or(|only| only == *kind))
            .filter(|(level, kind)| scene(*level, *kind).is_some())
            .collect();
        let (next, done) = (Mutex::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, chosen.len().max(1)) {
                scope.spawn(|| {
                    while let Some(at) = take(&next, chosen.len()) {
                        let (level, kind) = chosen[at];
                        let Some(scene) = scene(level, kind) else {
                            continue;
                        };
                        let looked = look_at(&scene, self.limits, self.samples);
                        let mut done = done
                            .lock()
                            .expect("no thread panics while it holds the lock");
                        done.push((at, looked));
                        progress(done.len(), chosen.len());
                    }
                });
            }
        });
        let mut done = done
            .into_inner()
            .expect("no thread panics while it holds the lock");
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, looked)| looked).collect()
    }
}

fn take(next: &Mutex<usize>, count: usize) -> Option<usize> {
    let mut next = next
        .lock()
        .expect("no thread panics while it holds the lock");
    let at = *next;
    *next += 1;
    (at < count).then_some(at)
}

/// Cuts the power at every instant of a scene, and keeps some of the states.
#[must_use]
pub fn look_at(scene: &Scene, limits: Limits, samples: usize) -> Looked {
    let mut looker = Looker::new(scene, limits, samples);
    let (history, window) = (&scene.history, scene.window.clone());
    let done = match scene.kind {
        Kind::Create => looker.look_at_create(),
        kind if kind.is_start() => looker.look_at_starts(window),
        _ => moments(history, window, |moment| looker.look(&moment)),
    };
    looker.outcome.failure = done.err().map(|failure| {
        let outcome = &looker.outcome;
        format!(
            "cut {}, state {} (judged {}): {failure}",
            outcome.cuts, looker.number, outcome.judged
        )
    });
    (looker.outcome, looker.sampler.kept)
}

struct Looker<'a> {
    history: &'a History,
    limits: Limits,
    random: Stream,
    seen: BTreeSet<(u64, u64)>,
    sampler: Sampler,
    /// The number of the state at the current cut.
    number: u64,
    outcome: CutsOutcome,
}

impl<'a> Looker<'a> {
    fn new(scene: &'a Scene, limits: Limits, samples: usize) -> Looker<'a> {
        Looker {
            history: &scene.history,
            limits,
            random: Stream::new(scene.history.seed, "cuts", 0),
            seen: BTreeSet::new(),
            sampler: Sampler::new(scene.history.seed, samples),
            number: 0,
            outcome: CutsOutcome {
                level: scene.level,
                kind: scene.kind,
                cuts: 0,
                drawn_cuts: 0,
                open_most: 0,
                images: 0,
                judged: 0,
                without_array: 0,
                failure: None,
            },
        }
    }

    fn look(&mut self, moment: &Moment) -> Result<(), Failure> {
        let (outcome, seen, sampler) = (&mut self.outcome, &mut self.seen, &mut self.sampler);
        let open = moment.cut.open();
        outcome.cuts += 1;
        outcome.drawn_cuts += u64::from(open > self.limits.every_up_to);
        outcome.open_most = outcome.open_most.max(open);
        self.number = 0;
        let number = &mut self.number;
        let history = self.history;
        let may_be_nothing = outcome.kind == Kind::Create;
        let images = moment.cut.images(self.limits, &mut self.random, |image| {
            *number += 1;
            if !seen.insert((image.name, moment.answered)) {
                return Ok(());
            }
            outcome.judged += 1;
            let kept = sampler.place();
            let kept =
                kept.map(|place| (place, kept_drives(&image, history.topology.drive_bytes())));
            let mut start = None;
            let started = |record: &Record, oracles: &[Oracle]| {
                start = kept.is_some().then(|| Start::of(record, &oracles[0]));
            };
            let drives = drives_of(history.seed, &history.topology, image);
            let oracles = moment.oracles.clone();
            let is_there = judge(history, drives, oracles, may_be_nothing, started)?;
            outcome.without_array += u64::from(!is_there);
            if let Some((place, drives)) = kept {
                let (cut, state) = (outcome.cuts, *number);
                let sample = Sample {
                    cut,
                    state,
                    drives,
                    start,
                };
                sampler.keep(place, sample);
            }
            Ok(())
        })?;
        self.outcome.images += images;
        Ok(())
    }

    /// Ends the process at some instants of the window, and cuts the power at every instant of each start that
    /// follows.
    fn look_at_starts(&mut self, window: Range<u64>) -> Result<(), Failure> {
        let (history, starts) = (self.history, self.limits.starts);
        (1..=starts).try_for_each(|number| {
            let at_ns = window.start + (window.end - window.start) * number / (starts + 1);
            moments_of_start(history, at_ns, |moment| self.look(&moment))
        })
    }

    fn look_at_create(&mut self) -> Result<(), Failure> {
        let topology = &self.history.topology;
        let unsound = |error: anyhow::Error| Failure::Unsound(format!("{error:#}"));
        let sectors = topology.size_bytes(0) / 512;
        for cut in create::cuts(self.history.seed, topology).map_err(unsound)? {
            self.look(&Moment {
                cut,
                oracles: vec![Oracle::new(0, sectors, Value::Zero)],
                answered: 0,
            })?;
        }
        Ok(())
    }
}

fn drives_of(seed: u64, topology: &Topology, image: Image) -> Vec<Drive> {
    let stores = image.stores.into_iter().enumerate();
    let drives = stores.map(|(bay, store)| {
        let mut drive = drive(seed, topology, bay, false);
        drive.replace_content(store);
        drive
    });
    drives.collect()
}

#[cfg(test)]
mod tests;
