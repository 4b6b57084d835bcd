use super::*;
use crate::imsm::golden;
use crate::imsm::record::SectorSize::{Bytes512, Bytes4096};
use alloc::string::ToString;

/// What mdadm 4.2 wrote for a RAID 1 of two drives (`-l1 -n2 --bitmap=internal`), up to the zeros.
const RAID1_UUID: [u8; 16] = [
    0xd7, 0x0f, 0xed, 0x89, 0x64, 0x1f, 0xc9, 0x69, 0xbb, 0x69, 0xe5, 0xe3, 0xbb, 0xee, 0x1d, 0x06,
];
const OF_MDADM: [u8; 60] = [
    0x62, 0x69, 0x74, 0x6d, 0x04, 0, 0, 0, // magic, version
    0xd7, 0x0f, 0xed, 0x89, 0x64, 0x1f, 0xc9, 0x69, 0xbb, 0x69, 0xe5, 0xe3, 0xbb, 0xee, 0x1d, 0x06,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // events, events_cleared
    0x00, 0xd0, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, // length, state
    0, 0, 0, 4, 5, 0, 0, 0, // 64 MiB, 5 s
];

/// The volume of that array: 806912 sectors from sector 0.
fn of_mdadm() -> BitmapVolume {
    BitmapVolume {
        area_sector: 806_912,
        covered_bytes: 806_912 * 512,
        uuid: Uuid(RAID1_UUID),
    }
}

#[test]
fn a_header_has_the_bytes_that_mdadm_writes() {
    let volume = of_mdadm();
    let header = Header {
        uuid: volume.uuid,
        events: 0,
        events_cleared: 0,
        region_bytes: volume.region_bytes_default(),
    };
    let bytes = header.encode();
    assert_eq!(bytes[..60], OF_MDADM);
    assert!(bytes[60..].iter().all(|&byte| byte == 0));
    assert_eq!(Header::decode(&bytes, &volume), Ok(header));
    // The offsets at which mdadm put header and bits on the drive.
    assert_eq!(volume.header_offset_bytes(), 413_147_136);
    assert_eq!(volume.bits_offset_bytes() / 512, 806_936);
    assert_eq!(BITS_BYTES_MAX, 1_036_288);
    // Seven regions, cleared after the first synchronisation: mdadm left a byte of 0x80.
    assert_eq!(volume.regions(header.region_bytes), 7);
    assert_eq!(bits_of(&[0], 7, 512)[..2], [0x80, 0xFF]);
}

#[test]
fn regions_count_what_md_counts() {
    let of = |mpb: &Mpb| BitmapVolume::of(mpb, 0, Bytes512).unwrap();
    let (mirror, pairs, parity) = (golden::raid1(), golden::raid10(), golden::raid5());
    assert_eq!(
        of(&mirror).covered_bytes,
        mirror.volumes[0].component_sectors() * 512
    );
    assert_eq!(
        of(&pairs).covered_bytes,
        pairs.volumes[0].size_sectors * 512
    );
    assert_eq!(
        of(&parity).covered_bytes,
        parity.volumes[0].component_sectors() * 512
    );
}

#[test]
fn who_cannot_have_one_is_told_why() {
    assert_eq!(
        BitmapVolume::of(&golden::raid0(), 0, Bytes512),
        Err(NoBitmap::Level)
    );
    assert_eq!(
        BitmapVolume::of(&golden::raid5(), 0, Bytes4096),
        Err(NoBitmap::SectorSize)
    );
    let mut close = golden::raid1();
    let end = close.volumes[0].extent().end;
    let drive = close.disks[0].total_sectors;
    let free = close.write_hole_log_room_sectors(0);
    for disk in &mut close.disks {
        disk.total_sectors = drive - free + 300;
    }
    assert!(close.disks[0].total_sectors > end);
    let no_room = NoBitmap::Room { free_sectors: 300 };
    assert_eq!(BitmapVolume::of(&close, 0, Bytes512), Err(no_room));
    let sentence = no_room.to_string();
    assert!(sentence.contains("takes 2048 sectors") && sentence.contains("300 are free"));
}

#[test]
fn the_room_for_a_bitmap_is_all_or_nothing() {
    let mut mpb = golden::raid1();
    let (drive, free) = (
        mpb.disks[0].total_sectors,
        mpb.write_hole_log_room_sectors(0),
    );
    for (room, wanted) in [(2047, false), (2048, true)] {
        for disk in &mut mpb.disks {
            disk.total_sectors = drive - free + room;
        }
        let of = BitmapVolume::of(&mpb, 0, Bytes512);
        assert_eq!(of.is_ok(), wanted, "{room} sectors");
    }
    // A volume with as many regions as there are bits, and one with one region more.
    let region = u64::from(REGION_BYTES_MIN);
    for (regions, wanted) in [(BITS_BYTES_MAX * 8, true), (BITS_BYTES_MAX * 8 + 1, false)] {
        let volume = BitmapVolume {
            covered_bytes: regions * region,
            ..of_mdadm()
        };
        assert_eq!(volume.takes(REGION_BYTES_MIN), wanted, "{regions} regions");
    }
}

#[test]
fn every_region_has_its_bit_within_whole_sectors() {
    for (regions, bytes) in [(1, 512), (7, 512), (4096, 512), (4097, 1024), (8193, 1536)] {
        let volume = BitmapVolume {
            covered_bytes: (regions - 1) * u64::from(REGION_BYTES_MIN) + 512,
            ..of_mdadm()
        };
        assert_eq!(volume.regions(REGION_BYTES_MIN), regions);
        assert_eq!(
            volume.bits_bytes(REGION_BYTES_MIN),
            bytes,
            "{regions} regions"
        );
    }
}

#[test]
fn a_header_that_is_not_this_volumes_is_refused() {
    let volume = of_mdadm();
    let header = Header {
        uuid: volume.uuid,
        events: 7,
        events_cleared: 5 << 33,
        region_bytes: 1 << 20,
    };
    assert_eq!(Header::decode(&header.encode(), &volume), Ok(header));
    let with = |at: usize, byte: u8| {
        let mut bytes = header.encode();
        bytes[at] = byte;
        Header::decode(&bytes, &volume)
    };
    assert_eq!(with(0, 0), Err(HeaderProblem::Absent));
    assert_eq!(with(4, 5), Err(HeaderProblem::Version(5)));
    assert!(matches!(with(8, 0), Err(HeaderProblem::OtherVolume(_))));
    assert_eq!(with(52, 1), Err(HeaderProblem::Region((1 << 20) + 1)));
    assert_eq!(with(54, 0), Err(HeaderProblem::Region(0)));
    assert_eq!(Header::decode(&[], &volume), Err(HeaderProblem::Absent));
    // Regions so small that there is no room for all bits.
    let huge = BitmapVolume {
        covered_bytes: 1 << 50,
        ..volume
    };
    assert!(!huge.takes(REGION_BYTES_MIN) && huge.takes(huge.region_bytes_default()));
    assert!(matches!(
        Header::decode(&header.encode(), &huge),
        Err(HeaderProblem::Region(_))
    ));
}

#[test]
fn sets_of_regions_survive_the_way_to_the_drive_and_back() {
    for regions in [1u64, 7, 8, 63, 64, 65, 130, 4096, 5000] {
        let mut words = all_words(regions);
        assert_eq!(count(&words), regions);
        for (at, word) in words.iter_mut().enumerate() {
            *word &= 0xF0F0_1234_5678_9ABC_u64.rotate_left(at as u32);
        }
        let length = regions.div_ceil(8).next_multiple_of(512) as usize;
        let bits = bits_of(&words, regions, length);
        assert_eq!(words_of(&bits, regions), words, "{regions} regions");
        assert!(
            bits[regions.div_ceil(8) as usize..]
                .iter()
                .all(|&byte| byte == 0xFF)
        );
    }
}
