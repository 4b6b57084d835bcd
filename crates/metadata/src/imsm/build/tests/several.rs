//! Two drives of a RAID 10 that md rebuilds at the same time. It marks both in one update, and either may be finished
//! first.

use super::*;

fn filling_two() -> Mpb {
    let mut mpb = container(Level::Raid10, 4);
    for slot in [1, 3] {
        mpb.mark_failed(slot).unwrap();
    }
    let target = RebuildTarget::NewDrive {
        drive: drive(4, 131_072),
        family_salt: 5,
    };
    mpb.start_rebuild(0, 1, target).unwrap();
    let row = mpb.volumes[0].map.order[3].disk_index as usize;
    mpb.disks[row] = Disk::member(drive(5, 131_072).serial, 131_072);
    let map = &mut mpb.volumes[0].map;
    map.order[3].out_of_sync = false;
    map.state = MapState::Normal;
    assert_eq!(mpb.volumes[0].rebuild_targets().collect::<Vec<_>>(), [1, 3]);
    mpb
}

#[test]
fn a_drive_that_is_full_leaves_the_other_one_out_of_sync() {
    for (first, second) in [(1, 3), (3, 1)] {
        let mut mpb = filling_two();
        mpb.finish_rebuild_of(0, first).unwrap();
        let volume = &mpb.volumes[0];
        assert_eq!(out_of_sync(volume.current_map()), [second]);
        assert_eq!(volume.rebuild_targets().collect::<Vec<_>>(), [second]);
        assert_eq!(volume.current_map().state, MapState::Degraded);
        assert_eq!(volume.current_map().failed_slot, Some(second as u8));
        mpb.finish_rebuild_of(0, second).unwrap();
        let volume = &mpb.volumes[0];
        assert_eq!(
            (&volume.migration, volume.map.state),
            (&None, MapState::Normal)
        );
        assert_eq!(volume.map.failed_slot, None);
        let again = mpb.finish_rebuild_of(0, second);
        assert!(matches!(again, Err(BuildError::NotInProgress { .. })));
    }
}
