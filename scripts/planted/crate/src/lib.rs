//! Bugs that tests plant, to see whether they are found.
//!
//! Each breaks one rule that keeps data safe, at the place in the code that keeps it. The places are in
//! `scripts/planted/patches`, one file per bug; the code itself does not know of them. A test lane applies all patches
//! to a copy of the source, builds it once, and activates one bug at a time for a whole process. It then shows which
//! tests or histories of faults notice the bug. A bug that nothing notices is a gap in the tests.

/// The environment variable that names the bug to plant.
pub const VARIABLE: &str = "FULLSTRIPE_PLANTED_BUG";

/// Whether the bug with this name is planted; the patches call it.
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted($crate::Bug::$bug)
    };
}

macro_rules! bugs {
    ($($(#[doc = $rule:literal])+ $bug:ident,)*) => {
        /// A broken rule.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $rule])+ $bug,)*
        }

        impl Bug {
            /// All bugs.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];

            /// Its name, as the tables write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Bug::$bug => stringify!($bug),)* }
            }

            /// What the bug does, in a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($rule),+),)* }
            }
        }
    };
}

bugs! {
    /// A write is acknowledged before the failure of a member that missed it is on record.
    AcknowledgedBeforeRecord,
    /// A record that the metadata cannot express counts as durable.
    InexpressibleIsDurable,
    /// Of a record that the metadata cannot express, what it can is written.
    InexpressibleInPart,
    /// A failed member is left out and its failure not recorded.
    FailureNotMarked,
    /// A failure counts as recorded before it is durable.
    FailureAnnouncedEarly,
    /// A failure is announced before every shard has adopted the view without the member.
    EpochNotAwaited,
    /// What a failed member answers late counts as if it were in service.
    LateAnswerCounts,
    /// A loss beyond redundancy is recorded as if the volume went on.
    HopelessLossRecorded,
    /// A write that its member did not take is not held against the member.
    MissedWriteIgnored,
    /// Other shards learn of a member's failure by messages only.
    FailureKeptToOneself,
    /// A failed flush is tried again.
    FlushRetried,
    /// What a member says that it does not offer counts as done.
    NotSupportedIsDone,
    /// A volume discards although one of its drives cannot.
    DiscardsApart,
    /// A drive whose cache turns volatile is not flushed.
    TurnedVolatileIgnored,
    /// Time in which the process stood still counts against the drives.
    StandstillCounted,
    /// A failure goes on record before others are heard, although all members may have the same.
    HostBlamesDrives,
    /// A hung member is not failed at its deadline.
    HungMemberKept,
    /// Memory that a hung member may still write to is not pinned.
    PinsForgotten,
    /// The dirty mark is not set.
    DirtyForgotten,
    /// Writes begin before the dirty mark is durable.
    DirtyNotWaitedFor,
    /// A volume is marked clean while shards write.
    CleanWithoutFence,
    /// A volume is marked clean before its members are flushed.
    CleanWithoutFlush,
    /// A stop does not wait for the marks.
    StoppedWhileDirty,
    /// Writes begin although the record has not moved on since the array was started.
    StartNotRecorded,
    /// Mirrors that may differ get the content of a drive whose record is older than the others'.
    ResyncFromOlder,
    /// What mirrors get from a source that the next start will not choose is not made durable.
    SourceForgotten,
    /// A copy of a drive from before the array was started may come back by the bitmap.
    OldCopyReturns,
    /// A drive that volumes have waited for is written after those that list it again.
    TakenBackLast,
    /// A loss is put on record for volumes that do not go on without the drive.
    LossRecordedEverywhere,
    /// An update goes to all members at once.
    RecordWrittenEverywhere,
    /// An update counts as durable when half of the members have it.
    HalfIsEnough,
    /// An update is written to one half of the members only.
    MarkOnOneHalf,
    /// Records are written without their shadow.
    ShadowForgotten,
    /// Shadows and notes that a newer version wrote are overwritten.
    NewerOverwritten,
    /// The shadow is written after the record that it is to protect.
    ShadowAfterRecord,
    /// A checkpoint is recorded before what it covers is flushed.
    CheckpointBeforeFlush,
    /// A checkpoint covers one band more than was done.
    CheckpointTooFar,
    /// A rebuild ends before its drive is flushed.
    RebuildNotFlushed,
    /// A rebuild begins before it is on record.
    JobBeforeRecord,
    /// The mark of a background job is one band too high.
    HighWaterMarkTooHigh,
    /// Writes below the mark of a rebuild do not go to the new drive.
    WritesMissNewDrive,
    /// Background work does not wait for writes to the same range.
    JobWithoutRange,
    /// A rebuild that was given up goes on from its checkpoint.
    GivenUpCheckpointKept,
    /// A rebuild is given up before the record says that its drive has nothing.
    GivenUpBeforeRecord,
    /// A spare takes a slot before it is decided whether the failure of the drive there goes on record.
    FilledBeforeDecided,
    /// A drive that is removed leaves its slot in a failed volume that needs it back.
    RemovedFromFailed,
    /// Shards read from a replacing drive before the record that names it is durable.
    SwitchBeforeRecord,
    /// A replaced drive gets no writes any more while shards still read from it.
    ReplacedDriveLeftEarly,
    /// A replacement whose record is under way is given up for another drive's failure.
    SwitchGivenUp,
    /// A write that has waited for room is counted twice as being carried out: the volume is never clean again.
    WaitingWriteCountedTwice,
    /// Parity and mirrors that were never established are relied on.
    UnsyncedTrusted,
    /// Parity that is not established is read and modified.
    UnsyncedParityModified,
    /// A mirror that is not in sync is read from any copy.
    MirrorReadsAnywhere,
    /// What is read of mirrors that may differ is not made equal.
    CopiesLeftUnequal,
    /// Writes go without the write-hole log.
    LogSkipped,
    /// Writes of full rows go without an entry in the log.
    FullRowUnlogged,
    /// Zeroed rows go without an entry in the log.
    ZeroesUnlogged,
    /// Partial parity is logged without one of the chunks that it is made of.
    PartialParityIncomplete,
    /// A lost chunk and others change by one entry of the log.
    LostChunkWithOthers,
    /// The next unit of a log is written before what the last one stands for is durable.
    NextUnitEarly,
    /// What cannot be logged is written before the failure is on record.
    UnloggedBeforeRecord,
    /// The next unit of a log is written although a drive failed with what the last one stands for in its cache.
    UnflushedForgotten,
    /// Parity of the last row of every turn lies in a neighbour's slot.
    WrongParitySlot,
    /// A flush leaves out a member.
    FlushMissesMember,
    /// FUA is acknowledged from the volatile cache.
    FuaIgnored,
    /// Writes that overlap run at the same time.
    LocksOverlap,
    /// Reconstruction and its repair do not wait for writes to the same range.
    RepairWithoutRange,
    /// What was reconstructed for an unreadable block is not written back.
    RepairForgotten,
    /// Shards claim bands of mirrors that are another's.
    ClaimsIgnored,
    /// A crash while degraded is not followed by a resync of the other mirrors.
    ResyncForgotten,
    /// A volume that was not stopped cleanly is started without a resync.
    CrashForgotten,
    /// A member that is out of sync is used as current.
    StaleMemberUsed,
    /// A member that is several records behind serves.
    StaleRecordServes,
    /// A member that others have marked failed serves.
    FailedMarkIgnored,
    /// Halves that went on without each other are put together.
    SplitHalvesMerged,
    /// A dirty mark in the older half of an interrupted update is forgotten.
    DirtyNotUnited,
    /// A volume starts without a member, and nobody was asked.
    DegradedUnasked,
    /// A volume starts without a member and does not record that.
    AbsenceNotRecorded,
    /// A RAID 5 that is dirty and lacks a member is started without a log.
    DirtyDegradedStarted,
    /// An update that was cut off is not finished before the next.
    UpdateLeftUnfinished,
    /// A shadow serves although the record of its drive is whole.
    ShadowOverRecord,
    /// The write-hole log is not replayed.
    ReplayForgotten,
    /// The oldest unit of a log is replayed instead of the newest.
    OldestUnitReplayed,
    /// A unit of a log is replayed although not all of it was written.
    TornUnitReplayed,
    /// Logs are not emptied at a start.
    OldLogKept,
    /// What a killed server has taken from a guest is not carried out by the next one.
    ChainForgotten,
    /// The next server takes from the ring what the one before has taken.
    ChainTakenTwice,
    /// A request of a guest is carried out and not noted in the area of requests in flight.
    ChainNotNoted,
    /// The note of a request in flight is cleared before its guest can see the answer.
    ChainClearedEarly,
    /// The note of a request in flight is kept when its guest has seen the answer.
    ChainKept,
    /// A server does not tell a guest of answers that the one before has left.
    GuestNotTold,
    /// Writes of a guest that knows no flushes are answered before they are durable.
    GuestWritesVolatile,
    /// Memory of a client that a hung drive may still use goes to the next request.
    HeldMemoryFreed,
}

/// The number for no bug, and the number before the environment variable has been read.
const NONE: u8 = 254;
const NOT_LOOKED: u8 = 255;

/// The bug that is planted, by its number.
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(NOT_LOOKED);

/// Plants a bug, or with `None` no bug, whatever the environment says.
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(NONE, |bug| bug as u8);
    PLANTED.store(number, core::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is planted.
///
/// # Panics
/// If the environment names an unknown bug.
#[inline]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    let mut number = PLANTED.load(core::sync::atomic::Ordering::Relaxed);
    if number == NOT_LOOKED {
        plant(from_environment());
        number = PLANTED.load(core::sync::atomic::Ordering::Relaxed);
    }
    number == bug as u8
}

fn from_environment() -> Option<Bug> {
    let name = std::env::var(VARIABLE)
        .ok()
        .filter(|name| !name.is_empty())?;
    let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
    Some(*bug.unwrap_or_else(|| panic!("{VARIABLE} names no bug: {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_have_names_and_sentences_of_their_own() {
        let mut names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bug::ALL.len());
        assert!(Bug::ALL.iter().all(|bug| bug.sentence().ends_with('.')));
        assert!(Bug::ALL.len() < 250, "numbers fit into a byte");
    }
}
