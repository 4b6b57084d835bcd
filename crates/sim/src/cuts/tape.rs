//! The writes to a drive, in order, and since when each is safe, so that every state can be constructed that a
//! power cut could leave.

use crate::drive::store::Store;
use crate::oracle::pattern::fingerprint;
use crate::random::mix;
use std::cell::Cell;
use std::rc::Rc;

/// Counts the writes and flushes of all drives of a machine, so that their tapes have a common order.
pub type Clock = Rc<Cell<u64>>;

/// A write.
#[derive(Clone, Debug)]
pub struct Write {
    /// When the write was carried out, by the common clock.
    pub at: u64,
    /// Its number in the drive's cache.
    position: u64,
    /// First byte on the drive.
    pub offset_bytes: u64,
    /// The written bytes.
    pub bytes: Rc<[u8]>,
    /// The time from which no power cut can undo the write.
    pub safe_at: Option<u64>,
    /// See [`name`].
    pub name: u64,
}

/// The name of a write of these bytes to this place. The sum of the names of all writes that a drive holds
/// identifies its state.
#[must_use]
pub fn name(offset_bytes: u64, bytes: &[u8]) -> u64 {
    mix(fingerprint(bytes) ^ mix(offset_bytes))
}

/// See the module's prose.
pub struct Tape {
    clock: Clock,
    base: Store,
    base_name: u64,
    writes: Vec<Write>,
}

impl Tape {
    /// A tape of a drive that holds `base`, all of it safe.
    #[must_use]
    pub fn new(clock: Clock, base: Store) -> Tape {
        Tape {
            clock,
            base,
            base_name: 0,
            writes: Vec::new(),
        }
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Records a write that the drive has carried out.
    pub fn wrote(&mut self, position: u64, offset_bytes: u64, bytes: &[u8], safe: bool) {
        let at = self.tick();
        self.writes.push(Write {
            at,
            position,
            offset_bytes,
            bytes: bytes.into(),
            safe_at: safe.then_some(at),
            name: name(offset_bytes, bytes),
        });
    }

    /// Records a flush of all writes up to `position`.
    pub fn flushed(&mut self, position: u64) {
        let at = self.tick();
        for write in &mut self.writes {
            if write.position <= position {
                write.safe_at.get_or_insert(at);
            }
        }
    }

    /// Moves the oldest writes into the base, up to the first that is not safe. They can no longer be listed by
    /// [`Tape::writes`].
    pub fn fold(&mut self) {
        let unsafe_from = self.writes.iter().position(|write| write.safe_at.is_none());
        let safe = unsafe_from.unwrap_or(self.writes.len());
        for write in self.writes.drain(..safe) {
            if self.base.holds(write.offset_bytes, &write.bytes) {
                continue;
            }
            self.base.write(write.offset_bytes, &write.bytes);
            self.base_name = self.base_name.wrapping_add(write.name);
        }
    }

    /// The content that no power cut can undo.
    #[must_use]
    pub fn base(&self) -> &Store {
        &self.base
    }

    /// The sum of the names of the writes in [`Tape::base`].
    #[must_use]
    pub fn base_name(&self) -> u64 {
        self.base_name
    }

    /// The common clock of all tapes.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The writes carried out by the time `until`, oldest first.
    pub fn writes(&self, until: u64) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(move |write| write.at <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_makes_safe_what_was_written_before_it() {
        let clock = Clock::default();
        let mut tape = Tape::new(clock.clone(), Store::new(8192, None));
        tape.wrote(1, 0, &[1; 512], false);
        tape.wrote(2, 512, &[2; 512], false);
        tape.flushed(1);
        tape.wrote(3, 1024, &[3; 512], true);
        let safe = |until: u64, tape: &Tape| {
            let is_safe = |write: &Write| write.safe_at.is_some_and(|at| at <= until);
            tape.writes(until).map(is_safe).collect::<Vec<_>>()
        };
        assert_eq!(safe(2, &tape), [false, false]);
        assert_eq!(safe(3, &tape), [true, false]);
        assert_eq!(safe(clock.get(), &tape), [true, false, true]);
        tape.fold();
        // The third write is safe, but must not be folded before the second.
        assert_eq!(tape.writes(clock.get()).count(), 2);
        let mut sector = [0; 512];
        tape.base().read(0, &mut sector);
        assert_eq!(sector, [1; 512]);
    }
}
