//! Reasons why a volume is not started, or may only be read; each is printed as a sentence.

use crate::imsm::attributes::Attributes;
use crate::imsm::geometry::{GeometryProblem, Level};
use crate::imsm::record::{MigrationKind, WriteHolePolicy};
use alloc::vec::Vec;
use core::fmt;

/// Why a volume may only be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// Its parity log is on a journal drive, or its policy is unknown.
    Policy(WriteHolePolicy),
    /// A member is lost and parity was never computed from this sector of each member on.
    UnsyncedParity {
        /// First sector, from the start of the component.
        from_sector: u64,
    },
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(WriteHolePolicy::Unknown(value)) => {
                write!(out, "its write-hole policy {value} is unknown")
            }
            Self::Policy(_) => {
                out.write_str("its write-hole log is on a journal drive, which is not supported")
            }
            Self::UnsyncedParity { from_sector } => write!(
                out,
                "a member is lost and parity was never computed beyond sector {from_sector} of \
                 each member: only what was written or synchronised is right"
            ),
        }
    }
}

/// Why a volume is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// There is no volume of that number.
    NoSuchVolume,
    /// The container uses features that are not supported.
    Attributes(Attributes),
    /// Its maps are not valid.
    Geometry(GeometryProblem),
    /// It is being reshaped, or an unknown operation is in progress.
    Migrating(MigrationKind),
    /// Its state byte is unknown.
    UnknownState(u8),
    /// More members are lost than its level survives.
    NotEnoughMembers {
        /// Level.
        level: Level,
        /// Slots without a member.
        lost_slots: Vec<usize>,
    },
    /// It is recorded as failed.
    RecordedAsFailed,
    /// Members are missing that are not marked failed.
    MissingMembers {
        /// Their slots.
        slots: Vec<usize>,
    },
    /// A RAID 5 lacks a member and was not stopped cleanly.
    DirtyAndDegraded,
    /// A RAID 5 lacks a member and an interrupted repair is not finished.
    InterruptedRepair,
    /// A RAID 5 lacks a member and was never synchronised completely.
    UnsyncedAndDegraded,
    /// A RAID 5 lacks a member and was not stopped cleanly: its log has to be replayed, but nothing may be written.
    ReplayWrites,
}

impl RefusedReason {
    /// Whether the reason is that the container's record is not understood, or that a part of it is being moved. Then
    /// nothing may be written to any of its drives, whichever volume the reason is about.
    #[must_use]
    pub fn concerns_container(&self) -> bool {
        match self {
            Self::NoSuchVolume
            | Self::Attributes(_)
            | Self::Geometry(_)
            | Self::Migrating(_)
            | Self::UnknownState(_) => true,
            Self::NotEnoughMembers { .. }
            | Self::RecordedAsFailed
            | Self::MissingMembers { .. }
            | Self::DirtyAndDegraded
            | Self::InterruptedRepair
            | Self::UnsyncedAndDegraded
            | Self::ReplayWrites => false,
        }
    }
}

impl RefusedReason {
    /// Whether the reason is that drives are missing.
    #[must_use]
    pub fn lacks_members(&self) -> bool {
        matches!(
            self,
            Self::NotEnoughMembers { .. } | Self::MissingMembers { .. }
        )
    }
}

impl fmt::Display for RefusedReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchVolume => out.write_str("the container has no such volume"),
            Self::Attributes(attributes) => {
                out.write_str("its container uses features that are not supported: ")?;
                list(out, &attributes.names())
            }
            Self::Geometry(problem) => write!(out, "its record is inconsistent: {problem}"),
            Self::Migrating(kind) => write!(
                out,
                "it is in the middle of a {kind}, which must be finished where it was begun"
            ),
            Self::UnknownState(value) => write!(out, "its state {value} is unknown"),
            Self::NotEnoughMembers { level, lost_slots } => {
                write!(out, "{level} does not survive the loss of ")?;
                slots(out, lost_slots)
            }
            Self::RecordedAsFailed => out.write_str("it is recorded as failed"),
            Self::MissingMembers { slots: missing } => {
                out.write_str("members are missing that were not marked failed: ")?;
                slots(out, missing)?;
                out.write_str("; bring them back, or accept to run without them")
            }
            Self::DirtyAndDegraded => out.write_str(
                "it was not stopped cleanly and lacks a member, so parity may be outdated and the \
                 lost member's data wrong where writes were interrupted",
            ),
            Self::InterruptedRepair => out.write_str(
                "it lacks a member and a repair after a crash was not finished, so parity may be \
                 outdated and the lost member's data wrong",
            ),
            Self::ReplayWrites => out.write_str(
                "it was not stopped cleanly and lacks a member, so its write-hole log has to be \
                 replayed, which writes; leave out --read-only",
            ),
            Self::UnsyncedAndDegraded => out.write_str(
                "it lacks a member and its first synchronisation was not finished, so only what \
                 was written or synchronised is right",
            ),
        }
    }
}

/// `slot 2`, or `slots 2 and 3`.
fn slots(out: &mut fmt::Formatter<'_>, slots: &[usize]) -> fmt::Result {
    match slots {
        [] => out.write_str("no slot"),
        [slot] => write!(out, "slot {slot}"),
        [before @ .., last] => {
            out.write_str("slots ")?;
            list(out, before)?;
            write!(out, " and {last}")
        }
    }
}

fn list<T: fmt::Display>(out: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (position, item) in items.iter().enumerate() {
        write!(out, "{}{item}", if position == 0 { "" } else { ", " })?;
    }
    Ok(())
}
