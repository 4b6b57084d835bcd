//! Members without hardware: RAM and null.
//!
//! Both answer during the call; the world queues the answer for its next reap.
//!
//! **RAM** is real memory, shared by all shards. The system allocates each page when it is first written. Two shards
//! that write the same sector at the same time leave a torn sector, as a drive may; the engine's range locks prevent
//! it.
//!
//! **Null** accepts everything and stores nothing: writes are dropped, and reads do not change the memory given to
//! them, not even to zero it. It shows what the code above it costs, and cannot hold an array's metadata.

use crate::arena::{Arena, ArenaError, ArenaOptions, page_bytes};
use engine::units::Buffer;
use std::sync::Arc;

/// How bytes are stored on a RAM member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stores {
    /// Through the caches.
    Cached,
    /// Past the caches.
    Streamed,
}

/// The bytes of a RAM member.
#[derive(Debug)]
pub struct Ram {
    storage: Arc<Arena>,
    size_bytes: u64,
}

impl Ram {
    /// A RAM member of `size_bytes`, reading as zeros.
    ///
    /// # Errors
    ///
    /// If there is not enough address space.
    pub fn new(size_bytes: u64) -> Result<Ram, ArenaError> {
        let length_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        let storage = Arena::new(ArenaOptions {
            length_bytes,
            prefault: false,
            lock: false,
        })?;
        Ok(Ram {
            storage,
            size_bytes,
        })
    }

    /// Whether a range lies on the member.
    #[inline]
    pub(crate) fn holds(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        offset_bytes
            .checked_add(length_bytes)
            .is_some_and(|end| end <= self.size_bytes)
    }

    /// The address of a range of the member. The caller has checked the range.
    #[inline]
    pub(crate) fn pointer(&self, offset_bytes: u64, length_bytes: u64) -> *mut u8 {
        self.storage.pointer(self.place(offset_bytes), length_bytes)
    }

    fn place(&self, offset_bytes: u64) -> Buffer {
        Buffer(self.storage.start().0 + offset_bytes)
    }

    /// Prefetches the first lines of a range that will be read soon. The caller has checked the range.
    #[inline]
    pub(crate) fn expect_read(&self, offset_bytes: u64, length_bytes: u64) {
        // For random 4 KiB reads 1 KiB was enough, and more was slower.
        const FETCHED_BYTES: u64 = 1024;
        let start = self.pointer(offset_bytes, length_bytes);
        let mut at = 0;
        while at < length_bytes.min(FETCHED_BYTES) as usize {
            fetch(start.wrapping_add(at));
            at += LINE_BYTES;
        }
    }

    /// Copies from the member to payload memory. The caller has checked both ranges.
    #[inline]
    pub(crate) fn read_to(&self, offset_bytes: u64, arena: &Arena, to: Buffer, length_bytes: u64) {
        debug_assert!(self.holds(offset_bytes, length_bytes) && arena.holds(to, length_bytes));
        let from = self.pointer(offset_bytes, length_bytes);
        let to = arena.pointer(to, length_bytes);
        // SAFETY: both ranges have been checked and lie in different mappings.
        unsafe { std::ptr::copy_nonoverlapping(from, to, length_bytes as usize) }
    }

    /// Copies from payload memory to the member. The caller has checked both ranges.
    #[inline]
    pub(crate) fn write_from(
        &self,
        offset_bytes: u64,
        arena: &Arena,
        from: Buffer,
        length_bytes: u64,
        stores: Stores,
    ) {
        debug_assert!(self.holds(offset_bytes, length_bytes) && arena.holds(from, length_bytes));
        let from = arena.pointer(from, length_bytes);
        let to = self.pointer(offset_bytes, length_bytes);
        // SAFETY: both ranges have been checked and lie in different mappings.
        unsafe {
            match stores {
                Stores::Cached => std::ptr::copy_nonoverlapping(from, to, length_bytes as usize),
                Stores::Streamed => engine::xor::copy_streaming(to, from, length_bytes as usize),
            }
        }
    }

    /// Copies bytes of the member. The caller has checked the range.
    pub(crate) fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        self.storage.read(self.place(offset_bytes), into);
    }

    /// Overwrites bytes of the member. The caller has checked the range.
    pub(crate) fn write(&self, offset_bytes: u64, from: &[u8]) {
        self.storage.write(self.place(offset_bytes), from);
    }

    /// Zeroes a range. Unless `keep_allocated`, whole pages are returned to the system. The caller has checked the
    /// range.
    pub(crate) fn zero(&self, offset_bytes: u64, length_bytes: u64, keep_allocated: bool) {
        let end = offset_bytes + length_bytes;
        let (first, last) = whole_pages(offset_bytes, end, page_bytes());
        let given_back = !keep_allocated
            && last > first
            && self.storage.give_back(self.place(first), last - first);
        if given_back {
            self.storage
                .fill(self.place(offset_bytes), first - offset_bytes, 0);
            self.storage.fill(self.place(last), end - last, 0);
        } else {
            self.storage.fill(self.place(offset_bytes), length_bytes, 0);
        }
    }
}

/// The beginning and the end of the whole pages between two offsets; they are the same if there are none. The kernel gives back
/// whole pages only, and where 64-bit ARM has pages of 16 or 64 KiB it would clear more than it was asked to.
fn whole_pages(from: u64, end: u64, page_bytes: u64) -> (u64, u64) {
    let first = from.next_multiple_of(page_bytes).min(end);
    (first, (end - end % page_bytes).max(first))
}

/// Length of a line of the processor's caches.
const LINE_BYTES: usize = 64;

/// Prefetches a cache line, on architectures where Rust offers an instruction for it.
#[inline]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that accesses no memory, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroing_touches_exactly_its_range() {
        for keep_allocated in [true, false] {
            let ram = Ram::new(64 << 10).unwrap();
            for (offset, length) in [(512, 512), (512, 20_000), (4096, 8192), (0, 65_536), (5, 0)] {
                ram.write(0, &[9; 64 << 10]);
                ram.zero(offset, length, keep_allocated);
                let mut bytes = vec![1; 64 << 10];
                ram.read(0, &mut bytes);
                let mut wanted = vec![9; 64 << 10];
                wanted[offset as usize..(offset + length) as usize].fill(0);
                assert!(bytes == wanted, "{length} bytes from {offset} on");
            }
        }
    }

    #[test]
    fn only_whole_pages_of_the_machine_are_given_back() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for from in (0..200 << 10).step_by(1536) {
                for end in (from..200 << 10).step_by(3584) {
                    let (first, last) = whole_pages(from, end, page);
                    let pages = (from.div_ceil(page)..end / page).count() as u64;
                    assert_eq!(last - first, pages * page, "{page}: {from}..{end}");
                    assert!(from <= first && last <= end, "{page}: {from}..{end}");
                    assert!(pages == 0 || first % page == 0, "{page}: {from}..{end}");
                }
            }
        }
        assert_eq!(whole_pages(4096, 16 << 10, 16 << 10), (16 << 10, 16 << 10));
        assert_eq!(whole_pages(4096, 12 << 10, 16 << 10), (12 << 10, 12 << 10));
    }

    #[test]
    fn the_end_of_the_member_is_known() {
        let ram = Ram::new(1 << 20).unwrap();
        assert!(ram.holds(0, 1 << 20));
        assert!(!ram.holds(1, 1 << 20));
        assert!(!ram.holds(u64::MAX, 2));
    }
}
