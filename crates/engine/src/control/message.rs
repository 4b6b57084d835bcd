//! What shards, the controller and the operator say to each other. All of it travels as
//! [`crate::world::Input::Message`] and [`crate::world::World::send`], so that a simulated world can
//! delay and reorder it.

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
    /// Who asks.
    pub from: ShardId,
    /// The asking shard's name for the request.
    pub ticket: u32,
    /// What to do.
    pub operation: Operation,
    /// Durable before acknowledged.
    pub fua: bool,
    /// A read, because some block of it could not be read: it is to be found and written back.
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
    /// The same, although volumes may fail by it. That does not go on record: they start again with the member.
    FailWithVolumes(MemberId),
    /// Forget a failed member or a spare.
    Remove(MemberId),
    /// Would [`Command::AddSpare`] be carried out? Changes nothing. To be asked before anything is written to the
    /// drive, so that one that is refused keeps what it holds.
    MayAddSpare {
        /// Its number.
        member: MemberId,
        /// Its capacity.
        size_bytes: u64,
        /// As there.
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
        /// It has been a member before, and lacks only what the bitmaps mark.
        returns: Option<Returning>,
    },
    /// Copy the drive in `slot` to the spare `to` while it stays in service.
    Replace {
        /// The volume.
        volume: VolumeId,
        /// The slot to vacate.
        slot: Slot,
        /// The spare.
        to: MemberId,
    },
    /// Fill the empty slots of a degraded volume with spares, whatever [`crate::options::Options`] say
    /// about doing so unasked. Carried out as soon as other work of these drives has ended.
    Rebuild(VolumeId),
    /// Read everything and compare; with `repair`, correct what does not match.
    Scrub {
        /// The volume.
        volume: VolumeId,
        /// Correct mismatches.
        repair: bool,
    },
    /// Go on with a scrub that an earlier process left unfinished.
    ContinueScrub {
        /// The volume.
        volume: VolumeId,
        /// Correct mismatches.
        repair: bool,
        /// Bytes of each member's extent that are done: [`super::jobs::JobStatus::kept_bytes`] then.
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
    /// No such member, slot or volume, or it is not in a state for this.
    NoSuch,
    /// The array would not survive it.
    WouldLoseData,
    /// Other background work of these drives has to end first.
    Busy,
    /// The drive is smaller than what it has to hold.
    TooSmall,
    /// More has been written without the drive than the bitmaps mark.
    Outdated,
    /// There is no drive to rebuild onto.
    NoSpare,
    /// The level has no redundancy to work with.
    NoRedundancy,
    /// The array is being stopped.
    Stopping,
}

/// What came of a flush that the controller has asked for. It does not name the members: every message, and with it every
/// request, would pay for a set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushOutcome {
    /// All members are flushed.
    Complete,
    /// Some failed to; the failure of each is told by itself.
    Missed,
    /// None was asked, because no plan was free: to be asked for again.
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
        /// What became of it.
        result: Result<(), Failure>,
    },
    /// Owner to shard: see [`crate::world::World::pin`].
    Pin(Buffer),
    /// Owner to shard: see [`crate::world::World::release`].
    Release(Buffer),
    /// Shard to controller: a write waits for the volume to be marked dirty.
    WriteIntent(VolumeId),
    /// Shard to controller: no write of this volume for a while, or writes again.
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
    /// World to controller: a member's cache, which kept what it had acknowledged when the power went, does so no
    /// more.
    CacheTurnedVolatile(MemberId),
    /// World to controller: a member has refused to discard, and got zeros written in place of that.
    DiscardRefused(MemberId),
    /// Shard to controller: the view of this epoch is in use; what it forbids may still be under way.
    EpochAdopted {
        /// Which shard.
        shard: ShardId,
        /// The epoch.
        epoch: u64,
    },
    /// Shard to controller: the view of this epoch is in use and what it forbids has drained.
    EpochConfirmed {
        /// Which shard.
        shard: ShardId,
        /// The epoch.
        epoch: u64,
    },
    /// Shard to controller: how far a job is.
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
        /// The shard does no more for the job.
        given_up: bool,
    },
    /// Operator to the owner of a row: keep the stripe with this byte from being written, so that its
    /// members can be read and compared. Answered by [`crate::event::Event::Inspectable`].
    Inspect {
        /// The operator's name for it.
        ticket: u64,
        /// The volume.
        volume: VolumeId,
        /// Which stripe: any byte of the volume in it.
        offset_bytes: u64,
    },
    /// Operator to all: whoever keeps a stripe still under this name may let it go.
    Inspected {
        /// The name.
        ticket: u64,
    },
    /// Shard 0 to controller: what came of a flush.
    Flushed {
        /// The controller's number of the flush.
        ticket: u32,
        /// What came of it.
        outcome: FlushOutcome,
    },
    /// Shard to controller: the bad-block log has to change; the step waits for
    /// [`Message::BadBlocksSettled`].
    BadBlocks {
        /// Which shard.
        shard: ShardId,
        /// The step.
        token: Token,
        /// What it is about: a member,
        member: MemberId,
        /// the first byte on it,
        offset_bytes: u64,
        /// and the length.
        length_bytes: u32,
        /// What became of that.
        change: BadBlockChange,
    },
    /// Controller to shard: the change is on record and known to every shard, or cannot be.
    BadBlocksSettled {
        /// The step.
        token: Token,
        /// What was wanted.
        change: BadBlockChange,
        /// What came of it.
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
    /// Keeper to shards: write no more to regions that have been at rest, without asking again.
    CloseRegions {
        /// The volume.
        volume: VolumeId,
    },
    /// Shard to keeper: the answer to it.
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
    /// Controller to all: the new view.
    View(Arc<ContainerView>),
    /// Controller to all: the failed marks of these members are durable and confirmed by every shard.
    FailureDurable(MemberSet),
    /// Operator to controller.
    Command {
        /// The operator's name for it; answered by an event.
        ticket: u64,
        /// What to do.
        command: Command,
    },
}
