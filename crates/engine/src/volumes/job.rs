//! How far a job is on one shard: see [`crate::shard::jobs::background`].

mod check;

use crate::control::record::{JobKind, JobView};
use crate::limits::UNSYNCED_BANDS_MAX;
use crate::units::Nanos;
use alloc::vec::Vec;

/// Bands that a job may have in flight or done beyond its cursor.
pub(crate) const WINDOW: u64 = 64;

/// A job on one shard.
#[derive(Debug)]
pub(crate) struct JobRunner {
    pub view: JobView,
    /// All bands below are done.
    pub cursor: u64,
    /// Bit `i`: band `cursor + i` is done.
    pub(super) done: u64,
    /// The next band to start.
    pub next: u64,
    pub bands: u64,
    pub in_flight: u32,
    pub mismatches: u64,
    pub failures: u64,
    /// The job cannot go on; the controller will end it.
    pub aborted: bool,
    /// With a rate: not before this.
    not_before: Nanos,
    /// Bands whose redundancy could not be established. Everything else is done around them.
    unsynced: Vec<u64>,
    pub reported: (u64, u64, u64, bool),
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
            unsynced: Vec::new(),
            reported: (u64::MAX, 0, 0, false),
            view,
        }
    }

    /// Whether what the job is about holds for a band.
    #[inline]
    pub fn is_done(&self, band: u64) -> bool {
        let passed = band < self.cursor
            || (band - self.cursor < WINDOW && self.done >> (band - self.cursor) & 1 == 1);
        passed && !self.unsynced.contains(&band)
    }

    /// Whether the job makes a new drive current.
    pub(crate) fn fills(&self) -> bool {
        matches!(self.view.kind, JobKind::Rebuild(_) | JobKind::Replace(..))
    }

    /// All bands below are done.
    pub(crate) fn settled(&self) -> u64 {
        self.unsynced.iter().copied().fold(self.cursor, u64::min)
    }

    /// A band could not be done. A check has looked at it all the same; redundancy is established around it.
    pub(crate) fn fail(&mut self, band: u64) {
        match self.view.kind {
            JobKind::Rebuild(_) | JobKind::Replace(..) => return,
            JobKind::Sync => self.unsynced.push(band),
            JobKind::Check { .. } => {}
        }
        self.aborted |= self.unsynced.len() == UNSYNCED_BANDS_MAX;
        self.mark(band);
    }

    pub(crate) fn mark(&mut self, band: u64) {
        assert!(
            band >= self.cursor && band - self.cursor < WINDOW,
            "band {band} is done, and the job is at {}",
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
        self.aborted |= self.cursor == self.bands && !self.unsynced.is_empty();
    }

    /// Goes on at a later band, if nothing before it is under way: what is passed need not be done.
    pub(crate) fn pass(&mut self, to_band: u64) -> bool {
        if self.next != self.cursor {
            return false;
        }
        (self.cursor, self.next) = (to_band, to_band);
        self.aborted |= self.cursor == self.bands && !self.unsynced.is_empty();
        true
    }

    pub(crate) fn may_start(&self, depth: u32, now: Nanos) -> bool {
        !self.view.paused
            && !self.aborted
            && self.next < self.bands
            && self.next - self.cursor < WINDOW
            && self.in_flight < depth
            && (self.view.rate_bytes_per_s == 0 || now >= self.not_before)
    }

    /// Charges one band to the rate.
    pub(crate) fn charge(&mut self, bytes: u64, now: Nanos) {
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
