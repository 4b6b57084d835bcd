//! Measures a background job instead of requests: how fast a new member is rebuilt, or all members are scrubbed,
//! without clients and without a rate limit.
//!
//! The controller of a fresh array begins the job: its record says that a slot is not current, or an order asks for a
//! scrub. The measurement lasts from the event that the job has started to the event that it has ended. A short job is
//! repeated. A job that is still running when the time is up is measured from a quarter of the time on: about as much
//! is then in flight at both ends of the measurement, so that what is in flight at the end does not count as additional
//! work.

use super::config::{BenchJob, Config};
use super::cores;
use super::members::Members;
use super::outcome::{Counters, median};
use super::run::{Bench, ROUNDS};
use super::window::PATIENCE;
use anyhow::{Context, anyhow, bail, ensure};
use drives::mailbox::{self, Mail, MailSender, Mailbox};
use engine::claims::Claims;
use engine::control::message::{Command, Message};
use engine::event::Event;
use engine::units::{Slot, VolumeId};
use engine::world::Input;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The ticket of the order to scrub. The bench waits for the job's events instead of the order's answer.
const TICKET: u64 = 1;

/// The result of a job's measurement.
#[derive(Clone, Debug, Serialize)]
pub struct JobOutcome {
    /// RAID level.
    pub level: String,
    /// Specification of the members.
    pub member: String,
    /// Number of members.
    pub count: u8,
    /// Data threads.
    pub shards: u8,
    /// The array's chunk.
    pub chunk_bytes: u32,
    /// `rebuild` or `scrub`.
    pub job: &'static str,
    /// Duration of the measurement, all rounds together.
    pub time_s: f64,
    /// Bytes per second written to the new member: the median of the rounds. For a rebuild.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild_bytes_per_s: Option<f64>,
    /// Bytes per second read from each member: the median of the rounds. For a scrub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub_bytes_per_s: Option<f64>,
    /// The figure of each round.
    pub rounds_bytes_per_s: Vec<f64>,
    /// The median of bytes per second of processor time, on all threads together.
    pub bytes_per_processor_s: f64,
    /// Number of jobs that were completed.
    pub jobs_complete: u64,
    /// Cores that the shards were pinned to; empty if there were too few.
    pub pinned_cores: Vec<usize>,
    /// The engine's counters of all rounds and shards.
    pub stats: Counters,
}

impl JobOutcome {
    /// The result as text for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let shards = if self.shards == 1 { "shard" } else { "shards" };
        let of_what = match self.job {
            "rebuild" => "of the new member",
            _ => "of each member",
        };
        let rates = || self.rounds_bytes_per_s.iter().copied();
        let mb = |bytes_per_s: f64| bytes_per_s / 1e6;
        let _ = writeln!(
            text,
            "{} of {} x {}, {} without clients, {} {shards}, {} s\n\n\
             MB/s {of_what}: {:.0} ({:.0} to {:.0} in {} rounds), {:.0} per core used",
            self.level,
            self.count,
            self.member,
            self.job,
            self.shards,
            self.time_s,
            mb(median(rates().collect())),
            mb(rates().fold(f64::INFINITY, f64::min)),
            mb(rates().fold(0.0, f64::max)),
            self.rounds_bytes_per_s.len(),
            mb(self.bytes_per_processor_s),
        );
        text
    }
}

/// What one thread did, or all threads of a round.
#[derive(Clone, Default)]
struct Done {
    seconds: f64,
    processor_s: f64,
    jobs_complete: u64,
    counters: Counters,
}

impl Done {
    fn add(&mut self, other: &Done) {
        self.seconds += other.seconds;
        self.processor_s += other.processor_s;
        self.jobs_complete += other.jobs_complete;
        self.counters.add(&other.counters);
    }

    fn bytes(&self, job: BenchJob, members: u8) -> f64 {
        match job {
            BenchJob::Rebuild => self.counters.sum(&["member_write_bytes"]) as f64,
            BenchJob::Scrub => {
                self.counters.sum(&["member_read_bytes"]) as f64 / f64::from(members)
            }
        }
    }
}

/// Measures `job` on the array of `config`. A slot that `config` names as failed is the one to be rebuilt.
///
/// # Errors
///
/// If the array has no redundancy, or a member cannot be used or fails: one sentence.
pub fn measure(config: &Config, job: BenchJob) -> anyhow::Result<JobOutcome> {
    let slot = Slot(config.failed.unwrap_or(0));
    let whole = Config {
        failed: None,
        ..config.clone()
    };
    whole.check()?;
    let members = Members::open(&whole)?;
    ensure!(
        members.geometry.redundant(),
        "{} has no redundancy to fill or compare from; give --level 1, 5 or 10",
        config.level
    );
    let bench = Bench::new(&whole, &members)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = Done::default();
        let time_s = config.time.as_secs_f64() / f64::from(ROUNDS);
        loop {
            let left = Duration::from_secs_f64(time_s - round.seconds);
            let done = bench.job(job, slot, left)?;
            round.add(&done);
            if done.jobs_complete == 0 || round.seconds >= time_s {
                break;
            }
        }
        rounds.push(round);
    }
    let mut all = Done::default();
    rounds.iter().for_each(|round| all.add(round));
    let bytes = |round: &Done| round.bytes(job, config.count);
    let per_s: Vec<f64> = rounds.iter().map(|r| bytes(r) / r.seconds).collect();
    let per_processor_s = rounds.iter().map(|r| bytes(r) / r.processor_s).collect();
    let of = |wanted| (job == wanted).then(|| median(per_s.clone()));
    Ok(JobOutcome {
        level: config.level.to_string(),
        member: config.member.clone(),
        count: config.count,
        shards: config.shards,
        chunk_bytes: config.chunk_bytes,
        job: match job {
            BenchJob::Rebuild => "rebuild",
            BenchJob::Scrub => "scrub",
        },
        time_s: config.time.as_secs_f64(),
        rebuild_bytes_per_s: of(BenchJob::Rebuild),
        scrub_bytes_per_s: of(BenchJob::Scrub),
        bytes_per_processor_s: median(per_processor_s),
        rounds_bytes_per_s: per_s,
        jobs_complete: all.jobs_complete,
        pinned_cores: bench.cores.clone(),
        stats: all.counters,
    })
}

/// A moment on the first shard, which runs the controller.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    processor_s: f64,
}

impl Moment {
    fn now() -> Moment {
        Moment {
            at: Instant::now(),
            processor_s: cores::thread_seconds(),
        }
    }
}

/// What the first shard's events have reported.
#[derive(Default)]
struct Heard {
    started: Option<Moment>,
    ended: Option<Moment>,
    trouble: Option<String>,
}

impl Heard {
    fn hear(&mut self, event: Event) {
        match event {
            Event::JobStarted { .. } => self.started = Some(Moment::now()),
            Event::JobEnded { complete: true, .. } => self.ended = Some(Moment::now()),
            Event::JobEnded { failures, .. } => {
                self.trouble = Some(format!("the job was given up after {failures} failures"));
            }
            Event::MemberFailed { member, errno, .. } => {
                let error = std::io::Error::from_raw_os_error(errno);
                self.trouble = Some(format!("member {} failed: {error}", member.0));
            }
            Event::Answered {
                result: Err(reason),
                ..
            } => self.trouble = Some(format!("the job was refused: {reason:?}")),
            _ => {}
        }
    }
}

impl Bench<'_> {
    /// Runs one job on a fresh array, until it has ended or for `time`; see the module's prose for what is measured.
    fn job(&self, job: BenchJob, slot: Slot, time: Duration) -> anyhow::Result<Done> {
        let shards = self.config.shards;
        let mailboxes = mailbox::exchange(usize::from(shards))?;
        let peers: Vec<MailSender> = mailboxes.iter().map(Mailbox::sender).collect();
        let claims = Claims::new();
        let meeting = Barrier::new(usize::from(shards));
        let (steady, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let start = |(shard, mailbox): (u8, Mailbox)| {
                let (peers, claims) = (peers.clone(), claims.clone());
                let (meeting, steady, over) = (&meeting, &steady, &over);
                scope.spawn(move || {
                    cores::settle(self.cores.get(usize::from(shard)).copied(), c"shard");
                    let worker = Worker {
                        shard,
                        peers,
                        claims,
                        meeting,
                        steady,
                        over,
                        time,
                    };
                    worker.run(self, mailbox, (job, slot))
                })
            };
            let threads: Vec<_> = (0u8..).zip(mailboxes).map(start).collect();
            let (mut all, mut steady) = (Done::default(), Done::default());
            for thread in threads {
                let joined = thread.join();
                let (whole, later) =
                    joined.unwrap_or_else(|_| Err(anyhow!("a shard's thread has panicked")))?;
                all.add(&whole);
                steady.add(&later);
            }
            Ok(if all.jobs_complete > 0 { all } else { steady })
        })
    }
}

/// One shard's thread.
struct Worker<'a> {
    shard: u8,
    peers: Vec<MailSender>,
    claims: Arc<Claims>,
    meeting: &'a Barrier,
    /// Whether a quarter of the time has passed since the job began.
    steady: &'a AtomicBool,
    over: &'a AtomicBool,
    time: Duration,
}

impl Worker<'_> {
    fn run(
        &self,
        bench: &Bench<'_>,
        mailbox: Mailbox,
        (job, slot): (BenchJob, Slot),
    ) -> anyhow::Result<(Done, Done)> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let ears = heard.clone();
        let on_event = move |event| lock(&ears).hear(event);
        let world = bench.world((), mailbox, Box::new(on_event));
        let mut record = bench.members.record();
        if job == BenchJob::Rebuild {
            record.volumes[0].slots[usize::from(slot.0)].current = false;
        }
        let claims = self.claims.clone();
        let shard = world.map(|world| bench.put_together(self.shard, record, claims, world));
        if shard.is_err() {
            self.over.store(true, Ordering::SeqCst);
        }
        self.meeting.wait();
        let mut shard = shard?;
        if self.shard == 0 && job == BenchJob::Scrub {
            let now = shard.engine.now();
            shard.engine.handle(Input::Message(scrub_order()), now);
        }
        let begin = Moment::now();
        let mut quarter = None;
        while !self.over.load(Ordering::SeqCst) {
            shard.turn_or_wait(|| self.over.load(Ordering::SeqCst));
            if quarter.is_none() && self.steady.load(Ordering::SeqCst) {
                quarter = Some((Moment::now(), Counters::of(shard.engine.stats())));
            }
            if self.shard == 0 {
                let started = lock(&heard).started;
                let steady = started.is_some_and(|moment| moment.at.elapsed() >= self.time / 4);
                self.steady.store(steady, Ordering::SeqCst);
            }
            if self.shard == 0 && self.is_over(&lock(&heard), begin) {
                self.over.store(true, Ordering::SeqCst);
                let peers = &self.peers[1..];
                peers
                    .iter()
                    .for_each(|peer| peer.send(Mail::Port(Box::new(()))));
            }
        }
        let counters = Counters::of(shard.engine.stats());
        let (later, before) = quarter.unwrap_or((begin, Counters::default()));
        let steady = self.since(later, counters.since(&before));
        Ok((self.sum_up(&lock(&heard), begin, counters)?, steady))
    }

    /// What was done from `begin` until now. The first shard's seconds are those of all shards.
    fn since(&self, begin: Moment, counters: Counters) -> Done {
        let now = Moment::now();
        Done {
            seconds: match self.shard {
                0 => now.at.duration_since(begin.at).as_secs_f64(),
                _ => 0.0,
            },
            processor_s: now.processor_s - begin.processor_s,
            jobs_complete: 0,
            counters,
        }
    }

    /// What was done from the job's beginning to its end, or until now.
    fn sum_up(&self, heard: &Heard, begin: Moment, counters: Counters) -> anyhow::Result<Done> {
        if let Some(trouble) = &heard.trouble {
            bail!("{trouble}");
        }
        if self.shard > 0 {
            return Ok(self.since(begin, counters));
        }
        let started = heard.started.context("the job did not begin")?;
        let ended = heard.ended.unwrap_or_else(Moment::now);
        Ok(Done {
            seconds: ended.at.duration_since(started.at).as_secs_f64(),
            processor_s: ended.processor_s - started.processor_s,
            jobs_complete: u64::from(heard.ended.is_some()),
            counters,
        })
    }

    fn is_over(&self, heard: &Heard, begin: Moment) -> bool {
        let time_is_up = match heard.started {
            Some(started) => started.at.elapsed() >= self.time,
            None => begin.at.elapsed().as_nanos() > u128::from(PATIENCE.0),
        };
        heard.ended.is_some() || heard.trouble.is_some() || time_is_up
    }
}

fn scrub_order() -> Message {
    Message::Command {
        ticket: TICKET,
        command: Command::Scrub {
            volume: VolumeId(0),
            repair: false,
        },
    }
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
