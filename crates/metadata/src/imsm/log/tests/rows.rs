use super::super::rows::Piece;
use super::super::*;
use super::{SIGNATURE, entry};
use crate::imsm::record::WriteHolePolicy;
use crate::imsm::{SectorSize, golden};
use alloc::vec;

/// Four members with chunks of 16 sectors; rows have 48 sectors of data, and parity in slots 3, 2, 1, 0, 3 ...
fn volume() -> LoggedVolume {
    LoggedVolume {
        start_sector: 1000,
        component_sectors: 160,
        strip_sectors: 16,
        members: 4,
        log_sectors: 2048,
        signature: SIGNATURE,
        sector: SectorSize::Bytes512,
    }
}

fn piece(from: u64, to: u64, changed_slots: &[usize], partial_sector: Option<usize>) -> Piece {
    Piece {
        member_sectors: from..to,
        changed_slots: changed_slots.to_vec(),
        partial_parity_offset_bytes: partial_sector.map(|sector| sector * 512),
    }
}

/// The pieces of an entry with these sectors of partial parity and data.
fn pieces(data_sector: u64, partial: u32, data: u32, slot: u32) -> Option<Vec<Piece>> {
    let entry = entry(data_sector, partial * 512, data * 512, slot);
    volume().pieces(&entry, slot as usize)
}

#[test]
fn the_same_part_of_consecutive_chunks() {
    // Row 0: data in slots 0, 1, 2.
    let one = piece(1003, 1005, &[1], Some(0));
    assert_eq!(pieces(16 + 3, 2, 2, 3), Some(vec![one]));
    let two = piece(1003, 1005, &[1, 2], Some(0));
    assert_eq!(pieces(16 + 3, 2, 4, 3), Some(vec![two]));
    // Row 2: parity in slot 1, so data in slots 0, 2, 3.
    let later = piece(1032, 1040, &[2, 3], Some(0));
    assert_eq!(pieces(2 * 48 + 16, 8, 16, 1), Some(vec![later]));
    let all = piece(1040, 1048, &[0, 2, 3], None);
    assert_eq!(pieces(2 * 48 + 8, 0, 24, 1), Some(vec![all]));
    let full = piece(1032, 1048, &[0, 2, 3], None);
    assert_eq!(pieces(2 * 48, 0, 48, 1), Some(vec![full]));
}

#[test]
fn a_chunk_of_partial_parity_covers_any_part_of_the_row() {
    // A whole chunk, and two of them.
    let chunk = piece(1000, 1016, &[1], Some(0));
    assert_eq!(pieces(16, 16, 16, 3), Some(vec![chunk]));
    let chunks = piece(1000, 1016, &[0, 1], Some(0));
    assert_eq!(pieces(0, 16, 32, 3), Some(vec![chunks.clone()]));
    // More partial parity than a chunk means the same.
    assert_eq!(pieces(0, 40, 32, 3), Some(vec![chunks]));
    // From sector 10 of the first chunk to sector 4 of the second: two ends that do not touch.
    let apart = vec![
        piece(1000, 1004, &[1], Some(6)),
        piece(1010, 1016, &[0], Some(0)),
    ];
    assert_eq!(pieces(10, 16, 10, 3), Some(apart));
    // The last sector of the first and the first of the second.
    let border = vec![
        piece(1000, 1001, &[1], Some(1)),
        piece(1015, 1016, &[0], Some(0)),
    ];
    assert_eq!(pieces(15, 16, 2, 3), Some(border));
    // From sector 4 of the first to sector 10 of the third: three parts.
    let three = vec![
        piece(1000, 1004, &[1, 2], Some(12)),
        piece(1004, 1010, &[0, 1, 2], Some(0)),
        piece(1010, 1016, &[0, 1], Some(6)),
    ];
    assert_eq!(pieces(4, 16, 12 + 16 + 10, 3), Some(three));
    // A range inside one chunk.
    let inside = piece(1004, 1006, &[0], Some(0));
    assert_eq!(pieces(4, 16, 2, 3), Some(vec![inside]));
}

#[test]
fn entries_that_make_no_sense_have_no_pieces() {
    // The parity of row 0 is in slot 3, and its entries are in that member's log.
    assert_eq!(pieces(0, 8, 8, 2), None);
    assert_eq!(volume().pieces(&entry(0, 4096, 4096, 2), 3), None);
    assert_eq!(volume().pieces(&entry(0, 4096, 4096, 3), 2), None);
    for (data_sector, partial, data) in [
        (0, 0, 0),
        (0, 8, 0),
        // The data length is not a multiple of the partial parity's.
        (0, 8, 12),
        (0, 0, 25),
        // The range crosses the end of the chunk, or of the row.
        (12, 8, 8),
        (16, 8, 24),
        (0, 8, 32),
        (12, 0, 24),
        (40, 16, 9),
        (40, 16, u32::MAX / 512),
        // Beyond the volume: it has ten rows.
        (48 * 10, 8, 8),
        (48 * 12, 8, 8),
        (u64::MAX, 8, 8),
        (u64::MAX / 48 * 48, 8, 8),
    ] {
        for slot in 0..4 {
            let found = pieces(data_sector, partial, data, slot);
            assert_eq!(found, None, "{data_sector} {partial} {data} in {slot}");
        }
    }
    // The length is not a whole number of sectors.
    assert_eq!(volume().pieces(&entry(0, 4095, 4096, 3), 3), None);
    assert_eq!(volume().pieces(&entry(0, 4096, 4097, 3), 3), None);
    let large = LoggedVolume {
        sector: SectorSize::Bytes4096,
        ..volume()
    };
    assert!(large.pieces(&entry(8, 4096, 4096, 3), 3).is_some());
    assert_eq!(large.pieces(&entry(4, 4096, 4096, 3), 3), None);
    assert_eq!(large.pieces(&entry(8, 512, 512, 3), 3), None);
    assert_eq!(large.pieces(&entry(0, 0, 12288 / 2, 3), 3), None);
}

#[test]
fn the_shape_comes_from_the_record() {
    let mut mpb = golden::raid5();
    let of = |mpb: &crate::imsm::Mpb| LoggedVolume::of(mpb, 0, SectorSize::Bytes512);
    let wanted = LoggedVolume {
        start_sector: 0,
        component_sectors: 118_784,
        strip_sectors: 128,
        members: 4,
        log_sectors: 2048,
        signature: SIGNATURE,
        sector: SectorSize::Bytes512,
    };
    assert_eq!(of(&mpb), Some(wanted));
    assert_eq!(wanted.log_sector(), mpb.volumes[0].write_hole_log_sector());
    mpb.volumes[0].write_hole_policy = WriteHolePolicy::LogSingle;
    assert_eq!(of(&mpb).unwrap().log_sectors, 264);
    assert_eq!(of(&golden::raid1()), None);
    assert_eq!(
        LoggedVolume::of(&mpb, 1, SectorSize::Bytes512),
        None,
        "there is only one volume"
    );
    // The next volume begins where the large log would lie.
    let mut next = mpb.volumes[0].clone();
    next.name = crate::imsm::VolumeName::new("next").unwrap();
    next.map.start_sector = 118_784 + 300;
    next.map.data_stripes = 16;
    next.size_sectors = 16 * 128 * 3;
    mpb.volumes.push(next);
    assert_eq!(mpb.write_hole_log_room_sectors(0), 300);
    assert_eq!(of(&mpb).unwrap().log_sectors, 264);
    mpb.volumes[0].write_hole_policy = WriteHolePolicy::Log;
    assert_eq!(of(&mpb), None);
    let room = mpb.write_hole_log_room_sectors(1);
    assert_eq!(room, 131_072 - 144 - (118_784 + 300 + 2048));
}
