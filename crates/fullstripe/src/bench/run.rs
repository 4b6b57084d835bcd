//! Measures: rounds of generator alone, bare member and array, in this order again and again, so that a
//! machine that is slower for a while is slower for all three.

use super::args::{Config, Workload};
use super::cores;
use super::generator::{Load, Region, histogram};
use super::members::Members;
use super::outcome::{Counters, Outcome, Round, Sample, Setting};
use anyhow::{Context, anyhow, bail};
use drives::arena::{Arena, ArenaOptions, Pool};
use drives::mailbox::{MailSender, Mailbox};
use drives::ring::{RingOptions, RingReport};
use drives::world::{RingWorld, WorldOptions};
use engine::event::Event;
use engine::limits::BAND_BYTES_MAX;
use engine::plan::{Plan, Step, StepKind};
use engine::request::{Completion, Operation};
use engine::shard::{Engine, Options, Setup, Shard};
use engine::units::{Buffer, MemberId, Nanos, ShardId, Slot};
use engine::world::{Input, Io, Token, World};
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// How often everything is measured.
const ROUNDS: u32 = 5;
/// Part of an array's round that generator and bare member get.
const COMPARED_PERCENT: u32 = 20;
const COMPARED_MIN: Duration = Duration::from_millis(10);
/// Part of a measurement that is run before it counts: caches, the dirty mark, the queues' usual fill.
const WARM_PERCENT: u32 = 10;
const WARM_MIN: Duration = Duration::from_millis(10);
/// No answer for this long after the end, or before the start, is the end of the bench.
const PATIENCE: Nanos = Nanos(45 * Nanos::SECOND.0);
/// How often a shard that waits for the others' last answers looks around.
const DRAIN_LOOK: Nanos = Nanos::MILLISECOND;

/// What all measurements of a bench share.
struct Bench<'a> {
    config: &'a Config,
    members: &'a Members,
    arena: Arc<Arena>,
    cores: Vec<usize>,
}

/// Measures what `config` asks for.
///
/// # Errors
///
/// One sentence when something asked for is impossible, a member cannot be used, or a request failed.
pub(crate) fn measure(config: &Config) -> anyhow::Result<Outcome> {
    config.check()?;
    let members = Members::open(config)?;
    let length_bytes = parts(config, &members).last().map_or(0, |part| part.payload.end);
    let arena = Arena::new(ArenaOptions { length_bytes, prefault: true, lock: false })?;
    let bench = Bench { config, members: &members, arena, cores: cores::choose(config.shards) };
    let round_time = config.time / ROUNDS;
    let compared_time = (round_time * COMPARED_PERCENT / 100).max(COMPARED_MIN);
    let calibrations = calibrations(config, &members);
    let mut rounds = Vec::new();
    let mut report = None;
    for round in 0..u64::from(ROUNDS) {
        let generator = bench.alone(|| bench.generator(round, compared_time))?;
        let bare_of = |workload| bench.alone(|| bench.bare(workload, round, compared_time));
        let bare = bare_of(config.workload)?;
        let calibrated = calibrations.iter().map(|&workload| bare_of(workload));
        let calibrated = calibrated.collect::<anyhow::Result<Vec<Sample>>>()?;
        let (array, ring) = bench.array(round, round_time)?;
        report = Some(ring);
        rounds.push(Round { generator, bare, calibrated, array });
    }
    let setting = Setting {
        cores: bench.cores.clone(),
        ring: report.map_or_else(String::new, |report| report.to_string()),
        huge_pages: bench.arena.report().huge_pages,
    };
    Outcome::new(config, &members, &calibrations, &rounds, setting)
}

/// The bare measurements that the roofline needs: reads and writes alone, where no limit says how fast
/// the members are.
fn calibrations(config: &Config, members: &Members) -> Vec<Workload> {
    let unknown = |limit: Option<u64>| {
        members.hardware && limit.is_none() && members.limits.bandwidth_bytes_per_second.is_none()
    };
    let random = config.workload.random;
    [(100, members.limits.read_iops), (0, members.limits.write_iops)]
        .into_iter()
        .filter(|(_, limit)| unknown(*limit))
        .map(|(read_percent, _)| Workload { read_percent, random })
        .collect()
}

/// A shard's memory, as ranges of the arena. The zeros before the first are everybody's.
struct Part {
    scratch: Range<usize>,
    payload: Range<usize>,
}

fn parts(config: &Config, members: &Members) -> Vec<Part> {
    let scratch_bytes = Setup::scratch_bytes_min(&[members.geometry]) as usize;
    // The bare member gets all requests on one thread; it uses the first shard's memory.
    let payload_bytes = |shard: u8| {
        let depth = if shard == 0 { config.queue_depth } else { config.shard_queue_depth(shard) };
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

/// A moment of a measurement.
struct Mark {
    now: Nanos,
    processor_s: f64,
    completed: u64,
    counters: Counters,
}

impl Mark {
    fn set(load: &Load, counters: Counters) -> Mark {
        let processor_s = cores::thread_seconds();
        Mark { now: load.now(), processor_s, completed: load.completed(), counters }
    }

    fn sample(&self, end: &Mark, latency: Histogram<u64>) -> Sample {
        Sample {
            seconds: end.now.since(self.now).0 as f64 / 1e9,
            processor_s: end.processor_s - self.processor_s,
            requests: end.completed - self.completed,
            counters: end.counters.since(&self.counters),
            latency,
        }
    }
}

/// Runs `turn` for a warm-up and then for `time`, which it measures. `turn` advances the load.
fn window<S>(
    state: &mut S,
    time: Duration,
    turn: impl Fn(&mut S),
    load: impl Fn(&mut S) -> &mut Load,
    counters: impl Fn(&S) -> Counters,
) -> anyhow::Result<Sample> {
    let nanos = |duration: Duration| Nanos(duration.as_nanos() as u64);
    turn(state);
    let begin = load(state).now();
    let warm_until = begin.after(nanos((time * WARM_PERCENT / 100).max(WARM_MIN)));
    load(state).wake_at(warm_until);
    while load(state).now() < warm_until || !load(state).has_answers() {
        if load(state).now().since(begin) > PATIENCE {
            bail!("no request was answered for {} s; look at the members", PATIENCE.0 / 1_000_000_000);
        }
        turn(state);
    }
    load(state).reset_latency();
    let counted = counters(state);
    let start = Mark::set(load(state), counted);
    let end_at = start.now.after(nanos(time));
    load(state).wake_at(end_at);
    while load(state).now() < end_at {
        turn(state);
    }
    let counted = counters(state);
    let end = Mark::set(load(state), counted);
    let mut latency = histogram();
    latency.add(load(state).latency()).context("latencies of one shape add up")?;
    if let Some(failure) = load(state).failure() {
        bail!("a request failed: {failure:?}");
    }
    Ok(start.sample(&end, latency))
}

impl Bench<'_> {
    /// Runs `work` on the first shard's core.
    fn alone(&self, work: impl FnOnce() -> anyhow::Result<Sample> + Send) -> anyhow::Result<Sample> {
        let core = self.cores.first().copied();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                cores::stay_on(core);
                work()
            });
            thread.join().unwrap_or_else(|_| Err(anyhow!("the measuring thread has panicked")))
        })
    }

    fn load(&self, workload: Workload, region: Region, depth: u32, seed: u64) -> anyhow::Result<Load> {
        let parts = parts(self.config, self.members);
        let part = &parts[(seed % SEEDS_PER_ROUND) as usize % parts.len()];
        let mut pool = Pool::new(self.arena.clone(), part.payload.clone());
        Load::new(workload, region, depth, &mut pool, seed).context("payload memory is too small")
    }

    /// What choosing and recording requests costs when they are answered at once by nobody.
    fn generator(&self, round: u64, time: Duration) -> anyhow::Result<Sample> {
        let region = Region::whole(self.members.geometry.size_bytes, self.config.block_bytes);
        let depth = self.config.shard_queue_depth(0);
        let load = self.load(self.config.workload, region, depth, round * SEEDS_PER_ROUND)?;
        let mut state = (load, Vec::new());
        let turn = |(load, inputs): &mut (Load, Vec<Input>)| {
            load.issue(clock(), inputs);
            for input in inputs.drain(..) {
                if let Input::Request(request) = input {
                    load.answered(Completion { tag: request.tag, result: Ok(()) });
                }
            }
        };
        window(&mut state, time, turn, |state| &mut state.0, |_| Counters::default())
    }

    /// One member behind the same interface, without the engine.
    fn bare(&self, workload: Workload, round: u64, time: Duration) -> anyhow::Result<Sample> {
        let Config { block_bytes, queue_depth, .. } = *self.config;
        let region = Region::whole(self.members.geometry.component_bytes, block_bytes);
        let load = self.load(workload, region, queue_depth, round * SEEDS_PER_ROUND)?;
        let mailbox = Mailbox::new()?;
        let peers = vec![mailbox.sender()];
        let mut world = self.world((), mailbox, peers, Box::new(|_| ()))?;
        world.attach(MemberId(0), self.members.bare.clone());
        let mut state = BareMember::new(world, load, block_bytes);
        let counters = |_: &BareMember| Counters::default();
        let sample = window(&mut state, time, BareMember::turn, |state| &mut state.load, counters)?;
        state.drain()?;
        Ok(sample)
    }

    fn world<P: drives::port::Port>(
        &self,
        port: P,
        mailbox: Mailbox,
        peers: Vec<MailSender>,
        on_event: Box<dyn FnMut(Event)>,
    ) -> anyhow::Result<RingWorld<P>> {
        Ok(RingWorld::new(WorldOptions {
            arena: self.arena.clone(),
            ring: RingOptions::default(),
            wait: self.config.wait,
            mailbox,
            peers,
            port,
            encoder: self.members.encoder(),
            on_event,
        })?)
    }

    /// The array, one thread per shard.
    fn array(&self, round: u64, time: Duration) -> anyhow::Result<(Vec<Sample>, RingReport)> {
        let shards = self.config.shards;
        let mailboxes: Vec<Mailbox> =
            (0..shards).map(|_| Mailbox::new()).collect::<Result<_, _>>()?;
        let peers: Vec<MailSender> = mailboxes.iter().map(Mailbox::sender).collect();
        let meeting = Meeting::new(shards);
        std::thread::scope(|scope| {
            let start = |(shard, mailbox): (u8, Mailbox)| {
                let (peers, meeting) = (peers.clone(), &meeting);
                scope.spawn(move || {
                    cores::stay_on(self.cores.get(usize::from(shard)).copied());
                    let made = self.shard(shard, round, mailbox, peers);
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
            report.map(|report| (samples, report)).context("an array has at least one shard")
        })
    }

    fn shard(
        &self,
        shard: u8,
        round: u64,
        mailbox: Mailbox,
        peers: Vec<MailSender>,
    ) -> anyhow::Result<ArrayShard> {
        let Config { workload, shards, block_bytes, .. } = *self.config;
        let part = &parts(self.config, self.members)[usize::from(shard)];
        let whole = Region::whole(self.members.geometry.size_bytes, block_bytes);
        let region = whole.part(workload, shard, shards);
        let seed = round * SEEDS_PER_ROUND + u64::from(shard);
        let load = self.load(workload, region, self.config.shard_queue_depth(shard), seed)?;
        let lost = Rc::new(RefCell::new(None));
        let first_lost = lost.clone();
        let on_event = Box::new(move |event| {
            if let Event::MemberFailed { member, class, errno } = event {
                first_lost.borrow_mut().get_or_insert((member, class, errno));
            }
        });
        let mut world = self.world(load, mailbox, peers, on_event)?;
        for (id, drive) in (0u8..).zip(&self.members.drives) {
            if let Some(drive) = drive {
                world.attach(MemberId(id), drive.clone());
            }
        }
        let report = world.report();
        let start = self.arena.start().0;
        let setup = Setup {
            shard: ShardId(shard),
            shards,
            record: self.members.record(),
            scratch: (Buffer(start + part.scratch.start as u64), part.scratch.len() as u64),
            zeros: Buffer(start),
            options: Options::default(),
        };
        let now = world.now();
        Ok(ArrayShard { shard: Shard::new(Engine::new(setup, now), world), lost, report })
    }
}

/// Seeds of one round; the shard's number is the rest.
const SEEDS_PER_ROUND: u64 = 256;

/// Where the shards wait for each other.
struct Meeting {
    barrier: Barrier,
    absent: AtomicU32,
    /// Shards with requests outstanding. Others may need this one's help until the last is done.
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
type Lost = Rc<RefCell<Option<(MemberId, engine::policy::ErrorClass, i32)>>>;

struct ArrayShard {
    shard: Shard<RingWorld<Load>>,
    lost: Lost,
    report: RingReport,
}

impl ArrayShard {
    fn turn(&mut self) {
        self.shard.turn_or_wait();
    }

    fn load(&mut self) -> &mut Load {
        self.shard.world.port()
    }

    fn counters(&self) -> Counters {
        Counters::of(self.shard.engine.stats())
    }

    /// Stops issuing and serves the others until nobody waits for an answer.
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
                bail!("requests were not answered {} s after the end", PATIENCE.0 / 1_000_000_000);
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
    let sample =
        window(&mut shard, time, ArrayShard::turn, ArrayShard::load, ArrayShard::counters);
    let drained = shard.drain(meeting);
    if let Some((member, class, errno)) = *shard.lost.borrow() {
        let error = std::io::Error::from_raw_os_error(errno);
        bail!("member {} failed during the bench: {error} ({class:?})", member.0);
    }
    let sample = sample?;
    drained?;
    Ok((Some(sample), report))
}

/// See [`Bench::bare`].
struct BareMember {
    world: RingWorld<()>,
    load: Load,
    /// One step per request, which names its memory.
    plan: Plan,
    answers: Vec<Input>,
    requests: Vec<Input>,
}

impl BareMember {
    fn new(world: RingWorld<()>, load: Load, block_bytes: u32) -> BareMember {
        let mut plan = Plan::with_capacity(0, 0);
        for (at, buffer) in (0u64..).zip(load.buffers()) {
            // Apart from each other, so that they are not joined.
            let offset_bytes = 2 * at * u64::from(block_bytes);
            let bytes = u64::from(block_bytes);
            plan.transfer(Step::member(StepKind::Read, 0, Slot(0), offset_bytes, bytes), buffer);
        }
        BareMember { world, load, plan, answers: Vec::new(), requests: Vec::new() }
    }

    fn turn(&mut self) {
        self.world.reap(&mut self.answers);
        let idle = self.answers.is_empty();
        for input in self.answers.drain(..) {
            if let Input::Done { token, result } = input {
                let failure = |_| engine::request::Failure::Unrecoverable { offset_bytes: 0 };
                let result = result.map_err(failure);
                self.load.answered(Completion { tag: token.0, result });
            }
        }
        let now = self.world.now();
        self.load.issue(now, &mut self.requests);
        let started = !self.requests.is_empty();
        for input in self.requests.drain(..) {
            let Input::Request(request) = input else { continue };
            let io = Io {
                token: Token(request.tag),
                member: MemberId(0),
                kind: match request.operation {
                    Operation::Read => StepKind::Read,
                    _ => StepKind::Write { fua: false },
                },
                offset_bytes: request.offset_bytes,
                length_bytes: u64::from(request.length_bytes),
            };
            let step = &self.plan.steps()[request.tag as usize];
            self.world.io(io, self.plan.segments_of(step));
        }
        self.world.submit();
        if idle && !started {
            let wake = drives::port::Port::next_wake(&self.load);
            self.world.wait(wake);
        }
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        self.load.stop();
        let begin = self.load.now();
        while self.load.outstanding() > 0 {
            let now = self.load.now();
            if now.since(begin) > PATIENCE {
                bail!("the bare member did not answer; look at it");
            }
            self.load.wake_at(now.after(DRAIN_LOOK));
            self.turn();
        }
        Ok(())
    }
}

fn clock() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * Nanos::SECOND.0 + now.tv_nsec as u64)
}
