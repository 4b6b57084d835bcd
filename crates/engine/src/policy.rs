//! Error classes and the one reaction that each has. Every errno of a member ends in this table.

use planted::{Bug, planted};

/// What kind of failure a member I/O met.
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
    /// We asked for something impossible: a bug or a member that shrank.
    Misuse,
    /// The operation itself is not offered by the member (discard, zero range).
    NotSupported,
}

/// A member I/O's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberError {
    /// Decides the reaction.
    pub class: ErrorClass,
    /// The operating system's number, for people.
    pub errno: i32,
}

/// What the engine does about a failed member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// Submit the same I/O again, at most [`crate::limits::RETRIES_MAX`] times, then fail the member.
    Retry,
    /// Reads: reconstruct, return, write back. Writes: fail the member.
    Reconstruct,
    /// Fail the member.
    FailMember,
    /// Report it to the client; no member is at fault.
    Report,
}

impl MemberError {
    /// Classifies a Linux errno.
    ///
    /// The numbers are those of asm-generic/errno.h, the same on x86-64 and AArch64.
    #[must_use]
    pub fn from_errno(errno: i32) -> MemberError {
        let class = match errno {
            4 | 11 | 12 | 16 | 105 => ErrorClass::Retryable, // EINTR EAGAIN ENOMEM EBUSY ENOBUFS
            5 | 61 | 84 | 28 | 122 => ErrorClass::Media,     // EIO ENODATA EILSEQ ENOSPC EDQUOT
            62 | 67 | 110 | 121 | 125 => ErrorClass::Path, // ETIME ENOLINK ETIMEDOUT EREMOTEIO ECANCELED
            6 | 9 | 19 | 108 | 123 => ErrorClass::Gone,    // ENXIO EBADF ENODEV ESHUTDOWN ENOMEDIUM
            95 | 38 => ErrorClass::NotSupported,           // EOPNOTSUPP ENOSYS
            _ => ErrorClass::Misuse,
        };
        MemberError { class, errno }
    }
}

/// The table: what follows from a failure of this class.
#[must_use]
pub fn reaction(class: ErrorClass, is_read: bool) -> Reaction {
    match class {
        ErrorClass::Retryable => Reaction::Retry,
        ErrorClass::Path if planted(Bug::MissedWriteIgnored) => Reaction::Report,
        ErrorClass::Media if is_read => Reaction::Reconstruct,
        ErrorClass::Media | ErrorClass::Path | ErrorClass::Gone | ErrorClass::Misuse => {
            Reaction::FailMember
        }
        ErrorClass::NotSupported => Reaction::Report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_a_class_and_every_class_its_reactions() {
        use ErrorClass::{Gone, Media, Misuse, NotSupported, Path, Retryable};
        use Reaction::{FailMember, Reconstruct, Report, Retry};
        let table: [(ErrorClass, &[i32], [Reaction; 2]); 6] = [
            (Retryable, &[4, 11, 12, 16, 105], [Retry, Retry]),
            (Media, &[5, 28, 61, 84, 122], [Reconstruct, FailMember]),
            (Path, &[62, 67, 110, 121, 125], [FailMember, FailMember]),
            (Gone, &[6, 9, 19, 108, 123], [FailMember, FailMember]),
            (NotSupported, &[38, 95], [Report, Report]),
            // Whatever nobody has thought of.
            (Misuse, &[-1, 0, 22, 27, 4095], [FailMember, FailMember]),
        ];
        for (class, numbers, [of_read, of_write]) in table {
            for &errno in numbers {
                assert_eq!(MemberError::from_errno(errno), MemberError { class, errno });
            }
            assert_eq!(reaction(class, true), of_read, "{class:?}");
            assert_eq!(reaction(class, false), of_write, "{class:?}");
        }
    }
}
