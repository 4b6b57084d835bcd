//! The first write of a session. Two updates of the record precede it.
//!
//! A copy of a drive that was made before the array was started lacks everything written from now on. If the copy
//! is ever put in the drive's place, it must be recognised as old. A record one generation behind the others is
//! taken for an interrupted update, and its drive is used. So before anything changes on the members, two updates
//! are made, one after the other, each durable on all live members; the dirty mark is part of the first. An older
//! copy is then two generations behind, and is not used. A single update that counts two generations would not
//! do: interrupted in its middle, it would leave one half of the members two generations behind the other.
//!
//! Clients' writes wait for both updates, and so do jobs that write. An array that is only read gets no updates.
//!
//! From then on bits of a write-intent bitmap may be cleared. An older copy of a drive does not know which bits
//! were set in between, so it cannot return by the bitmap either. The first of the two updates records that,
//! unless a drive is missing: then no bit is cleared.

use super::Controller;
use crate::control::marks::Mark;

/// Updates of the record before the first write: a copy one generation behind would be taken for current.
const UPDATES_BEFORE_WRITES: u64 = 2;

/// How far the array is from its first write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// A client or a job wants to write.
    is_wanted: bool,
    /// The first version of the record that only drives which are present now can have.
    version: u64,
    /// Both updates are durable: writes may begin as far as the opening is concerned.
    pub is_done: bool,
    /// The metadata cannot express the updates, so nothing is written in this session.
    is_given_up: bool,
}

impl Opening {
    /// A client or a job wants to write and may not yet.
    pub fn is_under_way(&self) -> bool {
        self.is_wanted && !self.is_done && !self.is_given_up
    }
}

impl Controller {
    /// Notes that a client or a job wants to write to the members.
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

    /// Stops all writes if the opening is under way: the metadata cannot express the wanted record, and nothing
    /// more can be taken back.
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
