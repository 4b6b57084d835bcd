//! A member's I/O as one plain system call, for files that the ring does not suit
//! ([`crate::drive::IoPath`]). The result is as the ring gives it: a count, or a negative errno; what a
//! partial count means is for [`crate::transfer`] to say.

use crate::ring::Iovec;
use engine::plan::StepKind;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use std::os::fd::BorrowedFd;

/// What is to be done, and where on the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub kind: StepKind,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

impl Call {
    /// Does it once and waits for its end. Whether an error is worth another try is the engine's to say
    /// ([`engine::policy`]): a flush is never repeated, not even after EINTR.
    ///
    /// # Safety
    ///
    /// All of `memory` is valid, for a read also writable, and nobody else changes it, or for a read
    /// looks at it, until this returns.
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
            // Zeroing and discarding with memory is writing zeros from there.
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
