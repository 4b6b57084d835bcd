//! What happens when the metadata cannot express the record: the record does not become durable, and nothing may
//! rely on it.
//!
//! A record is expressed whole or not at all ([`crate::world::Input::NotExpressible`]), and a refused record is
//! not tried again. So the controller takes back the changes that it can do without (a checkpoint, a clean mark,
//! the end of a sync, the begin of a rebuild) as if they had never been wanted, and tries the rest. If the rest
//! cannot be expressed either, it holds changes that writes depend on: the failure of a member that missed
//! writes, a dirty mark, a lost block, a drive that has become current. Then the volumes concerned refuse writes
//! from now on, writes that wait for the record end with errors, and reads continue. Changes that cannot be taken
//! back stay wanted, and are tried with the next change. If the updates before the first write cannot be
//! expressed, the session takes no writes at all.

use super::Controller;
use crate::control::jobs::Jobs;
use crate::control::marks::{Filling, Mark};
use crate::control::record::{
    BitmapRecord, JobKind, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use crate::control::update::Refusal;
use crate::event::{Event, JobName, NotRecorded};
use crate::units::{MemberId, MemberSet, Nanos, VolumeId};

impl Controller {
    #[cold]
    pub(crate) fn not_expressible(&mut self, member: MemberId, now: Nanos) {
        self.now = now;
        self.moved = true;
        self.updater.not_expressible(member, now);
    }

    /// Reacts to a record that could not be expressed.
    pub(super) fn run_refusal(&mut self) {
        if let Some(refusal) = self.updater.take_refusal() {
            self.react(&refusal);
        }
    }

    #[cold]
    fn react(&mut self, Refusal { before, refused }: &Refusal) {
        self.record.generation = before.generation;
        if !self.updater.is_refused() {
            // The record has changed meanwhile: the new version is tried first.
            return;
        }
        let volumes = 0..self.record.volumes.len();
        let mut is_left_out = false;
        for at in volumes.clone() {
            is_left_out |= self.do_without(at, before, refused);
        }
        if !is_left_out {
            let mut is_stopped = false;
            for at in volumes {
                is_stopped |= depends(before, refused, at) && self.stop_writes(at);
            }
            if !is_stopped {
                self.give_up_opening();
            }
            // The bad-block log stays as it was, and shards that wait for a change of it are answered that it was
            // refused.
            self.record.bad_blocks = before.bad_blocks.clone();
            self.refuse_recording();
        }
        self.view_changed();
        let wanted = self.record_after_switch();
        let wanted = wanted.as_ref().unwrap_or(&self.record);
        if !self.updater.taken_back(wanted) && !is_same(wanted, refused) {
            self.changed();
        }
    }

    /// Takes back the changes of a volume that the controller can do without. Returns whether there were any.
    fn do_without(&mut self, at: usize, before: &Record, refused: &Record) -> bool {
        let (was, now) = (&before.volumes[at], &refused.volumes[at]);
        let mut is_left_out = false;
        if was.dirty && !now.dirty {
            self.record.volumes[at].dirty = true;
            self.marks[at].stays_dirty = true;
            self.allow_writes(at);
            is_left_out |= self.not_recorded(at, NotRecorded::Clean);
        }
        match (was.sync, now.sync) {
            (Some(from), Some(to))
                if from.kind == to.kind
                    && target(was) == target(now)
                    && from.done_bytes != to.done_bytes =>
            {
                self.record.volumes[at].sync = was.sync;
                self.jobs.checkpoint_refused(at, to.done_bytes);
                is_left_out |= self.not_recorded(at, NotRecorded::Checkpoint);
            }
            (Some(from), None) if !matches!(from.kind, SyncKind::Rebuild(_)) => {
                self.halt_sync(at, from);
                is_left_out |= self.not_recorded(at, NotRecorded::SyncEnd);
            }
            (from, Some(to)) if matches!(to.kind, SyncKind::Rebuild(_)) => {
                let is_first = from.is_none_or(|from| !matches!(from.kind, SyncKind::Rebuild(_)));
                if is_first && self.begin_no_rebuild(at, before) {
                    is_left_out |= self.not_recorded(at, NotRecorded::RebuildBegin);
                }
            }
            _ => {}
        }
        is_left_out
    }

    fn not_recorded(&mut self, at: usize, change: NotRecorded) -> bool {
        let volume = VolumeId(at as u8);
        self.event(Event::NotRecorded { volume, change });
        true
    }

    /// A sync has ended, but its end could not be recorded: puts it back to the position on record, halted.
    fn halt_sync(&mut self, at: usize, sync: SyncRecord) {
        if self.has_job(at) {
            self.end_job(at, false);
        }
        let volume = &mut self.record.volumes[at];
        volume.sync = Some(sync);
        let name = match sync.kind {
            SyncKind::Initial => JobName::InitialSync,
            _ => JobName::Resync,
        };
        let (shape, has_bitmap) = (volume.geometry, volume.bitmap.is_some());
        self.jobs
            .add(at, &shape, JobKind::Sync, name, sync.done_bytes);
        self.jobs.go_by_bitmap(at, has_bitmap);
        self.jobs.halt(at);
    }

    /// Takes back a rebuild before it begins: its drive becomes what it was before. Returns false if the rebuild
    /// has already ended.
    fn begin_no_rebuild(&mut self, at: usize, before: &Record) -> bool {
        if !matches!(self.jobs.kind(at), Some(JobKind::Rebuild(_))) {
            return false;
        }
        self.jobs.drop_job(at);
        let was = &before.volumes[at];
        let target = target(&self.record.volumes[at]);
        self.record.volumes[at].sync = was.sync;
        // The rebuild must not start again by itself: its begin cannot be recorded.
        self.marks[at].filling = Filling::GivenUp;
        let Some(target) = target else { return true };
        let at = usize::from(target.0);
        let state = before.members.get(at).map(|member| member.state);
        if state != Some(MemberState::Spare) || self.failed.has(target) {
            return true;
        }
        self.record.members[at].state = MemberState::Spare;
        for (volume, was) in self.record.volumes.iter_mut().zip(&before.volumes) {
            let slots = volume.slots.iter_mut().zip(&was.slots);
            slots
                .filter(|(slot, _)| !slot.current && slot.member == Some(target))
                .for_each(|(slot, was)| *slot = *was);
        }
        true
    }

    /// Refuses writes to a volume from now on; returns whether it took any before.
    pub(super) fn stop_writes(&mut self, at: usize) -> bool {
        if self.record.volumes[at].not_started || self.takes_no_writes(at) {
            return false;
        }
        let marks = &mut self.marks[at];
        marks.writes_stopped = true;
        marks.mark = match marks.mark {
            Mark::Unmarked => Mark::Unmarked,
            Mark::Clean => Mark::Clean,
            Mark::Dirtying(_) => {
                // Nothing has been written yet. Without this mark, changes of other volumes can perhaps be
                // recorded.
                self.record.volumes[at].dirty = false;
                Mark::Clean
            }
            // The volume stays dirty: writes under way may be half done.
            _ => Mark::Dirty,
        };
        self.jobs.set_aside(at);
        self.event(Event::WritesStopped(VolumeId(at as u8)));
        true
    }
}

impl Jobs {
    /// Notes that the metadata cannot express a checkpoint of this many bytes. Only a later one is tried.
    fn checkpoint_refused(&mut self, at: usize, done_bytes: u64) {
        if let Some(job) = &mut self.jobs[at] {
            job.refused_bytes = done_bytes;
        }
    }

    /// Halts a job at its position until an operator resumes it.
    fn halt(&mut self, at: usize) {
        if let Some(job) = &mut self.jobs[at] {
            job.halted = true;
        }
    }

    /// Lets another job become active, although this one is not done.
    fn set_aside(&mut self, at: usize) {
        if self.active == Some(at) {
            self.active = None;
            self.ending = false;
        }
    }

    /// Forgets a job that has not begun.
    fn drop_job(&mut self, at: usize) {
        self.set_aside(at);
        self.jobs[at] = None;
    }
}

/// The drive that is being filled.
fn target(volume: &VolumeRecord) -> Option<MemberId> {
    match volume.sync?.kind {
        SyncKind::Rebuild(slot) => volume.slots[usize::from(slot.0)].member,
        SyncKind::Initial | SyncKind::Resync => None,
    }
}

/// Whether two records are equal but for their generations.
fn is_same(one: &Record, other: &Record) -> bool {
    one.members == other.members
        && one.volumes == other.volumes
        && one.bad_blocks == other.bad_blocks
}

/// Whether writes to a volume depend on the changes from one record to the other. Changes that the controller can
/// do without have been taken back before.
fn depends(before: &Record, now: &Record, at: usize) -> bool {
    let (was, volume) = (&before.volumes[at], &now.volumes[at]);
    let served = |slot: &SlotRecord| slot.member.filter(|_| slot.current);
    let cleared = |bitmap: &Option<BitmapRecord>| bitmap.as_ref().map(|by| by.cleared_generation);
    let of = |volume: &VolumeRecord| -> MemberSet {
        let members = volume.slots.iter();
        members.filter_map(|slot| slot.member).collect()
    };
    let failed = |record: &Record, member: MemberId| {
        let known = record.members.get(usize::from(member.0));
        known.is_some_and(|member| member.state == MemberState::Failed)
    };
    let concerns = |member: MemberId| failed(before, member) != failed(now, member);
    was.dirty != volume.dirty
        || was.sync != volume.sync
        || was.then_resync != volume.then_resync
        || cleared(&was.bitmap) != cleared(&volume.bitmap)
        || was
            .slots
            .iter()
            .map(served)
            .ne(volume.slots.iter().map(served))
        || before.bad_blocks != now.bad_blocks
        || MemberSet(of(was).0 | of(volume).0).iter().any(concerns)
}
