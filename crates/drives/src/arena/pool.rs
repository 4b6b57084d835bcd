//! A buddy allocator over a part of the arena, for one shard.
//!
//! Blocks are powers of two from 4 KiB to 32 MiB. Freed blocks are at first kept unmerged, some of each size, because
//! the next request probably has the same size. They are merged with their neighbours when an allocation finds no other
//! block. The same calls give the same addresses in every run.

use super::Arena;
use engine::units::Buffer;
use std::ops::Range;
use std::sync::Arc;

/// Smallest block.
const PAGE_BYTES: u64 = 4 << 10;
/// Sizes: 4 KiB << 0 … 4 KiB << 13 = 32 MiB.
const ORDERS: usize = 14;
/// Freed blocks of each size that are kept unmerged.
const CACHED_MAX: usize = 256;
/// End of a free list.
const NONE: u32 = u32::MAX;

/// The state of the block that begins at this page; all other pages are `Body`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Body,
    Used(u8),
    Cached(u8),
    Free(u8),
}

/// Allocates blocks from one part of an arena. See the module's documentation.
#[derive(Debug)]
pub struct Pool {
    arena: Arc<Arena>,
    start: Buffer,
    pages: Vec<Page>,
    /// Doubly linked free lists; the links of a free block (previous, next) are those of its first page.
    links: Vec<[u32; 2]>,
    heads: [u32; ORDERS],
    cached: [Vec<u32>; ORDERS],
    available_bytes: u64,
}

impl Pool {
    /// A pool over the `range` of bytes of `arena`, shrunk to whole pages of 4 KiB. Pools over one arena
    /// must not overlap.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the arena.
    #[must_use]
    pub fn new(arena: Arc<Arena>, range: Range<usize>) -> Pool {
        let page_bytes = PAGE_BYTES as usize;
        assert!(
            range.end <= arena.length_bytes(),
            "the pool's range must lie in the arena"
        );
        let first = range.start.next_multiple_of(page_bytes).min(range.end);
        let count = (range.end - first) / page_bytes;
        let mut pool = Pool {
            start: Buffer(arena.start().0 + first as u64),
            arena,
            pages: vec![Page::Body; count],
            links: vec![[NONE; 2]; count],
            heads: [NONE; ORDERS],
            cached: std::array::from_fn(|_| Vec::with_capacity(CACHED_MAX)),
            available_bytes: count as u64 * PAGE_BYTES,
        };
        pool.carve(count);
        pool
    }

    /// Divides the whole arena into `count` equal pools.
    #[must_use]
    pub fn divide(arena: &Arc<Arena>, count: usize) -> Vec<Pool> {
        let share = arena.length_bytes() / count.max(1);
        (0..count)
            .map(|n| Pool::new(arena.clone(), n * share..(n + 1) * share))
            .collect()
    }

    /// Divides the range of a pool, from which nothing is allocated, into `count` equal pools.
    ///
    /// # Panics
    ///
    /// If something is allocated.
    #[must_use]
    pub fn split(self, count: usize) -> Vec<Pool> {
        let pages = self.pages.len();
        assert_eq!(
            self.available_bytes,
            pages as u64 * PAGE_BYTES,
            "only a pool of which nothing has been handed out can be divided"
        );
        let from = (self.start.0 - self.arena.start().0) as usize;
        let share = pages / count.max(1) * PAGE_BYTES as usize;
        (0..count)
            .map(|n| Pool::new(self.arena.clone(), from + n * share..from + (n + 1) * share))
            .collect()
    }

    /// The arena that the blocks lie in.
    #[must_use]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether `buffer` lies in the pool's range.
    #[must_use]
    pub fn holds(&self, buffer: Buffer) -> bool {
        let length_bytes = self.pages.len() as u64 * PAGE_BYTES;
        (self.start.0..self.start.0 + length_bytes).contains(&buffer.0)
    }

    /// Bytes that are not allocated; they may be too fragmented for one large block.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes
    }

    /// A block of at least `length_bytes`, aligned to 4 KiB, or `None` if there is none.
    #[inline]
    pub fn allocate(&mut self, length_bytes: u64) -> Option<Buffer> {
        let order = order_of(length_bytes)?;
        let page = match self.cached[order].pop() {
            Some(page) => page,
            None => self.split_off(order)?,
        };
        self.pages[page as usize] = Page::Used(order as u8);
        self.available_bytes -= PAGE_BYTES << order;
        Some(Buffer(self.start.0 + u64::from(page) * PAGE_BYTES))
    }

    /// Frees a block that [`Pool::allocate`] returned.
    ///
    /// # Panics
    ///
    /// If `buffer` is not the first byte of an allocated block.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        let offset = buffer.0.wrapping_sub(self.start.0);
        let page = (offset / PAGE_BYTES) as usize;
        let order = match self.pages.get(page) {
            Some(Page::Used(order)) if offset.is_multiple_of(PAGE_BYTES) => usize::from(*order),
            _ => panic!(
                "{:#x} is not a block that this pool has handed out",
                buffer.0
            ),
        };
        self.available_bytes += PAGE_BYTES << order;
        if self.cached[order].len() < CACHED_MAX {
            self.pages[page] = Page::Cached(order as u8);
            self.cached[order].push(page as u32);
        } else {
            self.release(page as u32, order);
        }
    }

    /// Puts all pages on the free lists, in the largest aligned blocks. Lower addresses come out first.
    fn carve(&mut self, count: usize) {
        let mut blocks = Vec::new();
        let mut page = 0;
        while page < count {
            let fits = |&order: &usize| page % (1 << order) == 0 && page + (1 << order) <= count;
            let order = (0..ORDERS).rev().find(fits).unwrap_or(0);
            blocks.push((page as u32, order));
            page += 1 << order;
        }
        blocks
            .into_iter()
            .rev()
            .for_each(|(page, order)| self.link(page, order));
    }

    #[cold]
    fn split_off(&mut self, order: usize) -> Option<u32> {
        let find = |heads: &[u32; ORDERS]| (order..ORDERS).find(|&larger| heads[larger] != NONE);
        let larger = find(&self.heads).or_else(|| {
            self.merge_cached();
            find(&self.heads)
        })?;
        let page = self.heads[larger];
        self.unlink(page, larger);
        for half in (order..larger).rev() {
            self.link(page + (1 << half), half);
        }
        Some(page)
    }

    #[cold]
    fn merge_cached(&mut self) {
        for order in 0..ORDERS {
            while let Some(page) = self.cached[order].pop() {
                self.release(page, order);
            }
        }
    }

    /// Puts a block on its free list, after merging it with its buddy for as long as the buddy is free too.
    fn release(&mut self, mut page: u32, mut order: usize) {
        self.pages[page as usize] = Page::Body;
        while order + 1 < ORDERS {
            let buddy = page ^ (1 << order);
            if self.pages.get(buddy as usize) != Some(&Page::Free(order as u8)) {
                break;
            }
            self.unlink(buddy, order);
            page = page.min(buddy);
            order += 1;
        }
        self.link(page, order);
    }

    fn link(&mut self, page: u32, order: usize) {
        let head = self.heads[order];
        self.links[page as usize] = [NONE, head];
        if head != NONE {
            self.links[head as usize][0] = page;
        }
        self.heads[order] = page;
        self.pages[page as usize] = Page::Free(order as u8);
    }

    fn unlink(&mut self, page: u32, order: usize) {
        let [previous, next] = self.links[page as usize];
        match previous {
            NONE => self.heads[order] = next,
            _ => self.links[previous as usize][1] = next,
        }
        if next != NONE {
            self.links[next as usize][0] = previous;
        }
        self.pages[page as usize] = Page::Body;
    }
}

/// The smallest order whose blocks hold `length_bytes`.
#[inline]
fn order_of(length_bytes: u64) -> Option<usize> {
    let pages = length_bytes.div_ceil(PAGE_BYTES).max(1);
    let order = pages.checked_next_power_of_two()?.trailing_zeros() as usize;
    (order < ORDERS).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ArenaOptions;

    fn pool(length_bytes: usize) -> Pool {
        let arena = Arena::new(ArenaOptions {
            length_bytes,
            prefault: false,
            lock: false,
        })
        .unwrap();
        Pool::new(arena, 0..length_bytes)
    }

    #[test]
    fn sizes_are_rounded_up_and_bounded() {
        assert_eq!(order_of(0), Some(0));
        assert_eq!(order_of(4096), Some(0));
        assert_eq!(order_of(4097), Some(1));
        assert_eq!(order_of(32 << 20), Some(13));
        assert_eq!(order_of((32 << 20) + 1), None);
        assert_eq!(order_of(u64::MAX), None);
    }

    #[test]
    fn random_use_never_overlaps_and_everything_comes_back() {
        // An odd size, so that the last blocks are small.
        let length = (8 << 20) + (5 << 12);
        let mut pool = pool(length);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut state = 42u64;
        let uses = if cfg!(miri) { 400 } else { 20_000 };
        for _ in 0..uses {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let roll = state >> 33;
            if roll % 5 < 3 {
                let wanted = 1
                    + (roll / 5)
                        % if roll.is_multiple_of(7) {
                            1 << 20
                        } else {
                            20_000
                        };
                if let Some(Buffer(at)) = pool.allocate(wanted) {
                    assert_eq!(at % 4096, 0);
                    assert!(pool.arena().holds(Buffer(at), wanted));
                    let clear =
                        |&(other, size): &(u64, u64)| at + wanted <= other || other + size <= at;
                    assert!(held.iter().all(clear), "overlap");
                    held.push((at, wanted));
                }
            } else if !held.is_empty() {
                let (at, _) = held.swap_remove(roll as usize % held.len());
                pool.free(Buffer(at));
            }
        }
        held.drain(..).for_each(|(at, _)| pool.free(Buffer(at)));
        assert_eq!(pool.available_bytes(), length as u64);
        let whole = pool
            .allocate(8 << 20)
            .expect("all small blocks have merged again");
        pool.free(whole);
    }

    #[test]
    fn a_used_up_pool_says_so_and_recovers() {
        let mut pool = pool(2 << 20);
        let blocks: Vec<Buffer> = std::iter::from_fn(|| pool.allocate(4096)).collect();
        assert_eq!(blocks.len(), 512);
        assert_eq!(pool.available_bytes(), 0);
        blocks.into_iter().for_each(|block| pool.free(block));
        assert!(pool.allocate(2 << 20).is_some());
    }

    #[test]
    fn the_same_calls_give_the_same_offsets() {
        let run = || {
            let mut pool = pool(4 << 20);
            let start = pool.arena().start().0;
            let a = pool.allocate(4096).unwrap();
            let b = pool.allocate(100_000).unwrap();
            pool.free(a);
            let c = pool.allocate(10_000).unwrap();
            [a, b, c].map(|buffer| buffer.0 - start)
        };
        assert_eq!(run(), run());
    }

    #[test]
    #[should_panic(expected = "is not a block")]
    fn freeing_twice_is_caught() {
        let mut pool = pool(2 << 20);
        let block = pool.allocate(4096).unwrap();
        pool.free(block);
        pool.free(block);
    }
}
