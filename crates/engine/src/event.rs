//! Typed events: what people and programs outside should hear about. The world prints, counts or
//! forwards them; the engine never formats text for people.

use crate::control::bad_blocks::BadRange;
use crate::control::message::Refused;
use crate::policy::ErrorClass;
use crate::units::{MemberId, Slot, SlotSet, VolumeId};

/// Background work, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobName {
    /// First establishment of redundancy.
    InitialSync,
    /// Redundancy after a crash.
    Resync,
    /// Filling a new drive.
    Rebuild,
    /// Copying a drive in service.
    Replace,
    /// Reading and comparing.
    Check,
    /// Reading, comparing, correcting.
    Repair,
}

/// How a volume is left when the array stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeEnd {
    /// Flushed, and on record as clean.
    Clean,
    /// Flushed; its level has no redundancy that could be in doubt, so nothing is marked.
    Flushed,
    /// Flushed, and still on record as dirty: a crash has put its redundancy in doubt, and a drive is missing.
    StaysDirty,
    /// Flushed, and still on record as dirty: the metadata cannot express that it is clean.
    CleanNotRecorded,
    /// Nothing was written.
    OnlyRead,
    /// The metadata could not express what writes depend on: it has refused them. Flushed, and marked as it was.
    WritesStopped,
    /// It had lost more members than it survives: not flushed, and marked as it was.
    Failed,
}

/// A change that the metadata cannot express and that the array does without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotRecorded {
    /// Background work has come further: after a restart it continues from the checkpoint that is on record.
    Checkpoint,
    /// The volume is clean: it stays marked dirty.
    Clean,
    /// Redundancy has been established: it is established once more, after a restart or by an order.
    SyncEnd,
    /// A drive is to be filled: that does not begin.
    RebuildBegin,
}

/// Something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A member is not used any more.
    MemberFailed {
        /// The member.
        member: MemberId,
        /// Why.
        class: ErrorClass,
        /// The operating system's number; 0 when an operator asked for it.
        errno: i32,
    },
    /// The failure is on record on every surviving member.
    FailureRecorded(MemberId),
    /// A volume lost more members than its level survives.
    VolumeFailed(VolumeId),
    /// The metadata cannot express what writes to a volume depend on: it refuses them from now on.
    WritesStopped(VolumeId),
    /// The metadata cannot express a change that no write depends on: the array does without it.
    NotRecorded {
        /// The volume.
        volume: VolumeId,
        /// The change.
        change: NotRecorded,
    },
    /// A member's I/O has been outstanding for longer than the deadline.
    MemberOverdue(MemberId),
    /// A member's cache does not outlast the loss of power any more: it is flushed from now on.
    CacheTurnedVolatile(MemberId),
    /// A member has refused to discard: trims of its volumes change nothing from now on.
    DiscardRefused(MemberId),
    /// A spare took a slot.
    SpareActivated {
        /// The volume.
        volume: VolumeId,
        /// The slot.
        slot: Slot,
        /// The drive.
        member: MemberId,
        /// It reports that it is about to fail, and no other spare fits.
        about_to_fail: bool,
    },
    /// A slot stays empty, because no spare fits but one that reports that it cannot be written any more.
    SpareNotWritable {
        /// The volume.
        volume: VolumeId,
        /// The slot.
        slot: Slot,
        /// The spare.
        member: MemberId,
    },
    /// Background work began.
    JobStarted {
        /// The volume.
        volume: VolumeId,
        /// The kind of work.
        job: JobName,
        /// The slot that is filled or copied.
        slot: Option<Slot>,
        /// The drive that is filled for it.
        member: Option<MemberId>,
    },
    /// Background work ended.
    JobEnded {
        /// The volume.
        volume: VolumeId,
        /// The kind of work.
        job: JobName,
        /// Whether it ran to its end.
        complete: bool,
        /// Stripes that did not match.
        mismatches: u64,
        /// Stripes that could not be done; for a drive that was filled, blocks of 4 KiB.
        failures: u64,
    },
    /// A stripe's redundancy did not match its data.
    Mismatch {
        /// The volume.
        volume: VolumeId,
        /// First byte of the volume in that stripe.
        offset_bytes: u64,
        /// First byte of the stripe in each member's extent.
        member_offset_bytes: u64,
        /// The slots that were compared and do not agree.
        slots: SlotSet,
        /// Whether it was corrected.
        repaired: bool,
    },
    /// A block that a member could not read was reconstructed and written back.
    ReadRepaired {
        /// The member.
        member: MemberId,
        /// First byte on the drive.
        offset_bytes: u64,
        /// Length.
        length_bytes: u32,
    },
    /// A range of a member is on record as lost: reads of it are errors until it is written.
    BadBlocksRecorded(BadRange),
    /// What was on record about a range has been cleared, because it was written.
    BadBlocksCleared(BadRange),
    /// The bad-block log has no room for what would have to be recorded of a member.
    BadBlockLogFull(MemberId),
    /// Data that could neither be read nor reconstructed.
    Unrecoverable {
        /// The volume.
        volume: VolumeId,
        /// First byte of the volume.
        offset_bytes: u64,
    },
    /// The volume was marked dirty or clean on all members.
    DirtyMark {
        /// The volume.
        volume: VolumeId,
        /// Dirty or clean.
        dirty: bool,
    },
    /// The stripe that [`crate::control::message::Message::Inspect`] asked for is kept unchanged.
    Inspectable {
        /// The ticket of the tool that asked.
        ticket: u64,
    },
    /// It is not kept unchanged any more, or never was.
    InspectionEnded {
        /// The ticket of the tool that asked.
        ticket: u64,
        /// Whether it was unchanged until [`crate::control::message::Message::Inspected`].
        held: bool,
    },
    /// The answer to a command.
    Answered {
        /// The command's ticket.
        ticket: u64,
        /// Whether it is being carried out.
        result: Result<(), Refused>,
    },
    /// How stopping has left a volume; reported for each one before [`Event::Stopped`].
    VolumeStopped {
        /// The volume.
        volume: VolumeId,
        /// How.
        end: VolumeEnd,
    },
    /// No request is served any more, and the record is durable wherever it can be.
    Stopped,
}
