//! What follows from a member's error: one table over what was asked, the errno, and the kind of member.
//!
//! An error fails the member by default. An errno is harmless only where the table lists it as such, for that command
//! and that kind of member. After any other one the member has not done what it was asked, nobody knows what it has
//! done instead, and it is failed. No errno means that a command has succeeded.
//!
//! | asked | errno | member | reaction |
//! |---|---|---|---|
//! | read, write, zero, discard | EINTR, EAGAIN, ENOMEM | any | ask again, at most [`crate::limits::RETRIES_MAX`] times |
//! | the same | EBUSY | device: its driver's queue is full | the same |
//! | the same | ENOBUFS | file: its network has no memory | the same |
//! | read | EIO, ENODATA, EILSEQ | any | the block cannot be read: reconstruct it |
//! | write, zero, discard, without redundancy | EIO, ENODATA, EILSEQ, ENOSPC, EDQUOT | any | the block cannot be written: an error |
//! | anything, flush and FUA included | any other | any | fail the member |
//!
//! A drive that is gone may answer with an errno that means something else, like EIO or ENOSPC. The world of real drives
//! looks whether the kernel has removed the drive, and answers ENODEV then, so the drive is failed.
//!
//! A flush that has failed is never repeated, whatever the errno says: the kernel reports a lost write-back once, and
//! the flush after that succeeds without what was lost. A write with FUA contains a flush wherever the drive has no
//! FUA of its own, so the same holds for it. What a failed flush has lost is not a block that could be named.
//!
//! A drive that is only being copied to serves in no slot, so the volume can do without it at any level. It is failed
//! at the first block that it cannot write: otherwise it would take the slot without that block.
//!
//! Zeroing and discarding leave zeros whatever the member can do by itself: where it answers EOPNOTSUPP the world
//! writes zeros ([`crate::world::World::io`]), so this errno never comes here for a harmless reason.

use crate::plan::StepKind;

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const ENOSPC: i32 = 28;
const ENODATA: i32 = 61;
const EILSEQ: i32 = 84;
const ENOBUFS: i32 = 105;
const EDQUOT: i32 = 122;

/// What kind of failure a member I/O met, in words for people. Decides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorClass {
    /// The drive was busy or out of a resource for a moment.
    Retryable,
    /// The drive cannot read or write this place, but is otherwise alive.
    Media,
    /// The way to the drive failed: timeouts, link errors, cancelled commands.
    Path,
    /// The drive is not there any more.
    Gone,
    /// The engine asked for something impossible: a bug or a member that shrank.
    Misuse,
    /// The member says that it does not offer the operation.
    NotSupported,
}

/// A member I/O's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberError {
    /// For people.
    pub class: ErrorClass,
    /// The operating system's number.
    pub errno: i32,
}

impl MemberError {
    /// Classifies a Linux errno.
    ///
    /// The numbers are those of asm-generic/errno.h, the same on x86-64 and AArch64.
    #[must_use]
    pub fn from_errno(errno: i32) -> MemberError {
        let class = match errno {
            EINTR | EAGAIN | ENOMEM | EBUSY | ENOBUFS => ErrorClass::Retryable,
            EIO | ENODATA | EILSEQ | ENOSPC | EDQUOT => ErrorClass::Media,
            62 | 67 | 110 | 121 | 125 => ErrorClass::Path, // ETIME ENOLINK ETIMEDOUT EREMOTEIO ECANCELED
            6 | 9 | 19 | 108 | 123 => ErrorClass::Gone,    // ENXIO EBADF ENODEV ESHUTDOWN ENOMEDIUM
            95 | 38 => ErrorClass::NotSupported,           // EOPNOTSUPP ENOSYS
            _ => ErrorClass::Misuse,
        };
        MemberError { class, errno }
    }
}

/// What a member is, as far as the meaning of an error depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberKind {
    /// A block device, or memory of this process.
    Device,
    /// A regular file.
    File,
}

/// What a member was asked, as far as the meaning of an error depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A read.
    Read,
    /// A write without FUA, zeroing, or discarding.
    Write,
    /// A flush, or a write with FUA.
    Durability,
}

impl Asked {
    /// What a step asks of its member.
    ///
    /// # Panics
    ///
    /// Computations ask nothing of a member.
    #[must_use]
    pub fn of(kind: StepKind) -> Asked {
        match kind {
            StepKind::Read => Asked::Read,
            StepKind::Write { fua: false } | StepKind::Zero { .. } | StepKind::Discard => {
                Asked::Write
            }
            StepKind::Write { fua: true } | StepKind::Flush | StepKind::Log { .. } => {
                Asked::Durability
            }
            StepKind::Xor { .. } | StepKind::Compare => {
                panic!("a computation sends no command to a member")
            }
        }
    }
}

/// What the engine does about a failed member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// Submit the same I/O again, at most [`crate::limits::RETRIES_MAX`] times, then fail the member.
    Retry,
    /// This block cannot be read or written, and the member serves on. Reads: reconstruct, return, write
    /// back. Writes: the client's error.
    LoseBlock,
    /// Fail the member.
    FailMember,
}

/// The table of the module's prose. `redundant`: the volume can do without the member.
#[must_use]
pub fn reaction(asked: Asked, errno: i32, kind: MemberKind, redundant: bool) -> Reaction {
    if asked == Asked::Durability {
        return Reaction::FailMember;
    }
    match (errno, kind) {
        (EINTR | EAGAIN | ENOMEM, _)
        | (EBUSY, MemberKind::Device)
        | (ENOBUFS, MemberKind::File) => return Reaction::Retry,
        _ => {}
    }
    match (asked, errno) {
        (Asked::Read, EIO | ENODATA | EILSEQ) => Reaction::LoseBlock,
        (Asked::Write, EIO | ENODATA | EILSEQ | ENOSPC | EDQUOT) if !redundant => {
            Reaction::LoseBlock
        }
        _ => Reaction::FailMember,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest errno that the kernel hands to programs (`MAX_ERRNO`).
    const ERRNO_MAX: i32 = 4095;

    /// The table once more, written down by hand: errnos that do not fail the member. All others do.
    fn listed(asked: Asked, errno: i32, kind: MemberKind, redundant: bool) -> Reaction {
        let retried: &[i32] = match kind {
            MemberKind::Device => &[4, 11, 12, 16],
            MemberKind::File => &[4, 11, 12, 105],
        };
        let lost: &[i32] = match (asked, redundant) {
            (Asked::Read, _) => &[5, 61, 84],
            (Asked::Write, false) => &[5, 28, 61, 84, 122],
            (Asked::Write, true) | (Asked::Durability, _) => &[],
        };
        if asked != Asked::Durability && retried.contains(&errno) {
            Reaction::Retry
        } else if lost.contains(&errno) {
            Reaction::LoseBlock
        } else {
            Reaction::FailMember
        }
    }

    #[test]
    fn every_errno_has_its_reaction() {
        for asked in [Asked::Read, Asked::Write, Asked::Durability] {
            for kind in [MemberKind::Device, MemberKind::File] {
                for redundant in [false, true] {
                    for errno in -1..=ERRNO_MAX {
                        assert_eq!(
                            reaction(asked, errno, kind, redundant),
                            listed(asked, errno, kind, redundant),
                            "{asked:?}, errno {errno}, {kind:?}, redundant: {redundant}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_command_asks_for_something_of_the_table() {
        let zero = StepKind::Zero {
            keep_allocated: true,
        };
        for (kind, asked) in [
            (StepKind::Read, Asked::Read),
            (StepKind::Write { fua: false }, Asked::Write),
            (StepKind::Write { fua: true }, Asked::Durability),
            (zero, Asked::Write),
            (StepKind::Discard, Asked::Write),
            (StepKind::Flush, Asked::Durability),
        ] {
            assert_eq!(Asked::of(kind), asked, "{kind:?}");
        }
    }

    #[test]
    fn every_errno_has_a_class() {
        use ErrorClass::{Gone, Media, Misuse, NotSupported, Path, Retryable};
        let table: [(ErrorClass, &[i32]); 6] = [
            (Retryable, &[4, 11, 12, 16, 105]),
            (Media, &[5, 28, 61, 84, 122]),
            (Path, &[62, 67, 110, 121, 125]),
            (Gone, &[6, 9, 19, 108, 123]),
            (NotSupported, &[38, 95]),
            // Errnos without a class of their own.
            (Misuse, &[-1, 0, 22, 27, 4095]),
        ];
        for (class, numbers) in table {
            for &errno in numbers {
                assert_eq!(MemberError::from_errno(errno), MemberError { class, errno });
            }
        }
    }
}
