//! Dirty and clean: a volume is dirty on all members before its first write, and clean again only after
//! every shard has been fenced and every member flushed.

use super::Controller;
use crate::control::flush_purpose::FlushPurpose;
use crate::control::record::{JobKind, VolumeRecord};
use crate::event::Event;
use crate::units::{MemberSet, ShardId, VolumeId};

/// Where a volume is between clean and dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// RAID 0: there is no redundancy that could be in doubt, so the volume is never marked.
    Unmarked,
    /// On record as clean; no writes.
    Clean,
    /// This version of the record says dirty; writes wait for it.
    Dirtying(u64),
    /// On record as dirty; writes are allowed.
    Dirty,
    /// This epoch forbids writes; the shards are draining.
    Fencing(u64),
    /// No write is under way; members can be flushed.
    Drained,
    /// Members are being flushed; the result decides the next mark.
    Flushing,
    /// This version of the record says clean.
    Cleaning(u64),
    /// Flushed before the stop, with the record left unchanged: RAID 0 has no mark, and some volumes stay dirty.
    Rested,
}

/// Whether a volume takes spares for its empty slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filling {
    /// As [`crate::options::Options::auto_rebuild`] says.
    AsConfigured,
    /// An operator has ordered a rebuild.
    Wanted,
    /// A rebuild was given up because something could not be read or recorded: another spare would not help.
    GivenUp,
}

/// A volume's marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeMarks {
    pub mark: Mark,
    /// A shard wants to write.
    pub intent: bool,
    /// Shards that have not reported that they are idle, as bits.
    busy: u32,
    /// More members are lost than the level survives, or the volume is not started.
    pub failed: bool,
    /// The errno of the member whose loss failed the volume; none if the volume lacked members at the start.
    pub lost_by: Option<i32>,
    /// The metadata cannot express something that writes depend on, so writes are refused from now on.
    pub writes_stopped: bool,
    /// The metadata cannot express that the volume is clean.
    pub stays_dirty: bool,
    /// Whether its empty slots are given to spares.
    pub filling: Filling,
}

impl VolumeMarks {
    pub fn new(volume: &VolumeRecord) -> VolumeMarks {
        let redundant = volume.geometry.redundant();
        let mark = match (redundant, volume.dirty) {
            (false, _) => Mark::Unmarked,
            (true, true) => Mark::Dirty,
            (true, false) => Mark::Clean,
        };
        // A volume that is not started would answer requests like a failed one, but it gets none.
        let failed = volume.not_started || !volume.geometry.survives(volume.current_slots());
        VolumeMarks {
            mark,
            intent: false,
            busy: 0,
            failed,
            lost_by: None,
            writes_stopped: false,
            stays_dirty: false,
            filling: Filling::AsConfigured,
        }
    }

    pub fn set_idle(&mut self, shard: ShardId, idle: bool) {
        if idle {
            self.busy &= !(1 << shard.0);
        } else {
            self.busy |= 1 << shard.0;
        }
    }

    pub fn writes_allowed(&self) -> bool {
        matches!(self.mark, Mark::Unmarked | Mark::Dirty) && !self.writes_stopped
    }

    /// Whether the mark will not change any more by itself.
    pub fn is_settled(&self) -> bool {
        matches!(self.mark, Mark::Clean | Mark::Rested) || self.failed
    }

    /// As [`VolumeMarks::is_settled`], for a volume that is only read.
    pub fn is_at_rest(&self) -> bool {
        self.is_settled() || matches!(self.mark, Mark::Unmarked | Mark::Dirty)
    }
}

impl Controller {
    pub(super) fn run_marks(&mut self) {
        for at in 0..self.marks.len() {
            self.run_mark(at);
        }
    }

    fn run_mark(&mut self, at: usize) {
        let volume = VolumeId(at as u8);
        if self.marks[at].writes_stopped && !self.stopping {
            return;
        }
        match self.marks[at].mark {
            Mark::Clean if self.wants_dirty(at) => {
                self.record.volumes[at].dirty = true;
                self.marks[at].mark = Mark::Dirtying(self.changed());
            }
            Mark::Dirtying(version) if self.updater.has(version) => {
                self.allow_writes(at);
                self.event(Event::DirtyMark {
                    volume,
                    dirty: true,
                });
            }
            Mark::Dirty if self.may_clean(at) => {
                self.marks[at].intent = false;
                self.marks[at].mark = Mark::Fencing(self.view_changed());
            }
            // Writes that a lost member has acknowledged may be gone, so a failed volume must not be marked
            // clean.
            Mark::Fencing(_) | Mark::Drained if self.marks[at].failed => self.allow_writes(at),
            Mark::Unmarked | Mark::Dirty if self.may_rest(at) => {
                self.marks[at].mark = Mark::Fencing(self.view_changed());
            }
            // A write has met the fence. It may be a piece that another shard forwarded before it adopted the
            // fence, and that shard cannot drain until the piece is done.
            Mark::Fencing(_) if self.marks[at].intent && !self.stopping => self.allow_writes(at),
            Mark::Fencing(epoch) if self.all_confirmed(epoch) => {
                self.marks[at].mark = Mark::Drained;
                self.moved = true;
            }
            Mark::Drained if self.may_flush() => {
                self.marks[at].mark = Mark::Flushing;
                let members = MemberSet(self.record.active().0 | self.copy_targets().0);
                self.flush(members, FlushPurpose::Clean(at));
            }
            Mark::Cleaning(version) if self.updater.has(version) => {
                self.marks[at].mark = Mark::Clean;
                self.moved = true;
                self.event(Event::DirtyMark {
                    volume,
                    dirty: false,
                });
            }
            _ => {}
        }
    }

    /// Lifts the fence; a redundant volume is marked dirty. Writes that wait may run, and get the time to.
    pub(super) fn allow_writes(&mut self, at: usize) {
        self.marks[at].mark = if self.record.volumes[at].geometry.redundant() {
            Mark::Dirty
        } else {
            Mark::Unmarked
        };
        self.marks[at].intent = false;
        // Every shard counts as busy until it has had its chance to write and says otherwise.
        self.marks[at].busy = (1 << self.shards) - 1;
        self.view_changed();
    }

    /// Whether a shard waits to write, or a job is about to correct redundancy.
    fn wants_dirty(&self, at: usize) -> bool {
        let wanted = self.marks[at].intent && !self.record.volumes[at].read_only;
        (wanted || self.jobs.kind(at) == Some(JobKind::Check { repair: true })) && !self.stopping
    }

    /// Whether the volume's mark may become clean in this session.
    pub(super) fn becomes_clean(&self, at: usize) -> bool {
        let (volume, marks) = (&self.record.volumes[at], &self.marks[at]);
        let stays_dirty = volume.then_resync || volume.read_only || marks.stays_dirty;
        let inexpressible = marks.writes_stopped || (self.stopping && self.updater.is_refused());
        volume.geometry.redundant() && !stays_dirty && !inexpressible
    }

    pub(super) fn mark_clean(&mut self, volume: usize) -> u64 {
        self.record.volumes[volume].dirty = false;
        self.changed()
    }

    /// Whether nothing writes, and a clean mark would lose no information. While redundancy is being established
    /// the mark stays dirty: other implementations of the format rely on it.
    fn may_clean(&self, at: usize) -> bool {
        let marks = &self.marks[at];
        let establishes = matches!(
            self.jobs.kind(at),
            Some(JobKind::Sync | JobKind::Check { repair: true })
        );
        let quiet = marks.busy == 0 && !establishes;
        let may = !marks.failed && self.has_settled_failures() && self.becomes_clean(at);
        // Writes that wait for the array to open would wait behind the fence for ever.
        let quiet = quiet && !self.opening.is_under_way();
        may && (quiet || self.stopping)
    }
}
