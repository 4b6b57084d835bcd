//! Fixed pools: everything a request needs while it is under way comes from one, so that serving
//! allocates nothing and every queue has a limit.

use alloc::vec::Vec;

/// A fixed number of `T` with indices as names.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Pool<T> {
    /// A pool of at most `capacity` items, filled on demand by `make` until it has that many.
    pub fn new(capacity: usize, mut make: impl FnMut() -> T) -> Pool<T> {
        let items: Vec<T> = (0..capacity).map(|_| make()).collect();
        // Handed out from the lowest index, so that a quiet engine stays within few cache lines.
        let free = (0..capacity as u32).rev().collect();
        Pool {
            items,
            free,
            capacity,
        }
    }

    /// Takes an item out of the pool, whatever state its last user left it in.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives an item back.
    #[inline]
    pub fn give(&mut self, index: u32) {
        debug_assert!(!self.free.contains(&index), "given back twice");
        assert!(
            self.free.len() < self.capacity,
            "more is given back than was taken"
        );
        self.free.push(index);
    }

    /// Items that can still be taken.
    #[inline]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Items that there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// By index: whether the item is in use. Every free one is listed as free once.
    pub fn in_use(&self, what: &str) -> Vec<bool> {
        let mut used: Vec<bool> = self.items.iter().map(|_| true).collect();
        for &index in &self.free {
            let place = &mut used[index as usize];
            assert!(*place, "{what} {index} is free twice");
            *place = false;
        }
        used
    }

    /// Items in use.
    #[inline]
    pub fn used(&self) -> usize {
        self.capacity - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}
