//! Sets of regions, and how a volume's regions are numbered: see [`crate::bitmap`].

use crate::control::record::BitmapRecord;
use crate::layout::Geometry;
use alloc::vec::Vec;

/// A set of regions.
pub(crate) type Words = Vec<u64>;

/// The regions from the first to the last.
pub(crate) type Regions = (u32, u32);

pub(crate) fn has(words: &[u64], region: u32) -> bool {
    words[region as usize / 64] >> (region % 64) & 1 == 1
}

pub(crate) fn set(words: &mut [u64], (first, last): Regions) {
    for region in first..=last {
        words[region as usize / 64] |= 1 << (region % 64);
    }
}

pub(crate) fn has_all(words: &[u64], (first, last): Regions) -> bool {
    (first..=last).all(|region| has(words, region))
}

pub(crate) fn take_out(from: &mut [u64], what: &[u64]) {
    for (word, out) in from.iter_mut().zip(what) {
        *word &= !out;
    }
}

pub(crate) fn is_empty(words: &[u64]) -> bool {
    words.iter().all(|&word| word == 0)
}

/// How many regions a volume has.
pub(crate) fn regions(shape: &Geometry, region_bytes: u64) -> u32 {
    shape.bitmap_bytes().div_ceil(region_bytes) as u32
}

/// Words of the sector that is written at once.
pub(crate) const SECTOR_WORDS: usize = 64;

/// Bytes of a volume's bits on the drive.
pub(crate) fn image_bytes(shape: &Geometry, bitmap: &BitmapRecord) -> u32 {
    let words = regions(shape, bitmap.region_bytes).div_ceil(64);
    words.next_multiple_of(SECTOR_WORDS as u32) * 8
}
