//! Rebuild, resync, replace and scrub: requests of the array to itself, on the same path as clients'.
//!
//! A job walks the bands that its shard owns, a window of bands at a time. Each band is a part under
//! the band's lock, so client writes and the job never meet. [`JobRunner::is_done`] is the high-water
//! mark: all bands below the cursor, and single ones above it. The controller takes the minimum over
//! shards, has new drives flushed, and persists the checkpoint.

use crate::control::message::Message;
use crate::control::record::{JobKind, JobView};
use crate::event::Event;
use crate::inflight::{Progress, Work};
use crate::plan::{NotEnoughMembers, Range, maintain};
use crate::ranges::{BandKey, NONE, Part, PartKind};
use crate::route::{PARTS_RESERVED, PLANS_RESERVED};
use crate::shard::Engine;
use crate::units::{Buffer, Nanos, SlotSet, VolumeId};

/// Bands that a job may have in flight or done beyond its cursor.
const WINDOW: u64 = 64;
/// Bands in flight while no client is there.
const DEPTH_IDLE: u32 = 32;
/// Bands in flight while clients are served.
const DEPTH_BUSY: u32 = 8;

/// A job on one shard.
#[derive(Debug)]
pub(crate) struct JobRunner {
    pub view: JobView,
    /// All bands below are done.
    cursor: u64,
    /// Bit `i`: band `cursor + i` is done.
    done: u64,
    /// The next band to start.
    next: u64,
    bands: u64,
    in_flight: u32,
    mismatches: u64,
    failures: u64,
    /// The job cannot go on; the controller will end it.
    aborted: bool,
    /// With a rate: not before this.
    not_before: Nanos,
    reported: (u64, u64, u64),
}

impl JobRunner {
    pub fn new(view: JobView, bands: u64) -> JobRunner {
        JobRunner {
            cursor: view.from_band,
            done: 0,
            next: view.from_band,
            bands,
            in_flight: 0,
            mismatches: 0,
            failures: 0,
            aborted: false,
            not_before: Nanos(0),
            reported: (u64::MAX, 0, 0),
            view,
        }
    }

    /// Whether a band has been dealt with.
    #[inline]
    pub fn is_done(&self, band: u64) -> bool {
        band < self.cursor
            || (band - self.cursor < WINDOW && self.done >> (band - self.cursor) & 1 == 1)
    }

    fn mark(&mut self, band: u64) {
        debug_assert!(band >= self.cursor && band - self.cursor < WINDOW);
        self.done |= 1 << (band - self.cursor);
        while self.done & 1 == 1 {
            self.done >>= 1;
            self.cursor += 1;
        }
    }

    fn may_start(&self, depth: u32, now: Nanos) -> bool {
        !self.view.paused
            && !self.aborted
            && self.next < self.bands
            && self.next - self.cursor < WINDOW
            && self.in_flight < depth
            && (self.view.rate_bytes_per_s == 0 || now >= self.not_before)
    }

    /// Charges one band to the rate.
    fn charge(&mut self, bytes: u64, now: Nanos) {
        let rate = self.view.rate_bytes_per_s;
        if rate == 0 {
            return;
        }
        let cost = u128::from(bytes) * u128::from(Nanos::SECOND.0) / u128::from(rate);
        // Time lost to a slow drive may be caught up with, but only a tenth of a second of it.
        let floor = Nanos(now.0.saturating_sub(100 * Nanos::MILLISECOND.0));
        self.not_before = self.not_before.max(floor).after(Nanos(cost as u64));
    }

    /// When the rate lets the job go on, if that is what it waits for.
    pub fn next_wake(&self, now: Nanos) -> Option<Nanos> {
        let waits = !self.view.paused && !self.aborted && self.next < self.bands;
        (waits && self.view.rate_bytes_per_s > 0 && self.not_before > now)
            .then_some(self.not_before)
    }

    /// Takes a new view of the same job.
    pub fn update(&mut self, view: JobView) {
        self.view = view;
    }
}

impl Engine {
    /// Starts as many bands of all jobs as their depth, rate and the pools allow.
    #[inline]
    pub(crate) fn run_background(&mut self) {
        for at in 0..self.volumes.len() {
            if self.volumes[at].job.is_some() {
                self.run_job(at);
            }
        }
    }

    fn run_job(&mut self, at: usize) {
        let depth = if self.requests.used() + self.singles.used() > 0 {
            DEPTH_BUSY
        } else {
            DEPTH_IDLE
        };
        loop {
            let plans_available = self.plans_available();
            let volume = &mut self.volumes[at];
            let Some(job) = &mut volume.job else { return };
            if !job.may_start(depth, self.now) {
                break;
            }
            let band = job.next;
            let (row, low, high) = volume.band_range(band);
            let mine = volume.shape.owner(row, self.shards) == self.id;
            let Some(job) = &mut volume.job else { return };
            if !mine || low == high {
                job.next += 1;
                job.mark(band);
                continue;
            }
            if self.ranges.parts.available() <= PARTS_RESERVED || plans_available <= PLANS_RESERVED
            {
                break;
            }
            let Some(part) = self.ranges.parts.take() else {
                break;
            };
            job.next += 1;
            job.in_flight += 1;
            job.charge(u64::from(high - low), self.now);
            self.ranges.parts[part] = Part {
                kind: PartKind::Background,
                request: NONE,
                data_index: 0,
                low,
                high,
                // A part outlives its job when the view changes: it carries the job's number.
                buffer: Buffer(u64::from(job.view.id)),
                avoid: SlotSet(0),
                next: NONE,
            };
            self.ranges.enqueue(
                BandKey {
                    volume: at as u8,
                    band,
                },
                part,
            );
        }
        self.dispatch_ready();
        let job_ended = self.volumes[at]
            .job
            .as_ref()
            .is_some_and(|job| job.cursor >= job.bands || job.aborted);
        if job_ended {
            self.report_progress();
        }
    }

    /// Plans a band of its volume's job; an empty plan if the job is not there any more.
    pub(crate) fn plan_background(
        &mut self,
        index: u32,
        key: BandKey,
    ) -> Result<(), NotEnoughMembers> {
        self.stats.plans_background += 1;
        let Work::Background { part, .. } = self.running[index].work else {
            return Ok(());
        };
        let part = self.ranges.parts[part];
        let mut view = self.view_of(key);
        view.readable.0 &= !part.avoid.0;
        let volume = &self.volumes[key.volume as usize];
        let Some(job) = volume
            .job
            .as_ref()
            .filter(|job| u64::from(job.view.id) == part.buffer.0)
        else {
            return Ok(());
        };
        let (row, low_bytes, high_bytes) = volume.band_range(key.band);
        let range = Range {
            row,
            low_bytes,
            high_bytes,
        };
        let (plan, shape) = (&mut self.running[index].plan, &volume.shape);
        match job.view.kind {
            JobKind::Sync => maintain::resync(plan, shape, range, &view),
            JobKind::Rebuild(slot) => maintain::rebuild(plan, shape, range, slot, &view, false),
            JobKind::Replace(slot, _) => maintain::rebuild(plan, shape, range, slot, &view, true),
            JobKind::Check { .. } => match part.avoid.iter().next() {
                // The scrub met a block that cannot be read: reconstruct it and write it back.
                Some(slot) => maintain::rebuild(plan, shape, range, slot, &view, false),
                None => maintain::check(plan, shape, range, &view),
            },
        }
    }

    /// A band's plan has run to its end.
    pub(crate) fn background_done(&mut self, index: u32) {
        let Work::Background { part, band, repair } = self.running[index].work else {
            return;
        };
        let at = self.running[index].volume as usize;
        let job_id = self.ranges.parts[part].buffer.0;
        let volume = &mut self.volumes[at];
        let current = volume
            .job
            .as_mut()
            .filter(|job| u64::from(job.view.id) == job_id);
        let (differs, missed) = (
            self.running[index].differs,
            !self.running[index].missed.is_empty(),
        );
        if let Some(job) = current {
            let corrects = job.view.kind == JobKind::Check { repair: true };
            if differs && !repair {
                job.mismatches += 1;
                self.stats.mismatches += 1;
                let (row, low, _) = volume.band_range(band);
                let event = Event::Mismatch {
                    volume: VolumeId(at as u8),
                    offset_bytes: row * volume.shape.row_bytes() + u64::from(low),
                    member_offset_bytes: volume.band_bytes(band),
                    repaired: corrects,
                };
                self.emit(event);
                if corrects && self.plan_repair(index, band) {
                    return;
                }
            }
        }
        let volume = &mut self.volumes[at];
        if let Some(job) = volume
            .job
            .as_mut()
            .filter(|job| u64::from(job.view.id) == job_id)
        {
            job.in_flight -= 1;
            if missed {
                // A drive that the job writes to failed; the controller decides what becomes of the job.
                job.aborted = true;
                job.failures += 1;
            } else {
                job.mark(band);
            }
        }
        self.release(index);
        self.ranges.parts.give(part);
    }

    /// Goes on under the same lock with a plan that makes redundancy match the data.
    fn plan_repair(&mut self, index: u32, band: u64) -> bool {
        let running = &self.running[index];
        let key = BandKey {
            volume: running.volume,
            band,
        };
        let (lock, Work::Background { part, .. }) = (running.lock, running.work) else {
            return false;
        };
        let view = self.view_of(key);
        let volume = &self.volumes[key.volume as usize];
        let (row, low_bytes, high_bytes) = volume.band_range(band);
        let shape = volume.shape;
        let running = &mut self.running[index];
        if let Some(block) = running.scratch.take() {
            self.scratch.give(block);
        }
        running.prepare(
            Work::Background {
                part,
                band,
                repair: true,
            },
            key.volume,
            lock,
        );
        let range = Range {
            row,
            low_bytes,
            high_bytes,
        };
        if maintain::resync(&mut running.plan, &shape, range, &view).is_err() {
            running.plan.clear();
            return false;
        }
        self.start(index);
        true
    }

    /// Reads of a band's plan brought nothing: try again without the unreadable places.
    pub(crate) fn background_failed(&mut self, index: u32) {
        let running = &self.running[index];
        let Work::Background { part, .. } = running.work else {
            return;
        };
        let mut avoid = SlotSet(0);
        let mut failed = false;
        for (step, state) in running.plan.steps().iter().zip(&running.states) {
            if let Progress::Failed { media } = state.progress {
                failed = true;
                if media {
                    avoid = avoid.with(step.slot);
                }
            }
        }
        if !failed {
            return self.band_failed(index);
        }
        self.stats.replans += 1;
        self.ranges.parts[part].avoid.0 |= avoid.0;
        let key = self.ranges.key_of_lock(running.lock);
        self.ranges.requeue(key, part);
        self.release(index);
    }

    /// A band cannot be done with what is readable.
    pub(crate) fn band_failed(&mut self, index: u32) {
        let Work::Background { part, band, .. } = self.running[index].work else {
            return;
        };
        let at = self.running[index].volume as usize;
        let job_id = self.ranges.parts[part].buffer.0;
        let volume = &mut self.volumes[at];
        let offset_bytes = volume.band_range(band).0 * volume.shape.row_bytes();
        if let Some(job) = volume
            .job
            .as_mut()
            .filter(|job| u64::from(job.view.id) == job_id)
        {
            job.in_flight -= 1;
            job.failures += 1;
            if matches!(job.view.kind, JobKind::Rebuild(_) | JobKind::Replace(..)) {
                // A new drive without this band's content must never count as current.
                job.aborted = true;
            } else {
                job.mark(band);
            }
            self.emit(Event::Unrecoverable {
                volume: VolumeId(at as u8),
                offset_bytes,
            });
        }
        self.release(index);
        self.ranges.parts.give(part);
    }

    /// Tells the controller how far the jobs are, if that has changed.
    pub(crate) fn report_progress(&mut self) {
        for at in 0..self.volumes.len() {
            let Some(job) = &mut self.volumes[at].job else {
                continue;
            };
            let state = (
                job.cursor,
                job.mismatches,
                job.failures + u64::from(job.aborted),
            );
            if job.reported == state {
                continue;
            }
            job.reported = state;
            let message = Message::Progress {
                shard: self.id,
                volume: VolumeId(at as u8),
                job: job.view.id,
                band: job.cursor,
                mismatches: job.mismatches,
                failures: if job.aborted { u64::MAX } else { job.failures },
            };
            self.tell_controller(message);
        }
    }
}
