//! CRC-32C (Castagnoli): reflected polynomial 0x82F63B78, initial value all ones, result inverted,
//! as in RFC 3720, appendix B.4. It takes eight bytes per step, with tables, because each header of the write-hole log
//! needs a checksum over 4 KiB.

/// `TABLES[k][byte]` is what `byte` contributes when `k` more bytes follow it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 {
                rest >> 1 ^ 0x82F6_3B78
            } else {
                rest >> 1
            };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut following = 1;
    while following < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[following - 1][byte];
            tables[following][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        following += 1;
    }
    tables
}

/// The checksum of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let sum = eights.iter().fold(u32::MAX, |sum, eight| {
        let mixed = u64::from_le_bytes(*eight) ^ u64::from(sum);
        (0..8).fold(0, |next, at| {
            next ^ TABLES[7 - at][(mixed >> (8 * at)) as usize & 0xFF]
        })
    });
    !rest.iter().fold(sum, |sum, &byte| {
        sum >> 8 ^ TABLES[0][usize::from(sum as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_rfc() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let bytes: [u8; 64] = core::array::from_fn(|at| (at * 37 + 11) as u8);
        for length in 0..bytes.len() {
            let mut sum = u32::MAX;
            for &byte in &bytes[..length] {
                sum ^= u32::from(byte);
                for _ in 0..8 {
                    sum = sum >> 1 ^ if sum & 1 == 1 { 0x82F6_3B78 } else { 0 };
                }
            }
            assert_eq!(crc32c(&bytes[..length]), !sum, "{length} bytes");
        }
    }
}
