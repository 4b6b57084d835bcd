//! Every rule about starting, with one test each, on records that mdadm made and on changed ones.

mod logs;
mod missing;

use super::*;
use crate::imsm::attributes::Attributes;
use crate::imsm::build::{NewDrive, RebuildTarget};
use crate::imsm::geometry::{GeometryProblem, Level};
use crate::imsm::golden;
use crate::imsm::record::*;
use crate::imsm::serial::Serial;
use alloc::string::ToString;
use alloc::vec;

const ALL: [bool; 5] = [true; 5];
const NOTHING_ACCEPTED: StartOptions = StartOptions {
    degraded: false,
    accept_write_hole: false,
    accept_unsynced: false,
    trust_returned_drive: false,
};
const HOLE_ACCEPTED: StartOptions = StartOptions {
    accept_write_hole: true,
    ..NOTHING_ACCEPTED
};
const UNSYNCED_ACCEPTED: StartOptions = StartOptions {
    accept_unsynced: true,
    ..NOTHING_ACCEPTED
};
const DEGRADED_ACCEPTED: StartOptions = StartOptions {
    degraded: true,
    ..NOTHING_ACCEPTED
};

fn mode(mpb: &Mpb) -> StartMode {
    start_mode(mpb, 0, &ALL, NOTHING_ACCEPTED)
}

fn read_write(sync: SyncWork, lost_slots: Vec<usize>) -> StartMode {
    StartMode::ReadWrite {
        sync,
        lost_slots,
        replay: false,
        switch_policy: None,
    }
}

fn switching(to: WriteHolePolicy, sync: SyncWork, lost_slots: Vec<usize>) -> StartMode {
    StartMode::ReadWrite {
        sync,
        lost_slots,
        replay: false,
        switch_policy: Some(to),
    }
}

fn refused(reason: RefusedReason, override_flag: Option<&'static str>) -> StartMode {
    StartMode::Refused {
        reason,
        override_flag,
    }
}

fn with(mut mpb: Mpb, change: impl FnOnce(&mut Mpb)) -> Mpb {
    change(&mut mpb);
    mpb
}

fn dirty(mpb: Mpb) -> Mpb {
    with(mpb, |mpb| mpb.volumes[0].dirty = 1)
}

fn with_policy(policy: WriteHolePolicy) -> Mpb {
    with(golden::raid5(), |mpb| {
        mpb.set_write_hole_policy(0, policy).unwrap()
    })
}

fn without_slot(mpb: Mpb, slot: usize) -> Mpb {
    with(mpb, |mpb| mpb.mark_failed(slot).unwrap())
}

fn rebuilding(mpb: Mpb, slot: usize, checkpoint: u64) -> Mpb {
    let drive = NewDrive {
        serial: Serial::from_drive(b"SPARE"),
        total_sectors: 131_072,
    };
    with(without_slot(mpb, slot), |mpb| {
        mpb.start_rebuild(
            0,
            slot,
            RebuildTarget::NewDrive {
                drive,
                family_salt: 1,
            },
        )
        .unwrap();
        mpb.set_checkpoint(0, checkpoint).unwrap();
    })
}

fn repairing(mpb: Mpb, checkpoint: u64) -> Mpb {
    with(mpb, |mpb| {
        mpb.start_repair(0).unwrap();
        mpb.set_checkpoint(0, checkpoint).unwrap();
    })
}

fn initialising(mpb: Mpb, checkpoint: u64) -> Mpb {
    with(mpb, |mpb| {
        mpb.volumes[0].map.state = MapState::Uninitialised;
        mpb.start_initial_sync(0).unwrap();
        mpb.set_checkpoint(0, checkpoint).unwrap();
    })
}

#[test]
fn clean_and_complete_volumes_start() {
    for mpb in [
        golden::raid0(),
        golden::raid1(),
        golden::raid10(),
        golden::raid5(),
    ] {
        assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![]));
    }
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let mpb = with(golden::raid5(), |mpb| {
        mpb.attributes = Attributes(0x8000_0108)
    });
    assert_eq!(
        mode(&mpb),
        refused(RefusedReason::Attributes(Attributes(0x108)), None)
    );
    assert_eq!(
        RefusedReason::Attributes(Attributes(0x108)).to_string(),
        "its container uses features that are not supported: RAID 1E, unknown bit 0x00000100"
    );
}

#[test]
fn nonsense_is_refused() {
    let mpb = with(golden::raid5(), |mpb| mpb.volumes[0].map.stored_level = 6);
    let problem = GeometryProblem::UnknownLevel {
        stored_level: 6,
        members: 4,
    };
    assert_eq!(mode(&mpb), refused(RefusedReason::Geometry(problem), None));
    let mpb = with(golden::raid5(), |mpb| {
        mpb.volumes[0].map.state = MapState::Unknown(7)
    });
    assert_eq!(mode(&mpb), refused(RefusedReason::UnknownState(7), None));
    let mode = start_mode(&golden::raid5(), 1, &ALL, NOTHING_ACCEPTED);
    assert_eq!(mode, refused(RefusedReason::NoSuchVolume, None));
}

#[test]
fn a_reshape_is_refused_by_name() {
    for kind in [
        MigrationKind::General,
        MigrationKind::StateChange,
        MigrationKind::Unknown(9),
    ] {
        let mpb = with(golden::raid5(), |mpb| {
            let second_map = mpb.volumes[0].map.clone();
            mpb.volumes[0].migration = Some(Migration {
                kind,
                checkpoint_unit: 0,
                second_map,
            });
        });
        assert_eq!(mode(&mpb), refused(RefusedReason::Migrating(kind), None));
    }
}

#[test]
fn recorded_bad_blocks_change_nothing_about_the_start() {
    for mpb in [
        golden::raid0(),
        golden::raid1(),
        golden::raid10(),
        golden::raid5(),
    ] {
        let extent = mpb.volumes[0].extent();
        let bad = with(mpb.clone(), |mpb| {
            mpb.add_bad_blocks(1, extent.start, 8).unwrap();
        });
        assert!(!bad.bad_ranges(1).is_empty());
        assert_eq!(mode(&bad), mode(&mpb));
    }
}

#[test]
fn a_dirty_volume_is_synchronised_from_the_start() {
    for mpb in [golden::raid1(), golden::raid10(), golden::raid5()] {
        let expected = read_write(SyncWork::Resync { from_sector: 0 }, vec![]);
        assert_eq!(mode(&dirty(mpb.clone())), expected);
        assert_eq!(mode(&dirty(repairing(mpb, 18))), expected);
    }
    assert_eq!(
        mode(&dirty(golden::raid0())),
        read_write(SyncWork::None, vec![])
    );
}

#[test]
fn an_interrupted_synchronisation_goes_on_at_its_checkpoint() {
    assert_eq!(
        mode(&repairing(golden::raid5(), 18)),
        read_write(SyncWork::Resync { from_sector: 9216 }, vec![])
    );
    assert_eq!(
        mode(&initialising(golden::raid1(), 34)),
        read_write(
            SyncWork::InitialSync {
                from_sector: 17_408
            },
            vec![]
        )
    );
    // Writes may have been interrupted below the checkpoint, too.
    assert_eq!(
        mode(&dirty(initialising(golden::raid5(), 18))),
        read_write(SyncWork::InitialSync { from_sector: 0 }, vec![])
    );
}

#[test]
fn a_new_volume_is_synchronised_for_the_first_time() {
    let mpb = with(golden::raid5(), |mpb| {
        mpb.volumes[0].map.state = MapState::Uninitialised
    });
    assert_eq!(
        mode(&mpb),
        read_write(SyncWork::InitialSync { from_sector: 0 }, vec![])
    );
    let mut absent = ALL;
    absent[2] = false;
    assert_eq!(
        start_mode(&mpb, 0, &absent, DEGRADED_ACCEPTED),
        refused(
            RefusedReason::UnsyncedAndDegraded,
            Some(ACCEPT_UNSYNCED_FLAG)
        )
    );
}

#[test]
fn an_interrupted_verify_is_simply_finished() {
    let mpb = with(repairing(golden::raid5(), 18), |mpb| {
        mpb.volumes[0].migration.as_mut().unwrap().kind = MigrationKind::Verify;
    });
    assert_eq!(mode(&mpb), read_write(SyncWork::None, vec![]));
    assert_eq!(
        mode(&dirty(mpb)),
        read_write(SyncWork::Resync { from_sector: 0 }, vec![])
    );
}

#[test]
fn a_rebuild_goes_on_at_its_checkpoint() {
    let rebuild = |slots, from_sector, then_resync| {
        read_write(
            SyncWork::Rebuild {
                slots,
                from_sector,
                then_resync,
            },
            vec![],
        )
    };
    for slot in 0..4 {
        let mpb = rebuilding(golden::raid5(), slot, 7);
        assert_eq!(mode(&mpb), rebuild(vec![slot], 7 * 128, false));
    }
    assert_eq!(
        mode(&rebuilding(golden::raid1(), 0, 7)),
        rebuild(vec![0], 7 * 512, false)
    );
    // Dirty mirrors: the source is right, but interrupted writes may be missing anywhere on the target. The copies of
    // the other pair may differ as well.
    assert_eq!(
        mode(&dirty(rebuilding(golden::raid1(), 0, 7))),
        rebuild(vec![0], 0, false)
    );
    assert_eq!(
        mode(&dirty(rebuilding(golden::raid10(), 0, 7))),
        rebuild(vec![0], 0, true)
    );
    // If the target is missing, the volume is degraded and has nothing to rebuild.
    let mpb = rebuilding(golden::raid5(), 1, 7);
    let present = [true, true, true, false];
    let mode = start_mode(&mpb, 0, &present, NOTHING_ACCEPTED);
    assert_eq!(mode, read_write(SyncWork::None, vec![1]));
}

#[test]
fn a_bitmap_changes_nothing_by_itself_and_goes_where_there_is_no_room() {
    let with_bitmap = with_policy(WriteHolePolicy::Bitmap);
    assert_eq!(mode(&with_bitmap), read_write(SyncWork::None, vec![]));
    let sync = SyncWork::Resync { from_sector: 0 };
    assert_eq!(
        mode(&dirty(with_bitmap.clone())),
        read_write(sync.clone(), vec![])
    );
    // A bitmap does not close the write hole.
    let refusal = refused(
        RefusedReason::DirtyAndDegraded,
        Some(ACCEPT_WRITE_HOLE_FLAG),
    );
    let degraded = dirty(without_slot(with_bitmap.clone(), 3));
    assert_eq!(mode(&degraded), refusal);
    let close = with(with_bitmap, |mpb| {
        let mut next = mpb.volumes[0].clone();
        next.name = crate::imsm::VolumeName::new("next").unwrap();
        next.map.start_sector = mpb.volumes[0].extent().end + 300;
        next.map.data_stripes = 16;
        next.size_sectors = 16 * 128 * 3;
        mpb.volumes.push(next);
    });
    let off = WriteHolePolicy::Off;
    assert_eq!(mode(&close), switching(off, SyncWork::None, vec![]));
    assert_eq!(mode(&dirty(close)), switching(off, sync, vec![]));
    assert_eq!(
        mode(&with_policy(WriteHolePolicy::OffOld)),
        read_write(SyncWork::None, vec![])
    );
}

#[test]
fn a_journal_drive_is_never_written_around() {
    for policy in [
        WriteHolePolicy::JournalDrive,
        WriteHolePolicy::JournalDriveMultiple,
        WriteHolePolicy::Unknown(9),
    ] {
        let mpb = with_policy(policy);
        let reason = ReadOnlyReason::Policy(policy);
        assert_eq!(
            mode(&mpb),
            StartMode::ReadOnly {
                reason,
                lost_slots: vec![]
            }
        );
    }
}
