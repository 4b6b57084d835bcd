//! Registers the members' files and the payload memory with the ring.
//!
//! Both save the kernel work on every I/O, and neither is required: if a table is full or a limit too low, plain
//! descriptors and addresses are used.

use super::{EFAULT, Ring};
use crate::arena::Arena;
use engine::units::Buffer;
use io_uring::IoUring;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Slots of the registered file table: enough for every member of a container twice, since replacements overlap.
pub(super) const FILES_MAX: u32 = 256;
/// The kernel registers memory in pieces of at most 1 GiB.
const REGISTERED_PIECE_BYTES: u64 = 1 << 30;

/// How submission entries refer to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileSlot {
    number: i32,
    pub(super) registered: bool,
}

impl FileSlot {
    /// The descriptor or table index to build entries with.
    #[inline]
    pub fn number(self) -> i32 {
        self.number
    }
}

impl Ring {
    /// The index of the registered piece that contains a range.
    #[inline]
    pub(crate) fn registered_piece(&self, buffer: Buffer, length_bytes: u64) -> Option<u16> {
        if self.report.registered_memory.is_err() || length_bytes == 0 {
            return None;
        }
        let offset = buffer.0.wrapping_sub(self.shared.payload.start().0);
        let piece = offset / REGISTERED_PIECE_BYTES;
        let inside = self.shared.payload.holds(buffer, length_bytes)
            && piece == (offset + length_bytes - 1) / REGISTERED_PIECE_BYTES;
        inside.then_some(piece as u16)
    }

    /// Registers a file with the ring. If the table is not used or full, the descriptor itself is used, and the file
    /// must stay open until [`Ring::close_file`].
    pub(crate) fn open_file(&mut self, fd: BorrowedFd<'_>) -> FileSlot {
        if let Some(index) = self.free_files.pop() {
            if self
                .uring
                .submitter()
                .register_files_update(index, &[fd.as_raw_fd()])
                .is_ok()
            {
                return FileSlot {
                    number: index as i32,
                    registered: true,
                };
            }
            self.free_files.push(index);
        }
        FileSlot {
            number: fd.as_raw_fd(),
            registered: false,
        }
    }

    /// Unregisters a file to which nothing in flight refers.
    pub(crate) fn close_file(&mut self, slot: FileSlot) {
        if slot.registered {
            let index = slot.number as u32;
            if self
                .uring
                .submitter()
                .register_files_update(index, &[-1])
                .is_ok()
            {
                self.free_files.push(index);
            }
        }
    }
}

pub(super) fn register_memory(uring: &IoUring, arena: &Arena) -> Result<(), i32> {
    #[repr(C)]
    struct Piece {
        address: u64,
        length: u64,
    }
    let total = arena.length_bytes() as u64;
    let pieces: Vec<Piece> = (0..total)
        .step_by(REGISTERED_PIECE_BYTES as usize)
        .map(|offset| Piece {
            address: arena.start().0 + offset,
            length: REGISTERED_PIECE_BYTES.min(total - offset),
        })
        .collect();
    // SAFETY: `Piece` has the layout of `struct iovec` on 64-bit Linux. The pieces cover the arena, which the ring
    // keeps until the kernel no longer uses it.
    let registered = unsafe {
        let iovecs = std::slice::from_raw_parts(pieces.as_ptr().cast(), pieces.len());
        uring.submitter().register_buffers(iovecs)
    };
    registered.map_err(|error| error.raw_os_error().unwrap_or(EFAULT))
}
