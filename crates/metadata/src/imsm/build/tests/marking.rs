//! Dirty marks, checkpoints and bad blocks.

use super::*;
use proptest::prelude::*;

#[test]
fn dirty_and_policy_are_plain_marks() {
    let mut mpb = golden::raid5();
    mpb.set_dirty(0, true).unwrap();
    assert_eq!(mpb.volumes[0].dirty, 1);
    mpb.set_dirty(0, false).unwrap();
    mpb.set_write_hole_policy(0, WriteHolePolicy::Log).unwrap();
    assert_eq!(
        mpb.encode(SectorSize::Bytes512).unwrap()[216 + 4 * 48 + 50],
        3
    );
    mpb.set_dirty(0, true).unwrap();
    assert_eq!(mpb.volumes[0].dirty, 3, "dirty, with a valid log");
    mpb.set_dirty(0, false).unwrap();
    assert_eq!(mpb.volumes[0].dirty, 0);
    let mut striped = golden::raid0();
    striped.set_dirty(0, true).unwrap();
    assert_eq!(striped.volumes[0].dirty, 0);
}

#[test]
fn checkpoints_count_as_md_counts() {
    use MigrationKind::{General, InitialSync, Rebuild, Repair};
    // RAID 5 of four, 64 KiB chunks: checkpoint 18 was position 9216 in md.
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid5, InitialSync, 128, 4),
        Some(512)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid5, Rebuild, 128, 4),
        Some(128)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid5, Rebuild, 8, 4),
        Some(128)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid5, Rebuild, 256, 4),
        Some(256)
    );
    // RAID 1: checkpoint 34 was position 17408 in md.
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid1, Repair, 128, 2),
        Some(512)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid1, Rebuild, 128, 2),
        Some(512)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid10, Rebuild, 128, 4),
        Some(512)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid10, InitialSync, 128, 4),
        Some(256)
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid5, General, 128, 4),
        None
    );
    assert_eq!(
        checkpoint::unit_sectors(Level::Raid0, Rebuild, 128, 4),
        None
    );

    let mut raid5 = golden::raid5();
    raid5.start_repair(0).unwrap();
    raid5.set_checkpoint(0, 18).unwrap();
    assert_eq!(raid5.volumes[0].checkpoint_sector(), Some(9216));
    assert_eq!(raid5.volumes[0].checkpoint_at(9216 + 511), Some(18));
    raid5.set_checkpoint(0, u64::MAX).unwrap();
    assert_eq!(raid5.volumes[0].checkpoint_sector(), Some(118_784));
    let mut raid1 = golden::raid1();
    raid1.start_repair(0).unwrap();
    raid1.set_checkpoint(0, 34).unwrap();
    assert_eq!(raid1.volumes[0].checkpoint_sector(), Some(17_408));
    // RAID 10 of four: one row of each member is two strips of the volume, one unit.
    let mut raid10 = golden::raid10();
    raid10.start_repair(0).unwrap();
    raid10.set_checkpoint(0, 3).unwrap();
    assert_eq!(raid10.volumes[0].checkpoint_sector(), Some(3 * 128));
    assert_eq!(raid10.volumes[0].checkpoint_at(3 * 128 + 127), Some(3));
}

#[test]
fn bad_blocks_merge_and_split_into_256_sectors() {
    let mut mpb = golden::raid1();
    mpb.add_bad_blocks(1, 8192, 300).unwrap();
    let entry = |start_sector, sectors| BadBlockEntry {
        disk_index: 1,
        start_sector,
        sectors,
    };
    assert_eq!(mpb.bad_blocks, [entry(8192, 256), entry(8448, 44)]);
    mpb.add_bad_blocks(1, 8192 + 300, 212).unwrap();
    assert_eq!(mpb.bad_blocks, [entry(8192, 256), entry(8448, 256)]);
    let one = core::iter::once(8192..8704);
    assert!(mpb.bad_ranges(1).into_iter().eq(one));
    assert_eq!(mpb.bad_ranges(0), []);
    mpb.remove_bad_blocks(1, 8200, 8).unwrap();
    assert_eq!(
        mpb.bad_blocks,
        [entry(8192, 8), entry(8208, 256), entry(8464, 240)]
    );
    mpb.set_bad_ranges(1, &[9000..9001, 8192..8200]).unwrap();
    assert_eq!(mpb.bad_ranges(1), [8192..8200, 9000..9001]);
    mpb.remove_bad_blocks(1, 0, 1 << 47).unwrap();
    assert_eq!(mpb.bad_blocks, []);
}

#[test]
fn a_full_bad_block_log_stays_as_it_was() {
    let mut mpb = golden::raid1();
    mpb.add_bad_blocks(0, 0, 254 * 256).unwrap();
    let full = mpb.clone();
    assert_eq!(
        mpb.add_bad_blocks(1, 0, 1),
        Err(BuildError::BadBlockLogFull)
    );
    assert_eq!(
        mpb.add_bad_blocks(0, 254 * 256, 1),
        Err(BuildError::BadBlockLogFull)
    );
    assert_eq!(
        mpb.add_bad_blocks(0, 0, 1 << 47),
        Err(BuildError::BadBlockLogFull)
    );
    assert_eq!(
        mpb.remove_bad_blocks(0, 300, 1),
        Err(BuildError::BadBlockLogFull)
    );
    assert_eq!(mpb, full);
    assert!(matches!(
        mpb.add_bad_blocks(0, 5, 0),
        Err(BuildError::BadBlockRange { .. })
    ));
    assert!(matches!(
        mpb.add_bad_blocks(0, 1 << 48, 1),
        Err(BuildError::BadBlockRange { .. })
    ));
    assert!(matches!(
        mpb.add_bad_blocks(2, 0, 1),
        Err(BuildError::NoSuchDisk { .. })
    ));
}

proptest! {
    #[test]
    fn the_bad_block_log_is_the_set_of_bad_sectors(
        changes in prop::collection::vec((any::<bool>(), 0usize..2, 0u64..2000, 1u64..600), 1..20)
    ) {
        let mut mpb = golden::raid1();
        let mut expected = [[false; 2600]; 2];
        for (add, disk, start, sectors) in changes {
            if add {
                mpb.add_bad_blocks(disk, start, sectors).unwrap();
            } else {
                mpb.remove_bad_blocks(disk, start, sectors).unwrap();
            }
            expected[disk][start as usize..(start + sectors) as usize].fill(add);
        }
        let mut logged = [[false; 2600]; 2];
        for entry in &mpb.bad_blocks {
            prop_assert!((1..=256).contains(&entry.sectors));
            let start = entry.start_sector as usize;
            let range = start..start + entry.sectors as usize;
            // No sector is logged twice.
            let cells = &mut logged[usize::from(entry.disk_index)][range];
            prop_assert!(cells.iter().all(|cell| !cell));
            cells.fill(true);
        }
        prop_assert!(logged == expected);
    }

    #[test]
    fn storing_progress_never_claims_more_than_was_done(
        which in 0usize..3, rebuild in any::<bool>(), done in 0u64..51_200
    ) {
        let mut mpb = [golden::raid1(), golden::raid10(), golden::raid5()][which].clone();
        if rebuild {
            mpb.mark_failed(1).unwrap();
            mpb.start_rebuild(0, 1, SPARE).unwrap();
        } else {
            mpb.start_repair(0).unwrap();
        }
        let unit = mpb.volumes[0].checkpoint_at(done).unwrap();
        mpb.set_checkpoint(0, unit).unwrap();
        let read = mpb.volumes[0].checkpoint_sector().unwrap();
        prop_assert!(read <= done && done - read < 512, "{} of {}", read, done);
    }
}
