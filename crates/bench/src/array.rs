//! The array: one engine in one world on one thread per shard, as when it serves an export.

use super::config::Config;
use super::cores;
use super::generator::{Load, Region};
use super::outcome::{Counters, Sample};
use super::run::{Bench, parts};
use super::window::{DRAIN_LOOK, PATIENCE, window};
use anyhow::{Context, anyhow, bail};
use drives::mailbox::{self, Mailbox};
use drives::port::Port;
use drives::ring::RingReport;
use drives::world::RingWorld;
use engine::claims::Claims;
use engine::control::record::Record;
use engine::event::Event;
use engine::options::Options;
use engine::policy::ErrorClass;
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{Buffer, MemberId, ShardId};
use engine::world::World;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

impl Bench<'_> {
    /// Measures the array, with one thread per shard.
    pub(super) fn array(
        &self,
        round: u64,
        time: Duration,
    ) -> anyhow::Result<(Vec<Sample>, RingReport)> {
        let shards = self.config.shards;
        let mailboxes = mailbox::exchange(usize::from(shards))?;
        let claims = Claims::new();
        let meeting = Meeting::new(shards);
        std::thread::scope(|scope| {
            let start = |(shard, mailbox): (u8, Mailbox)| {
                let (claims, meeting) = (claims.clone(), &meeting);
                scope.spawn(move || {
                    cores::settle(self.cores.get(usize::from(shard)).copied(), c"shard");
                    let made = self.shard(shard, round, mailbox, claims);
                    meeting.all_are_there(made.is_ok());
                    run_shard(made?, meeting, time)
                })
            };
            let threads: Vec<_> = (0u8..).zip(mailboxes).map(start).collect();
            let mut samples = Vec::new();
            let mut report = None;
            for thread in threads {
                let joined = thread.join();
                let (sample, ring) =
                    joined.unwrap_or_else(|_| Err(anyhow!("a shard's thread has panicked")))?;
                samples.extend(sample);
                report = Some(ring);
            }
            report
                .map(|report| (samples, report))
                .context("an array has at least one shard")
        })
    }

    /// Creates a shard on its thread.
    pub(super) fn shard(
        &self,
        shard: u8,
        round: u64,
        mailbox: Mailbox,
        claims: Arc<Claims>,
    ) -> anyhow::Result<ArrayShard> {
        let Config {
            workload,
            shards,
            block_bytes,
            ..
        } = *self.config;
        let whole = Region::whole(self.members.geometry.size_bytes, block_bytes);
        let region = whole.part(workload, shard, shards);
        let depth = self.config.shard_queue_depth(shard);
        let load = self.load((shard, round), workload, region, depth)?;
        let lost = Lost::default();
        let first_lost = lost.clone();
        let on_event = Box::new(move |event| {
            if let Event::MemberFailed {
                member,
                class,
                errno,
            } = event
            {
                let mut lost = first_lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.get_or_insert((member, class, errno));
            }
        });
        let world = self.world(load, mailbox, on_event)?;
        let report = world.report();
        Ok(ArrayShard {
            shard: self.put_together(shard, self.members.record(), claims, world),
            lost,
            report,
        })
    }

    /// A shard of the array that `record` describes, with its share of the memory and all members.
    pub(super) fn put_together<P: Port>(
        &self,
        shard: u8,
        record: Record,
        claims: Arc<Claims>,
        mut world: RingWorld<P>,
    ) -> Shard<RingWorld<P>> {
        for (id, drive) in (0u8..).zip(&self.members.drives) {
            if let Some(drive) = drive {
                world.attach(MemberId(id), drive.clone());
            }
        }
        let part = &parts(self.config, self.members)[usize::from(shard)];
        let start = self.arena.start().0;
        let setup = Setup {
            shard: ShardId(shard),
            shards: self.config.shards,
            record,
            scratch: (
                Buffer(start + part.scratch.start as u64),
                part.scratch.len() as u64,
            ),
            zeros: Buffer(start),
            options: Options::default(),
            claims,
        };
        let now = world.now();
        Shard::new(Engine::new(setup, now), world)
    }
}

/// Where the shards' threads wait for each other.
struct Meeting {
    barrier: Barrier,
    absent: AtomicU32,
    /// Number of shards with requests outstanding. They may need this shard's help until the last one has finished.
    busy: AtomicU32,
}

impl Meeting {
    fn new(shards: u8) -> Meeting {
        let count = u32::from(shards);
        Meeting {
            barrier: Barrier::new(usize::from(shards)),
            absent: AtomicU32::new(0),
            busy: AtomicU32::new(count),
        }
    }

    fn all_are_there(&self, ready: bool) {
        if !ready {
            self.absent.fetch_add(1, Ordering::SeqCst);
        }
        self.barrier.wait();
    }
}

/// The first member that failed, with its class and errno.
type Lost = Arc<Mutex<Option<(MemberId, ErrorClass, i32)>>>;

pub(super) struct ArrayShard {
    shard: Shard<RingWorld<Load>>,
    lost: Lost,
    pub(super) report: RingReport,
}

impl ArrayShard {
    pub(super) fn turn(&mut self) {
        self.shard.turn_or_wait(|| false);
    }

    pub(super) fn load(&mut self) -> &mut Load {
        self.shard.world.port()
    }

    pub(super) fn counters(&self) -> Counters {
        Counters::of(self.shard.engine.stats())
    }

    /// Fails if a member has failed since the start.
    pub(super) fn check_members(&self) -> anyhow::Result<()> {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((member, class, errno)) = lost {
            let error = std::io::Error::from_raw_os_error(errno);
            bail!(
                "member {} failed during the bench: {error} ({class:?})",
                member.0
            );
        }
        Ok(())
    }

    /// Stops issuing requests and serves the other shards until no shard has a request outstanding.
    fn drain(&mut self, meeting: &Meeting) -> anyhow::Result<()> {
        self.load().stop();
        let begin = self.load().now();
        let mut counted = false;
        loop {
            if !counted && self.load().outstanding() == 0 {
                counted = true;
                meeting.busy.fetch_sub(1, Ordering::SeqCst);
            }
            if meeting.busy.load(Ordering::SeqCst) == 0 {
                return Ok(());
            }
            let now = self.load().now();
            if now.since(begin) > PATIENCE {
                bail!(
                    "requests were not answered {} s after the end",
                    PATIENCE.0 / 1_000_000_000
                );
            }
            self.load().wake_at(now.after(DRAIN_LOOK));
            self.turn();
        }
    }
}

fn run_shard(
    mut shard: ArrayShard,
    meeting: &Meeting,
    time: Duration,
) -> anyhow::Result<(Option<Sample>, RingReport)> {
    let report = shard.report;
    if meeting.absent.load(Ordering::SeqCst) > 0 {
        return Ok((None, report));
    }
    let sample = window(
        &mut shard,
        time,
        ArrayShard::turn,
        ArrayShard::load,
        ArrayShard::counters,
    );
    let drained = shard.drain(meeting);
    shard.check_members()?;
    let sample = sample?;
    drained?;
    Ok((Some(sample), report))
}
