//! An allocator that counts, so that "nothing is allocated per request" is measured.
//!
//! It passes all calls on to the system's allocator. A program declares it as its global allocator and reads
//! [`allocations`] before and after. Each thread has its own counter, so other threads do not affect the result.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a counter per thread.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    // Constant and without a destructor: reading it allocates nothing, at any time in a thread's life.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread has allocated or grown memory since it started. Always zero in a program whose global
/// allocator is not a [`CountingAllocator`].
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches only a
// thread-local integer that needs no memory of its own.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the system allocator's requirement.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn memory_works_and_is_counted_for_the_thread_that_takes_it() {
        let moment = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                moment.wait();
                let before = allocations();
                drop(vec![0u8; 100]);
                // This test program uses the counting allocator, so the vector is counted once.
                assert_eq!(allocations() - before, 1);
                moment.wait();
            });
            let before = allocations();
            moment.wait();
            moment.wait();
            assert_eq!(allocations(), before, "counted for another thread");
        });
        let before = allocations();
        let layout = Layout::from_size_align(100, 8).expect("a valid layout");
        // SAFETY: the layout is not empty; the pointer is checked, used within its size and freed once.
        unsafe {
            let pointer = CountingAllocator.alloc_zeroed(layout);
            assert!(!pointer.is_null());
            assert_eq!(*pointer.add(99), 0);
            let larger = CountingAllocator.realloc(pointer, layout, 200);
            *larger.add(199) = 7;
            CountingAllocator.dealloc(larger, Layout::from_size_align(200, 8).expect("valid"));
        }
        assert_eq!(allocations() - before, 2);
    }
}
