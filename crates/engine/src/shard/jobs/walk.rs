//! How jobs walk the bands that their shard owns, a few bands at a time. What becomes of a band that has begun is in
//! [`crate::shard::jobs::background`].
//!
//! [`JobRunner::is_done`] is the high-water mark: all bands below the cursor, and single ones above it. The controller
//! takes the minimum over shards, has new drives flushed, and persists the checkpoint.

use crate::control::record::JobKind;
use crate::limits::{PARTS_RESERVED, PLANS_RESERVED};
use crate::order::ranges::{BandKey, Part};
use crate::shard::Engine;
use crate::units::{Buffer, VolumeId};
use crate::volumes::job::JobRunner;

/// Bands in flight while no client's request is under way.
const DEPTH_IDLE: u32 = 32;

/// Bands in flight while clients' requests are under way.
const DEPTH_BUSY: u32 = 8;

impl Engine {
    /// Starts as many bands of all jobs as their depth, rate and the pools allow.
    #[inline]
    pub(crate) fn run_background(&mut self) {
        for at in 0..self.volumes.len() {
            if self.volumes[at].job().is_some() {
                self.run_job(at);
            }
        }
    }

    fn run_job(&mut self, at: usize) {
        let depth = if self.admission.slots_used() + self.flight.singles_used() > 0 {
            DEPTH_BUSY
        } else {
            DEPTH_IDLE
        };
        if let Some(JobKind::Rebuild(slot)) = self.volumes[at].job().map(|job| job.view().kind)
            && self.is_log_to_be_emptied(at, slot)
        {
            return;
        }
        loop {
            let plans_available = self.flight.plans_available();
            let volume = &mut self.volumes[at];
            let job = volume.job_mut().expect("its job is run");
            if !job.may_start(depth, self.desk.now()) {
                break;
            }
            let band = job.next_band();
            let (row, low, high) = volume.band_range(band);
            let mine = volume.shape().owner(row, self.desk.shards()) == self.desk.id();
            let in_doubt = volume.next_band_in_doubt(band);
            let job = volume.job_mut().expect("its job is run");
            if in_doubt > band && job.pass(in_doubt) {
                continue;
            }
            if !mine || low == high || in_doubt > band {
                job.skip_next();
                continue;
            }
            if self.order.ranges.parts_available() <= PARTS_RESERVED
                || plans_available <= PLANS_RESERVED
            {
                break;
            }
            job.start_next(u64::from(high - low), self.desk.now());
            // A part can outlive its job when the view changes, so it carries the job's number.
            let job_id = Buffer(u64::from(job.view().id));
            let key = BandKey {
                volume: at as u8,
                band,
            };
            let part = Part::background((low, high), job_id);
            self.order.ranges.add(key, part);
        }
        self.dispatch_ready();
        let job = self.volumes[at].job();
        if job.is_some_and(JobRunner::is_over) {
            self.report_progress();
        }
    }

    /// Tells the controller how far the jobs are, if that has changed.
    pub(crate) fn report_progress(&mut self) {
        for at in 0..self.volumes.len() {
            let (shard, volume) = (self.desk.id(), VolumeId(at as u8));
            let job = self.volumes[at].job_mut();
            if let Some(message) = job.and_then(|job| job.news(shard, volume)) {
                self.desk.tell_controller(message);
            }
        }
    }
}
