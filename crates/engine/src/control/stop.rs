//! Stopping: every volume is flushed and, if its mark may say so, marked clean; then each is told how it is left.

use super::Controller;
use crate::control::marks::Mark;
use crate::event::{Event, VolumeEnd};
use crate::units::VolumeId;

impl Controller {
    /// A volume that is not marked clean is flushed before the end all the same.
    pub(super) fn may_rest(&self, at: usize) -> bool {
        let volume = &self.record.volumes[at];
        // A failure that the metadata cannot express never comes on record.
        let settled = self.has_settled_failures() || self.updater.is_refused();
        let ends = self.stopping && !self.marks[at].failed && settled;
        ends && !volume.read_only && !self.becomes_clean(at)
    }

    /// Ends the stop when every volume is as it will be left.
    pub(super) fn run_stop(&mut self) {
        // What the metadata cannot express it will not express by waiting.
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

    /// Tells how the end leaves each volume that was started.
    fn tell_ends(&mut self) {
        for at in 0..self.record.volumes.len() {
            if !self.record.volumes[at].not_started {
                let (volume, end) = (VolumeId(at as u8), self.end_of(at));
                self.event(Event::VolumeStopped { volume, end });
            }
        }
    }

    /// How the end leaves a volume.
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
