//! Digests of bytes: the same on every machine, to tell whether two things are equal. They are not cryptographic:
//! it is easy to construct two things with the same digest.

use crate::random::mix;

/// 128 bits that depend on all bytes, their order and their number.
#[must_use]
pub fn digest(bytes: &[u8]) -> u128 {
    let (mut low, mut high) = (0u64, u64::MAX);
    let mut take = |word: u64| {
        low = mix(low ^ word);
        high = mix(high.rotate_left(29).wrapping_add(word));
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        take(u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    take(u64::from_le_bytes(last));
    take(bytes.len() as u64);
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_its_place_and_the_length_count() {
        let text = b"the same bytes, the same digest";
        let known = digest(text);
        assert_eq!(known, digest(text));
        // The same on every machine and in every year.
        assert_eq!(known, 0x907d_8642_c14a_2185_d74e_bf74_37a8_e896);
        for at in 0..text.len() {
            let mut other = *text;
            other[at] ^= 1;
            assert_ne!(digest(&other), known, "byte {at}");
        }
        assert_ne!(digest(b""), digest(&[0]));
        assert_ne!(digest(&[0; 8]), digest(&[0; 16]));
        assert_ne!(digest(b"abcdefgh12345678"), digest(b"12345678abcdefgh"));
    }
}
