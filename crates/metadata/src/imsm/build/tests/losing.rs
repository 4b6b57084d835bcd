//! Members lost and rebuilt, and synchronisation.

use super::*;

#[test]
fn a_failed_member_is_marked_as_mdadm_marks_it() {
    let mut mpb = golden::raid5();
    mpb.mark_failed(2).unwrap();
    let disk = &mpb.disks[2];
    assert_eq!(
        (disk.status, disk.serial.to_string()),
        (6, "IMSMLAB0012:0".into())
    );
    let map = &mpb.volumes[0].map;
    assert_eq!((map.state, map.failed_slot), (MapState::Degraded, Some(2)));
    assert_eq!(out_of_sync(map), [2]);
    assert_eq!(mpb.volumes[0].migration, None);

    let once = mpb.clone();
    mpb.mark_failed(2).unwrap();
    assert_eq!(mpb, once);

    mpb.mark_missing(2).unwrap();
    assert_eq!(mpb.disks[2].scsi_id, 0xFFFF_FFFF);
    assert_eq!(mpb.disks[2].serial.to_string(), "MSMLAB0012:0");
    let once = mpb.clone();
    mpb.mark_missing(2).unwrap();
    assert_eq!(mpb, once);

    mpb.mark_failed(0).unwrap();
    let map = &mpb.volumes[0].map;
    assert_eq!((map.state, map.failed_slot), (MapState::Failed, Some(0)));
    assert!(matches!(
        mpb.mark_failed(9),
        Err(BuildError::NoSuchDisk { .. })
    ));
}

#[test]
fn a_rebuild_goes_through_mdadms_states() {
    let mut mpb = golden::raid5();
    mpb.mark_failed(1).unwrap();
    mpb.add_bad_blocks(3, 100, 10).unwrap();
    mpb.add_bad_blocks(1, 50, 10).unwrap();
    let uuid = Uuid::of_volume(&mpb, 0);
    let row = mpb.start_rebuild(0, 1, SPARE).unwrap();
    // The failed row 1 is gone: rows 2 and 3 moved down and the spare is the last.
    assert_eq!((row, mpb.disks.len()), (3, 4));
    assert_eq!(mpb.disks[3].serial.to_string(), "SPARE");
    assert_eq!(mpb.disks[3].status, Disk::CONFIGURED);
    assert_eq!(mpb.family_num, 0x27df_be6e + 0x1111);
    assert_eq!(Uuid::of_volume(&mpb, 0), uuid);
    let entry = BadBlockEntry {
        disk_index: 2,
        start_sector: 100,
        sectors: 10,
    };
    assert_eq!(mpb.bad_blocks, [entry]);
    let volume = &mpb.volumes[0];
    let migration = volume.migration.as_ref().unwrap();
    assert_eq!(migration.kind, MigrationKind::Rebuild);
    assert_eq!(
        (volume.map.state, out_of_sync(&volume.map)),
        (MapState::Normal, Vec::new())
    );
    assert_eq!(rows(&volume.map), [0, 3, 1, 2]);
    assert_eq!(rows(&migration.second_map), [0, 3, 1, 2]);
    assert_eq!(migration.second_map.state, MapState::Degraded);
    assert_eq!(out_of_sync(&migration.second_map), [1]);
    assert_eq!(volume.rebuild_targets().collect::<Vec<_>>(), [1]);

    mpb.set_checkpoint(0, 7).unwrap();
    assert_eq!(mpb.volumes[0].checkpoint_sector(), Some(7 * 128));
    mpb.finish_rebuild(0).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!(volume.migration, None);
    assert_eq!(
        (volume.map.state, volume.map.failed_slot),
        (MapState::Normal, None)
    );
    assert!(matches!(
        mpb.finish_rebuild(0),
        Err(BuildError::NotInProgress { .. })
    ));
    assert!(matches!(
        mpb.set_checkpoint(0, 1),
        Err(BuildError::NotInProgress { .. })
    ));
}

#[test]
fn a_container_without_an_original_family_keeps_its_identity() {
    let mut mpb = golden::raid5();
    mpb.orig_family_num = 0;
    mpb.mark_failed(1).unwrap();
    let uuid = Uuid::of_container(&mpb);
    mpb.start_rebuild(0, 1, SPARE).unwrap();
    assert_eq!(mpb.orig_family_num, 0x27df_be6e);
    assert_eq!(Uuid::of_container(&mpb), uuid);
}

#[test]
fn the_failed_row_stays_until_no_volume_needs_it() {
    let mut first = spec("a", Level::Raid5);
    first.size = SizeRequest::PerMember { sectors: 16_384 };
    let mut mpb = Mpb::create(&drives(4, 131_072), &first, IDENTITY).unwrap();
    mpb.add_volume(&spec("b", Level::Raid10)).unwrap();
    mpb.mark_failed(0).unwrap();
    assert_eq!(mpb.start_rebuild(0, 0, SPARE), Ok(4));
    assert_eq!(mpb.disks.len(), 5);
    assert!(matches!(
        mpb.start_rebuild(0, 0, SPARE),
        Err(BuildError::SlotNotLost { .. })
    ));
    assert!(matches!(
        mpb.start_rebuild(1, 0, SPARE),
        Err(BuildError::DuplicateSerial { .. })
    ));
    let family = mpb.family_num;
    let listed = RebuildTarget::Listed { disk_index: 4 };
    assert_eq!(mpb.start_rebuild(1, 0, listed), Ok(3));
    assert_eq!((mpb.disks.len(), mpb.family_num), (4, family));
    assert_eq!(rows(&mpb.volumes[0].map), [3, 0, 1, 2]);
    assert_eq!(rows(mpb.volumes[1].current_map()), [3, 0, 1, 2]);
}

#[test]
fn unfit_targets_are_refused_and_change_nothing() {
    let mut mpb = container(Level::Raid5, 4);
    mpb.mark_failed(0).unwrap();
    let before = mpb.clone();
    let small = RebuildTarget::NewDrive {
        drive: drive(9, 120_000),
        family_salt: 1,
    };
    assert!(matches!(
        mpb.start_rebuild(0, 0, small),
        Err(BuildError::UnfitTarget { .. })
    ));
    let serving = RebuildTarget::Listed { disk_index: 1 };
    assert!(matches!(
        mpb.start_rebuild(0, 0, serving),
        Err(BuildError::UnfitTarget { .. })
    ));
    let failed = RebuildTarget::Listed { disk_index: 0 };
    assert!(matches!(
        mpb.start_rebuild(0, 0, failed),
        Err(BuildError::UnfitTarget { .. })
    ));
    assert!(matches!(
        mpb.start_rebuild(0, 1, SPARE),
        Err(BuildError::SlotNotLost { .. })
    ));
    assert_eq!(mpb, before);
    let mut striped = container(Level::Raid0, 4);
    striped.mark_failed(0).unwrap();
    assert_eq!(striped.volumes[0].map.state, MapState::Failed);
    assert!(matches!(
        striped.start_rebuild(0, 0, SPARE),
        Err(BuildError::NotRedundant { .. })
    ));
}

#[test]
fn losing_the_rebuild_target_ends_the_rebuild() {
    let mut mpb = container(Level::Raid5, 4);
    mpb.mark_failed(1).unwrap();
    let row = mpb.start_rebuild(0, 1, SPARE).unwrap();
    mpb.mark_failed(row).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!(volume.migration, None);
    assert_eq!(
        (volume.map.state, volume.map.failed_slot),
        (MapState::Degraded, Some(1))
    );
    assert_eq!(out_of_sync(&volume.map), [1]);
}

#[test]
fn losing_a_source_fails_a_raid5_but_remembers_the_unfinished_target() {
    let mut mpb = container(Level::Raid5, 4);
    mpb.mark_failed(1).unwrap();
    mpb.start_rebuild(0, 1, SPARE).unwrap();
    mpb.mark_failed(0).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!(volume.migration, None);
    assert_eq!(volume.map.state, MapState::Failed);
    assert_eq!(out_of_sync(&volume.map), [0, 1]);
    let name = volume.name;
    let target = RebuildTarget::NewDrive {
        drive: drive(99, 131_072),
        family_salt: 1,
    };
    assert_eq!(
        mpb.start_rebuild(0, 1, target),
        Err(BuildError::Failed { name })
    );
}

#[test]
fn a_raid10_rebuild_survives_a_loss_in_another_pair() {
    let mut mpb = container(Level::Raid10, 4);
    mpb.mark_failed(0).unwrap();
    mpb.start_rebuild(0, 0, SPARE).unwrap();
    let row = mpb.volumes[0].map.order[3].disk_index as usize;
    mpb.mark_failed(row).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!(out_of_sync(volume.current_map()), [0, 3]);
    assert_eq!(out_of_sync(&volume.map), [3]);
    mpb.finish_rebuild(0).unwrap();
    let map = &mpb.volumes[0].map;
    assert_eq!((map.state, map.failed_slot), (MapState::Degraded, Some(3)));
}

#[test]
fn initial_synchronisation_goes_through_mdadms_states() {
    let mut new = spec("v", Level::Raid5);
    new.born_in_sync = false;
    let mut mpb = Mpb::create(&drives(4, 131_072), &new, IDENTITY).unwrap();
    assert_eq!(mpb.volumes[0].map.state, MapState::Uninitialised);
    assert!(matches!(
        mpb.start_repair(0),
        Err(BuildError::NeverSynchronised { .. })
    ));
    mpb.start_initial_sync(0).unwrap();
    let volume = &mpb.volumes[0];
    let migration = volume.migration.as_ref().unwrap();
    assert_eq!(migration.kind, MigrationKind::InitialSync);
    assert_eq!(volume.map.state, MapState::Normal);
    assert_eq!(migration.second_map.state, MapState::Uninitialised);
    assert!(matches!(mpb.start_repair(0), Err(BuildError::Busy { .. })));
    mpb.finish_sync(0).unwrap();
    assert_eq!(mpb.volumes[0].map.state, MapState::Normal);
    assert_eq!(mpb.volumes[0].migration, None);

    let mut striped = spec("v", Level::Raid0);
    striped.born_in_sync = false;
    let mut mpb = Mpb::create(&drives(4, 131_072), &striped, IDENTITY).unwrap();
    assert_eq!(mpb.volumes[0].map.state, MapState::Normal);
    assert!(matches!(
        mpb.start_initial_sync(0),
        Err(BuildError::NotRedundant { .. })
    ));
}

#[test]
fn a_repair_goes_through_mdadms_states() {
    let mut mpb = golden::raid5();
    mpb.start_repair(0).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!(volume.status, 0x8C);
    let migration = volume.migration.as_ref().unwrap();
    assert_eq!(migration.kind, MigrationKind::Repair);
    assert_eq!(
        (volume.map.state, migration.second_map.state),
        (MapState::Normal, MapState::Normal)
    );
    mpb.finish_sync(0).unwrap();
    assert_eq!(mpb, golden::raid5());
}

#[test]
fn a_loss_does_not_hide_that_parity_was_never_valid() {
    for started in [false, true] {
        let mut new = spec("v", Level::Raid5);
        new.born_in_sync = false;
        let mut mpb = Mpb::create(&drives(4, 131_072), &new, IDENTITY).unwrap();
        if started {
            mpb.start_initial_sync(0).unwrap();
        }
        mpb.mark_failed(2).unwrap();
        let volume = &mpb.volumes[0];
        assert_eq!(volume.map.state, MapState::Degraded);
        assert_eq!(
            volume.migration.as_ref().unwrap().kind,
            MigrationKind::InitialSync
        );
        // A rebuild makes every row consistent.
        mpb.start_rebuild(0, 2, SPARE).unwrap();
        mpb.finish_rebuild(0).unwrap();
        assert_eq!(mpb.volumes[0].map.state, MapState::Normal);
    }
}

/// A new drive takes the place of a lost one in one volume. The other volume waits for the lost drive, and was never
/// synchronised. When the new drive is lost as well, that volume does not change.
#[test]
fn losing_a_drive_changes_no_volume_that_it_does_not_belong_to() {
    let mut goes_on = spec("going", Level::Raid5);
    goes_on.size = SizeRequest::PerMember { sectors: 16_384 };
    let mut mpb = Mpb::create(&drives(4, 131_072), &goes_on, IDENTITY).unwrap();
    let mut waits = spec("waiting", Level::Raid5);
    waits.born_in_sync = false;
    mpb.add_volume(&waits).unwrap();
    mpb.mark_failed_in(0, |volume| volume == 0).unwrap();
    let row = mpb.start_rebuild(0, 0, SPARE).unwrap();
    let before = mpb.clone();
    assert_eq!(before.volumes[1].map.state, MapState::Uninitialised);
    mpb.mark_failed(row).unwrap();
    assert_eq!(mpb.volumes[1], before.volumes[1]);
    assert_eq!(mpb.volumes[0].migration, None, "the rebuild has ended");
}

#[test]
fn a_mirror_that_loses_a_half_has_nothing_left_to_synchronise() {
    let mut mpb = golden::raid1();
    mpb.start_repair(0).unwrap();
    mpb.mark_failed(0).unwrap();
    let volume = &mpb.volumes[0];
    assert_eq!((volume.migration.is_none(), volume.status), (true, 0xC));
    assert_eq!(volume.map.state, MapState::Degraded);
}

#[test]
fn mirrors_that_have_all_lost_a_copy_have_nothing_to_synchronise() {
    let unsynced = || {
        let mut new = spec("v", Level::Raid10);
        new.born_in_sync = false;
        Mpb::create(&drives(4, 131_072), &new, IDENTITY).unwrap()
    };
    for repair in [false, true] {
        let mut mpb = unsynced();
        mpb.start_initial_sync(0).unwrap();
        if repair {
            mpb.finish_sync(0).unwrap();
            mpb.start_repair(0).unwrap();
        }
        mpb.mark_failed(1).unwrap();
        // Slots 2 and 3 still have to be made equal.
        let volume = &mpb.volumes[0];
        assert!(volume.migration.is_some());
        assert_eq!(volume.status & Volume::VERIFY_AND_FIX != 0, repair);
        assert!(matches!(
            mpb.start_rebuild(0, 1, SPARE),
            Err(BuildError::Busy { .. })
        ));
        let whole = mpb.clone();
        mpb.mark_failed(2).unwrap();
        let volume = &mpb.volumes[0];
        assert_eq!(
            (&volume.migration, volume.map.state),
            (&None, MapState::Degraded)
        );
        assert_eq!(volume.status & Volume::VERIFY_AND_FIX, 0);
        mpb.start_rebuild(0, 1, SPARE).unwrap();
        assert_eq!(mpb.volumes[0].rebuild_targets().collect::<Vec<_>>(), [1]);

        // A record that still lists the synchronisation, as another program may write it, does not stop the rebuild.
        let mut mpb = whole;
        for map in mpb.volumes[0].maps_mut() {
            map.order[2].out_of_sync = true;
        }
        mpb.start_rebuild(0, 1, SPARE).unwrap();
        mpb.finish_rebuild(0).unwrap();
        let volume = &mpb.volumes[0];
        assert_eq!(
            (volume.map.state, volume.map.failed_slot),
            (MapState::Degraded, Some(2))
        );
        assert_eq!(volume.status & Volume::VERIFY_AND_FIX, 0);
    }
}
