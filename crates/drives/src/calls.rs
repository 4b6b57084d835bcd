//! A member's I/O as one plain system call, for files that do not use the ring ([`crate::drive::IoPath`]). The result
//! has the form of the ring's: a count, or a negative errno. [`crate::transfer`] handles partial counts.

use crate::ring::Iovec;
use engine::plan::StepKind;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use std::os::fd::BorrowedFd;

/// The kind of I/O, and its range in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub kind: StepKind,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

impl Call {
    /// Makes the system call once and waits for it. The engine decides whether to retry after an error
    /// ([`engine::policy`]): a flush is never repeated, not even after EINTR.
    ///
    /// # Safety
    ///
    /// Until this returns, all of `memory` is valid, nobody else changes it, and for a read it is writable and nobody
    /// else reads it.
    pub unsafe fn carry_out(&self, fd: BorrowedFd<'_>, memory: &mut [Iovec]) -> i32 {
        // SAFETY: the caller's promise.
        match unsafe { self.try_once(fd, memory) } {
            Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
            Err(errno) => -errno.raw_os_error(),
        }
    }

    /// # Safety
    ///
    /// As [`Call::carry_out`].
    unsafe fn try_once(&self, fd: BorrowedFd<'_>, memory: &mut [Iovec]) -> Result<usize, Errno> {
        let (start, count) = (memory.as_mut_ptr(), memory.len());
        match self.kind {
            StepKind::Read => {
                // SAFETY: an `IoSliceMut` has the layout of `struct iovec`, as our entries do, and the
                // caller vouches for the memory that they name.
                let slices = unsafe {
                    std::slice::from_raw_parts_mut(start.cast::<IoSliceMut<'_>>(), count)
                };
                rustix::io::preadv2(fd, slices, self.offset_bytes, ReadWriteFlags::empty())
            }
            // With `memory`, zeroing and discarding write zeros from there.
            StepKind::Write { .. } | StepKind::Zero { .. } | StepKind::Discard if count > 0 => {
                let durable = if self.kind == (StepKind::Write { fua: true }) {
                    ReadWriteFlags::DSYNC
                } else {
                    ReadWriteFlags::empty()
                };
                // SAFETY: as above, with `IoSlice`.
                let slices =
                    unsafe { std::slice::from_raw_parts(start.cast::<IoSlice<'_>>(), count) };
                rustix::io::pwritev2(fd, slices, self.offset_bytes, durable)
            }
            StepKind::Zero { keep_allocated } => self.allocate(fd, keep_allocated),
            StepKind::Discard => self.allocate(fd, false),
            StepKind::Flush => rustix::fs::fdatasync(fd).map(|()| 0),
            StepKind::Write { .. }
            | StepKind::Log { .. }
            | StepKind::Xor { .. }
            | StepKind::Compare => Err(Errno::INVAL),
        }
    }

    fn allocate(&self, fd: BorrowedFd<'_>, keep_allocated: bool) -> Result<usize, Errno> {
        let how = if keep_allocated {
            FallocateFlags::ZERO_RANGE
        } else {
            FallocateFlags::PUNCH_HOLE
        };
        let flags = how | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(fd, flags, self.offset_bytes, self.length_bytes).map(|()| 0)
    }
}
