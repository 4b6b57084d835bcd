//! Stopping: every volume is flushed and, where allowed, marked clean. Then an event reports the final state of
//! each.

use super::Controller;
use crate::control::marks::Mark;
use crate::event::{Event, VolumeEnd};
use crate::units::VolumeId;

impl Controller {
    /// Whether a volume is to be flushed for the stop although it will not be marked clean.
    pub(super) fn may_rest(&self, at: usize) -> bool {
        let volume = &self.record.volumes[at];
        // A failure that the metadata cannot express will never be on record.
        let settled = self.has_settled_failures() || self.updater.is_refused();
        let ends = self.stopping && !self.marks[at].failed && settled;
        ends && !volume.read_only && !self.becomes_clean(at)
    }

    /// Completes the stop when every volume is in its final state.
    pub(super) fn run_stop(&mut self) {
        // If the metadata cannot express the record, waiting does not help.
        let is_refused = self.updater.is_refused();
        let settled = self
            .marks
            .iter()
            .zip(&self.record.volumes)
            .all(|(marks, volume)| marks.is_settled() || (volume.read_only && marks.is_at_rest()));
        let drained = self.is_followed() && self.flush.is_none();
        let is_written = self.updater.is_durable() || is_refused || self.recorders().is_empty();
        let recorded = is_written && self.undecided.is_empty();
        if self.stopping && !self.stopped && settled && drained && recorded {
            self.stopped = true;
            self.tell_ends();
            self.event(Event::Stopped);
        }
    }

    /// Reports the final state of each volume that was started.
    fn tell_ends(&mut self) {
        for at in 0..self.record.volumes.len() {
            if !self.record.volumes[at].not_started {
                let (volume, end) = (VolumeId(at as u8), self.end_of(at));
                self.event(Event::VolumeStopped { volume, end });
            }
        }
    }

    /// The final state of a volume.
    fn end_of(&self, at: usize) -> VolumeEnd {
        match self.marks[at].mark {
            _ if self.marks[at].failed => VolumeEnd::Failed,
            _ if self.record.volumes[at].read_only => VolumeEnd::OnlyRead,
            _ if self.marks[at].writes_stopped => VolumeEnd::WritesStopped,
            Mark::Rested if !self.record.volumes[at].geometry.redundant() => VolumeEnd::Flushed,
            Mark::Rested if self.record.volumes[at].then_resync => VolumeEnd::StaysDirty,
            Mark::Rested => VolumeEnd::CleanNotRecorded,
            _ => VolumeEnd::Clean,
        }
    }
}
