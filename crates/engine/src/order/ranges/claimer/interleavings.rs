//! An owner that waits for a claim gets it, in many orders of accesses: see the third rule of [`crate::claims`].
#![cfg(shuttle)]

use super::*;
use crate::order::ranges::NONE;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

const KEY: BandKey = BandKey { volume: 0, band: 5 };
const OWNER: ShardId = ShardId(0);
const OTHER: ShardId = ShardId(1);

/// What the test notes, in atomics of the standard library, at which Shuttle never changes threads.
#[derive(Default)]
struct Notes {
    /// The owner has closed the table.
    is_closed: AtomicBool,
    was_closed: AtomicBool,
    /// The owner has worked on its band.
    is_over: AtomicBool,
    writes_elsewhere: AtomicUsize,
}

/// A shard writes the owner's band as often as it may, until the owner has worked on it.
fn write_elsewhere(mut ranges: Ranges, notes: &Notes) {
    while !notes.is_over.load(Ordering::SeqCst) {
        let Some(lock) = ranges.lock_if_quiet(KEY, 0, 0, 4096) else {
            thread::yield_now();
            continue;
        };
        let was_closed = notes.is_closed.load(Ordering::SeqCst);
        let may_write = ranges.claimer.claims.anywhere(1, 2);
        assert!(
            !(was_closed && may_write),
            "another's band was open while its owner waited"
        );
        notes
            .writes_elsewhere
            .fetch_add(usize::from(may_write), Ordering::SeqCst);
        ranges.unlock_quiet(lock);
        if !may_write {
            // Here a shard would ask the owner.
            thread::yield_now();
        }
    }
}

/// The owner looks for its band's work turn by turn, as [`crate::shard`] does.
fn work_as_owner(mut ranges: Ranges, notes: &Notes) {
    let part = ranges.parts.take().expect("a fresh pool");
    ranges.enqueue(KEY, part);
    loop {
        let entry = ranges.next_ready().expect("the band is looked at again");
        let is_claimed = ranges.claim(KEY);
        if is_claimed {
            ranges.unlink(entry, NONE, part);
            let lock = ranges.lock(entry, 0, 0, 4096);
            ranges.looked_at(entry);
            ranges.stop_waiting();
            ranges.unlock(lock);
            break;
        }
        ranges.wait_for_claim(KEY);
        notes
            .is_closed
            .store(ranges.claimer.waiting, Ordering::SeqCst);
        notes
            .was_closed
            .fetch_or(ranges.claimer.waiting, Ordering::SeqCst);
        ranges.looked_at(entry);
        ranges.stop_waiting();
        assert!(ranges.waits_for_claims());
        thread::yield_now();
        ranges.retry_claims();
    }
    assert!(!ranges.claimer.waiting, "the table stays closed");
    notes.is_closed.store(false, Ordering::SeqCst);
    notes.is_over.store(true, Ordering::SeqCst);
}

#[test]
fn an_owner_that_waits_gets_its_band() {
    let (writes, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (writes_seen, closed_seen) = (writes.clone(), closed.clone());
    let run = move || {
        let claims = Claims::new();
        claims.adopt(1);
        claims.adopt(1);
        let ranges = |shard| Ranges::new(Claimer::of(claims.clone(), shard, 1));
        let (owner, other) = (ranges(OWNER), ranges(OTHER));
        let notes = Arc::new(Notes::default());
        let seen = notes.clone();
        let writer = thread::spawn(move || write_elsewhere(other, &seen));
        work_as_owner(owner, &notes);
        writer.join().unwrap();
        assert!(claims.anywhere(1, 2), "the table stays closed");
        writes_seen.fetch_add(
            notes.writes_elsewhere.load(Ordering::SeqCst),
            Ordering::SeqCst,
        );
        let was_closed = notes.was_closed.load(Ordering::SeqCst);
        closed_seen.fetch_add(usize::from(was_closed), Ordering::SeqCst);
    };
    shuttle::check_random(run, 20_000);
    assert!(writes.load(Ordering::SeqCst) > 0, "nobody wrote elsewhere");
    assert!(
        closed.load(Ordering::SeqCst) > 0,
        "the table was never closed"
    );
}
