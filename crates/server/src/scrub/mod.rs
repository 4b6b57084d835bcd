//! Scrubs beyond one run of the process: where each one stands, when the next is due, what the last one
//! found, and what exactly disagrees in a stripe.
//!
//! The engine scrubs and says what it finds; it knows nothing of dates or of the process before. Here
//! [`book`] is the memory: pure, told of events, positions and the time by its callers; [`kept`] is the part of
//! it that is written down. [`keeper`] is the
//! thread that reads it from the drives when the array starts, writes it back ([`metadata::imsm::notes`]),
//! and gives the orders that fall due. [`report`] puts it into words, and [`explain`] reads a stripe from
//! all members while the engine keeps it still.
//!
//! Positions are hints: an old one costs time. Notes that belong to another volume, or to this one in
//! another shape, are dropped.

pub mod book;
pub mod explain;
pub mod keeper;
pub mod kept;
pub mod report;

use super::runtime::lock;
use super::status::Status;
use book::Book;
use engine::control::record::Record;
use engine::event::Event;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long to wait for the drives to give or take notes, for somebody who asks.
const NOTES_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the threads of a serving process share about scrubs.
#[derive(Debug)]
pub struct Scrubs {
    book: Mutex<Book>,
    /// The notes on the drives have been read.
    loaded: AtomicBool,
    /// The revision of the book that is on the drives.
    saved_revision: AtomicU64,
    /// Who asked for stripes to stand still, by ticket; told whether they do.
    inspections: Mutex<BTreeMap<u64, Sender<bool>>>,
}

impl Scrubs {
    /// Of a container whose volumes have these UUIDs and whose members these names, before anything is known.
    #[must_use]
    pub fn new(record: &Record, uuids: &[String], drives: &[String]) -> Scrubs {
        Scrubs {
            book: Mutex::new(Book::new(record, uuids, drives)),
            loaded: AtomicBool::new(false),
            saved_revision: AtomicU64::new(0),
            inspections: Mutex::default(),
        }
    }

    /// Notes an event. The end of a scrub is told with all that it found, in earlier processes too.
    pub fn hear(&self, event: Event) -> Event {
        lock(&self.book).hear(event, now_s())
    }

    /// Notes that more was found than could be told.
    pub fn missed_some(&self) {
        lock(&self.book).missed_some();
    }

    /// Completes a status by what is known of scrubs.
    pub fn describe(&self, status: &mut Status) {
        let book = lock(&self.book);
        for (volume, status) in book.volumes.iter().zip(&mut status.volumes) {
            status.scrub = volume.status();
            if let Some(job) = &mut status.job
                && matches!(job.kind.as_str(), "check" | "repair")
            {
                job.mismatches += volume.mismatches_before();
            }
        }
    }

    /// Does something with the book once it has been read from the drives.
    pub fn with_book<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        wait_until(|| self.loaded.load(Ordering::Acquire));
        work(&mut lock(&self.book))
    }

    /// Waits until all that the book says now is on the drives; false if that takes too long.
    #[must_use]
    pub fn wait_until_saved(&self) -> bool {
        let wanted = lock(&self.book).revision;
        wait_until(|| self.saved_revision.load(Ordering::Acquire) >= wanted)
    }
}

fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + NOTES_WITHIN;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Seconds since 1970.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
