//! Tests of log headers, byte by byte; of what is found in a log's area; of entries and the rows that they cover; and
//! of replay, on arrays in memory that were interrupted in the middle of random writes.

mod flushing;
mod replaying;
mod rows;
mod walking;
mod world;

use super::*;
use crate::imsm::SectorSize;
use alloc::vec;
use proptest::prelude::*;

/// The container of the golden RAID 5.
const SIGNATURE: u32 = 0x27DF_BE6E;

fn entry(data_sector: u64, partial_parity_bytes: u32, data_bytes: u32, parity_slot: u32) -> Entry {
    Entry {
        data_sector,
        partial_parity_bytes,
        data_bytes,
        parity_slot,
        checksum: 0,
    }
}

#[test]
fn a_header_byte_by_byte() {
    // The bytes and checksums were worked out by hand from the specification.
    let partial: Vec<u8> = (0..1024u32).map(|at| (at * 7 + 3) as u8).collect();
    let header = Header {
        signature: SIGNATURE,
        generation: 0x0102_0304_0506_0708,
        entries: vec![
            Entry {
                checksum: crate::crc32c::crc32c(&partial),
                ..entry(0x11_2233_4455, 1024, 2048, 2)
            },
            entry(8, 0, 3 * 65536, 0),
        ],
    };
    let bytes = header.encode(SectorSize::Bytes512);
    assert!(bytes[..512].iter().all(|&byte| byte == 0xFF));
    let wanted: [u8; 72] = [
        0x6E, 0xBE, 0xDF, 0x27, 0, 0, 0, 0, // signature, 0
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // generation
        2, 0, 0, 0, 0x1F, 0xF1, 0x02, 0x9E, // entries, checksum
        0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, // first changed sector
        0, 4, 0, 0, 0, 8, 0, 0, // partial parity, data
        2, 0, 0, 0, 0xF0, 0x2E, 0x02, 0x29, // parity slot, checksum
        8, 0, 0, 0, 0, 0, 0, 0, //
        0, 0, 0, 0, 0, 0, 3, 0, //
        0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(bytes[512..584], wanted);
    assert!(bytes[584..].iter().all(|&byte| byte == 0));
    assert_eq!(
        Header::decode(&bytes, SIGNATURE, SectorSize::Bytes512),
        Ok(header)
    );
}

#[test]
fn drives_of_4096_byte_sectors_count_in_those() {
    let header = Header {
        entries: vec![entry(0x1000, 4096, 4096, 1)],
        ..Header::empty(SIGNATURE)
    };
    let bytes = header.encode(SectorSize::Bytes4096);
    assert_eq!(bytes[536..544], [0, 2, 0, 0, 0, 0, 0, 0]);
    let decoded = Header::decode(&bytes, SIGNATURE, SectorSize::Bytes4096);
    assert_eq!(decoded, Ok(header));
}

#[test]
fn the_empty_header() {
    let bytes = Header::empty(SIGNATURE).encode(SectorSize::Bytes512);
    assert_eq!(bytes[532..536], 0x0C13_A882u32.to_le_bytes());
    assert!(bytes[536..].iter().all(|&byte| byte == 0));
}

/// The engine builds one header after another in the same memory.
#[test]
fn nothing_is_left_of_what_was_there_before_a_header() {
    let changed = [entry(8, 512, 512, 1), entry(16, 0, 1024, 1)];
    let mut bytes = [0xA5; HEADER_BYTES];
    let sector = SectorSize::Bytes512;
    encode_header(
        &mut bytes,
        SIGNATURE,
        7,
        changed,
        sector,
        crate::crc32c::crc32c,
    );
    let header = Header {
        generation: 7,
        entries: changed.to_vec(),
        ..Header::empty(SIGNATURE)
    };
    assert_eq!(bytes, header.encode(sector));
    assert_eq!(Header::decode(&bytes, SIGNATURE, sector), Ok(header));
}

#[test]
fn what_is_no_header_is_named() {
    let decode =
        |bytes: &[u8; HEADER_BYTES]| Header::decode(bytes, SIGNATURE, SectorSize::Bytes512);
    let good = Header::empty(SIGNATURE).encode(SectorSize::Bytes512);
    assert!(decode(&good).is_ok());
    for at in [0, 511, 512, 531, 533, 536, 4095] {
        let mut bytes = good;
        bytes[at] ^= 1;
        assert_eq!(decode(&bytes), Err(HeaderProblem::Checksum), "byte {at}");
    }
    let other = Header::empty(7).encode(SectorSize::Bytes512);
    assert_eq!(decode(&other), Err(HeaderProblem::Signature { found: 7 }));
    let mut crowded = good;
    crowded[528] = 149;
    crowded[532..536].fill(0);
    let sum = crate::crc32c::crc32c(&crowded);
    crowded[532..536].copy_from_slice(&sum.to_le_bytes());
    let problem = HeaderProblem::TooManyEntries { entries: 149 };
    assert_eq!(decode(&crowded), Err(problem));
    assert_eq!(decode(&[0; HEADER_BYTES]), Err(HeaderProblem::Checksum));
}

#[test]
#[should_panic(expected = "a header holds 148 entries")]
fn a_header_is_not_overfilled() {
    let header = Header {
        entries: vec![Entry::default(); ENTRIES_MAX + 1],
        ..Header::default()
    };
    let _ = header.encode(SectorSize::Bytes512);
}

fn any_entry() -> impl Strategy<Value = Entry> {
    (
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
    )
        .prop_map(
            |(sector, partial, data_bytes, parity_slot, checksum)| Entry {
                data_sector: u64::from(sector) << 8,
                partial_parity_bytes: partial,
                data_bytes,
                parity_slot,
                checksum,
            },
        )
}

proptest! {
    #[test]
    fn headers_survive_being_written(
        signature in any::<u32>(),
        generation in any::<u64>(),
        entries in prop::collection::vec(any_entry(), 0..=ENTRIES_MAX),
        large in any::<bool>(),
    ) {
        let sector = if large { SectorSize::Bytes4096 } else { SectorSize::Bytes512 };
        let header = Header { signature, generation, entries };
        let bytes = header.encode(sector);
        prop_assert_eq!(Header::decode(&bytes, signature, sector), Ok(header));
    }

    #[test]
    fn any_bytes_are_survived(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..20_000),
        choice in any::<u8>(),
        large in any::<bool>(),
    ) {
        let sector = if large { SectorSize::Bytes4096 } else { SectorSize::Bytes512 };
        super::exercise(&bytes, choice, sector);
    }
}
