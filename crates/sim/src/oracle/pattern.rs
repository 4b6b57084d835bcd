//! The payload that clients write. Every sector of every request is unique, so that any sector that is read shows
//! which request wrote it.

use crate::random::mix;

/// Bytes of a sector, the unit in which the oracle works.
pub const SECTOR_BYTES: usize = 512;

fn word(key: u64, at: usize) -> u64 {
    let word = (key ^ at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (word ^ (word >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn key(request: u32, volume: u8, sector: u64) -> u64 {
    mix(u64::from(request) << 32 ^ sector ^ u64::from(volume) << 28)
}

/// Fills a sector with the pattern that `request` writes there.
pub fn fill(request: u32, volume: u8, sector: u64, into: &mut [u8]) {
    let key = key(request, volume, sector);
    for (at, bytes) in into.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(key, at).to_le_bytes());
    }
}

/// Whether a sector holds the pattern that `request` writes there.
#[must_use]
pub fn holds(request: u32, volume: u8, sector: u64, bytes: &[u8]) -> bool {
    let key = key(request, volume, sector);
    bytes
        .chunks_exact(8)
        .enumerate()
        .all(|(at, bytes)| bytes == word(key, at).to_le_bytes())
}

/// A hash that identifies content that no client has written.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |sum, chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    })
}
