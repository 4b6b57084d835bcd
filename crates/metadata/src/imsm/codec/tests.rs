//! The codec against known numbers, against itself, and against hostile bytes.

use super::{DecodeError, EncodeError, checksum, word_at};
use crate::imsm::attributes::Attributes;
use crate::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use crate::imsm::geometry::{Level, SizeRequest};
use crate::imsm::place::{decode_region, encode_image};
use crate::imsm::record::{
    BadBlockEntry, Migration, MigrationKind, Mpb, SectorSize, Volume, VolumeName,
};
use crate::imsm::serial::Serial;
use crate::imsm::{arbitrary, golden};
use alloc::vec::Vec;
use alloc::{format, vec};
use proptest::prelude::*;

const NATIVE: SectorSize = SectorSize::Bytes512;
const LARGE: SectorSize = SectorSize::Bytes4096;

/// `bytes` with a correct checksum, so that they pass that check.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = word_at(&bytes, 0x24).unwrap() as usize;
    // If the length ends before the checksum, the record is refused before the checksum is read.
    if let Some(record) = bytes
        .get_mut(..length)
        .filter(|record| record.len() >= 0x24)
    {
        let sum = checksum(record);
        record[0x20..0x24].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn drives(count: usize, total_sectors: u64) -> Vec<NewDrive> {
    (0..count)
        .map(|number| NewDrive {
            serial: Serial::from_drive(format!("DRIVE{number:03}").as_bytes()),
            total_sectors,
        })
        .collect()
}

fn spec(name: &str, level: Level, size: SizeRequest) -> VolumeSpec {
    VolumeSpec {
        name: VolumeName::new(name).unwrap(),
        level,
        strip_sectors: 128,
        size,
        born_in_sync: true,
        allow_wide: false,
    }
}

const IDENTITY: ContainerIdentity = ContainerIdentity {
    family_num: 0x1234_5678,
    creation_time: 1,
};

#[test]
fn four_kib_sectors_store_four_kib_units() {
    // A RAID 5 of four 32 MiB drives with 8 MiB on each, as mdadm stored it.
    let volume = spec(
        "r5",
        Level::Raid5,
        SizeRequest::PerMember { sectors: 16_384 },
    );
    let mpb = Mpb::create(&drives(4, 65_536), &volume, IDENTITY).unwrap();
    let bytes = mpb.encode(LARGE).unwrap();
    let (disk, volume) = (216, 216 + 4 * 48);
    let map = volume + 112;
    assert_eq!(word_at(&bytes, disk + 16), Some(8192), "drive");
    assert_eq!(word_at(&bytes, volume + 16), Some(6144), "size");
    assert_eq!(word_at(&bytes, map + 4), Some(2304), "per member");
    assert_eq!(
        word_at(&bytes, map + 8),
        Some(128),
        "stripes are not scaled"
    );
    assert_eq!(word_at(&bytes, map + 12).unwrap() & 0xFFFF, 16, "strip");
    assert_eq!(Mpb::decode(&bytes, LARGE), Ok(mpb.clone()));
    assert_eq!(mpb.volumes[0].write_hole_log_sector() * 512, 8_388_608);
}

#[test]
fn large_drives_and_volumes_use_high_words_and_say_so() {
    // A pair of 3 TB drives with two volumes, as mdadm laid it out.
    let sectors = 3_000_000_000_000 / 512 / 2048 * 2048;
    let mut first = spec(
        "a",
        Level::Raid0,
        SizeRequest::PerMember {
            sectors: 5_452_595_200,
        },
    );
    first.strip_sectors = 256;
    let mut mpb = Mpb::create(&drives(2, sectors), &first, IDENTITY).unwrap();
    mpb.add_volume(&spec("b", Level::Raid1, SizeRequest::Largest))
        .unwrap();
    assert_eq!(mpb.attributes, Attributes(0xA400_0003));
    assert_eq!(mpb.volumes[1].map.start_sector, 5_452_603_392);
    let bytes = mpb.encode(NATIVE).unwrap();
    assert_eq!(Mpb::decode(&bytes, NATIVE), Ok(mpb.clone()));

    // If the attribute is not set, the high words of drives and maps count as zero.
    let mut masked = bytes;
    let attributes = Attributes(0xA400_0003).without(Attributes::LARGE_DISK).0;
    masked[0x34..0x38].copy_from_slice(&attributes.to_le_bytes());
    let masked = Mpb::decode(&resealed(masked), NATIVE).unwrap();
    assert_eq!(masked.disks[0].total_sectors, sectors & 0xFFFF_FFFF);
    assert_eq!(
        masked.volumes[1].map.start_sector,
        5_452_603_392 & 0xFFFF_FFFF
    );
    assert_eq!(masked.volumes[0].size_sectors, mpb.volumes[0].size_sectors);
}

#[test]
fn a_second_map_makes_the_record_longer_by_that_map() {
    let mut mpb = golden::raid5();
    let second_map = mpb.volumes[0].map.clone();
    mpb.volumes[0].migration = Some(Migration {
        kind: MigrationKind::Repair,
        checkpoint_unit: 18,
        second_map,
    });
    let bytes = mpb.encode(NATIVE).unwrap();
    assert_eq!(bytes.len(), 584 + 64);
    let volume = 216 + 4 * 48;
    assert_eq!(word_at(&bytes, volume + 80), Some(18));
    assert_eq!(bytes[volume + 88..volume + 90], [1, 2]);
    assert_eq!(
        word_at(&bytes, volume + 24),
        Some(0xC | Volume::VERIFY_AND_FIX)
    );
    let decoded = Mpb::decode(&bytes, NATIVE).unwrap();
    assert_eq!(decoded.volumes[0].migration, mpb.volumes[0].migration);
}

#[test]
fn bad_blocks_lie_at_the_end_and_set_their_attribute() {
    let mut mpb = golden::raid1();
    mpb.bad_blocks = vec![
        BadBlockEntry {
            disk_index: 1,
            start_sector: 0xA1_0000_2000,
            sectors: 256,
        },
        BadBlockEntry {
            disk_index: 1,
            start_sector: 0xA1_0000_2100,
            sectors: 44,
        },
    ];
    let bytes = mpb.encode(NATIVE).unwrap();
    assert_eq!(bytes.len(), 480 + 8 + 2 * 8);
    assert_eq!(word_at(&bytes, 0x48), Some(24));
    assert_eq!(word_at(&bytes, 480), Some(0xABAD_B10C));
    assert_eq!(word_at(&bytes, 484), Some(2));
    assert_eq!(
        bytes[488..496],
        [0xFF, 1, 0x00, 0x20, 0x00, 0x00, 0xA1, 0x00]
    );
    let mut expected = mpb.clone();
    expected.attributes = Attributes(0x8800_0000);
    assert_eq!(Mpb::decode(&bytes, NATIVE), Ok(expected));
}

#[test]
fn bad_blocks_round_outwards_on_large_sectors() {
    let mut mpb = golden::raid1();
    mpb.bad_blocks = vec![BadBlockEntry {
        disk_index: 0,
        start_sector: 12,
        sectors: 5,
    }];
    let decoded = Mpb::decode(&mpb.encode(LARGE).unwrap(), LARGE).unwrap();
    assert_eq!(
        decoded.bad_blocks,
        [BadBlockEntry {
            disk_index: 0,
            start_sector: 8,
            sectors: 16
        }]
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut mpb = golden::raid1();
    mpb.disks[0].total_sectors += 1;
    assert!(matches!(
        mpb.encode(LARGE),
        Err(EncodeError::NotAligned {
            field: "drive size",
            ..
        })
    ));
    assert!(mpb.encode(NATIVE).is_ok());

    let mut mpb = golden::raid1();
    mpb.volumes[0].map.sectors_per_strip = 1 << 16;
    assert!(matches!(
        mpb.encode(NATIVE),
        Err(EncodeError::ValueTooLarge { .. })
    ));

    let mut mpb = golden::raid1();
    mpb.disks = vec![mpb.disks[0].clone(); 256];
    assert!(matches!(
        mpb.encode(NATIVE),
        Err(EncodeError::TooMany { count: 256, .. })
    ));

    let mut mpb = golden::raid1();
    mpb.bad_blocks = vec![BadBlockEntry {
        disk_index: 0,
        start_sector: 0,
        sectors: 0,
    }];
    assert!(matches!(
        mpb.encode(NATIVE),
        Err(EncodeError::ValueTooLarge { .. })
    ));

    let mut mpb = golden::raid1();
    mpb.trailing = vec![0; 1 << 16];
    assert!(matches!(
        mpb.encode(NATIVE),
        Err(EncodeError::TooLong { .. })
    ));
}

/// What decoding says about the golden RAID 5 with these bytes changed and a matching checksum.
fn damaged(offset: usize, bytes: &[u8]) -> DecodeError {
    let mut record = golden::raid5().encode(NATIVE).unwrap();
    record[offset..offset + bytes.len()].copy_from_slice(bytes);
    Mpb::decode(&resealed(record), NATIVE).unwrap_err()
}

#[test]
fn each_damage_of_the_header_has_its_error() {
    assert_eq!(damaged(0, b"X"), DecodeError::NoSignature);
    assert_eq!(
        damaged(0x24, &[0, 0, 0, 0xFF]),
        DecodeError::BadLength {
            mpb_size: 0xFF00_0000
        }
    );
    assert_eq!(
        damaged(0x24, &[0x46, 2]),
        DecodeError::BadLength { mpb_size: 582 }
    );
    assert_eq!(
        damaged(0x24, &[0x4C, 2]),
        DecodeError::Incomplete {
            mpb_size: 588,
            bytes: 584
        }
    );
    let good = golden::raid5().encode(NATIVE).unwrap();
    assert_eq!(
        Mpb::decode(&good[..100], NATIVE),
        Err(DecodeError::TooShort { bytes: 100 })
    );
    let mut torn = good;
    torn[300] ^= 1;
    assert!(matches!(
        Mpb::decode(&torn, NATIVE),
        Err(DecodeError::Checksum { .. })
    ));
}

#[test]
fn each_damage_of_the_tables_has_its_error() {
    let volume = 216 + 4 * 48;
    let map = volume + 112;
    assert!(matches!(
        damaged(0x38, &[255]),
        DecodeError::Truncated {
            part: "disk table",
            ..
        }
    ));
    assert!(matches!(
        damaged(0x39, &[2]),
        DecodeError::Truncated { part: "volume", .. }
    ));
    assert!(matches!(
        damaged(0x48, &[1]),
        DecodeError::Truncated {
            part: "slot table",
            ..
        }
    ));
    assert!(matches!(
        damaged(0x4B, &[1]),
        DecodeError::BadBlockLog { .. }
    ));
    assert_eq!(
        damaged(volume + 88, &[2]),
        DecodeError::BadMigrationState {
            volume: 0,
            value: 2
        }
    );
    assert_eq!(
        damaged(map + 16, &[0]),
        DecodeError::NoMembers { volume: 0 }
    );
    assert_eq!(
        damaged(map + 48 + 4, &[9]),
        DecodeError::NoSuchDisk {
            volume: 0,
            slot: 1,
            disk_index: 9,
            disks: 4
        }
    );
    let mut huge = golden::raid5().encode(NATIVE).unwrap();
    huge[volume + 20..volume + 24].fill(0xFF);
    assert!(matches!(
        Mpb::decode(&resealed(huge), LARGE),
        Err(DecodeError::ValueTooLarge {
            field: "volume size",
            ..
        })
    ));
}

#[test]
fn errors_are_sentences_that_name_the_numbers() {
    let error = DecodeError::NoSuchDisk {
        volume: 0,
        slot: 1,
        disk_index: 9,
        disks: 4,
    };
    assert_eq!(
        format!("{error}"),
        "slot 1 of volume 0 names drive 9 but the record lists 4"
    );
    let error = EncodeError::NotAligned {
        field: "drive size",
        sectors: 9,
    };
    assert_eq!(
        format!("{error}"),
        "drive size is 9 sectors of 512 bytes, which is not a multiple of the drive's 4096-byte \
         sectors"
    );
}

/// What a record becomes on disk: content decides some attributes, and a repair sets a status bit.
fn as_stored(mut mpb: Mpb) -> Mpb {
    mpb.attributes = mpb.attributes_on_disk();
    for volume in &mut mpb.volumes {
        match volume.migration.as_ref().map(|migration| migration.kind) {
            Some(MigrationKind::Repair) => volume.status |= Volume::VERIFY_AND_FIX,
            Some(MigrationKind::Verify) => volume.status &= !Volume::VERIFY_AND_FIX,
            _ => {}
        }
    }
    mpb
}

proptest! {
    #[test]
    fn any_record_survives_being_encoded(mpb in arbitrary::record(), large in any::<bool>()) {
        let sector = if large { LARGE } else { NATIVE };
        let bytes = mpb.encode(sector).unwrap();
        prop_assert_eq!(Mpb::decode(&bytes, sector), Ok(as_stored(mpb)));
    }

    #[test]
    fn any_valid_bytes_survive_being_decoded(mpb in arbitrary::record(), large in any::<bool>()) {
        let sector = if large { LARGE } else { NATIVE };
        let bytes = mpb.encode(sector).unwrap();
        let again = Mpb::decode(&bytes, sector).unwrap().encode(sector).unwrap();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn any_record_survives_a_drive(mpb in arbitrary::record(), large in any::<bool>()) {
        let sector = if large { LARGE } else { NATIVE };
        let mut region = encode_image(&mpb, sector).unwrap();
        region.resize(region.len() + sector.bytes(), 0);
        let found = decode_region(&region, sector).unwrap().unwrap();
        prop_assert_eq!(found.mpb, as_stored(mpb));
    }

    #[test]
    fn mutated_records_never_panic(
        mpb in arbitrary::record(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 1usize..32, prop_oneof![any::<u8>(), Just(0xFF)]),
            1..8,
        ),
        cut in any::<prop::sample::Index>(),
        reseal in any::<bool>(),
        large in any::<bool>(),
    ) {
        let sector = if large { LARGE } else { NATIVE };
        let mut bytes = mpb.encode(NATIVE).unwrap();
        for (place, run, value) in changes {
            // The signature stays, because without it nothing behind it would be decoded.
            let start = place.index(bytes.len()).max(24);
            let end = bytes.len().min(start + run);
            bytes[start..end].fill(value);
        }
        if reseal {
            bytes = resealed(bytes);
        } else {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        if let Ok(decoded) = Mpb::decode(&bytes, sector) {
            // A record that was accepted can be written again.
            let again = decoded.encode(sector).unwrap();
            prop_assert_eq!(Mpb::decode(&again, sector), Ok(as_stored(decoded)));
        }
    }

    #[test]
    fn random_regions_never_panic(
        mut region in prop::collection::vec(any::<u8>(), 0..20_000),
        length in 0u32..20_000,
        large in any::<bool>(),
    ) {
        let sector = if large { LARGE } else { NATIVE };
        let anchor = region.len().checked_sub(2 * sector.bytes());
        if let Some(anchor) = anchor {
            region[anchor..anchor + 24].copy_from_slice(b"Intel Raid ISM Cfg Sig. ");
            region[anchor + 0x24..anchor + 0x28].copy_from_slice(&length.to_le_bytes());
        }
        prop_assert!(decode_region(&region, sector).is_err());
    }
}
