//! A scene: an array with much work of one kind, and how it is run.
//!
//! The engine runs in its own loop in a [`super::world`]. [`super::catalogue`] lists the scenes.

use super::catalogue::{self, asks};
use super::world::{self, Asks, COMPONENT_BYTES, Client, CostWorld, Shared};
use crate::outcome::Counters;
use anyhow::{Context, Result, bail, ensure};
use engine::control::message::{Command, Message};
use engine::layout::Level;
use engine::limits::MIRROR_ROW_BYTES;
use engine::options::Options;
use engine::request::Operation;
use engine::turn::Shard;
use engine::units::{Nanos, ShardId, VolumeId};
use engine::world::Input;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use timed::array::Array;

/// Duration of one turn of the loop.
const TURN_NS: u64 = 1000;
/// How often the engine checks deadlines and idle volumes.
const SWEEP_NS: u64 = 250_000_000;
/// A scene with more turns is faulty, because it does not end.
const TURNS_MAX: u64 = 1 << 32;

/// The work of a scene.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A client's requests.
    Requests(Asks),
    /// A background job; its length is given in bands.
    Job { rebuild: bool, matches: bool },
    /// No work; only time passes.
    Idle,
    /// No engine: the world completes its own client's requests, each with this many commands.
    WorldAlone { commands: u32 },
}

/// See the module's prose.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub name: String,
    pub level: Level,
    pub members: u8,
    pub chunk_bytes: u32,
    pub shards: u8,
    pub failed: Option<u8>,
    pub has_bad_blocks: bool,
    /// Whether there is a write-hole log.
    pub logged: bool,
    pub work: Work,
}

impl Scene {
    /// Units of work in the shorter one of two runs: enough to make the start negligible, but still short.
    pub fn units(&self) -> u64 {
        match self.work {
            Work::Idle => 200,
            Work::Requests(asks) if asks.when_clean => 100,
            _ => 1000,
        }
    }
}

/// The work of a scene's run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// The engine's counters, and [`WORLD_REQUESTS`] and [`WORLD_COMMANDS`].
    pub counters: BTreeMap<String, u64>,
    /// The instructions that compute parity in this process.
    pub parity_by: String,
}

impl Done {
    pub fn of(counters: BTreeMap<String, u64>) -> Done {
        Done {
            counters,
            parity_by: engine::xor::instructions().name().to_owned(),
        }
    }
}

/// Requests that the world issued and that completed.
pub(super) const WORLD_REQUESTS: &str = "world_requests";
/// Commands that the world received and completed.
pub(super) const WORLD_COMMANDS: &str = "world_commands";

/// Runs the scene called `name` with `units` requests, bands or checks of deadlines.
///
/// # Errors
///
/// If there is no such scene, or the array did not do its work: one sentence.
pub(super) fn run(name: &str, units: u64) -> Result<Done> {
    let scene = catalogue::find(name).with_context(|| format!("there is no scene {name}"))?;
    if let Work::WorldAlone { commands } = scene.work {
        return Ok(world_alone(commands, units));
    }
    scene.run(units)
}

/// The world's own work for `units` requests of `commands` commands each.
fn world_alone(commands: u32, units: u64) -> Done {
    world::run_alone(asks(Operation::Read, 4096, 32), commands, units);
    let counters = [
        (WORLD_REQUESTS.to_owned(), units),
        (WORLD_COMMANDS.to_owned(), units * u64::from(commands)),
    ];
    Done::of(counters.into_iter().collect())
}

impl Scene {
    fn array(&self, units: u64) -> Array {
        // A band is at most a chunk, and the whole row in a mirror.
        let band_bytes = match self.level {
            Level::Raid1 => u64::from(MIRROR_ROW_BYTES),
            _ => u64::from(self.chunk_bytes),
        };
        Array {
            level: self.level,
            members: self.members,
            chunk_bytes: self.chunk_bytes,
            component_bytes: match self.work {
                Work::Job { .. } => units * band_bytes,
                _ => COMPONENT_BYTES,
            },
            logged: self.logged,
            volatile_cache: true,
            missing: self.failed,
            rebuilding: None,
            shards: self.shards,
        }
    }

    fn shards(&self, units: u64) -> Result<(Vec<Shard<CostWorld>>, Rc<Shared>)> {
        let array = self.array(units);
        let geometry = array
            .geometry()
            .map_err(|error| anyhow::anyhow!("{}: {error}", self.name))?;
        let mut record = array.record(geometry);
        if let Work::Job { rebuild: true, .. } = self.work {
            record.volumes[0].slots[0].current = false;
        }
        let shared = Rc::new(Shared::default());
        shared.clean.set(true);
        shared
            .mail
            .replace(vec![Vec::new(); usize::from(self.shards)]);
        let options = Options {
            clean_after: Nanos(SWEEP_NS / 2),
            ..Options::default()
        };
        let shard = |(number, engine)| {
            let (asked, requests) = match self.work {
                Work::Requests(asked) => (asked, units / u64::from(self.shards)),
                _ => (asks(Operation::Read, 4096, 1), 0),
            };
            let client = Client::new(asked, geometry.size_bytes, requests);
            let mut world = CostWorld::new(ShardId(number), shared.clone(), client);
            world.has_bad_blocks = self.has_bad_blocks;
            world.matches = !matches!(self.work, Work::Job { matches: false, .. });
            Shard::new(engine, world)
        };
        let engines = array.engines(&record, options);
        Ok(((0..).zip(engines).map(shard).collect(), shared))
    }

    fn run(&self, units: u64) -> Result<Done> {
        let (mut shards, shared) = self.shards(units)?;
        if let Work::Job { rebuild: false, .. } = self.work {
            let order = Message::Command {
                ticket: 1,
                command: Command::Scrub {
                    volume: VolumeId(0),
                    repair: false,
                },
            };
            shards[0].engine.handle(Input::Message(order), Nanos(0));
        }
        let mut turns = 0;
        while !self.is_over(&shards, &shared, units) {
            let mut busy = false;
            for shard in &mut shards {
                busy |= shard.turn();
            }
            let now = shared.now.get() + TURN_NS;
            let wake = shards.iter().filter_map(|shard| shard.engine.next_wake());
            // If there is nothing to do, time advances to the next deadline.
            let next = if busy { None } else { wake.min() };
            shared.now.set(next.map_or(now, |wake| now.max(wake.0)));
            if let Some(event) = shared.trouble.take() {
                bail!("{}: {event:?}", self.name);
            }
            turns += 1;
            ensure!(turns < TURNS_MAX, "{} does not come to its end", self.name);
        }
        self.sum_up(&shards)
    }

    fn is_over(&self, shards: &[Shard<CostWorld>], shared: &Shared, units: u64) -> bool {
        match self.work {
            Work::Job { .. } => shared.jobs_ended.get() > 0,
            Work::Idle => shared.now.get() >= units * SWEEP_NS,
            _ => shards.iter().all(|shard| {
                let client = &shard.world.client;
                client.left == 0 && client.outstanding == 0
            }),
        }
    }

    fn sum_up(&self, shards: &[Shard<CostWorld>]) -> Result<Done> {
        let mut sum: BTreeMap<String, u64> = BTreeMap::new();
        let (mut failures, mut commands) = (0, 0);
        for shard in shards {
            let counters = Counters::of(shard.engine.stats());
            for (name, count) in counters.iter() {
                *sum.entry(name.to_owned()).or_default() += count;
            }
            commands += shard.world.commands;
            failures += shard.world.client.failures;
        }
        let expected = ["misuse", "trim"]
            .iter()
            .any(|kind| self.name.ends_with(kind));
        ensure!(
            failures == 0 || expected,
            "{}: {failures} requests failed",
            self.name
        );
        let kinds = ["reads", "writes", "flushes", "trims", "request_errors"];
        let requests = kinds.iter().map(|&kind| sum[kind]).sum();
        sum.insert(WORLD_REQUESTS.to_owned(), requests);
        sum.insert(WORLD_COMMANDS.to_owned(), commands);
        Ok(Done::of(sum))
    }
}
