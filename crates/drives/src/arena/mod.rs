//! Payload memory: one large mapping that can be registered with the kernel.
//!
//! All payload of a process lives in one [`Arena`]. So it can be locked, pre-faulted, backed by huge pages and
//! registered with every ring, each once, and two comparisons suffice to check a [`Buffer`]. A buffer is the plain
//! address of its first byte. The shards divide the arena: each has its own [`Pool`] over a part of it.
//!
//! Arena memory is shared with the kernel and between threads, so it is never lent as a slice; bytes are copied in and
//! out. Concurrent use of the same bytes gives torn data, as it would on a drive; the engine's range locks prevent it.

#[cfg_attr(miri, path = "heap.rs")]
mod mapping;
mod pool;

pub(crate) use mapping::page_bytes;
pub use pool::Pool;

use engine::units::Buffer;
use rustix::io::Errno;
use std::ptr::NonNull;
use std::sync::Arc;
use vm_memory::VolatileSlice;

/// Alignment and size unit of arenas: the processor's huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Size and properties of an arena.
#[derive(Clone, Copy, Debug)]
pub struct ArenaOptions {
    /// Size; rounded up to 2 MiB.
    pub length_bytes: usize,
    /// Whether to touch every page now instead of at its first use.
    pub prefault: bool,
    /// Whether to lock the memory, so that it is not swapped out; needs `RLIMIT_MEMLOCK` or `CAP_IPC_LOCK`.
    pub lock: bool,
}

/// What the operating system granted.
#[derive(Clone, Copy, Debug)]
pub struct ArenaReport {
    /// Whether transparent huge pages were accepted for the mapping.
    pub huge_pages: bool,
    /// Whether the memory is locked; `Err` holds the errno, `Ok(false)` means that it was not requested.
    pub locked: Result<bool, i32>,
}

/// Why the mapping could not be created.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot map {length_bytes} bytes of payload memory: {error}; give it a smaller size or free memory"
)]
pub struct ArenaError {
    length_bytes: usize,
    error: Errno,
}

/// One anonymous, zero-filled mapping. See the module's documentation.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    length_bytes: usize,
    report: ArenaReport,
}

// SAFETY: the arena is an address range. Its bytes are accessed only by copies through raw pointers, never by
// references, and the module's documentation says what concurrent copies mean.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps an arena.
    ///
    /// # Errors
    ///
    /// [`ArenaError`] if there is not enough address space, or not enough memory to pre-fault it. A refused lock or
    /// huge page is no error; see [`Arena::report`].
    pub fn new(options: ArenaOptions) -> Result<Arc<Arena>, ArenaError> {
        let failed = |error| ArenaError {
            length_bytes: options.length_bytes,
            error,
        };
        let length_bytes = options
            .length_bytes
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .ok_or_else(|| failed(Errno::NOMEM))?;
        let base = mapping::map(length_bytes).map_err(failed)?;
        let mut arena = Arena {
            base,
            length_bytes,
            report: ArenaReport {
                huge_pages: mapping::ask_for_huge_pages(base, length_bytes),
                locked: Ok(false),
            },
        };
        if options.prefault {
            // SAFETY: the mapping is new.
            unsafe { mapping::prefault(base, length_bytes) }.map_err(failed)?;
        }
        if options.lock {
            arena.report.locked = mapping::lock(base, length_bytes)
                .map(|()| true)
                .map_err(|error| error.raw_os_error());
        }
        Ok(Arc::new(arena))
    }

    /// What the operating system granted.
    #[must_use]
    pub fn report(&self) -> ArenaReport {
        self.report
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> Buffer {
        Buffer(self.base.as_ptr() as u64)
    }

    /// The number of bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Whether the `length_bytes` that begin at `buffer` lie in the arena.
    #[must_use]
    #[inline]
    pub fn holds(&self, buffer: Buffer, length_bytes: u64) -> bool {
        let offset = buffer.0.wrapping_sub(self.base.as_ptr() as u64);
        let end = offset.checked_add(length_bytes);
        end.is_some_and(|end| end <= self.length_bytes as u64)
    }

    /// Copies bytes out of the arena.
    ///
    /// # Panics
    ///
    /// If the range is not in the arena; buffers come from pools over the arena.
    pub fn read(&self, from: Buffer, into: &mut [u8]) {
        let from = self.pointer(from, into.len() as u64);
        // SAFETY: `pointer` has checked the range, and a slice outside cannot overlap this private mapping, which is
        // never lent.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes into the arena.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`].
    pub fn write(&self, to: Buffer, from: &[u8]) {
        let to = self.pointer(to, from.len() as u64);
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Copies bytes inside the arena between ranges that do not overlap. `checksum` is the CRC-32C of earlier bytes;
    /// returns it continued over the copied ones.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`].
    pub(crate) fn copy_summing(
        &self,
        from: Buffer,
        to: Buffer,
        length_bytes: u32,
        checksum: u32,
    ) -> u32 {
        let length = length_bytes as usize;
        assert!(
            from.0.abs_diff(to.0) >= u64::from(length_bytes),
            "{from:x?} and {to:x?} overlap"
        );
        let from = self.pointer(from, u64::from(length_bytes));
        let to = self.pointer(to, u64::from(length_bytes));
        // SAFETY: `pointer` has checked both ranges, which do not overlap. The target's owner asked for the copy, so
        // nobody else uses the target meanwhile.
        let copied = unsafe {
            std::ptr::copy_nonoverlapping(from, to, length);
            std::slice::from_raw_parts(to, length)
        };
        crc32c::crc32c_append(checksum, copied)
    }

    /// Copies bytes within the arena.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`], for both ranges.
    pub fn copy(&self, from: Buffer, to: Buffer, length_bytes: u32) {
        let from = self.pointer(from, u64::from(length_bytes));
        let to = self.pointer(to, u64::from(length_bytes));
        // SAFETY: `pointer` has checked both ranges; they may overlap.
        unsafe { std::ptr::copy(from, to, length_bytes as usize) }
    }

    /// A range as memory that others may change at any time, to copy from and to the memory of a guest.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`].
    #[must_use]
    pub fn shared(&self, buffer: Buffer, length_bytes: u32) -> VolatileSlice<'_> {
        let address = self.pointer(buffer, u64::from(length_bytes));
        // SAFETY: `pointer` has checked the range, and it stays mapped as long as the arena lives. A `VolatileSlice` is,
        // like the arena, accessed only by copies through raw pointers.
        unsafe { VolatileSlice::new(address, length_bytes as usize) }
    }

    /// Sets bytes in the arena to `byte`.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`].
    pub fn fill(&self, at: Buffer, length_bytes: u64, byte: u8) {
        let at = self.pointer(at, length_bytes);
        // SAFETY: `pointer` has checked the range.
        unsafe { std::ptr::write_bytes(at, byte, length_bytes as usize) }
    }

    /// The address of a range that must lie in the arena.
    #[inline]
    pub(crate) fn pointer(&self, buffer: Buffer, length_bytes: u64) -> *mut u8 {
        match self.address(buffer, length_bytes) {
            Some(address) => address,
            None => panic!("{buffer:x?} with {length_bytes} bytes is not payload memory"),
        }
    }

    /// The address of a range, if it lies in the arena.
    #[inline]
    pub(crate) fn address(&self, buffer: Buffer, length_bytes: u64) -> Option<*mut u8> {
        if !self.holds(buffer, length_bytes) {
            return None;
        }
        Some(
            self.base
                .as_ptr()
                .wrapping_add((buffer.0 - self.base.as_ptr() as u64) as usize),
        )
    }

    /// Returns whole pages to the system, after which they read as zeros; says whether the system accepted.
    ///
    /// # Panics
    ///
    /// As [`Arena::read`], and if the range is not whole pages.
    pub(crate) fn give_back(&self, from: Buffer, length_bytes: u64) -> bool {
        let is_whole = (from.0 | length_bytes).is_multiple_of(page_bytes());
        assert!(
            is_whole,
            "{from:x?} with {length_bytes} bytes is not whole pages"
        );
        let start = self.pointer(from, length_bytes);
        // SAFETY: `pointer` has checked the range; the range locks exclude other use of it (see the module's
        // documentation).
        unsafe { mapping::give_back(start, length_bytes as usize) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and everything that hands its addresses to the kernel holds an `Arc` of the
        // arena.
        unsafe { mapping::unmap(self.base, self.length_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(length_bytes: usize) -> Arc<Arena> {
        Arena::new(ArenaOptions {
            length_bytes,
            prefault: true,
            lock: true,
        })
        .unwrap()
    }

    #[test]
    fn bytes_come_back_and_start_as_zeros() {
        let arena = arena(3 << 20);
        assert_eq!(arena.length_bytes(), 4 << 20);
        assert_eq!(arena.start().0 % HUGE_PAGE_BYTES as u64, 0);
        assert_eq!(
            arena.start().0 >> 63,
            0,
            "bit 63 marks scratch names in the engine"
        );
        let mut bytes = [1u8; 4];
        let last = Buffer(arena.start().0 + (4 << 20) - 4);
        arena.read(last, &mut bytes);
        assert_eq!(bytes, [0; 4]);
        arena.write(last, b"last");
        arena.read(last, &mut bytes);
        assert_eq!(&bytes, b"last");
    }

    #[test]
    fn ranges_outside_are_recognised() {
        let arena = arena(2 << 20);
        let start = arena.start();
        assert!(arena.holds(start, 2 << 20));
        assert!(!arena.holds(start, (2 << 20) + 1));
        assert!(!arena.holds(Buffer(start.0 - 1), 1));
        assert!(!arena.holds(Buffer(start.0 + (2 << 20)), 1));
        assert!(!arena.holds(Buffer(1 << 63), 1));
        assert!(!arena.holds(Buffer(u64::MAX), u64::MAX));
    }

    #[test]
    #[should_panic(expected = "is not payload memory")]
    fn copies_outside_are_refused() {
        let arena = arena(2 << 20);
        arena.write(Buffer(arena.start().0 + (2 << 20) - 1), b"two");
    }
}
