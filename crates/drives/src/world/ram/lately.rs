//! Where on RAM members reads lately began.

/// Places that are remembered, a power of two: what is read before the first of it is written. Few
/// enough that the table does not drive better things out of the processor's first cache.
const PLACES: usize = 512;

/// A table with one entry for many places. One that is forgotten costs time, nothing else.
#[derive(Debug)]
pub(super) struct ReadLately(Box<[u64; PLACES]>);

impl ReadLately {
    pub fn new() -> ReadLately {
        ReadLately(Box::new([u64::MAX; PLACES]))
    }

    /// A place's name and its entry. Names differ, as members are smaller than 2^48 bytes.
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
