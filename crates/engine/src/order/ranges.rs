//! Order among overlapping work: which pieces of work hold which ranges, and what waits behind them.
//!
//! The unit is a *band*: one row of a volume, or a part of it when chunks are large. Inside a band a lock covers a
//! range of offsets in the chunk, which for RAID 5 is a range of parity blocks. Work waits in arrival order behind
//! whatever it overlaps. Each shard has one such table, which no other shard looks at. In it a shard locks ranges of
//! bands in rows that it owns, and of mirrored bands that it has claimed ([`crate::claims`]). Each lock in a mirrored
//! band comes with a claim.

mod check;
mod claimer;
mod part;
#[cfg(test)]
mod tests;

use crate::limits::{PARTS_MAX, PLANS_MAX};
use crate::pool::Pool;
use crate::units::Buffer;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
pub(crate) use claimer::Claimer;
pub(crate) use part::{Part, PartKind};

/// End of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// A lock that covers all data chunks of the row.
pub(crate) const ALL_CHUNKS: u8 = u8::MAX;

/// Names a band.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BandKey {
    pub volume: u8,
    pub band: u64,
}

/// A band with work in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub key: BandKey,
    first_waiting: u32,
    last_waiting: u32,
    first_lock: u32,
    bucket_next: u32,
    ready: bool,
    /// Being worked on: must not disappear.
    pinned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lock {
    key: BandKey,
    low: u32,
    high: u32,
    data_index: u8,
    /// The band's entry, or [`NONE`] for a quiet lock.
    entry: u32,
    next: u32,
}

impl Lock {
    #[inline]
    fn overlaps(&self, data_index: u8, low: u32, high: u32) -> bool {
        let same_chunk = self.data_index == data_index
            || self.data_index == ALL_CHUNKS
            || data_index == ALL_CHUNKS;
        same_chunk && self.low < high && low < self.high
    }
}

/// The table. See the module's prose.
#[derive(Debug)]
pub(crate) struct Ranges {
    buckets: Vec<u32>,
    /// Locks on bands without an entry, by the same buckets; see [`Ranges::lock_if_quiet`].
    quiet: Vec<u32>,
    entries: Pool<Entry>,
    locks: Pool<Lock>,
    parts: Pool<Part>,
    ready: VecDeque<u32>,
    claimer: Claimer,
}

impl Ranges {
    /// An empty table.
    pub fn new(claimer: Claimer) -> Ranges {
        let part = Part {
            kind: PartKind::Background,
            request: NONE,
            data_index: 0,
            low: 0,
            high: 0,
            buffer: Buffer(0),
            tried: None,
            alone: false,
            next: NONE,
        };
        let entry = Entry {
            key: BandKey { volume: 0, band: 0 },
            first_waiting: NONE,
            last_waiting: NONE,
            first_lock: NONE,
            bucket_next: NONE,
            ready: false,
            pinned: false,
        };
        let lock = Lock {
            key: entry.key,
            low: 0,
            high: 0,
            data_index: 0,
            entry: NONE,
            next: NONE,
        };
        Ranges {
            buckets: vec![NONE; PARTS_MAX.next_power_of_two()],
            quiet: vec![NONE; PARTS_MAX.next_power_of_two()],
            // A band exists while it has parts or locks, and there are no more of them than these.
            entries: Pool::new(PARTS_MAX + PLANS_MAX, || entry),
            locks: Pool::new(PLANS_MAX, || lock),
            parts: Pool::new(PARTS_MAX, || part),
            ready: VecDeque::with_capacity(PARTS_MAX + PLANS_MAX),
            claimer,
        }
    }

    #[inline]
    fn hash(key: BandKey) -> u32 {
        // Fibonacci hashing: bands are often consecutive, or far apart by powers of two.
        let mixed = (key.band ^ u64::from(key.volume) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as u32
    }

    #[inline]
    fn bucket(&self, key: BandKey) -> usize {
        Self::hash(key) as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn entry(&mut self, key: BandKey) -> u32 {
        let bucket = self.bucket(key);
        let mut index = self.buckets[bucket];
        while index != NONE {
            if self.entries[index].key == key {
                return index;
            }
            index = self.entries[index].bucket_next;
        }
        let index = self
            .entries
            .take()
            .expect("there is a band for each part and lock");
        self.entries[index] = Entry {
            key,
            first_waiting: NONE,
            last_waiting: NONE,
            first_lock: NONE,
            bucket_next: self.buckets[bucket],
            ready: false,
            pinned: false,
        };
        self.buckets[bucket] = index;
        index
    }

    /// Puts `part` at the end of its band's queue.
    #[inline]
    pub fn enqueue(&mut self, key: BandKey, part: u32) {
        let entry = self.entry(key);
        self.parts[part].next = NONE;
        let tail = self.entries[entry].last_waiting;
        if tail == NONE {
            self.entries[entry].first_waiting = part;
        } else {
            self.parts[tail].next = part;
        }
        self.entries[entry].last_waiting = part;
        self.mark_ready(entry);
    }

    /// Puts a chain of parts back at the head of their band's queue: they were there first.
    pub fn requeue(&mut self, key: BandKey, chain: u32) {
        self.requeue_quietly(key, chain);
        self.wake(key);
    }

    /// As [`Ranges::requeue`], but the band is not looked at again until something else wakes it.
    pub fn requeue_quietly(&mut self, key: BandKey, chain: u32) {
        let entry = self.entry(key);
        let mut tail = chain;
        while self.parts[tail].next != NONE {
            tail = self.parts[tail].next;
        }
        self.parts[tail].next = self.entries[entry].first_waiting;
        self.entries[entry].first_waiting = chain;
        if self.entries[entry].last_waiting == NONE {
            self.entries[entry].last_waiting = tail;
        }
    }

    #[inline]
    fn mark_ready(&mut self, entry: u32) {
        if !self.entries[entry].ready {
            self.entries[entry].ready = true;
            self.ready.push_back(entry);
        }
    }

    /// A band whose queue has to be looked at. The caller takes out what may run, need not empty the queue, and ends
    /// with [`Ranges::looked_at`].
    #[inline]
    pub fn next_ready(&mut self) -> Option<u32> {
        let entry = self.ready.pop_front()?;
        self.entries[entry].ready = false;
        self.entries[entry].pinned = true;
        Some(entry)
    }

    /// The band has been looked at; it is forgotten if nothing is left in it.
    #[inline]
    pub fn looked_at(&mut self, entry: u32) {
        self.entries[entry].pinned = false;
        self.release_if_unused(entry);
    }

    /// Marks a band whose queue was left as it was to be looked at again, if it still exists.
    pub fn wake(&mut self, key: BandKey) {
        let mut index = self.buckets[self.bucket(key)];
        while index != NONE {
            if self.entries[index].key == key {
                return self.mark_ready(index);
            }
            index = self.entries[index].bucket_next;
        }
    }

    pub fn key(&self, entry: u32) -> BandKey {
        self.entries[entry].key
    }

    pub fn key_of_lock(&self, lock: u32) -> BandKey {
        self.locks[lock].key
    }

    /// The first waiting part of a band; follow [`Ranges::next_waiting`].
    #[inline]
    pub fn first_waiting(&self, entry: u32) -> u32 {
        self.entries[entry].first_waiting
    }

    /// Takes `part`, whose predecessor in the queue is `before` (or [`NONE`]), out of the queue.
    #[inline]
    pub fn unlink(&mut self, entry: u32, before: u32, part: u32) {
        let next = self.parts[part].next;
        if before == NONE {
            self.entries[entry].first_waiting = next;
        } else {
            self.parts[before].next = next;
        }
        if self.entries[entry].last_waiting == part {
            self.entries[entry].last_waiting = before;
        }
        self.parts[part].next = NONE;
    }

    /// Whether a held lock overlaps.
    #[inline]
    pub fn is_locked(&self, entry: u32, data_index: u8, low: u32, high: u32) -> bool {
        let mut lock = self.entries[entry].first_lock;
        while lock != NONE {
            let held = &self.locks[lock];
            if held.overlaps(data_index, low, high) {
                return true;
            }
            lock = held.next;
        }
        let key = self.entries[entry].key;
        self.is_quietly_locked(self.bucket(key), key, (data_index, low, high))
    }

    #[inline]
    fn is_quietly_locked(
        &self,
        bucket: usize,
        key: BandKey,
        (data_index, low, high): (u8, u32, u32),
    ) -> bool {
        let mut lock = self.quiet[bucket];
        while lock != NONE {
            let held = &self.locks[lock];
            if held.key == key && held.overlaps(data_index, low, high) {
                return true;
            }
            lock = held.next;
        }
        false
    }

    /// Takes a lock where nothing waits and nothing overlaps, without making a queue for others to wait in: work that
    /// comes later and finds the range locked makes one. `None` when a queue is needed or another shard has claimed
    /// the band.
    #[inline]
    pub fn lock_if_quiet(
        &mut self,
        key: BandKey,
        data_index: u8,
        low: u32,
        high: u32,
    ) -> Option<u32> {
        let bucket = self.bucket(key);
        if self.buckets[bucket] != NONE
            || self.is_quietly_locked(bucket, key, (data_index, low, high))
        {
            return None;
        }
        let lock = self.locks.take().expect("there is a lock for each plan");
        if !self.claim(key) {
            self.locks.give(lock);
            return None;
        }
        self.locks[lock] = Lock {
            key,
            low,
            high,
            data_index,
            entry: NONE,
            next: self.quiet[bucket],
        };
        self.quiet[bucket] = lock;
        Some(lock)
    }

    /// Gives a quiet lock back.
    #[inline]
    pub fn unlock_quiet(&mut self, lock: u32) {
        let key = self.locks[lock].key;
        self.leave_quiet(lock);
        self.locks.give(lock);
        self.unclaim(key);
        // Work that came meanwhile has made a queue.
        self.wake(key);
    }

    #[inline]
    fn leave_quiet(&mut self, lock: u32) {
        let Lock { key, next, .. } = self.locks[lock];
        let bucket = self.bucket(key);
        if self.quiet[bucket] == lock {
            self.quiet[bucket] = next;
            return;
        }
        let mut before = self.quiet[bucket];
        while self.locks[before].next != lock {
            before = self.locks[before].next;
        }
        self.locks[before].next = next;
    }

    /// Makes an ordinary lock of a quiet one.
    pub fn lock_in_band(&mut self, lock: u32) -> u32 {
        self.leave_quiet(lock);
        let entry = self.entry(self.locks[lock].key);
        self.locks[lock].entry = entry;
        self.locks[lock].next = self.entries[entry].first_lock;
        self.entries[entry].first_lock = lock;
        lock
    }

    /// Takes a lock; the caller has checked that nothing overlaps, and claimed the band.
    #[inline]
    pub fn lock(&mut self, entry: u32, data_index: u8, low: u32, high: u32) -> u32 {
        // The caller has checked that; once more only in debug builds, because the check takes 1 % of a small write.
        debug_assert!(
            !self.is_locked(entry, data_index, low, high),
            "{:?} from {low} to {high} is locked already",
            self.entries[entry].key
        );
        let lock = self.locks.take().expect("there is a lock for each plan");
        let next = self.entries[entry].first_lock;
        self.locks[lock] = Lock {
            key: self.entries[entry].key,
            low,
            high,
            data_index,
            entry,
            next,
        };
        self.entries[entry].first_lock = lock;
        lock
    }

    /// Gives a lock back and returns its band's key.
    #[inline]
    pub fn unlock(&mut self, lock: u32) -> BandKey {
        let Lock {
            key, entry, next, ..
        } = self.locks[lock];
        if entry == NONE {
            self.unlock_quiet(lock);
            return key;
        }
        if self.entries[entry].first_lock == lock {
            self.entries[entry].first_lock = next;
        } else {
            let mut before = self.entries[entry].first_lock;
            while self.locks[before].next != lock {
                before = self.locks[before].next;
            }
            self.locks[before].next = next;
        }
        self.locks.give(lock);
        self.unclaim(key);
        if self.entries[entry].first_waiting != NONE {
            self.mark_ready(entry);
        } else {
            self.release_if_unused(entry);
        }
        key
    }

    /// Forgets the band when nothing waits, nothing is locked, and it is not to be looked at.
    #[inline]
    fn release_if_unused(&mut self, entry: u32) {
        let Entry {
            key,
            first_waiting,
            first_lock,
            bucket_next,
            ready,
            pinned,
            ..
        } = self.entries[entry];
        if first_waiting != NONE || first_lock != NONE || ready || pinned {
            return;
        }
        let bucket = self.bucket(key);
        if self.buckets[bucket] == entry {
            self.buckets[bucket] = bucket_next;
        } else {
            let mut before = self.buckets[bucket];
            while self.entries[before].bucket_next != entry {
                before = self.entries[before].bucket_next;
            }
            self.entries[before].bucket_next = bucket_next;
        }
        self.entries.give(entry);
    }

    /// Locks that are held.
    pub fn locks_held(&self) -> usize {
        self.locks.used()
    }

    /// Bands with work in them.
    #[cfg(test)]
    pub fn bands(&self) -> usize {
        self.entries.used()
    }
}
