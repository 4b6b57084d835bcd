//! Invariants of the table between two turns: see [`crate::shard::check`].

use crate::order::ranges::{BandKey, Entry, Lock, NONE, Ranges};
use alloc::vec;
use alloc::vec::Vec;

impl Ranges {
    /// Checks all bands, their queues and their locks. `held_back` says whether a band waits for the rest of its row.
    /// Returns how many parts wait.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which, and of which band.
    pub fn check(&self, held_back: impl Fn(BandKey) -> bool) -> usize {
        let entries = self.entries.in_use("band");
        let locks = self.locks.in_use("lock");
        let mut waiting = 0;
        let mut listed = vec![];
        for &index in &entries {
            let entry = &self.entries[index];
            self.check_place(index, entry);
            waiting += self.check_queue(entry);
            listed.extend(self.locks_from(entry.first_lock));
            let quiet = self.quiet_locks(entry.key).next();
            self.check_wakes(entry, quiet.is_some(), &held_back);
        }
        self.check_ready(&entries);
        self.check_locks(&locks, listed);
        waiting
    }

    /// A band is found where it is looked for, and exists because something in it is needed.
    fn check_place(&self, index: u32, entry: &Entry) {
        let key = entry.key;
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE && self.entries[at].key != key {
            at = self.entries[at].bucket_next;
        }
        assert_eq!(at, index, "the band that a look-up of {key:?} finds");
        assert!(!entry.pinned, "{key:?} is still being worked on");
        assert!(
            entry.first_waiting != NONE || entry.first_lock != NONE || entry.ready,
            "{key:?} has no part, no lock, and is not to be looked at"
        );
    }

    /// The parts that wait in a band lie between its first and its last; returns their number.
    fn check_queue(&self, entry: &Entry) -> usize {
        let (mut count, mut last, mut at) = (0, NONE, entry.first_waiting);
        while at != NONE {
            count += 1;
            assert!(
                count <= self.parts.used(),
                "the queue of {:?} runs in a circle",
                entry.key
            );
            let part = &self.parts[at];
            assert!(
                part.low < part.high,
                "part {at} of {:?} is empty",
                entry.key
            );
            (last, at) = (at, part.next);
        }
        assert_eq!(entry.last_waiting, last, "the last part of {:?}", entry.key);
        count
    }

    /// Where work waits, something will cause another look at the band.
    fn check_wakes(
        &self,
        entry: &Entry,
        is_quietly_locked: bool,
        held_back: impl Fn(BandKey) -> bool,
    ) {
        let key = entry.key;
        let is_locked = entry.first_lock != NONE || is_quietly_locked;
        assert!(
            entry.first_waiting == NONE
                || is_locked
                || entry.ready
                || self.claimer.is_waited_for(key)
                || held_back(key),
            "work waits in {key:?}, and nobody will look at it"
        );
    }

    /// The list of bands to be looked at names exactly those that are marked `ready`, once each.
    fn check_ready(&self, entries: &[u32]) {
        let mut ready: Vec<u32> = self.ready.iter().copied().collect();
        ready.sort_unstable();
        let say_so = entries.iter().copied();
        let say_so: Vec<u32> = say_so.filter(|&at| self.entries[at].ready).collect();
        assert_eq!(
            ready, say_so,
            "bands listed to be looked at, and those marked"
        );
    }

    /// Every lock is in its band's list or among the quiet ones, overlaps no other, and comes with a claim.
    fn check_locks(&self, locks: &[u32], mut listed: Vec<u32>) {
        for &index in locks {
            let Lock {
                key,
                low,
                high,
                data_index,
                entry,
                ..
            } = self.locks[index];
            let in_band = if entry == NONE {
                listed.push(index);
                NONE
            } else {
                assert_eq!(self.entries[entry].key, key, "the band of lock {index}");
                self.entries[entry].first_lock
            };
            let others = self.locks_from(in_band).chain(self.quiet_locks(key));
            let here: Vec<u32> = others.collect();
            assert!(
                here.contains(&index),
                "lock {index} of {key:?} is not listed"
            );
            let overlaps = |other: &&u32| {
                **other != index && self.locks[**other].overlaps(data_index, low, high)
            };
            let other = here.iter().find(overlaps);
            assert!(
                other.is_none(),
                "locks {index} and {other:?} of {key:?} overlap"
            );
            assert!(
                !self.is_claimed(key.volume) || self.claimer.has_claimed(Ranges::hash(key)),
                "lock {index} of {key:?} has no claim"
            );
        }
        listed.sort_unstable();
        assert_eq!(
            listed, locks,
            "locks that are listed, and those that are held"
        );
    }

    fn locks_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let follow = |at: u32| (at != NONE).then_some(at);
        core::iter::successors(follow(first), move |&at| follow(self.locks[at].next))
    }

    fn quiet_locks(&self, key: BandKey) -> impl Iterator<Item = u32> {
        let all = self.locks_from(self.quiet[self.bucket(key)]);
        all.filter(move |&lock| self.locks[lock].key == key)
    }
}
