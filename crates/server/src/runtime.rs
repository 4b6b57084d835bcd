//! The running array: one thread per shard, a thread that handles events, a watch on idle drives
//! ([`super::watch`]), and a handle through which the API gives orders.

mod listener;
mod shard;

use super::commands::Commands;
use super::ending::{Ended, LeftBehind};
use super::events::Told;
use super::health::health;
use super::memory::Memory;
use super::news::{News, news};
use super::not_done::NotDone;
use super::published::Published;
use super::recorder::Encoders;
use super::scrub::every::ScrubEvery;
use super::scrub::{Scrubs, keeper};
use super::snapshot::Snapshot;
use super::status::{DeviceStatus, DriveHealth, DriveName, Facts, Status, describe};
use super::watch;
use anyhow::{Context, Result, anyhow, bail};
use container::Container;
use container::persist::Identity;
use drives::arena::Pool;
use drives::completion::CompletionMode;
use drives::drive::Drive;
use drives::mailbox::{self, Mail, MailSender, Mailbox};
use drives::port::Port;
use engine::claims::Claims;
use engine::control::message::{Command, Message, Refused};
use engine::options::Options;
use engine::shard::Engine;
use engine::stats::Stats;
use engine::units::{MemberId, MemberSet, Nanos, ShardId};
use exports::export::Statistics;
use exports::ports::Counted;
use shard::{ShardStart, run_shard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the array is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Data threads.
    pub shards: u8,
    /// Total payload memory.
    pub payload_bytes: usize,
    /// How data threads learn of completions.
    pub completion: CompletionMode,
    /// Options of the engine.
    pub engine: Options,
    /// How often volumes are scrubbed without an order.
    pub scrub_every: ScrubEvery,
}

/// How often a snapshot is taken.
const SNAPSHOT_EVERY: Nanos = Nanos(100 * Nanos::MILLISECOND.0);
/// Longest wait for the answer to a command.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What the threads share.
pub struct Shared {
    facts: Mutex<Facts>,
    /// The controller's state, published by its data thread.
    snapshot: Published<Snapshot>,
    /// The counters of each data thread.
    stats: Vec<Published<Stats>>,
    /// The kind of each export, by number, and the counters of each data thread's ports.
    export_kinds: Vec<&'static str>,
    export_statistics: Vec<Published<Vec<Statistics>>>,
    /// By [`MemberId`]; `None` for a drive that has been released.
    drives: Mutex<Vec<Option<Arc<Drive>>>>,
    waiting: Mutex<HashMap<u64, Sender<Result<(), Refused>>>>,
    next_ticket: AtomicU64,
    mail: Vec<MailSender>,
    claims: Arc<Claims>,
    /// The state of scrubs.
    pub scrubs: Scrubs,
    /// How often each data thread has given a sign of life.
    beats: Vec<AtomicU64>,
    quit: AtomicBool,
    stopped: AtomicBool,
    /// Names of volumes that had failed when the array was stopped.
    ended_failed: Mutex<Vec<String>>,
}

/// Locks a mutex, even if a thread panicked while holding it: the content is still there.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The array and its threads.
pub struct Runtime {
    shared: Arc<Shared>,
    /// Each returns the commands that drives have not answered.
    threads: Vec<JoinHandle<Result<(usize, MemberSet)>>>,
    /// Stores the state of scrubs on the drives.
    scrub_keeper: JoinHandle<()>,
}

/// Makes the port of a shard, on the shard's thread.
pub type MakePort<P> = Arc<dyn Fn(ShardId, Pool) -> Result<P> + Send + Sync>;

/// How clients reach the data threads.
pub struct Clients<P> {
    /// The kind of each export, by the number of its port.
    pub kinds: Vec<&'static str>,
    /// Makes one port that stands for all exports.
    pub make_port: MakePort<P>,
}

impl Runtime {
    /// Starts serving `container`; `told` is called with every event and must not block.
    ///
    /// # Errors
    /// No memory, no io_uring, or a thread that cannot be started.
    pub fn start<P: Port + Counted + 'static>(
        container: Container,
        options: RunOptions,
        clients: Clients<P>,
        told: impl Fn(Told) + Send + 'static,
    ) -> Result<Runtime> {
        let shards = options.shards;
        let mailboxes = mailbox::exchange(usize::from(shards)).context("cannot make mailboxes")?;
        let mail: Vec<MailSender> = mailboxes.iter().map(Mailbox::sender).collect();
        let name = |probed: &container::probe::Probed| DriveName {
            name: probed.drive.name().to_owned(),
            serial: probed.serial.to_string(),
            io_path: probed.drive.io_path(),
            kind: probed.drive.kind(),
            is_deleted: false,
            failure: None,
            health: DriveHealth::default(),
        };
        let names = container.members.iter().map(name).collect();
        let facts = Facts {
            shards,
            completion: options.completion.to_string(),
            not_started: container.not_started,
            ..Facts::new(&container.persister, container.volume_names, names)
        };
        let called: Vec<String> = facts
            .drives
            .iter()
            .map(|drive| drive.name.clone())
            .collect();
        let scrubs = Scrubs::new(&container.record, &facts.volume_uuids, &called);
        let drives = container
            .members
            .into_iter()
            .map(|probed| Some(Arc::new(probed.drive)))
            .collect();
        let shared = Arc::new(Shared {
            facts: Mutex::new(facts),
            snapshot: Published::new(|| Snapshot::with_room_for(&container.record)),
            stats: (0..shards)
                .map(|_| Published::new(Stats::default))
                .collect(),
            export_statistics: (0..shards)
                .map(|_| Published::new(|| vec![Statistics::default(); clients.kinds.len()]))
                .collect(),
            export_kinds: clients.kinds,
            drives: Mutex::new(drives),
            waiting: Mutex::new(HashMap::new()),
            next_ticket: AtomicU64::new(1),
            mail,
            claims: Claims::new(),
            scrubs,
            beats: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            quit: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            ended_failed: Mutex::new(Vec::new()),
        });
        let memory = Memory::new(&container.record, options)?;
        let (events, heard) = news();
        let mpb = Arc::new(container.persister.mpb().clone());
        let mut encoders = Encoders::new(container.persister, &events);
        let mut threads = Vec::new();
        let (ready, started) = channel();
        for (at, mailbox) in mailboxes.into_iter().enumerate() {
            let id = ShardId(at as u8);
            let start = ShardStart {
                id,
                options,
                record: container.record.clone(),
                mailbox,
                events: events.clone(),
                encoder: encoders.take(),
                log_encoder: encoders.of_logs(),
                memory: memory.share(id),
                drives: shared.drives(),
                make_port: clients.make_port.clone(),
            };
            let (shared, ready) = (shared.clone(), ready.clone());
            let thread = std::thread::Builder::new().name(format!("shard-{at}"));
            threads.push(thread.spawn(move || run_shard(start, &shared, &ready))?);
        }
        drop(ready);
        listener::spawn(shared.clone(), heard, told)?;
        watch::start(shared.clone(), move |member, notice| {
            events.send(News::Watch(member, notice));
        })?;
        let scrub_keeper = keeper::start(shared.clone(), mpb, options.scrub_every)?;
        let runtime = Runtime {
            shared,
            threads,
            scrub_keeper,
        };
        for _ in 0..shards {
            match started.recv() {
                // All shards report the same.
                Ok(report) => lock(&runtime.shared.facts).ring = report.to_string(),
                Err(_) => {
                    return Err(end(&runtime.shared, runtime.threads)
                        .err()
                        .unwrap_or_else(|| anyhow!("a data thread did not start")));
                }
            }
        }
        Ok(runtime)
    }

    /// The handle for the API.
    #[must_use]
    pub fn handle(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Flushes, marks volumes clean and refuses all requests from now on; then ends the threads.
    ///
    /// # Errors
    /// A data thread has failed, or the array could not be stopped in time.
    pub fn stop(self, within: Duration) -> Result<Ended> {
        self.shared
            .command(Command::Stop)
            .map_err(|not_done| anyhow!("the array cannot be stopped: {not_done}"))?;
        let deadline = std::time::Instant::now() + within;
        while !self.shared.stopped.load(Ordering::Acquire) {
            if std::time::Instant::now() > deadline {
                bail!(
                    "the array did not come to rest within {} s; it will be resynced at its next start",
                    within.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let Runtime {
            shared,
            threads,
            scrub_keeper,
        } = self;
        // Wait for the keeper first: if the end of a scrub were not stored, the next process would continue that scrub.
        // The keeper's orders are answered as long as the data threads run.
        scrub_keeper.thread().unpark();
        let kept = scrub_keeper.join();
        let failed = std::mem::take(&mut *lock(&shared.ended_failed));
        let left = end(&shared, threads)?;
        kept.map_err(|_| anyhow!("the thread that records the progress of scrubs panicked"))?;
        Ok(Ended {
            left,
            failed,
            ..Ended::default()
        })
    }
}

/// Ends the data threads.
fn end(
    shared: &Shared,
    threads: Vec<JoinHandle<Result<(usize, MemberSet)>>>,
) -> Result<LeftBehind> {
    shared.quit.store(true, Ordering::Release);
    shared.mail.iter().for_each(MailSender::wake);
    let mut left = LeftBehind::default();
    for thread in threads {
        let ended = thread.join();
        left.add(ended.map_err(|_| anyhow!("a data thread panicked"))??);
    }
    let facts = lock(&shared.facts);
    left.name(|member| Some(facts.drives.get(usize::from(member.0))?.name.clone()));
    drop(facts);
    Ok(left)
}

impl Shared {
    /// The status; the default before the first snapshot.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        let snapshot = self.snapshot();
        if snapshot.number == 0 {
            return Arc::default();
        }
        let stats = self.stats.iter().fold(Stats::default(), |sum, stats| {
            stats.read(|stats| sum.plus(stats))
        });
        let mut status = describe(&snapshot, &lock(&self.facts), &stats);
        self.scrubs.describe(&mut status);
        status.health = health(&status);
        status.address(&lock(&self.facts).commands);
        Arc::new(status)
    }

    /// A recent copy of the controller's state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.read(Snapshot::clone)
    }

    /// How many times the state behind [`Shared::status`] has been published.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.snapshot.read(|snapshot| snapshot.number)
    }

    /// Every shard's mailbox, by number.
    #[must_use]
    pub fn mail(&self) -> Vec<MailSender> {
        self.mail.clone()
    }

    /// Sets the addresses at which volumes can be reached, and the volumes that are block devices.
    pub fn set_exports(&self, exports: Vec<String>, devices: Vec<(String, DeviceStatus)>) {
        let mut facts = lock(&self.facts);
        facts.exports = exports;
        facts.devices = devices;
    }

    /// Sets how commands reach this server, for the sentences of the status.
    pub fn set_commands(&self, commands: Commands) {
        lock(&self.facts).commands = commands;
    }

    /// Sets the limit of background work with which the next server begins, for the status.
    pub fn set_remembered_rate(&self, bytes_per_s: Option<u64>) {
        lock(&self.facts).remembered_rate_bytes_per_s = bytes_per_s;
    }

    /// Sets what a drive reports about its health, for the status.
    pub(super) fn set_drive_health(&self, member: MemberId, health: DriveHealth) {
        if let Some(drive) = lock(&self.facts).drives.get_mut(usize::from(member.0)) {
            drive.health = health;
        }
    }

    /// A new ticket for an order or a query.
    pub(super) fn new_ticket(&self) -> u64 {
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    /// Number of data threads.
    pub(super) fn shards(&self) -> u8 {
        self.mail.len() as u8
    }

    /// Delivers a message to a shard's engine.
    pub(super) fn send(&self, shard: ShardId, message: Message) {
        self.mail[usize::from(shard.0)].send(Mail::Engine(message));
    }

    /// Gives an order to the controller and waits for its answer.
    ///
    /// # Errors
    /// The order is refused, or there is no answer in time.
    pub fn command(&self, command: Command) -> Result<(), NotDone> {
        let ticket = self.new_ticket();
        let (answer, answered) = channel();
        lock(&self.waiting).insert(ticket, answer);
        self.send(ShardId(0), Message::Command { ticket, command });
        let result = answered.recv_timeout(ANSWER_WITHIN);
        lock(&self.waiting).remove(&ticket);
        result
            .map_err(|_| NotDone::NoAnswer)?
            .map_err(NotDone::Refused)
    }

    /// Every drive by its number; `None` for a drive that has been released.
    #[must_use]
    pub fn drives(&self) -> Vec<Option<Arc<Drive>>> {
        lock(&self.drives).clone()
    }

    /// Whether the array has ended.
    #[must_use]
    pub fn has_quit(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }

    /// Whether the array has been stopped: nothing is read or written any more.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.stopped.load(Ordering::Acquire) || self.has_quit()
    }

    /// The counters of each export, summed over all data threads.
    #[must_use]
    pub fn export_statistics(&self) -> Vec<(&'static str, Statistics)> {
        let of = |(at, kind): (usize, &&'static str)| {
            let shards = self.export_statistics.iter();
            let sum = shards.fold(Statistics::default(), |sum, shard| {
                shard.read(|exports| sum.plus(&exports[at]))
            });
            (*kind, sum)
        };
        self.export_kinds.iter().enumerate().map(of).collect()
    }

    /// The number that the next drive gets.
    #[must_use]
    pub fn next_member(&self) -> MemberId {
        MemberId(lock(&self.drives).len() as u8)
    }

    /// Attaches a drive that has been opened for service and returns its number. It becomes a spare only by
    /// [`Command::AddSpare`].
    pub fn attach(&self, drive: Drive, identity: Identity) -> MemberId {
        let drive = Arc::new(drive);
        let name = DriveName {
            name: drive.name().to_owned(),
            serial: identity.serial.to_string(),
            io_path: drive.io_path(),
            kind: drive.kind(),
            is_deleted: false,
            failure: None,
            health: DriveHealth::default(),
        };
        let mut drives = lock(&self.drives);
        let member = MemberId(drives.len() as u8);
        drives.push(Some(drive.clone()));
        lock(&self.facts).drives.push(name);
        // While the lock is held, because the encoder numbers drives in the order of these messages. It belongs to the
        // controller's data thread.
        self.mail[0].send(Mail::Encoder(Box::new(identity)));
        drop(drives);
        self.mail
            .iter()
            .for_each(|mail| mail.send(Mail::Attach(member, drive.clone())));
        member
    }

    /// Lets go of a drive that no volume uses any more: it is closed once its I/O in flight is answered. Nothing
    /// happens if that has been done before.
    pub fn detach(&self, member: MemberId) {
        if let Some(place) = lock(&self.drives).get_mut(member.0 as usize) {
            place.take();
        }
        self.mail
            .iter()
            .for_each(|mail| mail.send(Mail::Detach(member)));
    }

    /// Notes that a data thread works.
    fn beat(&self, shard: ShardId) {
        self.beats[usize::from(shard.0)].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each data thread has given a sign of life; and wakes those that sleep, so that they give one.
    pub(super) fn beats(&self) -> Vec<u64> {
        self.mail.iter().for_each(MailSender::wake);
        let beats = self.beats.iter();
        beats.map(|beats| beats.load(Ordering::Relaxed)).collect()
    }

    /// Publishes the state of `engine` for other threads, without waiting for them. Returns false when a part could not
    /// be published because its copies were all being read.
    fn publish(&self, shard: ShardId, engine: &Engine, port: &impl Counted, now: Nanos) -> bool {
        let stats = &self.stats[usize::from(shard.0)];
        let mut is_done = stats.publish(|stats| *stats = *engine.stats());
        let exports = &self.export_statistics[usize::from(shard.0)];
        is_done &= exports.publish(|exports| port.count(exports));
        if let Some(controller) = engine.controller() {
            let number = self.updates() + 1;
            is_done &= (self.snapshot).publish(|snapshot| snapshot.take(controller, number, now));
        }
        is_done
    }
}
