//! How far a job is on one shard: see [`crate::shard::jobs::walk`].

mod check;

use crate::control::message::Message;
use crate::control::record::{JobKind, JobView};
use crate::limits::UNSYNCED_BANDS_MAX;
use crate::units::{Nanos, ShardId, VolumeId};
use alloc::vec::Vec;

/// Bands that a job may have in flight or done beyond its cursor.
const WINDOW: u64 = 64;

/// A job on one shard.
#[derive(Debug)]
pub(crate) struct JobRunner {
    view: JobView,
    /// All bands below it are done.
    cursor: u64,
    /// Bit `i`: band `cursor + i` is done.
    done: u64,
    /// The next band to start.
    next: u64,
    bands: u64,
    in_flight: u32,
    mismatches: u64,
    failures: u64,
    /// The job cannot continue; the controller will end it.
    given_up: bool,
    /// With a rate limit: the next band does not start before this.
    not_before: Nanos,
    /// Bands whose redundancy could not be established. The job continues around them.
    unsynced: Vec<u64>,
    /// What was reported to the controller last.
    reported: Option<Progress>,
}

/// How far a job is on one shard, as reported to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Progress {
    /// All bands below it are done.
    band: u64,
    mismatches: u64,
    failures: u64,
    /// The job cannot continue.
    given_up: bool,
}

impl JobRunner {
    /// A job as the controller's view has it, over so many `bands` of this volume.
    pub fn new(view: JobView, bands: u64) -> JobRunner {
        JobRunner {
            cursor: view.from_band,
            done: 0,
            next: view.from_band,
            bands,
            in_flight: 0,
            mismatches: 0,
            failures: 0,
            given_up: false,
            not_before: Nanos(0),
            unsynced: Vec::new(),
            reported: None,
            view,
        }
    }

    /// The job as the controller's view has it.
    #[inline]
    pub fn view(&self) -> &JobView {
        &self.view
    }

    /// The next band to start.
    pub fn next_band(&self) -> u64 {
        self.next
    }

    /// Starts the next band, which has so many `bytes` on each drive.
    pub fn start_next(&mut self, bytes: u64, now: Nanos) {
        self.next += 1;
        self.in_flight += 1;
        self.charge(bytes, now);
    }

    /// Passes the next band: there is nothing to do in it.
    pub fn skip_next(&mut self) {
        self.next += 1;
        self.mark(self.next - 1);
    }

    /// A band that was started has ended; some of it could not be done if it `failed`.
    pub fn end(&mut self, band: u64, failed: bool) {
        self.in_flight -= 1;
        if failed {
            self.fail(band);
        } else {
            self.mark(band);
        }
    }

    /// Redundancy does not match the data in a band.
    pub fn count_mismatch(&mut self) {
        self.mismatches += 1;
    }

    /// Some of a band could not be done.
    pub fn count_failure(&mut self) {
        self.failures += 1;
    }

    /// The job cannot continue; the controller will end it.
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Whether the job has come to its end, or cannot continue.
    pub fn is_over(&self) -> bool {
        self.cursor >= self.bands || self.given_up
    }

    /// Tells how far the job is on this `shard`, if the controller has not been told yet: it counts as told now.
    pub fn news(&mut self, shard: ShardId, volume: VolumeId) -> Option<Message> {
        let progress = Progress {
            band: self.settled(),
            mismatches: self.mismatches,
            failures: self.failures,
            given_up: self.given_up,
        };
        let is_new = self.reported.replace(progress) != Some(progress);
        is_new.then_some(Message::Progress {
            shard,
            volume,
            job: self.view.id,
            band: progress.band,
            mismatches: progress.mismatches,
            failures: progress.failures,
            given_up: progress.given_up,
        })
    }

    /// Whether what the job establishes holds for a band.
    #[inline]
    pub fn is_done(&self, band: u64) -> bool {
        let passed = band < self.cursor
            || (band - self.cursor < WINDOW && self.done >> (band - self.cursor) & 1 == 1);
        passed && !self.unsynced.contains(&band)
    }

    /// Whether the job makes a new drive current.
    pub fn fills(&self) -> bool {
        matches!(self.view.kind, JobKind::Rebuild(_) | JobKind::Replace(..))
    }

    /// All bands below the result are done, without exceptions.
    fn settled(&self) -> u64 {
        self.unsynced.iter().copied().fold(self.cursor, u64::min)
    }

    /// Some of a band could not be done. To a check the band counts as done all the same; redundancy is established
    /// around it.
    fn fail(&mut self, band: u64) {
        match self.view.kind {
            JobKind::Rebuild(_) | JobKind::Replace(..) => return,
            JobKind::Sync => self.unsynced.push(band),
            JobKind::Check { .. } => {}
        }
        self.given_up |= self.unsynced.len() == UNSYNCED_BANDS_MAX;
        self.mark(band);
    }

    /// A band is done.
    fn mark(&mut self, band: u64) {
        assert!(
            band >= self.cursor && band - self.cursor < WINDOW,
            "band {band} is done, outside of the job's window from band {}",
            self.cursor
        );
        assert!(
            self.done >> (band - self.cursor) & 1 == 0,
            "band {band} is done twice"
        );
        self.done |= 1 << (band - self.cursor);
        while self.done & 1 == 1 {
            self.done >>= 1;
            self.cursor += 1;
        }
        self.given_up |= self.cursor == self.bands && !self.unsynced.is_empty();
    }

    /// Continues at a later band, if nothing before it is under way: the bands between need not be done.
    pub fn pass(&mut self, to_band: u64) -> bool {
        if self.next != self.cursor {
            return false;
        }
        (self.cursor, self.next) = (to_band, to_band);
        self.given_up |= self.cursor == self.bands && !self.unsynced.is_empty();
        true
    }

    /// Whether the next band may start, with at most `depth` in flight.
    pub fn may_start(&self, depth: u32, now: Nanos) -> bool {
        !self.view.paused
            && !self.given_up
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
        // A job may catch up on time that was lost to a slow drive, but only on a tenth of a second of it.
        let floor = Nanos(now.0.saturating_sub(100 * Nanos::MILLISECOND.0));
        self.not_before = self.not_before.max(floor).after(Nanos(cost as u64));
    }

    /// When the rate lets the job continue, if it waits for that.
    pub fn next_wake(&self, now: Nanos) -> Option<Nanos> {
        let waits = !self.view.paused && !self.given_up && self.next < self.bands;
        (waits && self.view.rate_bytes_per_s > 0 && self.not_before > now)
            .then_some(self.not_before)
    }

    /// Takes a new view of the same job.
    pub fn update(&mut self, view: JobView) {
        self.view = view;
    }
}
