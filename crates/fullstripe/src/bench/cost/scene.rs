//! A scene: an array, and much of one kind of work for it; and how it is run.
//!
//! The engine runs in its own loop in a [`super::world`]. Which scenes there are says [`super::catalogue`].

use super::catalogue::{self, asks};
use super::world::{self, Asks, COMPONENT_BYTES, Client, CostWorld, Shared};
use crate::bench::outcome::Counters;
use anyhow::{Context, Result, bail, ensure};
use engine::claims::Claims;
use engine::control::bad_blocks::BadBlocks;
use engine::control::message::{Command, Message};
use engine::control::record::{
    LogArea, MemberRecord, MemberState, Record, SlotRecord, VolumeRecord,
};
use engine::layout::{Geometry, Level};
use engine::limits::MIRROR_ROW_BYTES;
use engine::request::Operation;
use engine::shard::{Engine, Options, Setup, Shard};
use engine::units::{Buffer, MemberId, Nanos, ShardId, VolumeId};
use engine::world::Input;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Plans' memory: only addresses, nothing lies there.
const SCRATCH_BYTES: u64 = 256 << 20;
/// Of each member, behind the data.
const LOG_AREA_BYTES: u32 = 1 << 20;
/// A turn of the loop takes so long.
const TURN_NS: u64 = 1000;
/// How often the engine looks at deadlines and idle volumes.
const SWEEP_NS: u64 = 250_000_000;
/// Turns without an end are a fault of a scene.
const TURNS_MAX: u64 = 1 << 32;

/// What a scene makes the engine do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A client's requests.
    Requests(Asks),
    /// A background job over so many bands.
    Job { rebuild: bool, matches: bool },
    /// Nothing; time passes.
    Idle,
    /// Without an engine: the world answers its own client, with so many commands for each request.
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
    /// With a write-hole log.
    pub logged: bool,
    pub work: Work,
}

impl Scene {
    /// Units of the shorter of two runs: enough that starting does not blur them, and short.
    pub fn units(&self) -> u64 {
        match self.work {
            Work::Idle => 200,
            Work::Requests(asks) if asks.when_clean => 100,
            _ => 1000,
        }
    }
}

/// What a run of a scene did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// The engine's counters, and [`WORLD_REQUESTS`] and [`WORLD_COMMANDS`].
    pub counters: BTreeMap<String, u64>,
    /// The instructions that sum parity in this process.
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

/// Requests that the world issued and saw answered.
pub(super) const WORLD_REQUESTS: &str = "world_requests";
/// Commands that the world took and answered.
pub(super) const WORLD_COMMANDS: &str = "world_commands";

/// Runs the scene of that name with `units` requests, bands or looks at deadlines.
///
/// # Errors
///
/// One sentence when there is no such scene, or the array did not do what it was to do.
pub(super) fn run(name: &str, units: u64) -> Result<Done> {
    let scene = catalogue::find(name).with_context(|| format!("there is no scene {name}"))?;
    if let Work::WorldAlone { commands } = scene.work {
        return Ok(world_alone(commands, units));
    }
    scene.run(units)
}

/// The world's own part of `units` requests of `commands` commands each.
fn world_alone(commands: u32, units: u64) -> Done {
    world::run_alone(asks(Operation::Read, 4096, 32), commands, units);
    let counters = [
        (WORLD_REQUESTS.to_owned(), units),
        (WORLD_COMMANDS.to_owned(), units * u64::from(commands)),
    ];
    Done::of(counters.into_iter().collect())
}

impl Scene {
    fn geometry(&self, units: u64) -> Result<Geometry> {
        // A band is at most a chunk; a mirror's row is a band.
        let band_bytes = match self.level {
            Level::Raid1 => u64::from(MIRROR_ROW_BYTES),
            _ => u64::from(self.chunk_bytes),
        };
        let component_bytes = match self.work {
            Work::Job { .. } => units * band_bytes,
            _ => COMPONENT_BYTES,
        };
        let mut shape = Geometry {
            level: self.level,
            members: self.members,
            chunk_bytes: self.chunk_bytes,
            start_bytes: 0,
            component_bytes,
            size_bytes: 1,
            block_bytes: 512,
        };
        shape.size_bytes = component_bytes * u64::from(shape.data_members());
        Geometry::new(shape).map_err(|error| anyhow::anyhow!("{}: {error}", self.name))
    }

    fn record(&self, geometry: Geometry) -> Record {
        let member = |slot| match self.failed {
            Some(failed) if failed == slot => MemberRecord::ABSENT,
            _ => MemberRecord {
                state: MemberState::Active,
                size_bytes: geometry.component_bytes + (16 << 20),
                volatile_cache: true,
                returns_to: None,
            },
        };
        let rebuild = matches!(self.work, Work::Job { rebuild: true, .. });
        let slot = |slot| SlotRecord {
            member: (self.failed != Some(slot)).then_some(MemberId(slot)),
            current: self.failed != Some(slot) && !(rebuild && slot == 0),
        };
        let volume = VolumeRecord {
            geometry,
            read_only: false,
            dirty: false,
            slots: (0..self.members).map(slot).collect(),
            sync: None,
            then_resync: false,
            log: self.logged.then_some(LogArea {
                offset_bytes: geometry.component_bytes,
                length_bytes: LOG_AREA_BYTES,
            }),
            bitmap: None,
        };
        Record {
            generation: 1,
            members: (0..self.members).map(member).collect(),
            volumes: vec![volume],
            bad_blocks: BadBlocks::default(),
        }
    }

    fn shards(&self, units: u64) -> Result<(Vec<Shard<CostWorld>>, Rc<Shared>)> {
        let geometry = self.geometry(units)?;
        let record = self.record(geometry);
        let shared = Rc::new(Shared::default());
        shared.clean.set(true);
        shared
            .mail
            .replace(vec![Vec::new(); usize::from(self.shards)]);
        let claims = Claims::new();
        let shard = |number: u8| {
            let (asked, requests) = match self.work {
                Work::Requests(asked) => (asked, units / u64::from(self.shards)),
                _ => (asks(Operation::Read, 4096, 1), 0),
            };
            let client = Client::new(asked, geometry.size_bytes, requests);
            let mut world = CostWorld::new(ShardId(number), shared.clone(), client);
            world.has_bad_blocks = self.has_bad_blocks;
            world.matches = !matches!(self.work, Work::Job { matches: false, .. });
            let setup = Setup {
                shard: ShardId(number),
                shards: self.shards,
                record: record.clone(),
                scratch: (Buffer(1 << 44), SCRATCH_BYTES),
                zeros: Buffer(1 << 45),
                options: Options {
                    clean_after: Nanos(SWEEP_NS / 2),
                    ..Options::default()
                },
                claims: claims.clone(),
            };
            Shard::new(Engine::new(setup, Nanos(0)), world)
        };
        Ok(((0..self.shards).map(shard).collect(), shared))
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
            // Nothing to do: time passes until there is.
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
