//! Remembers at which offsets RAM members have recently been read.

/// Number of remembered offsets, a power of two. Enough to remember the reads that a partial write makes until it
/// writes the same offsets, and few enough that the table does not displace more useful data from the first-level
/// cache.
const PLACES: usize = 512;

/// A hash table in which many offsets share an entry. Forgetting an offset costs only time.
#[derive(Debug)]
pub(super) struct ReadLately(Box<[u64; PLACES]>);

impl ReadLately {
    pub fn new() -> ReadLately {
        ReadLately(Box::new([u64::MAX; PLACES]))
    }

    /// An offset's key, and its entry. Keys are unique, because members are smaller than 2^48 bytes.
    #[inline]
    fn entry(&mut self, attachment: u16, offset_bytes: u64) -> (u64, &mut u64) {
        let name = offset_bytes | u64::from(attachment) << 48;
        // Fibonacci hashing: the upper bits of a product with 2^64 divided by the golden ratio.
        let mixed = name.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (
            name,
            &mut self.0[(mixed >> (u64::BITS - PLACES.ilog2())) as usize],
        )
    }

    #[inline]
    pub fn note(&mut self, attachment: u16, offset_bytes: u64) {
        let (name, entry) = self.entry(attachment, offset_bytes);
        *entry = name;
    }

    #[inline]
    pub fn has(&mut self, attachment: u16, offset_bytes: u64) -> bool {
        let (name, entry) = self.entry(attachment, offset_bytes);
        *entry == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_remembered_until_another_takes_its_entry() {
        let mut lately = ReadLately::new();
        assert!(!lately.has(0, 0) && !lately.has(3, 4096));
        lately.note(3, 4096);
        assert!(lately.has(3, 4096) && !lately.has(4, 4096) && !lately.has(3, 8192));
        for offset_bytes in 0..100_000 {
            lately.note(9, offset_bytes * 4096);
        }
        assert!(!lately.has(3, 4096));
    }
}
