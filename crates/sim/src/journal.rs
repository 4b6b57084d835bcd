//! The event log of a history: a hash of all entries, and the last entries as text.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// Entries kept as text.
const KEPT: usize = 6000;

/// A hash that is the same on every machine.
#[derive(Clone, Copy, Debug)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u64(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

/// See the module's prose.
#[derive(Debug)]
pub struct Journal {
    hash: Fold,
    entries: u64,
    words: Option<VecDeque<String>>,
}

impl Journal {
    /// An empty log; with `words`, its last entries are kept as text.
    #[must_use]
    pub fn new(words: bool) -> Journal {
        Journal {
            hash: Fold(0),
            entries: 0,
            words: words.then(VecDeque::new),
        }
    }

    /// Adds an entry.
    pub fn note<T: Hash + Debug>(&mut self, now_ns: u64, what: &T) {
        self.hash.write_u64(now_ns);
        what.hash(&mut self.hash);
        self.entries += 1;
        if let Some(words) = &mut self.words {
            if words.len() == KEPT {
                words.pop_front();
            }
            let (ms, ns) = (now_ns / 1_000_000, now_ns % 1_000_000);
            words.push_back(format!("{ms:>8}.{ns:06} ms  {what:?}"));
        }
    }

    /// The hash of all entries so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        crate::random::mix(self.hash.finish() ^ self.entries)
    }

    /// Number of entries so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The last entries as text.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.words.iter().flatten().map(String::as_str)
    }
}
