//! Rebuild, resync, replace and scrub: requests of the array to itself, on the same path as clients'.
//!
//! A job walks the bands that its shard owns ([`crate::shard::jobs::walk`]). Each band is a part under the band's lock,
//! so client writes and the job never meet. Here a band is planned, corrected and ended.

use crate::control::record::JobKind;
use crate::event::Event;
use crate::flight::piecewise::Piecewise;
use crate::flight::running::Work;
use crate::inspection::{Inspection, is_inspection};
use crate::order::ranges::BandKey;
use crate::plan::{NotEnoughMembers, Range, StepKind, maintain};
use crate::shard::Engine;
use crate::units::{Buffer, SlotSet};
use crate::volumes::job::JobRunner;

impl Engine {
    /// Plans a band of its volume's job; the plan stays empty if the job does not exist any more.
    pub(crate) fn plan_background(
        &mut self,
        index: u32,
        key: BandKey,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_background += 1;
        let (_, low, high) = self.volumes[key.volume as usize].band_range(key.band);
        self.plan_job(index, key, (low, high), None)
    }

    /// Plans the range from `low_bytes` to `high_bytes` of a band, whole or a piece of it.
    pub(crate) fn plan_job(
        &mut self,
        index: u32,
        key: BandKey,
        (low_bytes, high_bytes): (u32, u32),
        piecewise: Option<&Piecewise>,
    ) -> Result<(), NotEnoughMembers> {
        let Work::Background { repair, .. } = self.flight.running(index).work() else {
            unreachable!("{:?} is no job's", self.flight.running(index).work());
        };
        let mut view = self.view_of(key);
        let Some(job) = self.job_of(index) else {
            return Ok(());
        };
        view.readable.0 &= !piecewise.map_or(0, |piecewise| piecewise.avoid().0);
        let heal = piecewise.and_then(|piecewise| piecewise.unhealed());
        let volume = &self.volumes[key.volume as usize];
        let range = Range {
            row: volume.band_range(key.band).0,
            low_bytes,
            high_bytes,
        };
        let (plan, shape) = (self.flight.running_mut(index).plan_mut(), volume.shape());
        match job.kind {
            JobKind::Sync => maintain::resync(plan, shape, range, &view),
            JobKind::Rebuild(slot) => maintain::rebuild(plan, shape, range, slot, &view, false),
            JobKind::Replace(slot, _) => maintain::rebuild(plan, shape, range, slot, &view, true),
            JobKind::Check { .. } if repair => maintain::resync(plan, shape, range, &view),
            JobKind::Check { .. } => match heal {
                // The scrub met a block that cannot be read: reconstruct it and write it back.
                Some(slot) => maintain::rebuild(plan, shape, range, slot, &view, false),
                None => maintain::check(plan, shape, range, &view),
            },
        }
    }

    /// As [`Engine::job_of`], to be changed.
    pub(crate) fn job_of_mut(&mut self, index: u32) -> Option<&mut JobRunner> {
        self.job_of(index)?;
        self.volumes[self.flight.running(index).volume() as usize].job_mut()
    }

    /// A band's plan has run to its end. Returns whether it has been planned anew, to correct the band: then it is to
    /// be started.
    #[must_use = "a plan that corrects the band is to be started"]
    pub(crate) fn background_done(&mut self, index: u32) -> bool {
        let running = self.flight.running(index);
        let Work::Background { part, band, repair } = running.work() else {
            unreachable!("{:?} is no job's", running.work());
        };
        if is_inspection(&self.order.ranges[part]) {
            match Inspection::hold(&mut self.inspection, index) {
                Some(ticket) => self.desk.emit(Event::Inspectable { ticket }),
                None => {
                    self.release(index);
                    self.order.ranges.end(part);
                }
            }
            return false;
        }
        if running.has_differences() && !repair && self.band_differs(index, band) {
            return true;
        }
        let missed = !self.flight.running(index).missed().is_empty();
        if missed
            && let Some(job) = self.job_of_mut(index)
            && job.fills()
        {
            // The new drive has failed; the controller decides what becomes of the job.
            job.give_up();
            job.count_failure();
            self.flight.running_mut(index).fail_band();
        }
        self.end_band(index);
        false
    }

    /// Redundancy does not match the data; returns whether the plan has been planned anew, to correct that.
    fn band_differs(&mut self, index: u32, band: u64) -> bool {
        let Some(job) = self.job_of_mut(index) else {
            return false;
        };
        job.count_mismatch();
        let corrects = job.view().kind == JobKind::Check { repair: true };
        self.desk.stats.mismatches += 1;
        let slots = self.disagreeing(index);
        let volume = &self.volumes[self.flight.running(index).volume() as usize];
        let (row, low, _) = volume.band_range(band);
        let event = Event::Mismatch {
            volume: self.volume_of(index),
            offset_bytes: row * volume.shape().row_bytes() + u64::from(low),
            member_offset_bytes: volume.band_start_bytes(band),
            slots,
            repaired: corrects,
        };
        self.desk.emit(event);
        corrects && self.plan_repair(index, band)
    }

    /// The slots whose contents a check found to disagree: those that its differing comparisons looked at. A plan's
    /// reads are its first steps, in the order of slots; its comparisons follow.
    fn disagreeing(&self, index: u32) -> SlotSet {
        let running = self.flight.running(index);
        let shape = self.volumes[running.volume() as usize].shape();
        let steps = running.plan().steps();
        let read = |buffer: Buffer| {
            let reads = steps.iter().filter(|step| step.kind == StepKind::Read);
            let mut holders = reads.filter(|step| {
                let mut memory = running.plan().segments_of(step);
                memory.any(|segment| segment.buffer == buffer)
            });
            holders.next().map(|step| step.slot)
        };
        let compared = steps
            .iter()
            .enumerate()
            .filter(|(at, _)| running.differs(*at));
        let slots = compared
            .flat_map(|(_, step)| running.plan().segments_of(step))
            .filter_map(|segment| read(segment.buffer))
            .fold(SlotSet(0), SlotSet::with);
        if slots == SlotSet(0) {
            SlotSet::all(shape.members)
        } else {
            slots
        }
    }

    /// Plans the band anew, under the same lock, so that redundancy will match the data; false if that cannot be done.
    fn plan_repair(&mut self, index: u32, band: u64) -> bool {
        let key = BandKey {
            volume: self.flight.running(index).volume(),
            band,
        };
        self.renew(index);
        self.flight.running_mut(index).correct_band();
        self.plan_background(index, key).is_ok()
    }

    /// Too few members are left for a band, and therefore for all other bands.
    pub(crate) fn band_failed(&mut self, index: u32) {
        self.flight.running_mut(index).fail_band();
        if let Some(job) = self.job_of_mut(index) {
            job.give_up();
            job.count_failure();
        }
        self.end_band(index);
    }

    /// A piece of a band cannot be done; returns whether the rest of the band is worth doing.
    pub(crate) fn job_failed_at(&mut self, index: u32, piece: &Piecewise) -> bool {
        let Work::Background { band, .. } = self.flight.running(index).work() else {
            unreachable!("{:?} is no job's", self.flight.running(index).work());
        };
        let volume = &self.volumes[self.flight.running(index).volume() as usize];
        let row_bytes = volume.band_range(band).0 * volume.shape().row_bytes();
        let view = volume.row_view(
            band,
            self.desk.id(),
            self.desk.shards(),
            self.members.failed(),
        );
        let is_degraded = view.readable != SlotSet::all(volume.shape().members);
        let can_be_read = volume
            .shape()
            .survives(SlotSet(view.readable.0 & !piece.avoid().0));
        let counted = self.flight.running_mut(index).fail_band();
        let Some(job) = self.job_of_mut(index) else {
            return false;
        };
        if !counted {
            job.count_failure();
        }
        let checks = matches!(job.view().kind, JobKind::Check { .. });
        if checks && is_degraded && can_be_read {
            // A member has failed, which leaves nothing to compare with but loses nothing.
            job.give_up();
            return false;
        }
        // A new drive without this content must never count as current.
        let fills = job.fills();
        if fills {
            job.give_up();
        }
        self.desk.emit(Event::Unrecoverable {
            volume: self.volume_of(index),
            offset_bytes: row_bytes + u64::from(piece.low()),
        });
        !fills
    }

    /// Ends the work on a band. The band is done unless some of it has failed.
    fn end_band(&mut self, index: u32) {
        let Work::Background { part, band, .. } = self.flight.running(index).work() else {
            unreachable!("{:?} is no job's", self.flight.running(index).work());
        };
        let failed = self.flight.running(index).has_failed_band();
        if let Some(job) = self.job_of_mut(index) {
            job.end(band, failed);
        }
        self.release(index);
        self.order.ranges.end(part);
    }
}
