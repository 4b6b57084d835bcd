//! Replaces `mapping.rs` under Miri, which can check the bounds and lifetimes of heap memory.

use super::HUGE_PAGE_BYTES;
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

fn layout(length_bytes: usize) -> Layout {
    Layout::from_size_align(length_bytes, HUGE_PAGE_BYTES).expect("a length below isize::MAX")
}

pub(super) fn map(length_bytes: usize) -> Result<NonNull<u8>, Errno> {
    // SAFETY: arenas are not empty.
    let base = unsafe { alloc_zeroed(layout(length_bytes)) };
    NonNull::new(base).ok_or(Errno::NOMEM)
}

pub(super) unsafe fn unmap(base: NonNull<u8>, length_bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(base.as_ptr(), layout(length_bytes)) }
}

pub(super) fn ask_for_huge_pages(_base: NonNull<u8>, _length_bytes: usize) -> bool {
    false
}

pub(super) unsafe fn prefault(_base: NonNull<u8>, _length_bytes: usize) -> Result<(), Errno> {
    Ok(())
}

pub(super) fn lock(_base: NonNull<u8>, _length_bytes: usize) -> Result<(), Errno> {
    Err(Errno::PERM)
}

pub(crate) fn page_bytes() -> u64 {
    4096
}

pub(super) unsafe fn give_back(_start: *mut u8, _length_bytes: usize) -> bool {
    false
}
