//! Scratch memory of one shard: a buddy allocator over addresses.
//!
//! Old data, old parity and new parity of a plan live here between its stages. The allocator hands out
//! contiguous power-of-two blocks of at least 4 KiB; the memory itself belongs to the world.

use crate::limits::GRAIN_BYTES;
use crate::units::Buffer;
use alloc::vec;
use alloc::vec::Vec;

/// A block handed out by [`Scratch::take`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScratchBlock {
    /// First byte.
    pub buffer: Buffer,
    order: u8,
}

/// The allocator. See the module's prose.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: Buffer,
    /// Free blocks by order, as grain indices.
    free: Vec<Vec<u32>>,
    /// For every grain that starts a free block: its order plus one; zero otherwise.
    state: Vec<u8>,
}

impl Scratch {
    /// Manages `length_bytes` from `base`; the length is rounded down to a power of two.
    pub fn new(base: Buffer, length_bytes: u64) -> Scratch {
        let grains = (length_bytes / u64::from(GRAIN_BYTES)).max(1);
        let top = grains.ilog2() as usize;
        let grains = 1usize << top;
        let mut free: Vec<Vec<u32>> = (0..=top)
            .map(|order| Vec::with_capacity(grains >> order))
            .collect();
        let mut state = vec![0; grains];
        free[top].push(0);
        state[0] = top as u8 + 1;
        Scratch { base, free, state }
    }

    /// A block of at least `length_bytes`, or nothing now.
    #[inline]
    pub fn take(&mut self, length_bytes: u32) -> Option<ScratchBlock> {
        let grains = length_bytes
            .div_ceil(GRAIN_BYTES)
            .max(1)
            .next_power_of_two();
        let order = grains.trailing_zeros() as usize;
        let mut from = order;
        while self.free.get(from)?.is_empty() {
            from += 1;
        }
        let grain = self.pop(from)?;
        while from > order {
            from -= 1;
            self.push(grain + (1 << from), from);
        }
        let offset = u64::from(grain) * u64::from(GRAIN_BYTES);
        Some(ScratchBlock {
            buffer: Buffer(self.base.0 + offset),
            order: order as u8,
        })
    }

    /// Returns a block.
    #[inline]
    pub fn give(&mut self, block: ScratchBlock) {
        let mut grain = ((block.buffer.0 - self.base.0) / u64::from(GRAIN_BYTES)) as u32;
        let mut order = block.order as usize;
        // Small blocks are kept split while there are few of them: the next request wants the same size.
        while order + 1 < self.free.len() && (order > 3 || self.free[order].len() > 64) {
            let buddy = grain ^ (1 << order);
            if self.state[buddy as usize] != order as u8 + 1 {
                break;
            }
            self.remove(buddy, order);
            grain &= !(1 << order);
            order += 1;
        }
        self.push(grain, order);
    }

    /// Joins what lazy freeing left apart; called when a large block cannot be had.
    pub fn coalesce(&mut self) {
        for order in 0..self.free.len() - 1 {
            let mut index = 0;
            while index < self.free[order].len() {
                let grain = self.free[order][index];
                let buddy = grain ^ (1 << order);
                if self.state[buddy as usize] == order as u8 + 1 {
                    self.remove(grain, order);
                    self.remove(buddy, order);
                    self.push(grain & !(1 << order), order + 1);
                    index = 0;
                } else {
                    index += 1;
                }
            }
        }
    }

    fn push(&mut self, grain: u32, order: usize) {
        self.state[grain as usize] = order as u8 + 1;
        self.free[order].push(grain);
    }

    fn pop(&mut self, order: usize) -> Option<u32> {
        let grain = self.free[order].pop()?;
        self.state[grain as usize] = 0;
        Some(grain)
    }

    fn remove(&mut self, grain: u32, order: usize) {
        self.state[grain as usize] = 0;
        if let Some(position) = self.free[order].iter().position(|&free| free == grain) {
            self.free[order].swap_remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_and_everything_comes_back() {
        let mut scratch = Scratch::new(Buffer(1 << 40), 1 << 20);
        let mut held: Vec<(ScratchBlock, u64)> = Vec::new();
        let mut seed = 7u64;
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let roll = seed >> 33;
            if roll.is_multiple_of(2) || held.is_empty() {
                let length = 1 + (roll % 200_000) as u32;
                if let Some(block) = scratch.take(length) {
                    let (from, to) = (block.buffer.0, block.buffer.0 + u64::from(length));
                    assert!(
                        held.iter().all(
                            |(other, len)| other.buffer.0 + len <= from || to <= other.buffer.0
                        )
                    );
                    assert!(from >= 1 << 40 && to <= (1 << 40) + (1 << 20));
                    held.push((block, u64::from(length)));
                }
            } else {
                let index = (roll as usize / 2) % held.len();
                scratch.give(held.swap_remove(index).0);
            }
        }
        held.drain(..).for_each(|(block, _)| scratch.give(block));
        scratch.coalesce();
        assert!(
            scratch.take(1 << 20).is_some(),
            "the whole region is one block again"
        );
        assert!(scratch.take(1).is_none());
    }
}
