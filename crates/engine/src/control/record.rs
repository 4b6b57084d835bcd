//! What the array durably knows about itself: the content of its metadata, independent of the format.
//!
//! The controller changes this record and has the world write it; the world translates it to the format on disk
//! (IMSM). [`ContainerView`] says what the shards may do at the moment. A view never allows more than the durable
//! record covers.

use crate::control::bad_blocks::BadBlocks;
use crate::layout::Geometry;
use crate::plan::RowView;
use crate::policy::MemberKind;
use crate::units::{MemberId, MemberSet, Slot, SlotSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What is known of a drive that returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Returning {
    /// The slot that it served, in every volume.
    pub slot: Slot,
    /// Generation of the newest record that it received while it was in service.
    pub generation: u64,
}

/// A drive's role in the container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// No drive has this number.
    Absent,
    /// Ready to take a failed member's place.
    Spare,
    /// Holds data of at least one volume.
    Active,
    /// Failed; never used again until an operator adds it anew.
    Failed,
}

/// One drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberRecord {
    /// Its role.
    pub state: MemberState,
    /// Capacity.
    pub size_bytes: u64,
    /// Whether its cache may hold acknowledged writes that a loss of power would destroy.
    pub volatile_cache: bool,
    /// Device or file, which decides the meaning of its errors.
    pub kind: MemberKind,
    /// Whether it can discard so that zeros are left. A drive that cannot has zeros written to it.
    pub discards: bool,
    /// For a spare: the slot that it served before, of which it lacks only what the bitmaps mark.
    pub returns_to: Option<Slot>,
    /// Its record was older than that of other drives when the array was assembled. Where mirrors may differ, the
    /// other drives' content is the right one.
    pub behind: bool,
}

impl MemberRecord {
    /// No drive.
    pub const ABSENT: MemberRecord = MemberRecord {
        state: MemberState::Absent,
        size_bytes: 0,
        volatile_cache: false,
        kind: MemberKind::Device,
        discards: true,
        returns_to: None,
        behind: false,
    };
}

/// Kinds of background work whose progress the metadata keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncKind {
    /// Redundancy is being established for the first time.
    Initial,
    /// Redundancy is being re-established after a crash.
    Resync,
    /// A slot's new drive is being filled.
    Rebuild(Slot),
}

/// Unfinished background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncRecord {
    /// What is being done.
    pub kind: SyncKind,
    /// Everything below this byte of each member's extent is done.
    pub done_bytes: u64,
}

/// A slot of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRecord {
    /// The drive in the slot; `None` when it is missing.
    pub member: Option<MemberId>,
    /// Whether the drive's content is current (a rebuild's target is not).
    pub current: bool,
}

/// One volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// Its shape.
    pub geometry: Geometry,
    /// Not served in this session, because it lacks members that it needs, or must not be started. It is neither
    /// read nor written, and its part of the record does not change.
    pub not_started: bool,
    /// Never written to in this session.
    pub read_only: bool,
    /// Writes may be under way: after a crash redundancy is in doubt.
    pub dirty: bool,
    /// The slots.
    pub slots: Vec<SlotRecord>,
    /// Unfinished background work.
    pub sync: Option<SyncRecord>,
    /// After the rebuild under way, redundancy elsewhere has to be re-established (a RAID 10 that crashed while
    /// degraded).
    pub then_resync: bool,
    /// Where each member keeps the volume's write-hole log (RAID 5 only); `None` when there is no log.
    pub log: Option<LogArea>,
    /// Its write-intent bitmap, if it has one.
    pub bitmap: Option<BitmapRecord>,
}

/// A volume's write-intent bitmap: see [`crate::bitmap`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitmapRecord {
    /// First byte of the bits on every member.
    pub bits_offset_bytes: u64,
    /// Bytes of a region, a power of two.
    pub region_bytes: u64,
    /// Regions that are marked at the start, the same on all members: region `n` is bit `n % 64` of word `n /
    /// 64`. Bits after the last region are 0.
    pub marked: Arc<[u64]>,
    /// A drive that left before this generation of the record may lack data in regions that are not marked.
    pub cleared_generation: u64,
}

/// The part of every member that holds the write-hole log of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogArea {
    /// First byte on the member.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u32,
}

impl VolumeRecord {
    /// Whether its writes go through a write-hole log.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        self.log.is_some() && self.geometry.may_have_log()
    }

    /// Slots with a drive whose content is current.
    #[must_use]
    pub fn current_slots(&self) -> SlotSet {
        (0u8..)
            .zip(&self.slots)
            .fold(SlotSet(0), |set, (slot, record)| {
                if record.current && record.member.is_some() {
                    set.with(Slot(slot))
                } else {
                    set
                }
            })
    }

    /// Notes that bits may be cleared from now on. A drive whose newest record is `generation` or older can then
    /// no longer return by the bitmap.
    pub(crate) fn leave_absent_behind(&mut self, generation: u64) {
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.cleared_generation = generation + 1;
        }
    }

    /// Whether the volume is in service without `member`, so that the drive's content of it becomes outdated.
    #[must_use]
    pub fn does_without(&self, member: MemberId) -> bool {
        !self.not_started && !self.is_current(member)
    }

    /// Whether `member` serves a slot, and its content of the volume is current.
    #[must_use]
    pub fn is_current(&self, member: MemberId) -> bool {
        let holds = |slot: &SlotRecord| slot.member == Some(member) && slot.current;
        self.slots.iter().any(holds)
    }

    /// The slot that `member` serves.
    #[must_use]
    pub fn slot_of(&self, member: MemberId) -> Option<Slot> {
        self.slots
            .iter()
            .position(|slot| slot.member == Some(member))
            .map(|slot| Slot(slot as u8))
    }
}

/// The whole container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Counts the updates of the metadata.
    pub generation: u64,
    /// By [`MemberId`].
    pub members: Vec<MemberRecord>,
    /// By [`crate::units::VolumeId`].
    pub volumes: Vec<VolumeRecord>,
    /// Ranges of members whose content is lost.
    pub bad_blocks: BadBlocks,
}

impl Record {
    /// Drives that hold data of a volume and are not on record as failed.
    #[must_use]
    pub fn active(&self) -> MemberSet {
        let all = 0u8..;
        all.zip(&self.members)
            .filter(|(_, member)| member.state == MemberState::Active)
            .map(|(id, _)| MemberId(id))
            .collect()
    }

    /// Whether all drives of a volume can discard, including those that are being filled.
    #[must_use]
    pub fn discards(&self, volume: usize) -> bool {
        let slots = self.volumes[volume].slots.iter();
        let mut drives = slots.filter_map(|slot| slot.member);
        drives.all(|member| self.members[usize::from(member.0)].discards)
    }

    /// Slots of a volume whose drives had an older record than others when the array was assembled.
    pub(crate) fn behind(&self, volume: &VolumeRecord) -> SlotSet {
        let is_behind = |member: MemberId| {
            let record = self.members.get(usize::from(member.0));
            record.is_some_and(|record| record.behind)
        };
        let slots = (0u8..).zip(&volume.slots);
        slots
            .filter(|(_, slot)| slot.member.is_some_and(is_behind))
            .fold(SlotSet(0), |set, (slot, _)| set.with(Slot(slot)))
    }
}

impl Record {
    /// The slot that a returning drive may take if only what the bitmaps mark is copied to it. `None` if some
    /// volume has a current drive in that slot, may have cleared bits since the drive left, or is not started.
    #[must_use]
    pub fn may_return(&self, returning: Returning) -> Option<Slot> {
        let Returning { slot, generation } = returning;
        let lacks = |volume: &VolumeRecord| {
            let place = volume.slots.get(slot.0 as usize);
            let is_known = volume
                .bitmap
                .as_ref()
                .is_none_or(|bitmap| generation >= bitmap.cleared_generation);
            let is_empty = place.is_some_and(|place| !place.current);
            is_known && is_empty && !volume.not_started
        };
        self.volumes.iter().all(lacks).then_some(slot)
    }
}

/// What a background job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobKind {
    /// Establish redundancy, for the first time or after a crash.
    Sync,
    /// Fill the drive in this slot from the others.
    Rebuild(Slot),
    /// Copy the slot's drive to another drive while it stays in service.
    Replace(Slot, MemberId),
    /// Read everything and compare.
    Check {
        /// Recompute redundancy from data where it does not match.
        repair: bool,
    },
}

impl JobKind {
    /// The slot that is filled or copied, and the drive to which it is copied.
    #[must_use]
    pub fn slot_and_copy(self) -> (Option<Slot>, Option<MemberId>) {
        match self {
            JobKind::Rebuild(slot) => (Some(slot), None),
            JobKind::Replace(slot, to) => (Some(slot), Some(to)),
            JobKind::Sync | JobKind::Check { .. } => (None, None),
        }
    }
}

/// A background job as the shards see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobView {
    /// Distinguishes this job from earlier ones.
    pub id: u32,
    /// What to do.
    pub kind: JobKind,
    /// Where the job started in this session: bands below this one were done before.
    pub from_band: u64,
    /// All shards have finished the bands below this one.
    pub done_band: u64,
    /// Bytes of each member per second and shard; 0 is unlimited.
    pub rate_bytes_per_s: u64,
    /// Keep the position and do nothing.
    pub paused: bool,
    /// Only regions that the bitmap marks have to be done.
    pub marked_only: bool,
}

/// What shards may do with one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeView {
    /// Drives by slot, failed ones included; `None` is missing.
    pub slots: Vec<Option<MemberId>>,
    /// State of the rows that the job does not change.
    pub row: RowView,
    /// The dirty mark is durable and no fence is up.
    pub writes_allowed: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Refuse writes, and end with errors those that wait for something to be recorded: it will never be.
    pub writes_stopped: bool,
    /// Every drive of the volume can discard. Otherwise a discard by a client changes nothing on any of them.
    pub discards: bool,
    /// More members are lost than the level survives.
    pub failed: bool,
    /// Refuse everything: the volume is being stopped.
    pub stopping: bool,
    /// The background job, if any.
    pub job: Option<JobView>,
}

impl VolumeView {
    /// Whether writes are refused.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.read_only || self.writes_stopped
    }

    /// Whether it is useless to wait for something to be recorded.
    pub(crate) fn records_nothing(&self) -> bool {
        self.failed || self.writes_stopped
    }
}

/// What shards may do. Replaced as a whole; every change is a new epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerView {
    /// Increases with every change.
    pub epoch: u64,
    /// By volume.
    pub volumes: Vec<VolumeView>,
    /// Drives that must not be used any more.
    pub failed: MemberSet,
    /// Drives that need a flush for durability.
    pub volatile: MemberSet,
    /// Drives that are regular files.
    pub files: MemberSet,
    /// Ranges of members that must not be read.
    pub bad_blocks: BadBlocks,
}

impl ContainerView {
    /// Whether a drive is a device or a file, which decides the meaning of its errors.
    #[must_use]
    pub fn kind_of(&self, member: MemberId) -> MemberKind {
        if self.files.has(member) {
            MemberKind::File
        } else {
            MemberKind::Device
        }
    }
}
