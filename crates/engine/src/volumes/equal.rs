//! Which ranges of a mirrored volume reads have made equal, in a table of fixed size: see
//! [`crate::shard::repair::equal`].

use crate::limits::{EQUAL_BLOCKS_MAX, GRAIN_BYTES};
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a block: a grain for each bit of a word.
const BLOCK_BYTES: u64 = GRAIN_BYTES as u64 * u32::BITS as u64;

/// One entry of the table.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The block's number on the members, and the data chunk of the row: each data chunk has copies of its own.
    block: (u64, u8),
    /// By bit: copies of this grain are equal.
    grains: u32,
}

/// Which ranges of one volume reads have made equal, as far as there was room to remember them.
#[derive(Debug, Default)]
pub(crate) struct EqualRanges {
    /// By a hash of the block; empty in volumes that need none.
    known: Vec<Known>,
}

impl EqualRanges {
    /// Makes the table, or drops it with all that is remembered.
    pub(crate) fn keep(&mut self, wanted: bool) {
        if wanted != self.are_kept() {
            let nothing = Known {
                block: (0, 0),
                grains: 0,
            };
            self.known = vec![nothing; if wanted { EQUAL_BLOCKS_MAX } else { 0 }];
        }
    }

    /// Whether this volume has copies that may differ, and that reads may make equal.
    #[inline]
    pub fn are_kept(&self) -> bool {
        !self.known.is_empty()
    }

    fn place(block: (u64, u8)) -> usize {
        // Fibonacci hashing, as for locks: the blocks that a shard owns follow a pattern.
        let number = block.0 << 6 | u64::from(block.1);
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize % EQUAL_BLOCKS_MAX
    }

    /// Whether all grains that the bytes `from` to `to` of the members touch are known to be equal.
    pub(crate) fn cover(&self, data_index: u8, from: u64, to: u64) -> bool {
        blocks(from, to).all(|(number, low, high)| {
            let block = (number, data_index);
            let wanted = bits(low / GRAIN_BYTES, high.div_ceil(GRAIN_BYTES));
            let known = self.known.get(EqualRanges::place(block));
            known.is_some_and(|known| known.block == block && wanted & !known.grains == 0)
        })
    }

    /// Remembers the grains that lie wholly between `from` and `to`.
    pub(crate) fn add(&mut self, data_index: u8, from: u64, to: u64) {
        for (number, low, high) in blocks(from, to) {
            let block = (number, data_index);
            let equal = bits(low.div_ceil(GRAIN_BYTES), high / GRAIN_BYTES);
            let place = EqualRanges::place(block);
            let Some(known) = self.known.get_mut(place).filter(|_| equal != 0) else {
                continue;
            };
            if known.block != block {
                *known = Known { block, grains: 0 };
            }
            known.grains |= equal;
        }
    }
}

/// The blocks between two places: for each its number, and the offsets in it at which the range begins and ends.
fn blocks(from: u64, to: u64) -> impl Iterator<Item = (u64, u32, u32)> {
    (from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES)).map(move |number| {
        let start = number * BLOCK_BYTES;
        let (low, high) = (from.max(start), to.min(start + BLOCK_BYTES));
        (number, (low - start) as u32, (high - start) as u32)
    })
}

/// The bits from `first` to before `end`.
fn bits(first: u32, end: u32) -> u32 {
    let below = |end: u32| 1u32.checked_shl(end).map_or(u32::MAX, |bit| bit - 1);
    below(end) & !below(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn table() -> EqualRanges {
        let mut table = EqualRanges::default();
        table.keep(true);
        table
    }

    #[test]
    fn what_has_been_made_equal_is_known_and_nothing_beside_it() {
        let mut table = table();
        // Across the border of a block, with half a grain at each end.
        table.add(1, 122 * KIB, 142 * KIB);
        assert!(table.cover(1, 124 * KIB, 140 * KIB));
        assert!(table.cover(1, 127 * KIB, 129 * KIB));
        for (from, to) in [(122, 124), (123, 125), (139, 141), (140, 142), (0, 4)] {
            assert!(!table.cover(1, from * KIB, to * KIB), "{from} to {to}");
        }
        assert!(!table.cover(0, 124 * KIB, 140 * KIB), "another data chunk");
        table.add(1, 120 * KIB, 124 * KIB);
        assert!(table.cover(1, 120 * KIB, 140 * KIB));
        table.add(1, 4 * KIB, 6 * KIB);
        assert!(
            !table.cover(1, 4 * KIB, 5 * KIB),
            "half a grain is not kept"
        );
    }

    #[test]
    fn whole_blocks_and_longer_ranges_are_known() {
        let mut table = table();
        table.add(0, 0, 1024 * KIB);
        assert!(table.cover(0, 0, 1024 * KIB));
        assert!(!table.cover(0, 0, 1024 * KIB + 512));
    }

    #[test]
    fn what_has_no_room_is_forgotten_and_never_taken_for_another() {
        let mut table = table();
        let blocks = 3 * EQUAL_BLOCKS_MAX as u64;
        for block in 0..blocks {
            table.add(0, block * BLOCK_BYTES, block * BLOCK_BYTES + 4 * KIB);
        }
        let is_known = |block: &u64| {
            let from = block * BLOCK_BYTES;
            assert!(!table.cover(0, from + 4 * KIB, from + 8 * KIB));
            table.cover(0, from, from + 4 * KIB)
        };
        let known = (0..blocks).filter(is_known).count();
        assert!(known > EQUAL_BLOCKS_MAX / 2 && known <= EQUAL_BLOCKS_MAX);
        assert!(is_known(&(blocks - 1)), "the last one is there");
    }

    #[test]
    fn chunks_of_one_row_do_not_share_a_place() {
        let mut table = table();
        (0..16).for_each(|chunk| table.add(chunk, 0, 4 * KIB));
        assert!((0..16).all(|chunk| table.cover(chunk, 0, 4 * KIB)));
    }

    #[test]
    fn nothing_is_known_without_room_or_after_it_was_given_back() {
        let mut table = EqualRanges::default();
        table.add(0, 0, 4 * KIB);
        assert!(!table.cover(0, 0, 4 * KIB));
        table.keep(true);
        table.add(0, 0, 4 * KIB);
        table.keep(true);
        assert!(table.cover(0, 0, 4 * KIB));
        table.keep(false);
        assert!(!table.cover(0, 0, 4 * KIB));
    }
}
