//! The messages between shards, the controller and the operator. All of them travel as
//! [`crate::world::Input::Message`] and [`crate::world::World::send`], so that a simulated world can delay and
//! reorder them.

use crate::control::bad_blocks::{BadBlockChange, Recorded};
use crate::control::record::{ContainerView, Returning};
use crate::policy::{ErrorClass, MemberKind};
use crate::request::{Failure, Operation};
use crate::token::Token;
use crate::units::{Buffer, MemberId, MemberSet, ShardId, Slot, VolumeId};
use alloc::sync::Arc;

/// A piece of a request on its way to the shard that owns its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The asking shard.
    pub from: ShardId,
    /// The asking shard's name for the request.
    pub ticket: u32,
    /// What to do.
    pub operation: Operation,
    /// The write must be durable before it is acknowledged.
    pub fua: bool,
    /// For a read: some block of it could not be read, and the owner is to find it and write it back.
    pub repairs: bool,
    /// The drive that could not serve this range when the asking shard tried.
    pub tried: Option<MemberId>,
    /// The volume.
    pub volume: VolumeId,
    /// First byte in the volume.
    pub offset_bytes: u64,
    /// Length within one row.
    pub length_bytes: u32,
    /// Payload; owned by the asking shard.
    pub buffer: Buffer,
}

/// An operator's order to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Stop using a member, as if it had failed.
    Fail(MemberId),
    /// As [`Command::Fail`], even if volumes fail as a result. Their failure does not go on record: they start
    /// again with the member.
    FailWithVolumes(MemberId),
    /// Forget a failed member or a spare.
    Remove(MemberId),
    /// Asks whether [`Command::AddSpare`] would be carried out, and changes nothing. To be sent before anything
    /// is written to the drive, so that a refused drive keeps its content.
    MayAddSpare {
        /// Its number.
        member: MemberId,
        /// Its capacity.
        size_bytes: u64,
        /// As in [`Command::AddSpare`].
        returns: Option<Returning>,
    },
    /// A new drive is attached and may be used as a spare.
    AddSpare {
        /// Its number.
        member: MemberId,
        /// Its capacity.
        size_bytes: u64,
        /// Its cache.
        volatile_cache: bool,
        /// What it is.
        kind: MemberKind,
        /// Whether it can discard.
        discards: bool,
        /// Set if the drive has been a member before and lacks only what the bitmaps mark.
        returns: Option<Returning>,
    },
    /// Copy the drive in `slot` to the spare `to` while the drive stays in service.
    Replace {
        /// The volume.
        volume: VolumeId,
        /// The slot to vacate.
        slot: Slot,
        /// The spare.
        to: MemberId,
    },
    /// Fill the empty slots of a degraded volume with spares, even if [`crate::options::Options`] do not let the
    /// engine do so by itself. Carried out as soon as other work of these drives has ended.
    Rebuild(VolumeId),
    /// Read everything and compare; with `repair`, correct what does not match.
    Scrub {
        /// The volume.
        volume: VolumeId,
        /// Correct mismatches.
        repair: bool,
    },
    /// Continue a scrub that an earlier process left unfinished.
    ContinueScrub {
        /// The volume.
        volume: VolumeId,
        /// Correct mismatches.
        repair: bool,
        /// Bytes of each member's extent that are done: [`super::jobs::JobStatus::kept_bytes`] of the earlier
        /// scrub.
        from_bytes: u64,
    },
    /// Give up the running scrub or replace of a volume.
    CancelJob(VolumeId),
    /// Pause or resume background work of a volume.
    Pause {
        /// The volume.
        volume: VolumeId,
        /// Pause or resume.
        paused: bool,
    },
    /// Limit background work, bytes of each member per second; 0 is unlimited.
    Rate(u64),
    /// Flush, mark clean, refuse everything from now on.
    Stop,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no such member, slot or volume, or its state does not allow this.
    NoSuch,
    /// The order would lose data.
    WouldLoseData,
    /// Other background work of these drives has to end first.
    Busy,
    /// The drive is smaller than what it has to hold.
    TooSmall,
    /// More has been written without the drive than the bitmaps mark.
    Outdated,
    /// There is no drive to rebuild onto.
    NoSpare,
    /// The drive reports that it cannot be written any more.
    NotWritable,
    /// The level has no redundancy to work with.
    NoRedundancy,
    /// The array is being stopped.
    Stopping,
}

/// The outcome of a flush that the controller has requested. It does not name the members: a set of them would
/// make every message, and with it every request, larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushOutcome {
    /// All members are flushed.
    Complete,
    /// Some members failed to flush; the failure of each is reported separately.
    Missed,
    /// No member was flushed, because no plan was free: the flush has to be requested again.
    Busy,
}

/// A message. See the module's prose.
#[derive(Clone, Debug)]
pub enum Message {
    /// Shard to owner.
    Forward(Forward),
    /// Owner to shard: the answer to a [`Forward`].
    ForwardDone {
        /// The ticket of the forward.
        ticket: u32,
        /// The outcome.
        result: Result<(), Failure>,
    },
    /// Owner to shard: see [`crate::world::World::pin`].
    Pin(Buffer),
    /// Owner to shard: see [`crate::world::World::release`].
    Release(Buffer),
    /// Shard to controller: a write waits for the volume to be marked dirty.
    WriteIntent(VolumeId),
    /// Shard to controller: the shard has not written to this volume for a while, or writes again.
    Idle {
        /// Which shard.
        shard: ShardId,
        /// The volume.
        volume: VolumeId,
        /// Whether it is idle now.
        idle: bool,
    },
    /// Shard to controller: a member must be failed.
    MemberFailed {
        /// The member.
        member: MemberId,
        /// Why.
        class: ErrorClass,
        /// The operating system's number.
        errno: i32,
    },
    /// World to controller: a member's cache used to survive a loss of power and does not any more.
    CacheTurnedVolatile(MemberId),
    /// World to controller: a member has refused to discard, and zeros were written instead.
    DiscardRefused(MemberId),
    /// World to controller: these members report that they are about to fail, and no others do. One of them that is a
    /// spare takes a slot only if no other spare fits.
    AboutToFail(MemberSet),
    /// World to controller: these members report that they cannot be written any more, and no others do. One of them that
    /// is a spare takes no slot.
    NotWritable(MemberSet),
    /// Shard to controller: the shard uses the view of this epoch; work that the view forbids may still be under
    /// way.
    EpochAdopted {
        /// Which shard.
        shard: ShardId,
        /// The epoch.
        epoch: u64,
    },
    /// Shard to controller: the shard uses the view of this epoch, and work that the view forbids has drained.
    EpochConfirmed {
        /// Which shard.
        shard: ShardId,
        /// The epoch.
        epoch: u64,
    },
    /// Shard to controller: how far a job has come.
    Progress {
        /// Which shard.
        shard: ShardId,
        /// The volume.
        volume: VolumeId,
        /// The job's number.
        job: u32,
        /// All owned bands below are done.
        band: u64,
        /// Mismatches found by this shard since the job began.
        mismatches: u64,
        /// Bands that could not be done, since the job began.
        failures: u64,
        /// The shard has given the job up.
        given_up: bool,
    },
    /// Operator to the owner of a row: lock the stripe with this byte against writes, so that its members can be
    /// read and compared. Answered by [`crate::event::Event::Inspectable`].
    Inspect {
        /// The operator's name for it.
        ticket: u64,
        /// The volume.
        volume: VolumeId,
        /// Which stripe: any byte of the volume in it.
        offset_bytes: u64,
    },
    /// Operator to all shards: unlock the stripe that is locked under this name.
    Inspected {
        /// The name.
        ticket: u64,
    },
    /// Shard 0 to controller: the outcome of a flush.
    Flushed {
        /// The controller's number of the flush.
        ticket: u32,
        /// The outcome.
        outcome: FlushOutcome,
    },
    /// Shard to controller: the bad-block log has to change; the step waits for
    /// [`Message::BadBlocksSettled`].
    BadBlocks {
        /// Which shard.
        shard: ShardId,
        /// The step.
        token: Token,
        /// The member that the range lies on.
        member: MemberId,
        /// First byte of the range on the member.
        offset_bytes: u64,
        /// Length of the range.
        length_bytes: u32,
        /// What happened to the range.
        change: BadBlockChange,
    },
    /// Controller to shard: the change is on record and every shard has adopted it, or it cannot be recorded.
    BadBlocksSettled {
        /// The step.
        token: Token,
        /// The requested change.
        change: BadBlockChange,
        /// The outcome.
        outcome: Recorded,
    },
    /// Shard to the bitmap's keeper, on the controller's shard: writes wait for the bits of these regions.
    WantRegions {
        /// Which shard.
        shard: ShardId,
        /// The volume.
        volume: VolumeId,
        /// The first and the last.
        regions: (u32, u32),
    },
    /// Keeper to shards: the bits of these regions are durable on all members.
    RegionsMarked {
        /// The volume.
        volume: VolumeId,
        /// The first and the last.
        regions: (u32, u32),
    },
    /// Keeper to shards: before the next write to a region that has been at rest, request its bit again.
    CloseRegions {
        /// The volume.
        volume: VolumeId,
    },
    /// Shard to keeper: the answer to [`Message::CloseRegions`].
    RegionsClosed {
        /// Which shard.
        shard: ShardId,
        /// The volume.
        volume: VolumeId,
        /// Regions that are not at rest, as bits.
        busy: Arc<[u64]>,
    },
    /// Keeper to shards: the bits of these regions are cleared.
    RegionsCleared {
        /// The volume.
        volume: VolumeId,
        /// The regions, as bits.
        cleared: Arc<[u64]>,
    },
    /// Controller to all shards: the new view.
    View(Arc<ContainerView>),
    /// Controller to all shards: the record no longer counts on these members, and every shard has adopted that.
    /// Writes that they missed may be acknowledged.
    FailureDurable(MemberSet),
    /// Operator to controller: an order.
    Command {
        /// The operator's name for it; answered by an event.
        ticket: u64,
        /// What to do.
        command: Command,
    },
}
