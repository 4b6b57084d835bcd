use super::super::*;
use super::{SIGNATURE, entry};
use crate::imsm::SectorSize;
use alloc::vec;

const SECTOR: SectorSize = SectorSize::Bytes512;

/// An area with headers of these generations and these bytes of partial parity.
fn area(units: &[(u64, u32)]) -> Vec<u8> {
    let mut area = vec![0; 64 * 1024];
    let mut at = 0;
    for &(generation, partial_parity_bytes) in units {
        let header = Header {
            signature: SIGNATURE,
            generation,
            entries: vec![entry(0, partial_parity_bytes, partial_parity_bytes, 1)],
        };
        area[at..at + HEADER_BYTES].copy_from_slice(&header.encode(SECTOR));
        at += HEADER_BYTES + partial_parity_bytes as usize;
    }
    area
}

fn found(area: &[u8]) -> (AreaStart, usize, Option<(u64, usize)>) {
    let found = walk(area, SIGNATURE, SECTOR);
    let newest = found
        .newest
        .map(|newest| (newest.header.generation, newest.partial_parity_offset_bytes));
    (found.start, found.headers, newest)
}

#[test]
fn the_newest_is_the_last_of_the_chain() {
    let header = AreaStart::Header;
    assert_eq!(found(&area(&[(5, 4096)])), (header, 1, Some((5, 4096))));
    let three = area(&[(5, 4096), (9, 0), (12, 512)]);
    assert_eq!(found(&three), (header, 3, Some((12, 4096 * 4))));
    // Units left behind it from the previous pass over the area are older.
    let rewound = area(&[(5, 4096), (9, 0), (2, 512), (20, 0)]);
    assert_eq!(found(&rewound), (header, 2, Some((9, 4096 * 3))));
    let mut cut = area(&[(5, 4096), (9, 0), (12, 512)]);
    cut[8192 + 700] ^= 1;
    assert_eq!(found(&cut), (header, 1, Some((5, 4096))));
}

#[test]
fn a_chain_ends_with_its_area() {
    let header = AreaStart::Header;
    let beyond = area(&[(1, 4096), (2, 60 * 1024)]);
    assert_eq!(found(&beyond), (header, 2, Some((2, 12288))));
    let huge = area(&[(1, 0)]);
    let mut huge_entry = Header::decode(huge.first_chunk().unwrap(), SIGNATURE, SECTOR).unwrap();
    huge_entry.entries = vec![entry(0, u32::MAX, u32::MAX, 0); ENTRIES_MAX];
    let mut huge = huge;
    huge[..HEADER_BYTES].copy_from_slice(&huge_entry.encode(SECTOR));
    assert_eq!(found(&huge), (header, 1, Some((1, 4096))));
    let none = (AreaStart::Foreign(HeaderProblem::Checksum), 0, None);
    assert_eq!(found(&[0; 100]), none);
    // If the area holds only headers, the chain has as many as fit.
    let headers: Vec<(u64, u32)> = (0..16).map(|_| (7, 0)).collect();
    assert_eq!(found(&area(&headers)), (header, 16, Some((7, 65536))));
}

#[test]
fn an_area_without_header_says_why() {
    let start = |area: &[u8]| walk(area, SIGNATURE, SECTOR).start;
    assert_eq!(start(&[0; 8192]), AreaStart::Blank);
    assert_eq!(
        start(&[7; 8192]),
        AreaStart::Foreign(HeaderProblem::Checksum)
    );
    let other = Header::empty(1).encode(SECTOR);
    assert_eq!(
        start(&other),
        AreaStart::Foreign(HeaderProblem::Signature { found: 1 })
    );
}

/// If a header of this log is torn by an interrupted write, each of its sectors can be recognised as this log's.
/// Anything else is foreign.
#[test]
fn damage_that_no_torn_write_leaves_is_foreign() {
    let header = Header {
        signature: SIGNATURE,
        generation: 7,
        entries: vec![entry(8, 4096, 8192, 2)],
    };
    let header = header.encode(SECTOR);
    let other = Header::empty(SIGNATURE + 1).encode(SECTOR);
    let mut torn_of_another = other;
    torn_of_another[..512].fill(0);
    let damaged = |at: usize, byte: u8| {
        let mut bytes = header;
        bytes[at] = byte;
        bytes
    };
    let checksum = HeaderProblem::Checksum;
    let signature = HeaderProblem::Signature {
        found: SIGNATURE + 1,
    };
    for (what, bytes, problem) in [
        ("first sector", damaged(0, 0x11), checksum),
        ("end of the first sector", damaged(511, 0), checksum),
        ("signature", damaged(512, !header[512]), checksum),
        ("zeros behind it", damaged(516, 1), checksum),
        ("count", damaged(528, 149), checksum),
        ("another's, torn", torn_of_another, checksum),
        ("another's", other, signature),
    ] {
        let start = walk(&bytes, SIGNATURE, SECTOR).start;
        assert_eq!(start, AreaStart::Foreign(problem), "{what}");
        assert!(!start.can_be_trusted(), "{what}");
    }
}

/// Any sectors of a header may reach a drive that holds zeros, the empty header, or an older header. The result is the
/// old content, the new header, or recognised as torn, but never taken as foreign.
#[test]
fn a_torn_header_is_known_as_such() {
    let header = |generation: u64, entries: usize| {
        let entry = |at: usize| entry(at as u64 * 8, 4096, 8192, 2);
        let header = Header {
            signature: SIGNATURE,
            generation,
            entries: (0..entries).map(entry).collect(),
        };
        header.encode(SECTOR)
    };
    let befores = [
        [0; HEADER_BYTES],
        header(0, 0),
        header(6, 3),
        header(6, ENTRIES_MAX),
    ];
    for before in befores {
        for now in [header(0, 0), header(7, 20), header(7, ENTRIES_MAX)] {
            for landed in 0..256 {
                let mut bytes = before;
                for at in (0..8).filter(|at| landed >> at & 1 == 1) {
                    let sector = at * 512..(at + 1) * 512;
                    bytes[sector.clone()].copy_from_slice(&now[sector]);
                }
                let found = walk(&bytes, SIGNATURE, SECTOR);
                let wanted = if bytes == before || bytes == now {
                    found.start != AreaStart::Torn
                } else {
                    found.start == AreaStart::Torn
                };
                assert!(wanted, "{landed:08b}: {:?}", found.start);
                assert!(found.start.can_be_trusted());
                assert_eq!(found.newest.is_some(), found.start == AreaStart::Header);
            }
        }
    }
    // On a drive with 4096-byte sectors a header cannot be torn, so this is other damage.
    let mut torn = header(7, 148);
    torn[1024..].fill(0);
    let found = walk(&torn, SIGNATURE, SectorSize::Bytes4096);
    assert!(!found.start.can_be_trusted());
}
