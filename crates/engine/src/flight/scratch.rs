//! Scratch memory of one shard: a buddy allocator over addresses.
//!
//! Old data, old parity and new parity of a plan live here between its stages. The allocator hands out
//! contiguous power-of-two blocks of at least 4 KiB; the memory itself belongs to the world.
//!
//! A drive that hangs may keep the memory of its commands ([`crate::shard::plans::abandon`]), in the worst case all
//! of it. So where there is enough, half of the memory is a reserve that is not used before a drive has kept some.

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

impl ScratchBlock {
    /// Whether `buffer` lies in the block.
    pub fn holds(&self, buffer: Buffer) -> bool {
        let length_bytes = u64::from(GRAIN_BYTES) << self.order;
        (self.buffer.0..self.buffer.0 + length_bytes).contains(&buffer.0)
    }
}

/// The allocator. See the module's prose.
#[derive(Debug)]
pub(crate) struct Scratch {
    usual: Buddies,
    reserve: Option<Buddies>,
    /// Blocks handed out, and those of them that may never come back.
    lent: usize,
    pinned: usize,
}

impl Scratch {
    /// Manages `length_bytes` from `base`; half of them in reserve if that is at least `least_bytes`.
    pub fn new(base: Buffer, length_bytes: u64, least_bytes: u64) -> Scratch {
        let half = length_bytes / 2;
        let has_reserve = half >= least_bytes;
        let usual = Buddies::new(base, if has_reserve { half } else { length_bytes });
        Scratch {
            usual,
            reserve: has_reserve.then(|| Buddies::new(Buffer(base.0 + half), half)),
            lent: 0,
            pinned: 0,
        }
    }

    /// A block of at least `length_bytes`, or `None` if none is free now.
    #[inline]
    pub fn take(&mut self, length_bytes: u32) -> Option<ScratchBlock> {
        let block = match self.usual.take(length_bytes) {
            Some(block) => block,
            None if self.pinned > 0 => self.reserve.as_mut()?.take(length_bytes)?,
            None => return None,
        };
        self.lent += 1;
        Some(block)
    }

    /// As [`Scratch::take`], never to be given back.
    pub fn take_for_good(&mut self, length_bytes: u32) -> Option<Buffer> {
        self.usual.take(length_bytes).map(|block| block.buffer)
    }

    /// Returns a block.
    #[inline]
    pub fn give(&mut self, block: ScratchBlock) {
        self.lent -= 1;
        match &mut self.reserve {
            Some(reserve) if block.buffer.0 >= reserve.base.0 => reserve.give(block),
            _ => self.usual.give(block),
        }
    }

    /// A block stays with a drive that may never give it back.
    pub fn pin(&mut self, _: ScratchBlock) {
        self.pinned += 1;
    }

    /// The drive has given the block back.
    pub fn unpin(&mut self, block: ScratchBlock) {
        self.pinned -= 1;
        self.give(block);
    }

    /// Whether some blocks are lent, and all of them may never come back.
    pub fn is_stuck(&self) -> bool {
        self.pinned > 0 && self.lent == self.pinned
    }

    /// Blocks handed out, and those of them that may never come back.
    pub fn out(&self) -> (usize, usize) {
        (self.lent, self.pinned)
    }

    /// Joins what lazy freeing left apart; called when a large block cannot be had.
    pub fn coalesce(&mut self) {
        self.usual.coalesce();
        if let Some(reserve) = &mut self.reserve {
            reserve.coalesce();
        }
    }
}

/// One contiguous part of the scratch memory.
#[derive(Debug)]
struct Buddies {
    base: Buffer,
    /// Free blocks by order, as grain indices.
    free: Vec<Vec<u32>>,
    /// For every grain that starts a free block: its order plus one; zero otherwise.
    state: Vec<u8>,
}

impl Buddies {
    /// Manages `length_bytes` from `base`; the length is rounded down to a power of two.
    fn new(base: Buffer, length_bytes: u64) -> Buddies {
        let grains = (length_bytes / u64::from(GRAIN_BYTES)).max(1);
        let top = grains.ilog2() as usize;
        let grains = 1usize << top;
        let mut free: Vec<Vec<u32>> = (0..=top)
            .map(|order| Vec::with_capacity(grains >> order))
            .collect();
        let mut state = vec![0; grains];
        free[top].push(0);
        state[0] = top as u8 + 1;
        Buddies { base, free, state }
    }

    #[inline]
    fn take(&mut self, length_bytes: u32) -> Option<ScratchBlock> {
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

    #[inline]
    fn give(&mut self, block: ScratchBlock) {
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

    fn coalesce(&mut self) {
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
        let mut scratch = Scratch::new(Buffer(1 << 40), 1 << 20, 1 << 20);
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

    #[test]
    fn a_reserve_is_there_when_all_the_rest_is_pinned() {
        let mut scratch = Scratch::new(Buffer(1 << 40), 2 << 20, 1 << 20);
        let take_all = |scratch: &mut Scratch| -> Vec<ScratchBlock> {
            core::iter::from_fn(|| scratch.take(64 << 10)).collect()
        };
        let usual = take_all(&mut scratch);
        assert_eq!(usual.len(), 16, "the reserve is not touched");
        assert!(!scratch.is_stuck(), "lent blocks will come back");
        usual.iter().for_each(|&block| scratch.pin(block));
        assert!(scratch.is_stuck());
        let whole = scratch.take(1 << 20).expect("the reserve is one block");
        assert!(!scratch.is_stuck() && scratch.take(1).is_none());
        assert!(
            usual
                .iter()
                .all(|block| !whole.holds(block.buffer) && block.holds(block.buffer))
        );
        scratch.give(whole);
        usual.into_iter().for_each(|block| scratch.unpin(block));
        assert_eq!(take_all(&mut scratch).len(), 16);
    }
}
