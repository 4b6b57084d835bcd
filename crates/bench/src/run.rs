//! Measures in rounds: generator alone, bare member and array, in this order again and again. If the machine is slower
//! for a while, all three are affected.

use super::bare::BareMember;
use super::config::{Config, Workload};
use super::cores;
use super::generator::{Load, Region};
use super::members::Members;
use super::outcome::{BenchOutcome, Counters, Round, Sample, Setting};
use super::window::window;
use anyhow::{Context, anyhow};
use drives::arena::{Arena, ArenaOptions, Pool};
use drives::mailbox::Mailbox;
use drives::port::Port;
use drives::ring::RingOptions;
use drives::world::{RingWorld, WorldOptions};
use engine::event::Event;
use engine::limits::BAND_BYTES_MAX;
use engine::request::Completion;
use engine::setup::Setup;
use engine::units::{MemberId, Nanos};
use engine::world::Input;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of rounds.
pub(super) const ROUNDS: u32 = 5;
/// Time for generator and bare member, in percent of the array's time in a round.
const COMPARED_PERCENT: u32 = 20;
const COMPARED_MIN: Duration = Duration::from_millis(10);
/// Number of seeds per round; the shard's number selects one of them.
const SEEDS_PER_ROUND: u64 = 256;

/// What all measurements of a bench share.
pub(super) struct Bench<'a> {
    pub config: &'a Config,
    pub members: &'a Members,
    /// Payload, scratch and zeros, divided by [`parts`].
    pub arena: Arc<Arena>,
    /// Cores for the shards, by shard number; empty if there are too few.
    pub cores: Vec<usize>,
}

/// Measures what `config` asks for.
///
/// # Errors
///
/// If something that was asked for is impossible, a member cannot be used, or a request failed: one sentence.
pub fn measure(config: &Config) -> anyhow::Result<BenchOutcome> {
    config.check()?;
    let members = Members::open(config)?;
    let bench = Bench::new(config, &members)?;
    let round_time = config.time / ROUNDS;
    let compared_time = (round_time * COMPARED_PERCENT / 100).max(COMPARED_MIN);
    let calibrations = calibrations(config, &members);
    let mut rounds = Vec::new();
    let mut report = None;
    for round in 0..u64::from(ROUNDS) {
        let generator = bench.alone(c"generator", || bench.generator(round, compared_time))?;
        let bare_of = |workload| {
            bench.alone(c"bare member", || {
                bench.bare(workload, round, compared_time)
            })
        };
        let bare = bare_of(config.workload)?;
        let calibrated = calibrations.iter().map(|&workload| bare_of(workload));
        let calibrated = calibrated.collect::<anyhow::Result<Vec<Sample>>>()?;
        let (array, ring) = bench.array(round, round_time)?;
        report = Some(ring);
        rounds.push(Round {
            generator,
            bare,
            calibrated,
            array,
        });
    }
    let setting = Setting {
        cores: bench.cores.clone(),
        ring: report.map_or_else(String::new, |report| report.to_string()),
        huge_pages: bench.arena.report().huge_pages,
    };
    BenchOutcome::new(config, &members, &calibrations, &rounds, setting)
}

/// The measurements of the bare member that the roofline needs: reads and writes alone, unless limits give the members'
/// speed.
fn calibrations(config: &Config, members: &Members) -> Vec<Workload> {
    let unknown = |limit: Option<u64>| {
        members.hardware
            && members.modelled.is_none()
            && limit.is_none()
            && members.limits.bandwidth_bytes_per_second.is_none()
    };
    let random = config.workload.random;
    [
        (100, members.limits.read_iops),
        (0, members.limits.write_iops),
    ]
    .into_iter()
    .filter(|(_, limit)| unknown(*limit))
    .map(|(read_percent, _)| Workload {
        read_percent,
        random,
    })
    .collect()
}

/// A shard's memory, as ranges of the arena. All shards share the zeros before the first range.
pub(super) struct Part {
    pub scratch: Range<usize>,
    pub payload: Range<usize>,
}

/// How the arena is divided among the shards.
pub(super) fn parts(config: &Config, members: &Members) -> Vec<Part> {
    let scratch_bytes = Setup::scratch_bytes_min(&members.record().volumes) as usize;
    // The bare member gets all requests on one thread, and uses the first shard's memory.
    let payload_bytes = |shard: u8| {
        let depth = if shard == 0 {
            config.queue_depth
        } else {
            config.shard_queue_depth(shard)
        };
        depth as usize * config.payload_block_bytes() as usize
    };
    let mut at = BAND_BYTES_MAX as usize;
    (0..config.shards)
        .map(|shard| {
            // Blocks of the pool are aligned to their own size, counted from the pool's start.
            let scratch = at..at + scratch_bytes;
            let payload = scratch.end..scratch.end + payload_bytes(shard);
            at = payload.end;
            Part { scratch, payload }
        })
        .collect()
}

impl<'a> Bench<'a> {
    /// Allocates the memory for `config`.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn new(config: &'a Config, members: &'a Members) -> anyhow::Result<Bench<'a>> {
        let length_bytes = parts(config, members)
            .last()
            .map_or(0, |part| part.payload.end);
        let arena = Arena::new(ArenaOptions {
            length_bytes,
            prefault: true,
            lock: false,
        })?;
        Ok(Bench {
            config,
            members,
            arena,
            cores: cores::choose(config.shards),
        })
    }

    /// Runs `work` on the first shard's core, in a thread called `name`.
    pub fn alone<T: Send>(
        &self,
        name: &CStr,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let core = self.cores.first().copied();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                cores::settle(core, name);
                work()
            });
            thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("the measuring thread has panicked")))
        })
    }

    /// The load of a shard, with that shard's memory.
    pub fn load(
        &self,
        (shard, round): (u8, u64),
        workload: Workload,
        region: Region,
        depth: u32,
    ) -> anyhow::Result<Load> {
        let part = &parts(self.config, self.members)[usize::from(shard)];
        let mut pool = Pool::new(self.arena.clone(), part.payload.clone());
        let seed = round * SEEDS_PER_ROUND + u64::from(shard);
        Load::new(workload, region, depth, &mut pool, seed).context("payload memory is too small")
    }

    /// Measures what choosing and recording requests costs, with requests that complete at once.
    fn generator(&self, round: u64, time: Duration) -> anyhow::Result<Sample> {
        let region = Region::whole(self.members.geometry.size_bytes, self.config.block_bytes);
        let depth = self.config.shard_queue_depth(0);
        let load = self.load((0, round), self.config.workload, region, depth)?;
        let mut state = (load, Vec::new());
        let turn = |(load, inputs): &mut (Load, Vec<Input>)| {
            load.issue(clock(), inputs);
            for input in inputs.drain(..) {
                if let Input::Request(request) = input {
                    load.answered(Completion {
                        tag: request.tag,
                        result: Ok(()),
                    });
                }
            }
        };
        window(
            &mut state,
            time,
            turn,
            |state| &mut state.0,
            |_| Counters::default(),
        )
    }

    /// Measures one member behind the same interface, without the engine.
    fn bare(&self, workload: Workload, round: u64, time: Duration) -> anyhow::Result<Sample> {
        let Config {
            block_bytes,
            queue_depth,
            ..
        } = *self.config;
        let region = Region::whole(self.members.geometry.component_bytes, block_bytes);
        let load = self.load((0, round), workload, region, queue_depth)?;
        let mailbox = Mailbox::new()?;
        let mut world = self.world((), mailbox, Box::new(|_| ()))?;
        world.attach(MemberId(0), self.members.bare.clone());
        let mut state = BareMember::new(world, load, block_bytes);
        let counters = |_: &BareMember| Counters::default();
        let sample = window(
            &mut state,
            time,
            BareMember::turn,
            |state| &mut state.load,
            counters,
        )?;
        state.drain()?;
        Ok(sample)
    }

    /// A world for the calling thread.
    pub fn world<P: Port>(
        &self,
        port: P,
        mailbox: Mailbox,
        on_event: Box<dyn FnMut(Event) + Send>,
    ) -> anyhow::Result<RingWorld<P>> {
        Ok(RingWorld::new(WorldOptions {
            arena: self.arena.clone(),
            ring: RingOptions::default(),
            completion: self.config.completion,
            mailbox,
            port,
            log_encoder: self.members.log_encoder(),
            encoder: self.members.encoder(),
            on_event,
        })?)
    }
}

fn clock() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * Nanos::SECOND.0 + now.tv_nsec as u64)
}
