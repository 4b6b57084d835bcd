//! Starting without all members.

use super::*;

#[test]
fn a_marked_member_may_be_away() {
    for mpb in [golden::raid1(), golden::raid10(), golden::raid5()] {
        let mpb = without_slot(mpb, 1);
        assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![1]));
        // The mark also counts if the drive itself is present.
        assert_eq!(
            start_mode(&mpb, 0, &[true, false, true, true], NOTHING_ACCEPTED),
            mode(&mpb)
        );
    }
}

/// The mark in the disk table decides, even if a volume has waited for the drive and the slot is in sync.
#[test]
fn a_slot_whose_drive_is_marked_failed_is_lost_though_it_is_in_sync() {
    let mpb = with(golden::raid5(), |mpb| {
        mpb.mark_failed_in(2, |_| false).unwrap();
    });
    assert!(
        mpb.volumes[0]
            .map
            .order
            .iter()
            .all(|slot| !slot.out_of_sync)
    );
    assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![2]));
}

/// One of two lost drives is being replaced. The other is present and outdated, but not marked failed.
#[test]
fn a_slot_out_of_sync_is_lost_unless_it_is_being_rebuilt() {
    let mut mpb = golden::raid1();
    mpb.volumes[0].map.order[1].out_of_sync = true;
    mpb.volumes[0].map.state = MapState::Degraded;
    assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![1]));
    let mut mpb = rebuilding(golden::raid10(), 0, 7);
    for map in mpb.volumes[0].maps_mut() {
        map.order[3].out_of_sync = true;
        map.state = MapState::Degraded;
    }
    let sync = SyncWork::Rebuild {
        slots: vec![0],
        from_sector: 7 * 512,
        then_resync: false,
    };
    assert_eq!(mode(&mpb), read_write(sync, vec![3]));
}

#[test]
fn an_unmarked_missing_member_needs_a_decision() {
    let present = [true, true, false, true];
    let missing = RefusedReason::MissingMembers { slots: vec![2] };
    let mpb = golden::raid5();
    assert_eq!(
        start_mode(&mpb, 0, &present, NOTHING_ACCEPTED),
        refused(missing, Some(DEGRADED_FLAG))
    );
    assert_eq!(
        start_mode(&mpb, 0, &present, DEGRADED_ACCEPTED),
        read_write(SyncWork::None, vec![2])
    );
    // Rows beyond the end of the list count as absent.
    assert_eq!(
        start_mode(&mpb, 0, &[true; 3], DEGRADED_ACCEPTED),
        read_write(SyncWork::None, vec![3])
    );
}

#[test]
fn too_many_lost_members_are_fatal_whatever_is_accepted() {
    let everything = StartOptions {
        degraded: true,
        accept_write_hole: true,
        accept_unsynced: true,
        trust_returned_drive: true,
    };
    let fatal = |mpb: &Mpb, present: &[bool], level, lost_slots| {
        let reason = RefusedReason::NotEnoughMembers { level, lost_slots };
        assert_eq!(
            start_mode(mpb, 0, present, everything),
            refused(reason, None)
        );
    };
    fatal(
        &golden::raid0(),
        &[true, true, true, false],
        Level::Raid0,
        vec![3],
    );
    fatal(&golden::raid1(), &[false, false], Level::Raid1, vec![0, 1]);
    fatal(
        &golden::raid10(),
        &[true, true, false, false],
        Level::Raid10,
        vec![2, 3],
    );
    fatal(
        &golden::raid5(),
        &[true, false, false, true],
        Level::Raid5,
        vec![1, 2],
    );
    // A drive that is being rebuilt counts as lost.
    let mpb = rebuilding(golden::raid5(), 0, 7);
    fatal(&mpb, &[false, true, true, true], Level::Raid5, vec![0, 1]);
    let present = [true, false, false, true];
    let mode = start_mode(&golden::raid10(), 0, &present, DEGRADED_ACCEPTED);
    assert_eq!(mode, read_write(SyncWork::None, vec![1, 2]));
    let mpb = with(golden::raid5(), |mpb| {
        mpb.volumes[0].map.state = MapState::Failed
    });
    assert_eq!(
        super::start_mode(&mpb, 0, &ALL, everything),
        refused(RefusedReason::RecordedAsFailed, None)
    );
}

#[test]
fn a_dirty_raid5_without_a_member_is_refused() {
    let refusal = refused(
        RefusedReason::DirtyAndDegraded,
        Some(ACCEPT_WRITE_HOLE_FLAG),
    );
    let mpb = dirty(without_slot(golden::raid5(), 3));
    assert_eq!(mode(&mpb), refusal);
    assert_eq!(start_mode(&mpb, 0, &ALL, UNSYNCED_ACCEPTED), refusal);
    let accepted = start_mode(&mpb, 0, &ALL, HOLE_ACCEPTED);
    assert_eq!(accepted, read_write(SyncWork::None, vec![3]));

    let mpb = dirty(rebuilding(golden::raid5(), 3, 7));
    assert_eq!(mode(&mpb), refusal);
    let sync = SyncWork::Rebuild {
        slots: vec![3],
        from_sector: 0,
        then_resync: false,
    };
    assert_eq!(
        start_mode(&mpb, 0, &ALL, HOLE_ACCEPTED),
        read_write(sync, vec![])
    );

    // Mirrors have no write hole. The pair that has both drives is resynchronised.
    let mpb = dirty(without_slot(golden::raid1(), 0));
    assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![0]));
    let mpb = dirty(without_slot(golden::raid10(), 0));
    assert_eq!(
        mode(&mpb),
        read_write(SyncWork::Resync { from_sector: 0 }, vec![0])
    );
}

#[test]
fn an_interrupted_repair_of_a_raid5_without_a_member_is_refused() {
    // md starts this, and returns wrong data.
    let refusal = refused(
        RefusedReason::InterruptedRepair,
        Some(ACCEPT_WRITE_HOLE_FLAG),
    );
    let mpb = repairing(golden::raid5(), 18);
    assert_eq!(
        start_mode(&mpb, 0, &[true, true, true], DEGRADED_ACCEPTED),
        refusal
    );
    let marked = without_slot(mpb, 3);
    assert_eq!(mode(&marked), refusal);
    let accepted = start_mode(&marked, 0, &ALL, HOLE_ACCEPTED);
    assert_eq!(accepted, read_write(SyncWork::None, vec![3]));
    let mirrors = without_slot(repairing(golden::raid10(), 3), 0);
    let sync = SyncWork::Resync {
        from_sector: 3 * 128,
    };
    assert_eq!(mode(&mirrors), read_write(sync, vec![0]));
}

#[test]
fn an_unsynchronised_raid5_without_a_member_is_only_read_and_only_if_accepted() {
    let mpb = without_slot(initialising(golden::raid5(), 18), 1);
    let refusal = refused(
        RefusedReason::UnsyncedAndDegraded,
        Some(ACCEPT_UNSYNCED_FLAG),
    );
    assert_eq!(mode(&mpb), refusal);
    assert_eq!(start_mode(&mpb, 0, &ALL, HOLE_ACCEPTED), refusal);
    let reason = ReadOnlyReason::UnsyncedParity { from_sector: 9216 };
    let read_only = StartMode::ReadOnly {
        reason,
        lost_slots: vec![1],
    };
    assert_eq!(start_mode(&mpb, 0, &ALL, UNSYNCED_ACCEPTED), read_only);
    // In mirrors the remaining copy is right.
    let mirror = without_slot(initialising(golden::raid1(), 18), 1);
    assert_eq!(mode(&mirror), read_write(SyncWork::None, vec![1]));
    let mirrors = without_slot(initialising(golden::raid10(), 3), 1);
    let sync = SyncWork::InitialSync {
        from_sector: 3 * 128,
    };
    assert_eq!(mode(&mirrors), read_write(sync, vec![1]));
}
