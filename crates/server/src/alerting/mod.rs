//! Sends alerts about the array to its operator.
//!
//! A thread of its own does it, and nobody waits for it: events go into a queue of limited length, and those that do not fit
//! are counted. [`book`] says what is sent when. It is stored in the array's [state folder](crate::state_folder) whenever it
//! changes, so an alert survives the end of the process; one that is being sent at that moment may be sent twice.

mod book;
mod ping;

use crate::commands::Commands;
use crate::event_kinds::{next, severity};
use crate::events::Told;
use crate::health;
use crate::runtime::{Shared, lock};
use crate::state_folder::write_whole;
use crate::status::Status;
use alerts::{Alert, Severity, Ways};
use anyhow::{Context, Result};
use book::{Book, Condition};
pub use ping::Ping;
use ping::PingThread;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most events that wait for the thread.
const QUEUE_MAX: usize = 256;
/// How often it is looked whether something is due, and how the array is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The status is published a little later than the event, and an alert contains both.
const SETTLE: Duration = Duration::from_millis(500);
/// The file in the array's state folder.
const NAME: &str = "alerts.json";
/// The longest such file; 200 alerts of ordinary length take less than half of it.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What is sent, and how.
#[derive(Clone, Debug, Default)]
pub struct AlertOptions {
    /// The name of the array in the settings file.
    pub array: String,
    /// The ways that are set.
    pub ways: Ways,
    /// The least severity of an event that is sent.
    pub minimum: Severity,
    /// The request that shows that the array is served.
    pub ping: Option<Ping>,
}

/// Reports what has gone wrong.
type Say = Arc<dyn Fn(&dyn Display) + Send + Sync>;

/// The queue of the thread. Events wait in it until [`Alerter::start`].
pub(super) struct Alerter {
    options: Arc<Mutex<AlertOptions>>,
    /// How commands in the sentences reach the server.
    commands: Commands,
    /// What the ping needs, once it may begin.
    shared: Mutex<Option<Arc<Shared>>>,
    /// Ends the thread of the ping.
    ping: Mutex<Option<PingThread>>,
    queue: Mutex<Option<SyncSender<Told>>>,
    waiting: Mutex<Option<Receiver<Told>>>,
    dropped: Arc<AtomicU64>,
    say: Say,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Alerter {
    /// An alerter that has not begun; `say` is called with what has gone wrong.
    pub fn new(
        options: AlertOptions,
        commands: Commands,
        say: impl Fn(&dyn Display) + Send + Sync + 'static,
    ) -> Alerter {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        Alerter {
            options: Arc::new(Mutex::new(options)),
            commands,
            shared: Mutex::default(),
            ping: Mutex::default(),
            queue: Mutex::new(Some(queue)),
            waiting: Mutex::new(Some(waiting)),
            dropped: Arc::default(),
            say: Arc::new(say),
            thread: Mutex::default(),
        }
    }

    /// Queues an event that is grave enough. Never blocks.
    pub fn tell(&self, event: &Told) {
        if severity(event) < lock(&self.options).minimum {
            return;
        }
        if let Some(queue) = &*lock(&self.queue)
            && queue.try_send(event.clone()).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins to send, with what is left from the process before in `folder`, if there is such a folder.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(&self, folder: Option<PathBuf>, shared: Arc<Shared>) -> Result<()> {
        *lock(&self.shared) = Some(shared.clone());
        self.start_ping()?;
        let Some(waiting) = lock(&self.waiting).take() else {
            return Ok(());
        };
        let sender = Sender::new(self, folder, Box::new(move || condition(&shared.status())));
        let thread = std::thread::Builder::new()
            .name("alerts".to_owned())
            .spawn(move || sender.run(&waiting))
            .context("cannot start the thread that sends alerts")?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// Sends as `options` say from now on. What waits to be sent again goes the ways that these have.
    ///
    /// # Errors
    /// The thread of the ping cannot be started.
    pub fn change(&self, options: AlertOptions) -> Result<()> {
        let old = std::mem::replace(&mut *lock(&self.options), options);
        match lock(&self.options).ping == old.ping {
            true => return Ok(()),
            // Dropping it ends its thread.
            false => *lock(&self.ping) = None,
        }
        self.start_ping()
    }

    fn start_ping(&self) -> Result<()> {
        let ping = lock(&self.options).ping.clone();
        if let (Some(ping), Some(shared)) = (ping, lock(&self.shared).clone()) {
            *lock(&self.ping) = Some(ping.start(shared, self.say.clone())?);
        }
        Ok(())
    }

    /// Accepts no more events, and waits, for at most `within`, until each alert has been tried. What has not arrived then is
    /// sent by the next process that serves the array.
    pub fn finish(&self, within: Duration) {
        lock(&self.queue).take();
        let deadline = Instant::now() + within;
        let thread = lock(&self.thread).take();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn condition(status: &Status) -> Condition {
    let lacks = |state: &str| ["degraded", "failed", "not started"].contains(&state);
    Condition {
        is_well: status.health.state == health::WELL,
        is_degraded: status.volumes.iter().any(|volume| lacks(&volume.state)),
        text: status.health.text.clone(),
        drives: status
            .members
            .iter()
            .map(|member| (member.name.clone(), member.health.known_warnings()))
            .collect(),
    }
}

/// The state of the thread.
struct Sender {
    /// They may change at any time.
    options: Arc<Mutex<AlertOptions>>,
    commands: Commands,
    host: String,
    book: Book,
    /// The file that has the book, and what it has.
    file: Option<PathBuf>,
    stored: Book,
    is_unstored_told: bool,
    dropped: Arc<AtomicU64>,
    say: Say,
    condition: Box<dyn Fn() -> Condition + Send>,
}

impl Sender {
    fn new(
        alerter: &Alerter,
        folder: Option<PathBuf>,
        condition: Box<dyn Fn() -> Condition + Send>,
    ) -> Sender {
        let file = folder.map(|folder| folder.join(NAME));
        let book = file.as_ref().map(read).transpose().unwrap_or_else(|error| {
            (alerter.say)(&format_args!(
                "alerts that were not sent yet are lost: {error:#}"
            ));
            None
        });
        let book = book.unwrap_or_default();
        Sender {
            options: alerter.options.clone(),
            commands: alerter.commands.clone(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            stored: book.clone(),
            book,
            file,
            is_unstored_told: false,
            dropped: alerter.dropped.clone(),
            say: alerter.say.clone(),
            condition,
        }
    }

    fn run(mut self, events: &Receiver<Told>) {
        let mut is_last = false;
        while !is_last {
            let first = match events.recv_timeout(LOOK_EVERY) {
                Ok(event) => {
                    std::thread::sleep(SETTLE);
                    Some(event)
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    is_last = true;
                    None
                }
            };
            self.step(
                first.into_iter().chain(events.try_iter()).collect(),
                is_last,
            );
        }
    }

    fn step(&mut self, events: Vec<Told>, is_last: bool) {
        let ways = self.ways().all();
        let condition = (self.condition)();
        let now_s = now_s();
        let mut dropped = self.dropped.swap(0, Ordering::Relaxed);
        for event in events {
            let alert = self.alert(&event, &condition);
            dropped += self.book.hear(alert, now_s, &ways) as u64;
        }
        dropped += self.book.pass(now_s, &ways) as u64;
        // At the end of the process every volume is out of service.
        if !is_last {
            let plain = self.plain(&condition);
            dropped += self.book.look(&condition, plain, now_s, &ways) as u64;
        }
        if dropped > 0 {
            (self.say)(&format_args!(
                "{dropped} alerts were dropped because too many waited; `fullstripe events` has what they were about"
            ));
        }
        self.store();
        self.send(now_s);
    }

    fn ways(&self) -> Ways {
        lock(&self.options).ways.clone()
    }

    /// An alert without kind and text.
    fn plain(&self, condition: &Condition) -> Alert {
        Alert {
            time_s: now_s(),
            host: self.host.clone(),
            array: lock(&self.options).array.clone(),
            count: 1,
            health: condition.text.clone(),
            ..Alert::default()
        }
    }

    fn alert(&self, event: &Told, condition: &Condition) -> Alert {
        Alert {
            time_s: event.time_s,
            kind: event.kind.clone(),
            severity: severity(event),
            volume: event.volume.clone(),
            member: event.member.clone(),
            text: event.text.clone(),
            next: self.commands.in_text(next(event)),
            ..self.plain(condition)
        }
    }

    /// Tries each alert that is due. It leaves the stored book only after it has arrived.
    fn send(&mut self, due_s: u64) {
        while let Some(attempt) = self.book.take_due(due_s) {
            let (way, is_first) = (attempt.way, attempt.is_first());
            let text = attempt.alert.text.clone();
            if let Err(error) = self.ways().send(way, &attempt.alert) {
                let is_kept = self.book.again(attempt, now_s());
                let error = words::without_error_number(&format!("{error:#}"));
                match (is_kept, is_first) {
                    (false, _) => (self.say)(&format_args!(
                        "an alert is given up, which could not be sent by {way} for three days ({error}): {text}"
                    )),
                    (true, true) => (self.say)(&format_args!(
                        "an alert cannot be sent by {way} and will be tried again: {error}"
                    )),
                    (true, false) => {}
                }
            }
            self.store();
        }
    }

    fn store(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.book != self.stored) else {
            return;
        };
        let json = serde_json::to_vec(&self.book).expect("a book is made of what JSON has");
        match write_whole(file, &json) {
            Ok(()) => self.stored = self.book.clone(),
            Err(error) if !self.is_unstored_told => {
                self.is_unstored_told = true;
                let file = file.display();
                (self.say)(&format_args!(
                    "alerts that are not sent yet will be lost at a restart while {file} cannot be written: {error}"
                ));
            }
            Err(_) => {}
        }
    }
}

fn read(path: &PathBuf) -> Result<Book> {
    let shown = path.display();
    let length = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Book::default()),
        facts => facts.with_context(|| format!("cannot read {shown}"))?.len(),
    };
    if length > FILE_BYTES_MAX {
        anyhow::bail!("{shown} is too long");
    }
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    serde_json::from_slice(&text).with_context(|| format!("{shown} is damaged"))
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
