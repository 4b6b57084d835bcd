//! A shadow that is written can be read again, damage is noticed, and nothing else uses its place.

use super::*;
use crate::imsm::migration_record::MigrationRecord;
use crate::imsm::place::{decode_region, encode_image};
use crate::imsm::record::Migration;
use crate::imsm::{MAX_RECORD_BYTES, RESERVED_AT_END_SECTORS, golden};
use alloc::vec;

const DRIVE_BYTES: u64 = 64 << 20;

fn placement(sector: SectorSize) -> Placement {
    Placement::new(DRIVE_BYTES, sector).unwrap()
}

const REPLACED: RecordPrint = RecordPrint {
    identity: RecordIdentity {
        container_family: 0x27df_be6e,
        generation: 22,
        checksum: 0x1234_5678,
    },
    crc: Some(0x8765_4321),
};

/// The bytes of the place for a drive's shadow, with `shadow` in it.
fn place_with(shadow: &[u8]) -> Vec<u8> {
    let mut region = vec![0xA5; PLACE_BYTES];
    region[..shadow.len()].copy_from_slice(shadow);
    region
}

#[test]
fn a_shadow_comes_back_as_it_was_made() {
    for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
        for replaced in [None, Some(REPLACED)] {
            let mpb = golden::raid5();
            let bytes = encode(&mpb, replaced, sector).unwrap();
            assert!(bytes.len().is_multiple_of(sector.bytes()));
            let found = decode(&place_with(&bytes), &placement(sector), sector);
            let found = found.unwrap().unwrap();
            assert_eq!(found.mpb, mpb);
            assert_eq!(found.replaced, replaced);
            let own = RecordIdentity::of_header(&mpb.encode(sector).unwrap()).unwrap();
            assert_eq!(found.print.identity, own);
            assert!(found.explains(&own));
            assert_eq!(found.explains(&REPLACED.identity), replaced.is_some());
        }
    }
}

#[test]
fn a_shadow_of_a_long_record_comes_back() {
    let sector = SectorSize::Bytes512;
    let mut mpb = golden::raid5();
    mpb.add_bad_blocks(0, 0, 254 * 256).unwrap();
    let bytes = encode(&mpb, Some(REPLACED), sector).unwrap();
    assert!(bytes.len() > 2048);
    let found = decode(&place_with(&bytes), &placement(sector), sector);
    let found = found.unwrap().unwrap().mpb;
    assert!(found.encode(sector) == mpb.encode(sector));
    assert!(found.bad_blocks == mpb.bad_blocks);
}

/// The header's bytes are fixed here, so that a later version cannot change them unnoticed.
#[test]
fn the_layout_is_the_one_of_version_1() {
    let mpb = golden::raid5();
    let bytes = encode(&mpb, Some(REPLACED), SectorSize::Bytes512).unwrap();
    assert_eq!(bytes.len(), 1024);
    assert_eq!(&bytes[..16], b"fullstripeShadow");
    let words: Vec<u32> = bytes[16..64]
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let wanted = [
        1,
        0x61d7_f3b7,
        584,
        // The record: family, generation and checksum that mdadm wrote.
        0x27df_be6e,
        23,
        0x2d79_67ba,
        1,
        0x27df_be6e,
        22,
        0x1234_5678,
        1,
        0x8765_4321,
    ];
    assert_eq!(words, wanted, "{words:08x?}");
    let record = mpb.encode(SectorSize::Bytes512).unwrap();
    assert_eq!(bytes[64..64 + 584], record);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let sector = SectorSize::Bytes512;
    let bytes = encode(&golden::raid1(), Some(REPLACED), sector).unwrap();
    let used = 64 + golden::raid1().encode(sector).unwrap().len();
    for at in 0..used {
        let mut region = place_with(&bytes);
        region[at] ^= 0x10;
        let found = decode(&region, &placement(sector), sector);
        if at < MAGIC.len() {
            assert_eq!(found, Ok(None), "byte {at}");
        } else {
            assert!(found.is_err(), "byte {at}");
        }
    }
    for length in 0..used {
        let found = decode(&bytes[..length], &placement(sector), sector);
        assert!(!matches!(found, Ok(Some(_))), "cut at {length}");
    }
}

#[test]
fn nothing_and_newer_versions_are_told_apart() {
    let sector = SectorSize::Bytes512;
    let decode = |region: &[u8]| decode(region, &placement(sector), sector);
    assert_eq!(decode(&[]), Ok(None));
    assert_eq!(decode(&vec![0; PLACE_BYTES]), Ok(None));
    let mut newer = encode(&golden::raid1(), None, sector).unwrap();
    newer[16] = 2;
    assert_eq!(decode(&newer), Err(ShadowError::Version { found: 2 }));
    assert!(has_mark(&newer));
    assert!(ShadowError::Version { found: 2 }.is_newer());
    for ours in [ShadowError::Version { found: 0 }, ShadowError::Checksum] {
        assert!(!ours.is_newer(), "{ours}");
    }
    let spare = Mpb {
        volumes: Vec::new(),
        ..golden::raid1()
    };
    let spare = encode(&spare, None, sector).unwrap();
    assert_eq!(decode(&spare), Err(ShadowError::Contradiction));
}

#[test]
fn the_place_holds_the_longest_record_and_meets_no_other() {
    assert_eq!(PLACE_BYTES, (64 + MAX_RECORD_BYTES).next_multiple_of(4096));
    for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
        let placement = placement(sector);
        let place = placement.shadow();
        let end = place.offset_bytes + place.length_bytes;
        assert!(place.offset_bytes.is_multiple_of(4096) && end.is_multiple_of(4096));
        // mdadm's copy area: 2048 sectors from 2209 before the end, on 4096-byte sectors rounded down.
        let copy_area = DRIVE_BYTES - 2209 * 512;
        assert!(end <= copy_area - copy_area % sector.bytes() as u64);
        assert!(end <= placement.region_to_read().offset_bytes);
        // The log of the largest volume that this program lays out ends before the place.
        let data_end = DRIVE_BYTES - RESERVED_AT_END_SECTORS * 512;
        assert!(data_end + WRITE_HOLE_LOG_SECTORS * 512 <= place.offset_bytes);
        assert_eq!(MigrationRecord::none(sector).len(), sector.bytes());
    }
}

#[test]
fn there_is_no_room_where_a_volume_or_a_reshape_may_be() {
    let placement = placement(SectorSize::Bytes512);
    let sectors = DRIVE_BYTES / 512;
    // The size of a component follows from its stripes, so the test moves a volume instead of enlarging it.
    let ends_at = |end: u64| {
        let mut mpb = golden::raid5();
        let component = mpb.volumes[0].component_sectors();
        mpb.volumes[0].map.start_sector = end - component;
        mpb
    };
    let last = sectors - START_SECTORS_FROM_END - WRITE_HOLE_LOG_SECTORS;
    assert!(has_room(&placement, &golden::raid5()));
    assert!(has_room(&placement, &ends_at(last)));
    assert!(!has_room(&placement, &ends_at(last + 1)));
    assert!(!has_room(&placement, &ends_at(sectors - 2217)));
    // A volume may not begin in the place either.
    for (start, wanted) in [
        (sectors - 2352, false),
        (sectors - 2217, false),
        (sectors - 2216, true),
    ] {
        let mut mpb = golden::raid5();
        mpb.volumes[0].map.start_sector = start;
        assert_eq!(has_room(&placement, &mpb), wanted, "from {start}");
    }

    for (kind, wanted) in [
        (MigrationKind::Rebuild, true),
        (MigrationKind::Repair, true),
        (MigrationKind::General, false),
        (MigrationKind::Unknown(9), false),
    ] {
        let mut mpb = golden::raid5();
        let second_map = mpb.volumes[0].map.clone();
        mpb.volumes[0].migration = Some(Migration {
            kind,
            checkpoint_unit: 0,
            second_map,
        });
        assert_eq!(has_room(&placement, &mpb), wanted, "{kind:?}");
    }
}

#[test]
fn what_looks_like_a_shadow_inside_a_volume_is_user_data() {
    let sector = SectorSize::Bytes512;
    let mut mpb = golden::raid5();
    mpb.volumes[0].map.start_sector = 10_000;
    let bytes = encode(&mpb, None, sector).unwrap();
    assert_eq!(
        decode(&bytes, &placement(sector), sector),
        Err(ShadowError::Misplaced)
    );
}

/// Two entries of a table behind the first sector change places. The checksum is a sum of words, so it stays the same.
#[test]
fn a_torn_record_whose_checksum_is_right_is_disproved() {
    let sector = SectorSize::Bytes512;
    let before = golden::raid5();
    let mut after = before.clone();
    let last = after.volumes[0].map.order.len() - 1;
    after.volumes[0].map.order.swap(last - 1, last);
    after.generation += 1;
    let (old, new) = (
        encode_image(&before, sector).unwrap(),
        encode_image(&after, sector).unwrap(),
    );
    assert_eq!((old.len(), new.len()), (1024, 1024));
    let with_last = |extension: &[u8], anchor: &[u8]| {
        let region = [extension, anchor, &[0; 512]].concat();
        decode_region(&region, sector).unwrap().unwrap()
    };
    let print = |image: &[u8]| with_last(&image[..512], &image[512..]).print;
    let bytes = encode(&after, Some(print(&old)), sector).unwrap();
    let shadow = decode(&place_with(&bytes), &placement(sector), sector);
    let shadow = shadow.unwrap().unwrap();
    assert!(!shadow.disproves(&print(&old)) && !shadow.disproves(&print(&new)));
    let torn = with_last(&new[..512], &old[512..]);
    assert_eq!(torn.mpb.volumes[0].map.order, after.volumes[0].map.order);
    assert!(shadow.disproves(&torn.print));
    // A shadow says nothing about records other than its own and the one that it replaces.
    let mut later = torn.print;
    later.identity.generation += 1;
    assert!(!shadow.disproves(&later));
}
