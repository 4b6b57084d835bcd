//! Memory from the system for an [`Arena`](super::Arena): anonymous, zero-filled, aligned to a huge page.

use super::HUGE_PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Maps `length_bytes` aligned to a huge page: maps one huge page more, and unmaps the excess at both ends.
pub(super) fn map(length_bytes: usize) -> Result<NonNull<u8>, Errno> {
    let padded = length_bytes
        .checked_add(HUGE_PAGE_BYTES)
        .ok_or(Errno::NOMEM)?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice; the two unmapped parts lie in it and
    // outside the part that is kept.
    unsafe {
        let raw: *mut u8 = rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            padded,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
        .cast();
        let head = raw.align_offset(HUGE_PAGE_BYTES);
        let base = raw.add(head);
        if head > 0 {
            rustix::mm::munmap(raw.cast(), head)?;
        }
        if head < HUGE_PAGE_BYTES {
            rustix::mm::munmap(base.add(length_bytes).cast(), HUGE_PAGE_BYTES - head)?;
        }
        NonNull::new(base).ok_or(Errno::NOMEM)
    }
}

/// Unmaps a mapping.
///
/// # Safety
///
/// [`map`] returned the mapping for this length, and nothing uses it any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, length_bytes: usize) {
    // SAFETY: the caller's promise.
    let unmapped = unsafe { rustix::mm::munmap(base.as_ptr().cast(), length_bytes) };
    debug_assert!(unmapped.is_ok());
}

/// Asks for huge pages; says whether they were accepted.
pub(super) fn ask_for_huge_pages(base: NonNull<u8>, length_bytes: usize) -> bool {
    // SAFETY: this advice does not change the content of the mapping.
    unsafe { rustix::mm::madvise(base.as_ptr().cast(), length_bytes, Advice::LinuxHugepage) }
        .is_ok()
}

/// Touches every page of a new mapping.
///
/// # Safety
///
/// [`map`] returned the mapping, and nothing else uses it yet.
pub(super) unsafe fn prefault(base: NonNull<u8>, length_bytes: usize) -> Result<(), Errno> {
    let address = base.as_ptr();
    // SAFETY: the caller's promise.
    unsafe {
        match rustix::mm::madvise(address.cast(), length_bytes, Advice::LinuxPopulateWrite) {
            // Kernels before 5.14 do not know the advice.
            Err(Errno::INVAL) => {
                for offset in (0..length_bytes).step_by(4096) {
                    address.add(offset).write_volatile(0);
                }
                Ok(())
            }
            result => result,
        }
    }
}

/// Locks the memory, so that it is not swapped out.
pub(super) fn lock(base: NonNull<u8>, length_bytes: usize) -> Result<(), Errno> {
    // SAFETY: a lock does not change the content of the mapping.
    unsafe { rustix::mm::mlock(base.as_ptr().cast(), length_bytes) }
}

/// The unit in which memory is returned to the system: the machine's page. On 64-bit ARM that is 4, 16 or 64 KiB.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns whole pages of a mapping to the system, after which they read as zeros; says whether the system accepted.
///
/// # Safety
///
/// The pages lie in a mapping of [`map`], and nothing else uses them meanwhile.
pub(super) unsafe fn give_back(start: *mut u8, length_bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { rustix::mm::madvise(start.cast(), length_bytes, Advice::LinuxDontNeed) }.is_ok()
}
