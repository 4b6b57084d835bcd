//! The fault budget: what an array has to survive in which state. One table; whatever a history wants
//! beyond it is left out in [`Mode::Survivable`](crate::history::Mode::Survivable).
//!
//! | state of a volume | members that may be lost or unreadable besides | process crash, power cut |
//! |---|---|---|
//! | RAID 0 | 0 | yes |
//! | RAID 0 beside a volume that survives something | as that one; its own requests may fail then | as that one |
//! | RAID 1, RAID 10, in sync or a resync under way or due | all but one of each mirror | yes |
//! | RAID 5, in sync | 1 | yes |
//! | any, initial sync under way; RAID 5, resync under way | 0 | yes |
//! | any, rebuilding, until it is on record and every shard knows that it has ended | 0 where the rebuild reads; its target may be lost | as degraded |
//! | RAID 5, degraded or about to be, clean | 0 | yes |
//! | RAID 5, degraded or about to be, dirty, no write-hole log | 0 | no: it would be refused |
//! | RAID 5, dirty, with a write-hole log | 1, but for what is in flight to it | yes, unless a drive that stays is defective |
//! | any, a metadata update under way | - | yes, but no drive may be meddled with then |
//! | any, a drive has been replaced and its job not ended | as if it were in service, and it counts as one of them | yes |
//!
//! A drive is defective when it cannot be read somewhere, or fails some commands: what its log says, or what it
//! is about, may then be unreadable at the start. A drive that is gone is no such thing.
//!
//! A member counts as lost from the moment when something may make the array drop it, whether or not the
//! array knows.

use engine::control::record::{Record, SyncKind, VolumeRecord};
use engine::layout::Level;
use engine::units::{MemberId, Slot, SlotSet};

/// What the budget looks at.
pub struct State<'a> {
    /// What the array wants its metadata to say.
    pub record: &'a Record,
    /// By member: it may be dropped, or cannot be read somewhere.
    pub suspect: &'a [bool],
    /// Some drive that serves, or would be found after a crash, fails some commands.
    pub has_defective: bool,
    /// By volume: slots that are current in every record that a crash may leave, and for every shard.
    pub durable_slots: &'a [SlotSet],
    /// By volume: it survives nothing, and nothing is asked of it but that it reads no wrong bytes.
    pub lenient: &'a [bool],
    /// No update of the metadata is under way.
    pub is_durable: bool,
}

/// Whether what a volume's slots hold together does not hang on one of them for want of a sync. Copies of a mirror
/// that a crash has left unequal are both right, and become equal where they are read.
fn has_redundancy(volume: &VolumeRecord) -> bool {
    let is_parity = volume.geometry.level == Level::Raid5;
    match volume.sync.map(|sync| sync.kind) {
        Some(SyncKind::Initial) => false,
        Some(SyncKind::Resync) => !is_parity,
        Some(SyncKind::Rebuild(_)) | None => !(is_parity && volume.then_resync),
    }
}

impl State<'_> {
    /// Volumes that have to survive something, with their slots that are durably current.
    fn judged(&self) -> impl Iterator<Item = (&VolumeRecord, &SlotSet)> {
        let volumes = self.record.volumes.iter().zip(self.durable_slots);
        let lenient = self.lenient.iter();
        let volumes = volumes.zip(lenient);
        volumes.filter_map(|(volume, &lenient)| (!lenient).then_some(volume))
    }

    fn is_suspect(&self, member: MemberId) -> bool {
        self.suspect
            .get(member.0 as usize)
            .copied()
            .unwrap_or(false)
    }

    /// Slots with a drive that is current and will stay.
    fn sure_slots(&self, volume: &VolumeRecord, without: Option<MemberId>) -> SlotSet {
        let sure = |slot: &Slot| {
            volume.slots[slot.0 as usize]
                .member
                .is_some_and(|member| !self.is_suspect(member) && Some(member) != without)
        };
        volume
            .current_slots()
            .iter()
            .filter(sure)
            .fold(SlotSet(0), SlotSet::with)
    }

    /// Whether a member may be lost, or become unreadable in part.
    #[must_use]
    pub fn may_lose(&self, member: MemberId) -> bool {
        self.judged().all(|(volume, durable)| {
            let Some(slot) = volume.slot_of(member) else {
                return true;
            };
            if !volume.slots[slot.0 as usize].current {
                return true;
            }
            // A slot whose rebuild has just ended is not current yet for a shard that has not heard of it.
            let left = SlotSet(self.sure_slots(volume, Some(member)).0 & durable.0);
            has_redundancy(volume) && volume.geometry.survives(left)
        })
    }

    /// Whether what an interrupted write leaves is settled: there is no parity, or a log that can be replayed.
    fn is_settled_by_log(&self, volume: &VolumeRecord) -> bool {
        let is_synced = volume
            .sync
            .is_none_or(|sync| matches!(sync.kind, SyncKind::Rebuild(_)));
        let is_replayed = volume.log.is_some() && is_synced && !self.has_defective;
        volume.geometry.level != Level::Raid5 || is_replayed
    }

    /// Whether the process may end without warning.
    #[must_use]
    pub fn may_crash(&self) -> bool {
        self.judged().all(|(volume, durable)| {
            let sure = SlotSet(self.sure_slots(volume, None).0 & durable.0);
            let whole = sure.count() == u32::from(volume.geometry.members);
            // A mark that is being taken back is still on the drives.
            let dirty = volume.dirty || !self.is_durable;
            let parity_doubtful = dirty && !self.is_settled_by_log(volume);
            volume.geometry.survives(sure) && (whole || !parity_doubtful)
        })
    }

    /// Whether drives may be meddled with while the array does not run, after it was stopped in order
    /// or not.
    #[must_use]
    pub fn may_meddle(&self, member: MemberId, stopped: bool) -> bool {
        let doubtful = |volume: &VolumeRecord| {
            let stays_dirty = volume.then_resync || volume.sync.is_some();
            let interrupted = volume.dirty && !stopped && !self.is_settled_by_log(volume);
            // A mirror that a resync makes equal may lose a drive; with an old record on one, nothing tells who is
            // right.
            let is_unequal = volume.then_resync
                || (volume.sync).is_some_and(|sync| !matches!(sync.kind, SyncKind::Rebuild(_)));
            let is_parity = volume.geometry.level == Level::Raid5;
            is_unequal || (is_parity && (stays_dirty || interrupted))
        };
        let mut volumes = self.judged().map(|(volume, _)| volume);
        self.is_durable && self.may_lose(member) && !volumes.any(doubtful)
    }
}
