//! The fault budget: what an array has to survive in which state. In
//! [`Mode::Survivable`](crate::history::Mode::Survivable), faults that the table does not allow are left out of a
//! history.
//!
//! | state of a volume | members that may be lost or unreadable besides | process crash, power cut |
//! |---|---|---|
//! | RAID 0 | 0 | yes |
//! | RAID 0 beside a redundant volume | as for that volume; requests to the RAID 0 may fail then | as for that volume |
//! | RAID 1, RAID 10, in sync or a resync under way or due | all but one of each mirror | yes |
//! | RAID 5, in sync | 1 | yes |
//! | any, initial sync under way; RAID 5, resync under way | 0 | yes |
//! | any, rebuilding, until its end is on record and every shard has adopted it | 0 of the drives that the rebuild reads; its target may be lost | as degraded |
//! | RAID 5, degraded or about to be, clean | 0 | yes |
//! | RAID 5, degraded or about to be, dirty, no write-hole log | 0 | no: the start would be refused |
//! | RAID 5, dirty, with a write-hole log | 1, but writes in flight to it may be lost | yes, unless a remaining drive is defective |
//! | any, a metadata update under way | - | yes, but no drive may be tampered with then |
//! | any, after a replacement whose job has not ended | the replaced drive counts as a member in service | yes |
//!
//! A drive is defective when some of its sectors cannot be read, or when it fails some commands: then its log, or
//! the data that the log describes, may be unreadable at the start. A drive that is gone does not count as
//! defective.
//!
//! A member counts as lost from the moment at which a fault may make the array drop it, whether or not the array
//! has noticed the fault.

use engine::control::record::{Record, SyncKind, VolumeRecord};
use engine::layout::Level;
use engine::units::{MemberId, Slot, SlotSet};

/// The state that the budget depends on.
pub struct State<'a> {
    /// The record that the array wants to be durable.
    pub record: &'a Record,
    /// By member: it may be dropped, or some of its sectors cannot be read.
    pub suspect: &'a [bool],
    /// Some drive that is in service, or would be found after a crash, is defective.
    pub has_defective: bool,
    /// By volume: slots that are current in every record that a crash may leave, and in the view of every shard.
    pub durable_slots: &'a [SlotSet],
    /// By volume: it has no redundancy, and the only requirement is that it returns no wrong bytes.
    pub lenient: &'a [bool],
    /// No update of the metadata is under way.
    pub is_durable: bool,
}

/// Whether a volume's redundancy is established, so that it does not depend on a sync. Copies of a mirror that a
/// crash has left unequal are both right, and become equal where they are read.
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

    /// Slots with a current drive that is not suspect, not counting `without`.
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
            // A slot whose rebuild has just ended is not current yet for a shard that has not adopted the new
            // view.
            let left = SlotSet(self.sure_slots(volume, Some(member)).0 & durable.0);
            has_redundancy(volume) && volume.geometry.survives(left)
        })
    }

    /// Whether an interrupted write leaves no wrong parity: the volume has none, or a log that can be replayed.
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
            // While an update clears the dirty mark, the mark is still on some drives.
            let dirty = volume.dirty || !self.is_durable;
            let parity_doubtful = dirty && !self.is_settled_by_log(volume);
            volume.geometry.survives(sure) && (whole || !parity_doubtful)
        })
    }

    /// Whether a drive may be tampered with while the array does not run; `stopped` says whether it was stopped
    /// in order.
    #[must_use]
    pub fn may_meddle(&self, member: MemberId, stopped: bool) -> bool {
        let doubtful = |volume: &VolumeRecord| {
            let stays_dirty = volume.then_resync || volume.sync.is_some();
            let interrupted = volume.dirty && !stopped && !self.is_settled_by_log(volume);
            // A mirror that a resync is making equal may lose a drive, but if one drive has an old record,
            // nothing tells which copy is right.
            let is_unequal = volume.then_resync
                || (volume.sync).is_some_and(|sync| !matches!(sync.kind, SyncKind::Rebuild(_)));
            let is_parity = volume.geometry.level == Level::Raid5;
            is_unequal || (is_parity && (stays_dirty || interrupted))
        };
        let mut volumes = self.judged().map(|(volume, _)| volume);
        self.is_durable && self.may_lose(member) && !volumes.any(doubtful)
    }
}
