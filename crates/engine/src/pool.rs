//! Fixed pools: everything a request needs while it is under way comes from one, so that serving
//! allocates nothing and every queue has a limit.

use crate::limits::{PARTS_MAX, PLANS_MAX};
use alloc::vec;
use alloc::vec::Vec;

/// Items of the largest pool, that of bands.
const LARGEST: usize = PARTS_MAX + PLANS_MAX;

/// The last entries of this table, as many as a pool has items, are the free list of the new pool.
static FIRST_ORDER: [u32; LARGEST] = {
    let mut order = [0; LARGEST];
    let mut at = 0;
    while at < LARGEST {
        order[at] = (LARGEST - 1 - at) as u32;
        at += 1;
    }
    order
};

/// A fixed number of `T` with indices as names.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
    capacity: usize,
    /// Which items are free, by index. Only in debug builds: the free list says the same, but a search of it for each
    /// item that is given back took more than half of the time of simulations in such builds.
    #[cfg(debug_assertions)]
    is_free: Vec<bool>,
}

impl<T> Pool<T> {
    /// A pool of `capacity` items, all of which `make` makes now.
    pub fn new(capacity: usize, mut make: impl FnMut() -> T) -> Pool<T> {
        let items: Vec<T> = (0..capacity).map(|_| make()).collect();
        // Handed out from the lowest index, so that a quiet engine stays within few cache lines.
        let free = FIRST_ORDER[LARGEST - capacity..].to_vec();
        Pool {
            items,
            free,
            capacity,
            #[cfg(debug_assertions)]
            is_free: vec![true; capacity],
        }
    }

    /// Takes an item out of the pool, whatever state its last user left it in.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let index = self.free.pop();
        #[cfg(debug_assertions)]
        if let Some(index) = index {
            self.is_free[index as usize] = false;
        }
        index
    }

    /// Gives an item back.
    #[inline]
    pub fn give(&mut self, index: u32) {
        #[cfg(debug_assertions)]
        {
            let was_free = core::mem::replace(&mut self.is_free[index as usize], true);
            assert!(!was_free, "given back twice");
        }
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

    /// How many items there are, free or in use.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The items that are in use, in ascending order. Panics if an item is listed as free twice.
    ///
    /// Tests call this after every turn, and most of a pool is never used: the part of the free list that is still in
    /// its first order is compared as blocks of memory.
    pub fn in_use(&self, what: &str) -> Vec<u32> {
        let untouched = self.untouched();
        let mut used = vec![true; self.capacity - untouched];
        for &index in &self.free[untouched..] {
            let place = used.get_mut(index as usize).filter(|place| **place);
            *place.unwrap_or_else(|| panic!("{what} {index} is free twice")) = false;
        }
        let places = (0u32..).zip(&used).filter(|(_, is_used)| **is_used);
        places.map(|(index, _)| index).collect()
    }

    /// How many entries at the beginning of the free list are still in their first order. They are the highest
    /// indices.
    fn untouched(&self) -> usize {
        const BLOCK: usize = 64;
        let first = &FIRST_ORDER[FIRST_ORDER.len() - self.capacity..];
        let blocks = self.free.chunks_exact(BLOCK);
        let blocks = blocks.zip(first.chunks_exact(BLOCK));
        let same = BLOCK * blocks.take_while(|(now, then)| now == then).count();
        let rest = self.free[same..].iter().zip(&first[same..]);
        same + rest.take_while(|(now, then)| now == then).count()
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

#[cfg(test)]
mod tests {
    #[cfg(debug_assertions)]
    use super::Pool;

    /// Builds without debug assertions keep no flags.
    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "given back twice")]
    fn an_item_is_given_back_once() {
        let mut pool = Pool::new(3, || ());
        let item = pool.take().expect("three are free");
        pool.take().expect("two are free");
        pool.give(item);
        pool.give(item);
    }
}
