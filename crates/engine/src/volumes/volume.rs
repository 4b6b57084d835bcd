//! One volume as one shard sees it: shape, current view, background job, and what waits for the
//! controller.

mod differ;
pub(crate) mod marks;

use crate::bitmap::Bitmap;
use crate::control::record::{JobKind, JobView, VolumeView};
use crate::layout::Geometry;
use crate::order::ranges::NONE;
use crate::plan::RowView;
use crate::units::{MemberId, MemberSet, Nanos, ShardId, Slot, SlotSet};
use crate::volumes::equal::EqualRanges;
use crate::volumes::job::JobRunner;
use crate::volumes::streams::Streams;
use crate::volumes::writes::Writes;
use alloc::vec::Vec;

/// A volume on a shard.
#[derive(Debug)]
pub(crate) struct Volume {
    shape: Geometry,
    /// Bytes of a band: the part of a chunk that is locked and planned together.
    band_bytes: u32,
    /// Bands per row, as a shift.
    band_shift: u32,
    view: VolumeView,
    /// The view's row state, without members that this shard already knows to have failed.
    base: RowView,
    /// Every row has that state, and every copy of every byte can be trusted.
    is_uniform: bool,
    job: Option<JobRunner>,
    /// Members of this volume that failed and whose failure is not on record yet: no write that they
    /// missed may be acknowledged.
    unrecorded: MemberSet,
    /// Writes under way, and those that wait.
    writes: Writes,
    /// By slot: the log that this shard writes, or [`NONE`]; empty without a log.
    logs: Vec<u32>,
    /// The write-intent bitmap, if there is one.
    bitmap: Option<Bitmap>,
    /// Writes may begin without a look at anything else: they are allowed, and there is no bitmap.
    writes_freely: bool,
    /// Writes to it are refused.
    refuses_writes: bool,
    /// Nothing more can be recorded of the volume, so waiting for that is in vain: too many members are lost, or the
    /// metadata cannot express it.
    records_nothing: bool,
    /// Recognises sequential writing; see [`crate::shard::plans::hold`].
    streams: Streams,
    /// Where copies that may differ have been made equal.
    equal: EqualRanges,
}

impl Volume {
    pub fn new(shape: Geometry, view: VolumeView, requests_max: usize) -> Volume {
        let band_bytes = shape.band_bytes();
        let base = view.row;
        let writes_freely = view.writes_allowed;
        let (refuses_writes, records_nothing) = (view.refuses_writes(), view.records_nothing());
        Volume {
            shape,
            band_bytes,
            band_shift: (shape.chunk_bytes / band_bytes).trailing_zeros(),
            view,
            base,
            is_uniform: false,
            job: None,
            unrecorded: MemberSet::default(),
            writes: Writes::new(requests_max),
            logs: Vec::new(),
            bitmap: None,
            writes_freely,
            refuses_writes,
            records_nothing,
            streams: Streams::new(),
            equal: EqualRanges::default(),
        }
    }

    /// Does what the controller says from now on. If that allows writes, the time after which the volume counts as
    /// idle begins `now`.
    pub fn follow(&mut self, view: VolumeView, now: Nanos) {
        if view.writes_allowed && !self.view.writes_allowed {
            self.writes.allow(now);
        }
        self.view = view;
        self.writes_freely = self.view.writes_allowed && self.bitmap.is_none();
        self.refuses_writes = self.view.refuses_writes();
        self.records_nothing = self.view.records_nothing();
    }

    /// Runs the job that the controller names, or none. Returns what the job does if it begins now.
    pub fn follow_job(&mut self, job: Option<JobView>) -> Option<JobKind> {
        match (&mut self.job, job) {
            (Some(runner), Some(view)) if runner.view().id == view.id => runner.update(view),
            (_, Some(view)) => {
                self.job = Some(JobRunner::new(view, self.bands()));
                return Some(view.kind);
            }
            (_, None) => self.job = None,
        }
        None
    }

    /// The job that runs on it, as far as it concerns this shard.
    #[inline]
    pub fn job(&self) -> Option<&JobRunner> {
        self.job.as_ref()
    }

    /// The same, to be taken further.
    #[inline]
    pub fn job_mut(&mut self) -> Option<&mut JobRunner> {
        self.job.as_mut()
    }

    /// The longest range of a chunk, in bytes, that is in one state throughout: a chunk, or a band while a job runs,
    /// because a job changes the state band by band.
    #[inline]
    pub fn unit_bytes(&self) -> u32 {
        if self.job.is_none() {
            self.shape.chunk_bytes
        } else {
            self.band_bytes
        }
    }

    /// From now on the regions of writes are marked in a bitmap first.
    pub fn keep_bitmap(&mut self, bitmap: Bitmap) {
        self.bitmap = Some(bitmap);
        self.writes_freely = false;
    }

    /// How its data lie on its members.
    #[inline]
    pub fn shape(&self) -> &Geometry {
        &self.shape
    }

    /// What the controller says of it.
    #[inline]
    pub fn view(&self) -> &VolumeView {
        &self.view
    }

    /// Writes to the volume are logged from now on: by slot the number of the log if this shard writes it, or [`NONE`].
    pub fn keep_logs(&mut self, logs: Vec<u32>) {
        self.logs = logs;
    }

    /// Whether a write-hole log protects its rows.
    pub fn has_log(&self) -> bool {
        !self.logs.is_empty()
    }

    /// The number of the log on the drive in a slot, if this shard writes that log.
    pub fn log_of(&self, slot: Slot) -> Option<u32> {
        let log = self.logs.get(usize::from(slot.0)).copied();
        log.filter(|&log| log != NONE)
    }

    /// The number of the log on the drive in this slot, which has the parity of a row of this shard: the shard writes that
    /// log.
    #[inline]
    pub fn own_log(&self, slot: Slot) -> u32 {
        self.logs[slot.0 as usize]
    }

    /// Its writes: those under way, and those that wait.
    #[inline]
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// The same, for what begins, ends or has waited.
    #[inline]
    pub fn writes_mut(&mut self) -> &mut Writes {
        &mut self.writes
    }

    /// The writers in order that it follows.
    #[inline]
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The same, to take note of writes, and of what waiting for them has brought.
    #[inline]
    pub fn streams_mut(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// A request waits until it may write. Returns whether the controller is to be told now that requests wait.
    #[inline]
    pub fn block(&mut self, request: u32) -> bool {
        let is_asked = !self.view.writes_allowed;
        self.writes.block(request, is_asked)
    }

    /// Whether writes may begin without a look at anything else: they are allowed, and there is no bitmap.
    #[inline]
    pub fn writes_freely(&self) -> bool {
        self.writes_freely
    }

    /// Whether writes to it are refused: it is only read, or its writes have been stopped for good.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes
    }

    /// Whether nothing more can be recorded of it, so that waiting for the record is in vain: too many members are
    /// lost, or the metadata cannot express it.
    #[inline]
    pub fn records_nothing(&self) -> bool {
        self.records_nothing
    }

    /// Its members that have failed, and whose failure is not on record yet: no write that they missed may be
    /// acknowledged.
    #[inline]
    pub fn unrecorded(&self) -> MemberSet {
        self.unrecorded
    }

    /// Bytes of a band: the part of a chunk that is locked and planned together.
    #[inline]
    pub fn band_bytes(&self) -> u32 {
        self.band_bytes
    }

    /// Bytes from a place in a chunk to the end of its band.
    #[inline]
    pub fn rest_of_band_bytes(&self, in_chunk_bytes: u32) -> u32 {
        self.band_bytes - (in_chunk_bytes & (self.band_bytes - 1))
    }

    /// Number of bands.
    pub fn bands(&self) -> u64 {
        self.shape.bands()
    }

    /// The band of a place.
    #[inline]
    pub fn band(&self, row: u64, in_chunk_bytes: u32) -> u64 {
        (row << self.band_shift) + u64::from(in_chunk_bytes / self.band_bytes)
    }

    /// The row of a band and the range of offsets in the chunk; the range is empty past the end of a
    /// short last row.
    pub fn band_range(&self, band: u64) -> (u64, u32, u32) {
        let row = band >> self.band_shift;
        let low = (band & ((1 << self.band_shift) - 1)) as u32 * self.band_bytes;
        let height = self.shape.row_height_bytes(row);
        (row, low.min(height), (low + self.band_bytes).min(height))
    }

    /// Byte offset in each member's extent where a band begins.
    pub fn band_start_bytes(&self, band: u64) -> u64 {
        band * u64::from(self.band_bytes)
    }

    /// Takes the view's row state, without the slots of `failed` members, of which `durable` are on record.
    pub fn refresh(&mut self, failed: MemberSet, durable: MemberSet) {
        let mut base = self.view.row;
        self.unrecorded = MemberSet::default();
        for (slot, member) in (0u8..).zip(&self.view.slots) {
            if member.is_none_or(|member| failed.has(member)) {
                base = base.without(Slot(slot));
            }
            if let Some(member) =
                member.filter(|&member| failed.has(member) && !durable.has(member))
            {
                self.unrecorded.insert(member);
            }
        }
        self.base = base;
    }

    /// Notes whether a member has recorded bad blocks, whether there is a job, and whether mirrors may differ.
    #[cold]
    pub fn note_bad_blocks(&mut self, members: MemberSet) {
        let is_bad = |member: &MemberId| members.has(*member);
        let may_differ = self.is_mirrored() && !self.view.row.in_sync;
        let is_any_bad = self.view.slots.iter().flatten().any(is_bad);
        self.is_uniform = self.job.is_none() && !may_differ && !is_any_bad;
    }

    /// The state of every row, if it is the same for all, no member has recorded bad blocks, and copies are equal.
    #[inline]
    pub fn uniform(&self) -> Option<&RowView> {
        if self.is_uniform {
            Some(&self.base)
        } else {
            None
        }
    }

    /// What may be done with the slots in a band.
    pub fn row_view(&self, band: u64, me: ShardId, shards: u8, failed: MemberSet) -> RowView {
        let mut view = self.base;
        let Some(job) = &self.job else { return view };
        let row = band >> self.band_shift;
        let done = if self.shape.owner(row, shards) == me {
            job.is_done(band)
        } else {
            band < job.view().done_band
        };
        match job.view().kind {
            JobKind::Sync => view.in_sync = done,
            JobKind::Rebuild(slot) => {
                let lost = self.view.slots[slot.0 as usize].is_none_or(|member| failed.has(member));
                if done && !lost {
                    view.readable = view.readable.with(slot);
                    view.writable = view.writable.with(slot);
                } else {
                    view.readable = view.readable.without(slot);
                    view.writable = view.writable.without(slot);
                }
            }
            JobKind::Replace(slot, to) => {
                if done && !failed.has(to) && view.writable.has(slot) {
                    view.shadowed = view.shadowed.with(slot);
                }
            }
            JobKind::Check { .. } => {}
        }
        view
    }

    /// The slot whose drive is being copied, and the drive it is copied to.
    #[inline]
    fn copying(&self) -> Option<(Slot, MemberId)> {
        match self.job.as_ref()?.view().kind {
            JobKind::Replace(slot, to) => Some((slot, to)),
            _ => None,
        }
    }

    /// The drive that a step goes to.
    #[inline]
    pub fn member(&self, slot: Slot, shadow: bool) -> Option<MemberId> {
        if shadow {
            let (copied, to) = self.copying()?;
            return (copied == slot).then_some(to);
        }
        self.view.slots[slot.0 as usize]
    }

    /// The slot that a drive serves in, as a set of one; empty if there is no such drive, or no such slot.
    #[inline]
    pub fn slot_of(&self, member: Option<MemberId>) -> SlotSet {
        let served = member.and_then(|_| self.view.slots.iter().position(|by| *by == member));
        served.map_or(SlotSet(0), |slot| SlotSet(0).with(Slot(slot as u8)))
    }

    /// Whether a drive serves in a slot: one that is only being copied to does not.
    pub fn is_in_slot(&self, member: MemberId) -> bool {
        self.slot_of(Some(member)) != SlotSet(0)
    }

    /// Whether more members are lost than the level survives, known to the controller or not.
    pub fn is_lost(&self) -> bool {
        self.view.failed || !self.shape.survives(self.base.writable)
    }

    /// The slots that a flush has to reach, and those of which it has to reach the drive that is being copied to as
    /// well: that drive will take the slot, and must have everything that the flush makes durable.
    pub fn to_flush(&self, volatile: MemberSet, failed: MemberSet) -> (SlotSet, SlotSet) {
        let none = SlotSet(0);
        let filled = match self.job.as_ref().map(|job| job.view().kind) {
            Some(JobKind::Rebuild(slot)) => none.with(slot),
            _ => none,
        };
        let copied = self.copying();
        let copied = copied.filter(|&(_, to)| volatile.has(to) && !failed.has(to));
        let shadows = copied.map_or(none, |(slot, _)| none.with(slot));
        let cached = |slot: &Slot| {
            self.view.slots[slot.0 as usize].is_some_and(|member| volatile.has(member))
        };
        let slots = SlotSet(self.base.writable.0 | filled.0);
        (
            slots.iter().filter(cached).fold(none, SlotSet::with),
            shadows,
        )
    }
}
