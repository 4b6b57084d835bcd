//! The thread that writes the state that an array's server keeps across restarts.
//!
//! It reads the [`EventLog`] like any client: the log wakes it, nothing waits for it, and the log gives it the number
//! of events it has missed. After a pause an event is written at once, and later ones at most once a second, so that a
//! storm of events does not become a storm of writes. Warnings are flushed to the disk; other events are lost in a
//! power cut if the kernel has not written them yet. When the disk is full, one warning says so, and from then on
//! writing is tried once a minute.

use super::claim;
use super::event_file::{EventFile, NAME};
use super::settings::Settings;
use crate::api::event_log::fold::fold;
use crate::api::event_log::{EventLog, KEPT_MAX};
use crate::api::schema::NumberedEvent;
use crate::event_kinds::Kind;
use crate::events::Told;
use crate::runtime::lock;
use anyhow::{Context, Result, anyhow};
use container::state_folder::of_array;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, park, park_timeout};
use std::time::{Duration, Instant};

/// The interval between writes; only the first event after a pause is written at once.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of lines in one write.
const LINES_MAX: usize = 100;
/// The interval between attempts after a failure.
const RETRY_EVERY: Duration = Duration::from_secs(60);
/// How long a start waits for a disk that hangs.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// How long an order waits for the disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How often it is checked whether the thread has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is to be stored for the next start.
enum ToKeep {
    /// The limit of background work, in bytes of each member per second.
    Rate(u64),
    /// The serial numbers of the array's spares.
    Spares(BTreeSet<String>),
}

/// An order to store something, and where to send the result.
type Order = (ToKeep, Sender<Result<()>>);

/// The handle of the thread. When dropped, it waits at most a second for the thread to write what is left.
#[derive(Debug)]
pub struct Keeper {
    orders: Mutex<Sender<Order>>,
    finishing: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that was read when the thread was started.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The limit of background work, if one was ordered: bytes of each member per second, 0 for none.
    pub rate_bytes_per_s: Option<u64>,
    /// The serial numbers of the spares that the array had when it was served last.
    pub spares: BTreeSet<String>,
    /// Why the limit or the spares could not be read.
    pub unread: BTreeSet<String>,
    /// The server before did not end in order.
    pub is_cut_short: bool,
}

impl Keeper {
    /// Fills `log`, which is empty, with the events of the array `container_uuid` stored below `program_folder`, and
    /// from now on stores the events added to it. `warn` is called once, if storing fails.
    ///
    /// # Errors
    /// One sentence: what cannot be used. Then nothing is stored.
    pub fn start(
        program_folder: &Path,
        container_uuid: &str,
        log: &EventLog,
        warn: impl Fn(String) + Send + 'static,
    ) -> Result<(Keeper, Remembered)> {
        let folder = of_array(program_folder, container_uuid);
        let shown = folder.display().to_string();
        let (orders, to_do) = channel();
        let (opened, is_open) = sync_channel(1);
        let finishing = Arc::new(AtomicBool::new(false));
        let (writing, ends) = (log.clone(), finishing.clone());
        let thread = std::thread::Builder::new()
            .name("state-keeper".to_owned())
            .spawn(move || {
                let (file, claimed) = match open(&folder) {
                    Ok((file, claimed, found)) => {
                        let newest = found.1.newest;
                        if opened.send(Ok(found)).is_err() {
                            return;
                        }
                        ((file, newest), claimed)
                    }
                    Err(error) => return drop(opened.send(Err(error))),
                };
                Writing::new(file, writing, Settings::within(&folder), Box::new(warn))
                    .run(&to_do, &ends);
                drop(claimed);
            })
            .context("cannot start the thread that keeps events")?;
        let (remembered, earlier) = is_open
            .recv_timeout(OPEN_WITHIN)
            .map_err(|_| anyhow!("{shown} does not answer"))?
            .with_context(|| format!("{shown} cannot be used"))?;
        log.begin_with(earlier.events, earlier.newest);
        log.wake(thread.thread().clone());
        let keeper = Keeper {
            orders: Mutex::new(orders),
            finishing,
            thread: Mutex::new(Some(thread)),
        };
        Ok((keeper, remembered))
    }

    /// Stores the limit of background work for the next start.
    ///
    /// # Errors
    /// One sentence: why it is not stored.
    pub fn keep_rate(&self, bytes_per_s: u64) -> Result<()> {
        self.keep(ToKeep::Rate(bytes_per_s))
    }

    /// Stores the serial numbers of the array's spares for the next start.
    ///
    /// # Errors
    /// As [`Keeper::keep_rate`].
    pub fn keep_spares(&self, serials: BTreeSet<String>) -> Result<()> {
        self.keep(ToKeep::Spares(serials))
    }

    fn keep(&self, what: ToKeep) -> Result<()> {
        let (answer, answered) = channel();
        let sent = lock(&self.orders).send((what, answer));
        sent.map_err(|_| anyhow!("the thread that keeps settings has ended"))?;
        if let Some(thread) = &*lock(&self.thread) {
            thread.thread().unpark();
        }
        answered
            .recv_timeout(ANSWER_WITHIN)
            .map_err(|_| anyhow!("the disk with its settings does not answer"))?
    }

    /// Has all events in the log written and ends the thread; waits for that, for at most `within`.
    pub fn finish(&self, within: Duration) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.finishing.store(true, Ordering::Release);
        thread.thread().unpark();
        let deadline = Instant::now() + within;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.finish(WRITE_EVERY);
    }
}

type Found = (Remembered, super::event_file::Earlier);

fn open(folder: &Path) -> Result<(EventFile, std::fs::File, Found)> {
    let claimed = claim(folder)?;
    let (file, earlier) = EventFile::open(folder).with_context(|| NAME.to_owned())?;
    let settings = Settings::within(folder);
    let (rate, spares) = (settings.rate_bytes_per_s(), settings.spares());
    let errors = [rate.as_ref().err(), spares.as_ref().err()];
    let remembered = Remembered {
        unread: (errors.into_iter().flatten())
            .map(|error| format!("{error:#}"))
            .collect(),
        rate_bytes_per_s: rate.unwrap_or_default(),
        spares: spares.unwrap_or_default(),
        is_cut_short: earlier.is_cut_short,
    };
    Ok((file, claimed, (remembered, earlier)))
}

/// The state of the thread.
struct Writing {
    file: EventFile,
    log: EventLog,
    /// Number of the newest event in the file.
    written: u64,
    settings: Settings,
    warn: Option<Box<dyn Fn(String) + Send>>,
    /// When the next write is allowed.
    next_write: Instant,
}

impl Writing {
    fn new(
        (file, written): (EventFile, u64),
        log: EventLog,
        settings: Settings,
        warn: Box<dyn Fn(String) + Send>,
    ) -> Writing {
        Writing {
            file,
            log,
            written,
            settings,
            warn: Some(warn),
            next_write: Instant::now(),
        }
    }

    fn run(mut self, orders: &Receiver<Order>, finishing: &AtomicBool) {
        loop {
            // Read before the orders: an order given before the end must still be carried out.
            let is_last = finishing.load(Ordering::Acquire);
            for (what, answer) in orders.try_iter() {
                let kept = match what {
                    ToKeep::Rate(bytes_per_s) => self.settings.keep_rate(bytes_per_s),
                    ToKeep::Spares(serials) => self.settings.keep_spares(&serials),
                };
                // If the receiver is gone, its order has timed out and was answered as unknown.
                let _ = answer.send(kept);
            }
            if is_last {
                while self.write_some() {}
                return;
            }
            let now = Instant::now();
            if now >= self.next_write && self.has_more() {
                let is_written = self.write_some();
                self.next_write = now + if is_written { WRITE_EVERY } else { RETRY_EVERY };
            }
            match self.has_more() {
                true => park_timeout(self.next_write.saturating_duration_since(Instant::now())),
                false => park(),
            }
        }
    }

    fn has_more(&self) -> bool {
        *self.log.watch().borrow() > self.written
    }

    /// Writes the next events; false if there are none or they cannot be written.
    fn write_some(&mut self) -> bool {
        let next = next_lines(&self.log, self.written);
        let Some(last) = next.last() else {
            return false;
        };
        let number = last.number;
        let is_urgent = next.iter().any(|event| event.event.warning);
        match self.file.append(&next, is_urgent) {
            Ok(()) => {
                self.written = number;
                true
            }
            Err(error) => {
                if let Some(warn) = self.warn.take() {
                    warn(format!(
                        "events will be lost at a restart while {} cannot be written: {error}",
                        self.file.path().display()
                    ));
                }
                false
            }
        }
    }
}

/// The events to be written after the one with the number `written`.
fn next_lines(log: &EventLog, written: u64) -> Vec<NumberedEvent> {
    let mut events = log.since(written, KEPT_MAX);
    let whole = fold(events.events.clone());
    let mut lines = match whole.len() {
        0..=LINES_MAX => whole,
        // Only events of this write are folded: a folded event must not include events that are written later.
        _ => {
            events.events.truncate(LINES_MAX);
            fold(events.events)
        }
    };
    if events.forgotten > 0 {
        let told = Told::of_process(
            Kind::EventsNotKept,
            format!(
                "{} events were not kept here: they came faster than they could be written",
                events.forgotten
            ),
            true,
        );
        lines.insert(0, NumberedEvent::new(written + events.forgotten, told));
    }
    lines
}

#[cfg(test)]
mod tests;
