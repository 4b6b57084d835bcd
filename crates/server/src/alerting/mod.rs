//! Sends alerts about the array to its operator.
//!
//! A thread of its own does it, and nobody waits for it: events go into a queue of limited length, and those that do not fit
//! are counted. [`book`] says what is sent when. It is stored in the array's [state folder](crate::state_folder) whenever it
//! changes, so an alert survives the end of the process; one that is being sent at that moment may be sent twice. Every event is
//! in the queue or in the book, so that whoever ends the process early can keep all of them.
//!
//! [`not_started`] does the same for an array that does not start, and so is not served.

mod book;
mod inbox;
mod not_started;
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
use book::{Book, Condition, Waiting};
use inbox::Inbox;
pub use not_started::NotStarted;
pub use ping::Ping;
use ping::PingThread;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked whether something is due, and how the array is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The status is published a little later than the event, and an alert contains both.
const SETTLE: Duration = Duration::from_millis(500);
/// How long the end of a process waits for the disk that keeps what could not be sent.
const KEEP_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked whether a thread has ended.
const POLL_EVERY: Duration = Duration::from_millis(5);
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

/// The thread, and what reaches it. Events wait until [`Alerter::start`].
pub(super) struct Alerter {
    options: Arc<Mutex<AlertOptions>>,
    /// How commands in the sentences reach the server.
    commands: Commands,
    /// What the ping needs, once it may begin.
    shared: Mutex<Option<Arc<Shared>>>,
    /// Ends the thread of the ping.
    ping: Mutex<Option<PingThread>>,
    inbox: Arc<Inbox>,
    /// The array is served, so that it can be told how it is.
    is_served: Arc<AtomicBool>,
    say: Say,
    thread: Mutex<Option<(Arc<Sender>, JoinHandle<()>)>>,
}

impl Alerter {
    /// An alerter that has not begun; `say` is called with what has gone wrong.
    pub fn new(
        options: AlertOptions,
        commands: Commands,
        say: impl Fn(&dyn Display) + Send + Sync + 'static,
    ) -> Alerter {
        Alerter {
            options: Arc::new(Mutex::new(options)),
            commands,
            shared: Mutex::default(),
            ping: Mutex::default(),
            inbox: Arc::default(),
            is_served: Arc::default(),
            say: Arc::new(say),
            thread: Mutex::default(),
        }
    }

    /// Queues an event that is grave enough. Never blocks.
    pub fn tell(&self, event: &Told) {
        if severity(event) >= lock(&self.options).minimum {
            self.inbox.put(event);
        }
    }

    /// Begins to send, with what is left from the process before in `folder`, if there is such a folder.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(&self, folder: Option<PathBuf>, shared: Arc<Shared>) -> Result<()> {
        *lock(&self.shared) = Some(shared.clone());
        self.start_ping()?;
        let is_served = self.is_served.clone();
        self.begin(
            folder,
            Box::new(move || {
                let is_served = is_served.load(Ordering::Acquire);
                is_served.then(|| condition(&shared.status()))
            }),
        )
    }

    /// From now on the array's health is looked at, and that it is served is the end of having not started.
    pub fn array_is_served(&self) {
        self.is_served.store(true, Ordering::Release);
    }

    /// Starts the thread; `condition` is `None` while the array is not served.
    fn begin(&self, folder: Option<PathBuf>, condition: Look) -> Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return Ok(());
        }
        let sender = Arc::new(Sender::new(self, folder, condition));
        let own = sender.clone();
        let started = std::thread::Builder::new()
            .name("alerts".to_owned())
            .spawn(move || own.run())
            .context("cannot start the thread that sends alerts")?;
        *thread = Some((sender, started));
        Ok(())
    }

    /// Accepts no more events: each alert that is due is tried once, and the thread ends.
    fn close(&self) {
        self.inbox.close();
    }

    /// What the thread has left; `None` until it has ended.
    fn left(&self) -> Option<Left> {
        let thread = lock(&self.thread);
        let (sender, thread) = thread.as_ref()?;
        let desk = thread.is_finished().then(|| lock(&sender.desk))?;
        Some(Left {
            is_stored: desk.is_stored(),
            has_waiting: desk.book.has_waiting(),
        })
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
    /// kept, and sent by the next process that serves the array.
    pub fn finish(&self, within: Duration) {
        self.close();
        let Some((sender, thread)) = lock(&self.thread).take() else {
            return;
        };
        if !has_ended(&thread, within) {
            // It may be in a call that takes half a minute, and the disk may hang.
            let keeping = std::thread::Builder::new().spawn(move || sender.keep_rest());
            match keeping {
                Ok(keeping) => _ = has_ended(&keeping, KEEP_WITHIN),
                Err(error) => (self.say)(&format_args!("alerts may be lost: {error}")),
            }
        }
    }
}

/// What a thread has left that has ended.
struct Left {
    /// The file has everything.
    is_stored: bool,
    /// An alert has not arrived.
    has_waiting: bool,
}

/// Waits, for at most `within`, until a thread has ended, and returns whether it has.
fn has_ended(thread: &JoinHandle<()>, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_EVERY);
    }
    true
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

/// Looks how the array is; `None` while it is not served.
type Look = Box<dyn Fn() -> Option<Condition> + Send + Sync>;

/// What the thread works with.
struct Sender {
    /// They may change at any time.
    options: Arc<Mutex<AlertOptions>>,
    commands: Commands,
    host: String,
    inbox: Arc<Inbox>,
    desk: Mutex<Desk>,
    say: Say,
    condition: Look,
}

/// The book, and what becomes of it.
#[derive(Default)]
struct Desk {
    book: Book,
    /// The attempt that is under way. It is not in the book, but in the stored one.
    sending: Option<Waiting>,
    /// The file that has the book, and what it has.
    file: Option<PathBuf>,
    stored: Book,
    is_unstored_told: bool,
    /// All that is left is kept for the next process, and this one changes nothing any more.
    is_over: bool,
}

impl Sender {
    fn new(alerter: &Alerter, folder: Option<PathBuf>, condition: Look) -> Sender {
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
            inbox: alerter.inbox.clone(),
            desk: Mutex::new(Desk {
                stored: book.clone(),
                book,
                file,
                ..Desk::default()
            }),
            say: alerter.say.clone(),
            condition,
        }
    }

    fn run(&self) {
        let mut is_last = false;
        while !is_last {
            // The events stay in the queue until they are in the book.
            if self.inbox.wait(LOOK_EVERY) && !self.inbox.is_closed() {
                std::thread::sleep(SETTLE);
            }
            is_last = self.inbox.is_closed();
            self.step(is_last);
        }
    }

    fn step(&self, is_last: bool) {
        let condition = (self.condition)();
        let now_s = now_s();
        let may_send = {
            let mut desk = lock(&self.desk);
            if desk.is_over {
                return;
            }
            let mut dropped = self.hear(&mut desk, condition.as_ref(), now_s);
            let ways = self.ways().all();
            dropped += desk.book.pass(now_s, &ways) as u64;
            // At the end of the process every volume is out of service.
            if let Some(condition) = condition.as_ref().filter(|_| !is_last) {
                let plain = self.plain(Some(condition));
                dropped += desk.book.look(condition, plain, now_s, &ways) as u64;
            }
            if dropped > 0 {
                (self.say)(&format_args!(
                    "{dropped} alerts were dropped because too many waited; `fullstripe events` has what they were about"
                ));
            }
            self.store(&mut desk);
            // The process of an array that does not start is started again and again. What it has told and not noted down it
            // would tell each time.
            condition.is_some() || desk.is_stored()
        };
        if may_send {
            self.send(now_s);
        }
    }

    /// Takes the events out of the queue and into the book. Returns how many alerts had no room.
    fn hear(&self, desk: &mut Desk, condition: Option<&Condition>, now_s: u64) -> u64 {
        let ways = self.ways().all();
        let (events, mut dropped) = self.inbox.take();
        for event in events {
            let alert = self.alert(&event, condition);
            dropped += desk.book.hear(alert, now_s, &ways) as u64;
        }
        dropped
    }

    /// Keeps for the next process what has not been sent, also what is being sent now.
    fn keep_rest(&self) {
        let condition = (self.condition)();
        let mut desk = lock(&self.desk);
        self.hear(&mut desk, condition.as_ref(), now_s());
        if let Some(attempt) = desk.sending.take() {
            desk.book.put_back(attempt);
        }
        self.store(&mut desk);
        desk.is_over = true;
    }

    fn ways(&self) -> Ways {
        lock(&self.options).ways.clone()
    }

    /// An alert without kind and text.
    fn plain(&self, condition: Option<&Condition>) -> Alert {
        Alert {
            time_s: now_s(),
            host: self.host.clone(),
            array: lock(&self.options).array.clone(),
            count: 1,
            health: condition.map(|one| one.text.clone()).unwrap_or_default(),
            ..Alert::default()
        }
    }

    fn alert(&self, event: &Told, condition: Option<&Condition>) -> Alert {
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
    fn send(&self, due_s: u64) {
        while let Some(attempt) = self.take_due(due_s) {
            let (way, is_first) = (attempt.way, attempt.is_first());
            let text = attempt.alert.text.clone();
            let sent = self.ways().send(way, &attempt.alert);
            let mut desk = lock(&self.desk);
            if desk.is_over {
                return;
            }
            desk.sending = None;
            if let Err(error) = sent {
                let is_kept = desk.book.again(attempt, now_s());
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
            self.store(&mut desk);
        }
    }

    fn take_due(&self, due_s: u64) -> Option<Waiting> {
        let mut desk = lock(&self.desk);
        if desk.is_over {
            return None;
        }
        let attempt = desk.book.take_due(due_s)?;
        desk.sending = Some(attempt.clone());
        Some(attempt)
    }

    fn store(&self, desk: &mut Desk) {
        let Some(file) = desk.file.as_ref().filter(|_| !desk.is_stored()) else {
            return;
        };
        let json = serde_json::to_vec(&desk.book).expect("a book is made of what JSON has");
        match write_whole(file, &json) {
            Ok(()) => desk.stored = desk.book.clone(),
            Err(error) if !desk.is_unstored_told => {
                desk.is_unstored_told = true;
                let file = desk.file.as_ref().map(|file| file.display().to_string());
                (self.say)(&format_args!(
                    "alerts that are not sent yet will be lost at a restart while {} cannot be written: {error}",
                    file.unwrap_or_default()
                ));
            }
            Err(_) => {}
        }
    }
}

impl Desk {
    /// Whether the file has the book.
    fn is_stored(&self) -> bool {
        self.file.is_some() && self.book == self.stored
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
