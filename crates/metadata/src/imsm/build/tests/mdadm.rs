//! The records of whole lives of arrays, byte for byte as mdadm 4.2 and md 6.1 wrote them.
//!
//! The checksums were read from the drives after each event; the operations here must give records
//! with the same ones. Generations move further than by one, because mdmon also writes when md
//! changes between clean and dirty.

use super::*;
use crate::imsm::codec::word_at;
use crate::imsm::golden::Golden;

/// The record of four 64 MiB drives of user-mode Linux with a volume that takes 8 MiB of each.
fn array(level: Level, family: u32, creation_time: u64) -> Mpb {
    let serials = ["a", "b", "c", "d"]
        .iter()
        .map(|letter| format!("/dev/ubd{letter}"));
    let (version, level_byte, domains, size_sectors) = match level {
        Level::Raid5 => ("1.2.02", 5, 1, 49_152),
        _ => ("1.2.01", 1, 2, 32_768),
    };
    Golden {
        version,
        serials: serials.collect(),
        drive_sectors: 131_072,
        family,
        generation: 0,
        creation_time,
        name: "v",
        size_sectors,
        level: level_byte,
        domains,
        sectors_per_member: 18_432,
        stripes: 128 / u64::from(domains),
    }
    .record()
}

fn checksum_at(mpb: &mut Mpb, generation: u32) -> u32 {
    mpb.generation = generation;
    word_at(&mpb.encode(SectorSize::Bytes512).unwrap(), 0x20).unwrap()
}

fn replacement(family_before: u32, family_after: u32) -> RebuildTarget {
    let serial = Serial::from_drive(b"/dev/ubde");
    let drive = NewDrive {
        serial,
        total_sectors: 131_072,
    };
    RebuildTarget::NewDrive {
        drive,
        family_salt: family_after.wrapping_sub(family_before),
    }
}

#[test]
fn a_raid5_from_first_synchronisation_to_rebuilt() {
    let mut mpb = array(Level::Raid5, 0x6289_555d, 1_795_261_770);
    mpb.volumes[0].map.state = MapState::Uninitialised;
    mpb.start_initial_sync(0).unwrap();
    mpb.set_checkpoint(0, 6).unwrap();
    assert_eq!(
        checksum_at(&mut mpb, 9),
        0x1dc9_5ee4,
        "first synchronisation"
    );
    mpb.set_dirty(0, true).unwrap();
    assert_eq!(checksum_at(&mut mpb, 10), 0x1dca_5ee5, "dirty");
    mpb.finish_sync(0).unwrap();
    mpb.set_dirty(0, false).unwrap();
    assert_eq!(
        checksum_at(&mut mpb, 13),
        0x16c9_1497,
        "synchronised and clean"
    );
    mpb.mark_failed(1).unwrap();
    assert_eq!(checksum_at(&mut mpb, 15), 0x16fd_4e9d, "failed");
    mpb.start_rebuild(0, 1, replacement(0x6289_555d, 0xb48b_65d8))
        .unwrap();
    mpb.set_checkpoint(0, 32).unwrap();
    assert_eq!(mpb.volumes[0].checkpoint_sector(), Some(4096));
    assert_eq!(checksum_at(&mut mpb, 24), 0x6ed0_708b, "rebuilding");
    mpb.finish_rebuild(0).unwrap();
    assert_eq!(checksum_at(&mut mpb, 28), 0x68cb_2524, "rebuilt");
}

#[test]
fn a_raid10_from_first_synchronisation_to_rebuilt() {
    let mut mpb = array(Level::Raid10, 0x69de_8bf9, 1_795_261_874);
    mpb.volumes[0].map.state = MapState::Uninitialised;
    mpb.start_initial_sync(0).unwrap();
    mpb.set_checkpoint(0, 8).unwrap();
    assert_eq!(
        checksum_at(&mut mpb, 8),
        0x2473_8d05,
        "first synchronisation"
    );
    mpb.finish_sync(0).unwrap();
    mpb.set_dirty(0, true).unwrap();
    assert_eq!(
        checksum_at(&mut mpb, 15),
        0x2174_41f9,
        "synchronised and dirty"
    );
    mpb.set_dirty(0, false).unwrap();
    mpb.mark_failed(1).unwrap();
    assert_eq!(checksum_at(&mut mpb, 17), 0x21a7_7bff, "failed");
    mpb.start_rebuild(0, 1, replacement(0x69de_8bf9, 0x501c_3b03))
        .unwrap();
    mpb.set_checkpoint(0, 6).unwrap();
    assert_eq!(checksum_at(&mut mpb, 26), 0x09b6_3d22, "rebuilding");
    mpb.finish_rebuild(0).unwrap();
    assert_eq!(checksum_at(&mut mpb, 31), 0x07b0_f116, "rebuilt");
}

#[test]
fn a_raid5_assembled_without_a_member() {
    let mut mpb = array(Level::Raid5, 0x1c5c_d112, 1_795_261_897);
    assert_eq!(checksum_at(&mut mpb, 7), 0x8a70_0c7a, "complete");
    mpb.mark_missing(1).unwrap();
    mpb.set_dirty(0, true).unwrap();
    assert_eq!(checksum_at(&mut mpb, 10), 0x4188_2ad3, "without, dirty");
    mpb.set_dirty(0, false).unwrap();
    assert_eq!(checksum_at(&mut mpb, 11), 0x4187_2ad4, "without, clean");
}
