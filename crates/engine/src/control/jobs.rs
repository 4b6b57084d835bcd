//! Background jobs: which one runs, and how far it has come. [`super::job_ends`] describes what its end means.
//!
//! Jobs that the metadata records (initial sync, resync, rebuild) follow from the record and are resumed at every
//! start. Scrub and replace are ordered by an operator and end with the process; a scrub can be started where an
//! earlier process left it. One job runs at a time per container; the others keep their position.

use super::Controller;
use crate::control::flush_purpose::FlushPurpose;
use crate::control::record::{JobKind, JobView, Record, SyncKind};
use crate::event::{Event, JobName};
use crate::layout::Geometry;
use crate::limits::{CHECKPOINT_EVERY, SHARDS_MAX};
use crate::units::{MemberId, Nanos, ShardId, Slot, VolumeId};
use alloc::vec::Vec;

/// Message of `expect` where the caller has checked that the volume has a job.
pub(super) const ACTIVE: &str = "the volume has a job";

/// A job and its progress.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub view: JobView,
    /// What people call the job; an initial sync and a resync are the same kind.
    pub name: JobName,
    bands: u64,
    band_bytes: u64,
    shard_bands: [u64; SHARDS_MAX],
    mismatches: [u64; SHARDS_MAX],
    failures: [u64; SHARDS_MAX],
    paused: bool,
    /// The job starts once every shard has confirmed this epoch: by then no work is under way that ignores the
    /// job.
    known_from_epoch: u64,
    started: bool,
    /// Since when, and from which band, the job's speed is measured.
    paced_since: Nanos,
    paced_from: u64,
    /// The copy is complete, but the job is kept: writes are copied until the drives change places.
    resting: bool,
    /// Shards that have given the job up, as bits.
    given_up: u32,
    /// For a repair: everything below this has been flushed.
    kept_bytes: u64,
    /// A checkpoint of this many bytes could not be expressed by the metadata.
    pub refused_bytes: u64,
    /// For a rebuild that is given up: the record has been changed to say that nothing is filled.
    pub begins_anew: bool,
    /// The job has been reported as ended. Shards keep its position.
    pub halted: bool,
}

impl Job {
    /// Starts to measure the job's speed anew.
    fn measure_pace(&mut self, now: Nanos) {
        self.paced_since = now;
        self.paced_from = self.view.done_band;
    }
}

/// A job as people see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobStatus {
    /// What it is.
    pub name: JobName,
    /// Whether it is the one that runs now.
    pub running: bool,
    /// Paused by an operator, or halted because of something that could not be read or recorded.
    pub paused: bool,
    /// Bytes done of each member's extent.
    pub done_bytes: u64,
    /// Bytes of each member's extent that stay done even after a power cut: where a scrub may continue later.
    pub kept_bytes: u64,
    /// Bytes of each member's extent.
    pub total_bytes: u64,
    /// The slot that is filled or copied.
    pub slot: Option<Slot>,
    /// The drive to which the slot is copied.
    pub copied_to: Option<MemberId>,
    /// Bytes that were done when the measurement of its speed began: at its start in this session, and again
    /// whenever it is paused or resumed or its limit changes.
    pub paced_from_bytes: u64,
    /// When that measurement began.
    pub paced_since: Nanos,
    /// Stripes that did not match.
    pub mismatches: u64,
    /// Stripes that could not be done.
    pub failures: u64,
}

/// All jobs of a container.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(super) jobs: Vec<Option<Job>>,
    pub(super) active: Option<usize>,
    next_id: u32,
    shards: u8,
    pub rate_bytes_per_s: u64,
    last_checkpoint: Nanos,
    /// Position when the flush for the checkpoint under way began.
    flushed_bytes: u64,
    /// The active job is done and its drives are being flushed.
    pub(super) ending: bool,
}

impl Jobs {
    pub fn new(record: &Record, shards: u8, rate_bytes_per_s: u64) -> Jobs {
        let mut jobs = Jobs {
            jobs: record.volumes.iter().map(|_| None).collect(),
            active: None,
            next_id: 1,
            shards,
            rate_bytes_per_s,
            last_checkpoint: Nanos(0),
            flushed_bytes: 0,
            ending: false,
        };
        for (at, volume) in record.volumes.iter().enumerate() {
            if let Some(sync) = volume.sync {
                let kind = kind_of(sync.kind);
                jobs.add(
                    at,
                    &volume.geometry,
                    kind,
                    name_of(sync.kind),
                    sync.done_bytes,
                );
                jobs.go_by_bitmap(at, kind == JobKind::Sync && volume.bitmap.is_some());
            }
        }
        jobs
    }

    pub(super) fn add(
        &mut self,
        at: usize,
        shape: &Geometry,
        kind: JobKind,
        name: JobName,
        from_bytes: u64,
    ) {
        let band_bytes = u64::from(shape.band_bytes());
        let from_band = from_bytes / band_bytes;
        let view = JobView {
            id: self.next_id,
            kind,
            from_band,
            done_band: from_band,
            rate_bytes_per_s: 0,
            paused: false,
            marked_only: false,
        };
        self.next_id += 1;
        self.jobs[at] = Some(Job {
            view,
            name,
            bands: shape.bands(),
            band_bytes,
            shard_bands: [from_band; SHARDS_MAX],
            mismatches: [0; SHARDS_MAX],
            failures: [0; SHARDS_MAX],
            paused: false,
            known_from_epoch: 0,
            started: false,
            paced_since: Nanos(0),
            paced_from: from_band,
            resting: false,
            given_up: 0,
            kept_bytes: from_band * band_bytes,
            refused_bytes: 0,
            begins_anew: false,
            halted: false,
        });
    }

    /// Sets whether only regions that the volume's bitmap marks have to be done.
    pub fn go_by_bitmap(&mut self, at: usize, marked_only: bool) {
        if let Some(job) = &mut self.jobs[at] {
            job.view.marked_only = marked_only;
        }
    }

    /// Keeps a job that is done, and lets another become active.
    pub fn rest(&mut self, at: usize) {
        if let Some(job) = &mut self.jobs[at] {
            job.resting = true;
        }
        self.active = self.active.filter(|&active| active != at);
    }

    /// From now on the copy goes from the new drive to the `old` one.
    pub fn turn_around(&mut self, at: usize, slot: Slot, old: MemberId) {
        if let Some(job) = &mut self.jobs[at] {
            job.view.kind = JobKind::Replace(slot, old);
        }
    }

    pub fn is_resting(&self, at: usize) -> bool {
        self.jobs[at].as_ref().is_some_and(|job| job.resting)
    }

    pub fn kind(&self, at: usize) -> Option<JobKind> {
        self.jobs[at].as_ref().map(|job| job.view.kind)
    }

    /// The job as the shards see it.
    pub fn view(&self, at: usize, shards: u8, stopping: bool) -> Option<JobView> {
        let job = self.jobs[at].as_ref()?;
        let runs = self.active == Some(at) && job.started && !self.ending;
        Some(JobView {
            rate_bytes_per_s: self.rate_bytes_per_s.div_ceil(u64::from(shards)),
            paused: !runs || job.paused || stopping,
            ..job.view
        })
    }

    pub fn status(&self, at: usize) -> Option<JobStatus> {
        let job = self.jobs.get(at)?.as_ref()?;
        let (slot, copied_to) = job.view.kind.slot_and_copy();
        Some(JobStatus {
            slot,
            copied_to,
            name: job.name,
            running: self.active == Some(at) && job.started && !job.paused,
            paused: job.paused || job.halted,
            done_bytes: job.view.done_band * job.band_bytes,
            kept_bytes: match job.view.kind {
                JobKind::Check { repair: true } => job.kept_bytes,
                _ => job.view.done_band * job.band_bytes,
            },
            total_bytes: job.bands * job.band_bytes,
            paced_from_bytes: job.paced_from * job.band_bytes,
            paced_since: job.paced_since,
            mismatches: job.mismatches.iter().sum(),
            failures: job.failures.iter().sum(),
        })
    }

    pub fn progress(
        &mut self,
        shard: ShardId,
        volume: VolumeId,
        id: u32,
        band: u64,
        (mismatches, failures): (u64, u64),
    ) {
        let shards = self.shards as usize;
        let Some(job) = self.numbered(volume, id) else {
            return;
        };
        let at = shard.0 as usize;
        job.shard_bands[at] = job.shard_bands[at].max(band);
        job.mismatches[at] = mismatches;
        job.failures[at] = failures;
        job.view.done_band = job.shard_bands[..shards]
            .iter()
            .copied()
            .min()
            .expect("there is at least one shard");
    }

    /// Notes that a shard has given a job up.
    pub fn given_up(&mut self, shard: ShardId, volume: VolumeId, id: u32) {
        if let Some(job) = self.numbered(volume, id) {
            job.given_up |= 1 << shard.0;
        }
    }

    fn numbered(&mut self, volume: VolumeId, id: u32) -> Option<&mut Job> {
        let job = self.jobs.get_mut(volume.0 as usize)?.as_mut()?;
        (job.view.id == id).then_some(job)
    }
}

impl Job {
    pub fn ended(&self, at: usize, complete: bool) -> Event {
        Event::JobEnded {
            volume: VolumeId(at as u8),
            job: self.name,
            complete,
            mismatches: self.mismatches.iter().sum(),
            failures: self.failures.iter().sum(),
        }
    }

    /// Whether the job cannot complete. A sync is useful although some place cannot be established, so the other
    /// shards finish; a drive that is not filled everywhere is of no use.
    fn is_hopeless(&self, shards: u8) -> bool {
        let is_over = |shard: &u8| {
            let passed = self.shard_bands[usize::from(*shard)] >= self.bands;
            passed || self.given_up >> shard & 1 == 1
        };
        let needs_all = self.view.kind != JobKind::Sync;
        self.given_up != 0 && (needs_all || (0..shards).all(|shard| is_over(&shard)))
    }
}

fn kind_of(kind: SyncKind) -> JobKind {
    match kind {
        SyncKind::Initial | SyncKind::Resync => JobKind::Sync,
        SyncKind::Rebuild(slot) => JobKind::Rebuild(slot),
    }
}

fn name_of(kind: SyncKind) -> JobName {
    match kind {
        SyncKind::Initial => JobName::InitialSync,
        SyncKind::Resync => JobName::Resync,
        SyncKind::Rebuild(_) => JobName::Rebuild,
    }
}

impl Controller {
    /// Adds an operator's job. The caller has checked that the volume has none.
    pub(super) fn add_job(&mut self, at: usize, kind: JobKind, name: JobName, from_bytes: u64) {
        let shape = self.record.volumes[at].geometry;
        self.jobs.add(at, &shape, kind, name, from_bytes);
        let known_from_epoch = self.view_changed();
        if let Some(job) = &mut self.jobs.jobs[at] {
            job.known_from_epoch = known_from_epoch;
        }
    }

    /// Whether neither clients nor jobs write to a volume.
    pub(super) fn takes_no_writes(&self, at: usize) -> bool {
        self.record.volumes[at].read_only || self.marks[at].writes_stopped
    }

    pub(super) fn has_job(&self, at: usize) -> bool {
        self.jobs.jobs[at].is_some()
    }

    pub(super) fn pause_job(&mut self, at: usize, paused: bool) -> bool {
        let now = self.now;
        let Some(job) = &mut self.jobs.jobs[at] else {
            return false;
        };
        job.paused = paused;
        job.measure_pace(now);
        if job.halted && !paused {
            // Restarts from the position on record: the drives can perhaps be read again.
            let (shape, sync) = (
                self.record.volumes[at].geometry,
                self.record.volumes[at].sync,
            );
            let (kind, name) = (job.view.kind, job.name);
            let from_bytes = sync.map_or(0, |sync| sync.done_bytes);
            let marked_only = job.view.marked_only;
            self.jobs.add(at, &shape, kind, name, from_bytes);
            self.jobs.go_by_bitmap(at, marked_only);
        }
        self.view_changed();
        true
    }

    pub(super) fn set_rate(&mut self, rate_bytes_per_s: u64) {
        self.jobs.rate_bytes_per_s = rate_bytes_per_s;
        let now = self.now;
        let all = self.jobs.jobs.iter_mut().flatten();
        all.for_each(|job| job.measure_pace(now));
        self.view_changed();
    }

    pub(super) fn run_jobs(&mut self) {
        if self.stopping {
            return self.final_checkpoint();
        }
        self.fill_empty_slots();
        let Some(at) = self.jobs.active else {
            return self.pick_job();
        };
        let job = self.jobs.jobs[at].as_ref().expect(ACTIVE);
        if !job.started {
            return self.start_job(at);
        }
        if self.jobs.ending || !self.may_flush() {
            return;
        }
        if job.is_hopeless(self.shards) {
            return self.give_up_job(at);
        }
        if job.view.done_band >= job.bands {
            self.jobs.ending = true;
            let id = job.view.id;
            let members = self.flushed_for(at);
            return self.flush(members, FlushPurpose::JobEnd(id));
        }
        let due = self.now.since(self.jobs.last_checkpoint) >= CHECKPOINT_EVERY;
        if due && (self.checkpoint_is_behind(at) || self.repair_is_unflushed(at)) {
            self.flush_for_checkpoint(at);
        }
    }

    /// Flushes what the job has written so far. Afterwards only that much may be recorded.
    pub(super) fn flush_for_checkpoint(&mut self, at: usize) {
        let job = self.jobs.jobs[at].as_ref().expect(ACTIVE);
        let id = job.view.id;
        self.jobs.flushed_bytes = job.view.done_band * job.band_bytes;
        let members = self.flushed_for(at);
        self.flush(members, FlushPurpose::Checkpoint(id));
    }

    fn pick_job(&mut self) {
        let writable = |at: &usize| !self.marks[*at].failed && !self.takes_no_writes(*at);
        let waits = |job: &Option<Job>| job.as_ref().is_some_and(|job| !job.resting && !job.halted);
        let ready = |at: &usize| waits(&self.jobs.jobs[*at]) && writable(at);
        self.jobs.active = (0..self.jobs.jobs.len()).find(ready);
        if self.jobs.active.is_some() {
            self.run_jobs();
        }
    }

    /// Starts the picked job once the record that names it is durable.
    fn start_job(&mut self, at: usize) {
        let repairs = self.jobs.kind(at) == Some(JobKind::Check { repair: true });
        let recorded = self.is_durable();
        if !recorded || (repairs && !self.marks[at].writes_allowed()) {
            return;
        }
        let now = self.now;
        let is_known = |job: &Job| self.all_confirmed(job.known_from_epoch);
        if !self.jobs.jobs[at].as_ref().is_some_and(is_known) {
            return;
        }
        let only_reads = self.jobs.kind(at) == Some(JobKind::Check { repair: false });
        if !only_reads && !self.opening.is_done {
            return self.want_opening();
        }
        self.jobs.last_checkpoint = now;
        let job = self.jobs.jobs[at].as_mut().expect(ACTIVE);
        job.started = true;
        job.measure_pace(now);
        let (volume, name, kind) = (VolumeId(at as u8), job.name, job.view.kind);
        let in_slot = |slot: Slot| self.record.volumes[at].slots[usize::from(slot.0)].member;
        let (slot, copied_to) = kind.slot_and_copy();
        let member = copied_to.or_else(|| in_slot(slot?));
        self.event(Event::JobStarted {
            volume,
            job: name,
            slot,
            member,
        });
        self.view_changed();
    }

    pub(super) fn checkpoint_is_behind(&self, at: usize) -> bool {
        let (Some(sync), Some(job)) = (self.record.volumes[at].sync, &self.jobs.jobs[at]) else {
            return false;
        };
        let done_bytes = job.view.done_band * job.band_bytes;
        done_bytes > sync.done_bytes && done_bytes > job.refused_bytes
    }

    /// Whether a repair has made corrections that a power cut could still undo.
    fn repair_is_unflushed(&self, at: usize) -> bool {
        self.jobs.jobs[at].as_ref().is_some_and(|job| {
            job.view.kind == JobKind::Check { repair: true }
                && job.view.done_band * job.band_bytes > job.kept_bytes
        })
    }

    /// The drives are flushed: the position from before the flush is now safe to record and to restart from.
    pub(super) fn checkpoint_flushed(&mut self, id: u32, complete: bool) {
        self.jobs.last_checkpoint = self.now;
        let Some(at) = self.still_active(id).filter(|_| complete) else {
            return;
        };
        let done_bytes = self.jobs.flushed_bytes;
        if let Some(job) = &mut self.jobs.jobs[at] {
            job.kept_bytes = done_bytes;
        }
        if let Some(sync) = &mut self.record.volumes[at].sync {
            sync.done_bytes = done_bytes;
            self.changed();
        }
        // Other shards may now read the new drive up to here.
        self.view_changed();
    }

    /// While stopping: records the last checkpoint, once everything has drained.
    fn final_checkpoint(&mut self) {
        let Some(at) = self.jobs.active else { return };
        let drained = self.all_confirmed(self.epoch) && !self.stale_view;
        if drained && self.may_flush() && self.checkpoint_is_behind(at) {
            self.flush_for_checkpoint(at);
        }
    }
}
