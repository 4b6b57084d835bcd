//! Everything about scrubs that outlasts one run of the process: the position of each, when the next is due, what the
//! last one found, and what exactly disagrees in a stripe.
//!
//! The engine scrubs and reports what it finds; it knows no dates and nothing about earlier processes. Here,
//! [`book`] is the state, without I/O or a clock: its callers report events, positions and the time to it. [`kept`] is
//! the part of it that is stored, and [`every`] says what is due without an order. [`keeper`] is the thread that reads it from the drives when the array starts, writes
//! it back ([`metadata::imsm::notes`]), and gives the orders that are due. [`report`] puts findings into words, and
//! [`explain`] reads a stripe from all members while the engine keeps it still.
//!
//! Positions are hints: an outdated one only costs time. Notes that belong to another volume, or to this volume in
//! another shape, are dropped.

pub mod book;
pub mod every;
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

/// How long to wait until notes are read from the drives or written to them.
const NOTES_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the threads of a serving process share about scrubs.
#[derive(Debug)]
pub struct Scrubs {
    book: Mutex<Book>,
    /// The notes on the drives have been read.
    loaded: AtomicBool,
    /// The revision of the book that the drives hold.
    saved_revision: AtomicU64,
    /// Threads that wait for a stripe to be kept still, by ticket; each is sent whether it is.
    inspections: Mutex<BTreeMap<u64, Sender<bool>>>,
}

impl Scrubs {
    /// The state at the start, of a container whose volumes have these UUIDs and whose drives have these names.
    #[must_use]
    pub fn new(record: &Record, uuids: &[String], drives: &[String]) -> Scrubs {
        Scrubs {
            book: Mutex::new(Book::new(record, uuids, drives)),
            loaded: AtomicBool::new(false),
            saved_revision: AtomicU64::new(0),
            inspections: Mutex::default(),
        }
    }

    /// Takes account of an event. The end of a scrub is returned with the counts of earlier processes included.
    pub fn hear(&self, event: Event) -> Event {
        lock(&self.book).hear(event, now_s())
    }

    /// Takes account of findings that were dropped because there were too many.
    pub fn missed_some(&self) {
        lock(&self.book).missed_some();
    }

    /// Adds what is known about scrubs to a status.
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

    /// Calls `work` with the book, once the book has been read from the drives.
    pub fn with_book<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        wait_until(|| self.loaded.load(Ordering::Acquire));
        work(&mut lock(&self.book))
    }

    /// Waits until the present state of the book is on the drives; false if that takes too long.
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
