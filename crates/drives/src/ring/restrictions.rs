//! What each ring may do. Whatever its list does not name, the kernel refuses: an operation or a flag with `EACCES` in its
//! completion, a registration with `EACCES` at once.
//!
//! The kernel obeys what lies in the memory of a ring's queues, and a filter of system calls (seccomp) does not see what
//! lies there. So a mistake that lets somebody write into the program's memory would let him open files and connect to
//! addresses through the ring, whatever the filter says. A ring that cannot do that any more is worth less to him.
//!
//! A ring is created without being able to do anything, is given its list (`IORING_REGISTER_RESTRICTIONS`), and is then
//! enabled. Nobody can change the list later. What is registered once, like the payload memory, is registered before the
//! ring is enabled, and needs no place in the list. The thread that enables a ring is its single issuer.
//!
//! An operation that the program is to use anew has to be added here; without that it completes with `EACCES`.

use io_uring::register::Restriction;
use io_uring::{IoUring, Submitter, cqueue, opcode, squeue};
use std::io;

/// What a ring may do.
pub(crate) struct Allowed {
    /// Operations of kernels since 5.6.
    operations: &'static [u8],
    /// Operations that came later.
    later_operations: &'static [u8],
    /// Flags of submission entries.
    flags: squeue::Flags,
    /// Registrations after the ring is enabled, by kernels since 5.6.
    registrations: &'static [u8],
    /// Registrations that came later.
    later_registrations: &'static [u8],
}

/// `IORING_REGISTER_FILES_UPDATE`.
const FILES_UPDATE: u8 = 6;
/// `IORING_REGISTER_SYNC_CANCEL`, of kernel 6.0.
const SYNC_CANCEL: u8 = 24;

/// The ring of a data thread.
pub(crate) const OF_A_SHARD: Allowed = Allowed {
    operations: &[
        // Members: payload in registered memory, in other memory, and in several pieces.
        opcode::ReadFixed::CODE,
        opcode::WriteFixed::CODE,
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Readv::CODE,
        opcode::Writev::CODE,
        // Members: flushes; zeroing and discarding.
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        // Connections of NBD, from the first to the last; a delay before a receive.
        opcode::Accept::CODE,
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::SendMsg::CODE,
        opcode::Timeout::CODE,
        opcode::Close::CODE,
        // The mailbox; listening sockets and the queues of virtual machines.
        opcode::PollAdd::CODE,
        // What is past its deadline, and what is in flight when a server ends.
        opcode::AsyncCancel::CODE,
    ],
    // The tags of ublk devices. A device can be attached at any time, and then it is too late to allow it.
    later_operations: &[opcode::UringCmd16::CODE],
    // Members' files in the ring's table; a delay and the receive behind it.
    flags: squeue::Flags::FIXED_FILE
        .union(squeue::Flags::IO_LINK)
        .union(squeue::Flags::SKIP_SUCCESS),
    // Members come and go.
    registrations: &[FILES_UPDATE],
    // The end of the ring cancels what is in flight.
    later_registrations: &[SYNC_CANCEL],
};

/// The ring that gives commands to `/dev/ublk-control`.
pub(crate) const OF_UBLK_CONTROL: Allowed = Allowed {
    operations: &[],
    later_operations: &[opcode::UringCmd80::CODE],
    flags: squeue::Flags::empty(),
    registrations: &[],
    later_registrations: &[],
};

/// How a ring is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// Unable to do anything until it is enabled.
    Disabled,
    /// Able to do everything at once.
    Enabled,
}

/// A ring that is enabled.
pub(crate) struct Ready<S: squeue::EntryMarker, C: cqueue::EntryMarker, More> {
    pub uring: IoUring<S, C>,
    /// What its creator knows of it.
    pub more: More,
    /// Whether it is restricted. `Err` holds the errno with which the kernel refused that, usually because a container's
    /// filter forbids `io_uring_register(2)`; then the ring may do everything.
    pub restricted: Result<(), i32>,
}

/// Makes a ring that may do what is `allowed` and nothing else, by means of `create`, which also registers what is
/// registered once.
///
/// # Errors
/// Those of `create`.
pub(crate) fn restricted<S, C, More, Error>(
    allowed: &Allowed,
    create: impl Fn(Begin) -> Result<(IoUring<S, C>, More), Error>,
) -> Result<Ready<S, C, More>, Error>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    let (uring, more) = create(Begin::Disabled)?;
    let restricted = restrict(&uring.submitter(), allowed);
    let enabled = uring.submitter().register_enable_rings();
    let Err(error) = enabled else {
        return Ok(Ready {
            uring,
            more,
            restricted,
        });
    };
    drop(uring);
    let (uring, more) = create(Begin::Enabled)?;
    Ok(Ready {
        uring,
        more,
        restricted: Err(errno(&error)),
    })
}

/// Gives a disabled ring its list. A kernel refuses a whole list because of one entry that is too new for it, and has
/// nothing to allow in its place.
fn restrict(submitter: &Submitter<'_>, allowed: &Allowed) -> Result<(), i32> {
    let result = submitter
        .register_restrictions(&mut list(allowed, true))
        .or_else(|_| submitter.register_restrictions(&mut list(allowed, false)));
    result.map_err(|error| errno(&error))
}

fn list(allowed: &Allowed, with_later: bool) -> Vec<Restriction> {
    let (later_operations, later_registrations) = if with_later {
        (allowed.later_operations, allowed.later_registrations)
    } else {
        (&[][..], &[][..])
    };
    let operations = allowed.operations.iter().chain(later_operations);
    let registrations = allowed.registrations.iter().chain(later_registrations);
    let flags = Restriction::sqe_flags_allowed(allowed.flags.bits());
    operations
        .map(|&code| Restriction::sqe_op(code))
        .chain(registrations.map(|&code| Restriction::register_op(code)))
        .chain([flags])
        .collect()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(super::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::register::Probe;
    use std::os::fd::{FromRawFd, OwnedFd};

    const EBADF: i32 = 9;
    const EACCES: i32 = 13;
    const EBADFD: i32 = 77;
    /// Operations of codes above this have entries of double length, which need another kind of ring.
    const PIPE: u8 = 62;

    /// A ring that may do what is allowed, on a kernel that can restrict rings.
    fn ring(allowed: &Allowed) -> IoUring {
        let ready = restricted(allowed, small).unwrap();
        let why = "every kernel since 5.10 can restrict rings";
        assert_eq!(ready.restricted, Ok(()), "{why}");
        ready.uring
    }

    fn small(begin: Begin) -> io::Result<(IoUring, ())> {
        let mut builder = IoUring::builder();
        if begin == Begin::Disabled {
            builder.setup_r_disabled();
        }
        Ok((builder.build(4)?, ()))
    }

    fn answer(uring: &mut IoUring, entry: &squeue::Entry) -> i32 {
        // SAFETY: the entries of these tests name static memory or none.
        unsafe { uring.submission().push(entry) }.unwrap();
        uring.submit_and_wait(1).unwrap();
        uring.completion().next().expect("an answer").result()
    }

    /// An operation with this code on a file that is not open, without memory.
    fn operation(code: u8) -> squeue::Entry {
        let nowhere = io_uring::types::Fd(-1);
        let mut entry = opcode::Read::new(nowhere, std::ptr::null_mut(), 0).build();
        // SAFETY: an entry is the kernel's structure, whose first byte is the code of the operation.
        unsafe { std::ptr::from_mut(&mut entry).cast::<u8>().write(code) };
        entry
    }

    #[test]
    fn what_a_list_does_not_name_is_refused_whatever_the_kernel_knows() {
        for allowed in [&OF_A_SHARD, &OF_UBLK_CONTROL] {
            let mut known = Probe::new();
            let plain = IoUring::new(4).unwrap();
            plain.submitter().register_probe(&mut known).unwrap();
            let mut uring = ring(allowed);
            let mut refused = 0;
            for code in 0..u8::MAX {
                let named =
                    allowed.operations.contains(&code) || allowed.later_operations.contains(&code);
                if known.is_supported(code) && !named && code <= PIPE {
                    let result = answer(&mut uring, &operation(code));
                    assert_eq!(result, -EACCES, "operation {code}");
                    refused += 1;
                }
            }
            assert!(refused > 10, "the kernel knows more than is allowed");
        }
    }

    #[test]
    fn a_file_is_opened_by_a_ring_without_a_list_only() {
        let here = io_uring::types::Fd(-100);
        let entry = opcode::OpenAt::new(here, c"/dev/null".as_ptr()).build();
        let mut plain = IoUring::new(4).unwrap();
        let opened = answer(&mut plain, &entry);
        assert!(opened >= 0, "{opened}");
        // SAFETY: the kernel has just opened this descriptor, and nobody else knows it.
        drop(unsafe { OwnedFd::from_raw_fd(opened) });
        assert_eq!(answer(&mut ring(&OF_A_SHARD), &entry), -EACCES);
    }

    #[test]
    fn what_a_list_names_is_carried_out() {
        let mut uring = ring(&OF_A_SHARD);
        let entry = operation(opcode::Read::CODE);
        assert_eq!(answer(&mut uring, &entry), -EBADF);
        let entry = operation(opcode::Read::CODE).flags(squeue::Flags::IO_DRAIN);
        assert_eq!(answer(&mut uring, &entry), -EACCES, "a flag not named");
    }

    #[test]
    fn only_registrations_that_a_list_names_are_made_later() {
        let submitter = ring(&OF_A_SHARD);
        let submitter = submitter.submitter();
        let refused = submitter.register_files_sparse(4).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(EACCES));
        let refused = submitter.register_restrictions(&mut list(&OF_A_SHARD, true));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(EACCES));
        let without_files = submitter.register_files_update(0, &[-1]).unwrap_err();
        assert_ne!(without_files.raw_os_error(), Some(EACCES));
    }

    #[test]
    fn what_is_too_new_for_a_kernel_is_left_out() {
        let from_the_future = Allowed {
            later_operations: &[250],
            later_registrations: &[120],
            ..OF_A_SHARD
        };
        let mut uring = ring(&from_the_future);
        assert_eq!(answer(&mut uring, &operation(opcode::Nop::CODE)), -EACCES);
        let entry = operation(opcode::Read::CODE);
        assert_eq!(answer(&mut uring, &entry), -EBADF);
    }

    /// Where registrations are forbidden, a ring cannot be enabled either. A ring that was never disabled stands for that.
    #[test]
    fn a_ring_that_cannot_be_restricted_may_do_everything() {
        let mut ready = restricted(&OF_A_SHARD, |_| small(Begin::Enabled)).unwrap();
        assert_eq!(ready.restricted, Err(EBADFD));
        assert_eq!(answer(&mut ready.uring, &operation(opcode::Nop::CODE)), 0);
    }
}
