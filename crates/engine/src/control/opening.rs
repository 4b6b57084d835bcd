//! The first write of a session, and what comes before it: the record moves on twice.
//!
//! A copy of a drive that was made before the array was started lacks what is written from now on, and
//! must be seen to be old should it ever be put in the drive's place. A record one generation behind the
//! others' is taken for an update that was cut off, and its drive serves. So before anything changes on
//! the members, two updates are made, one after the other, each durable on all live members; the dirty
//! mark is part of the first. Whoever was copied before is two behind then, and does not serve. A single
//! update that counts two would not do: cut off in its middle it would leave one half of the members
//! two generations behind the other.
//!
//! Clients' writes wait for it, and so do jobs that write. An array that is only read is not written to.
//!
//! Bits of a write-intent bitmap may be cleared from then on. A drive that was copied before has not seen
//! which were set in between, so it cannot come back by the bitmap either: that goes on record with the
//! first of the two updates, unless a drive is missing. While one is, no bit is cleared.

use super::Controller;
use crate::control::marks::Mark;

/// Updates of the record before the first write: a copy one behind would be taken for current.
const UPDATES_BEFORE_WRITES: u64 = 2;

/// How far the array is from its first write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// Somebody wants to write.
    is_wanted: bool,
    /// The first version of the record that only those have who are here now.
    version: u64,
    /// Writes may begin as far as this is concerned.
    pub is_done: bool,
    /// The metadata cannot express the updates: nothing is written in this session.
    is_given_up: bool,
}

impl Opening {
    /// Somebody wants to write and may not yet.
    pub fn is_under_way(&self) -> bool {
        self.is_wanted && !self.is_done && !self.is_given_up
    }
}

impl Controller {
    /// Somebody wants to change something on the members.
    pub(super) fn want_opening(&mut self) {
        if self.opening.is_wanted {
            return;
        }
        self.opening.is_wanted = true;
        let generation = self.record.generation;
        for volume in &mut self.record.volumes {
            let is_whole = volume.slots.iter().all(|slot| slot.current);
            if is_whole && !volume.read_only && !volume.not_started {
                volume.leave_absent_behind(generation);
            }
        }
        self.opening.version = self.changed();
    }

    /// The metadata cannot express the record as it is wanted, and nothing more can be taken back.
    pub(super) fn give_up_opening(&mut self) {
        if !self.opening.is_under_way() {
            return;
        }
        self.opening.is_given_up = true;
        for at in 0..self.marks.len() {
            self.stop_writes(at);
        }
    }

    pub(super) fn run_opening(&mut self) {
        if !self.opening.is_under_way() || self.stopping {
            return;
        }
        let updates = self.updater.completed();
        let is_recorded = self.updater.has(self.opening.version);
        if is_recorded && updates >= UPDATES_BEFORE_WRITES {
            self.opening.is_done = true;
            for at in 0..self.marks.len() {
                if self.marks[at].mark == Mark::Dirty {
                    self.allow_writes(at);
                }
            }
            self.view_changed();
        } else if self.updater.is_durable() {
            self.changed();
        }
    }
}
