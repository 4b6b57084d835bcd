//! Replacing a drive that still serves: once it has been copied, the copy takes its place.

use super::*;
use alloc::vec;

#[test]
fn a_raid0_is_never_without_a_member() {
    let mut mpb = container(Level::Raid0, 3);
    let before = mpb.volumes[0].map.state;
    mpb.replace_member(0, 1, SPARE).unwrap();
    let map = &mpb.volumes[0].map;
    assert_eq!((map.state, rows(map)), (before, vec![0, 1, 2]));
    assert_eq!(mpb.disks.len(), 3);
    assert_eq!(mpb.disks[1].serial.to_string(), "SPARE");
    assert!(mpb.disks.iter().all(|disk| !disk.is_failed()));
    assert_eq!(mpb.volumes[0].migration, None);
}

#[test]
fn what_is_lost_or_in_progress_stays_so() {
    let mut mpb = container(Level::Raid5, 4);
    mpb.mark_failed(3).unwrap();
    mpb.replace_member(0, 0, SPARE).unwrap();
    let map = &mpb.volumes[0].map;
    assert_eq!((map.state, out_of_sync(map)), (MapState::Degraded, vec![3]));
    assert!(matches!(
        mpb.replace_member(0, 3, SPARE),
        Err(BuildError::NobodyServes { slot: 3, .. })
    ));
    assert!(matches!(
        mpb.replace_member(0, 9, SPARE),
        Err(BuildError::NobodyServes { slot: 9, .. })
    ));

    let mut mpb = container(Level::Raid1, 2);
    mpb.start_repair(0).unwrap();
    let migration = mpb.volumes[0].migration.clone().unwrap();
    mpb.replace_member(0, 0, SPARE).unwrap();
    let now = mpb.volumes[0].migration.clone().unwrap();
    assert_eq!(now.kind, migration.kind);
    assert_eq!(rows(&now.second_map), rows(&mpb.volumes[0].map));
}

#[test]
fn the_old_row_stays_until_no_volume_needs_it() {
    let mut first = spec("a", Level::Raid5);
    first.size = SizeRequest::PerMember { sectors: 16_384 };
    let mut mpb = Mpb::create(&drives(4, 131_072), &first, IDENTITY).unwrap();
    mpb.add_volume(&spec("b", Level::Raid10)).unwrap();
    mpb.replace_member(0, 1, SPARE).unwrap();
    assert_eq!(mpb.disks.len(), 5);
    assert!(matches!(
        mpb.replace_member(1, 1, SPARE),
        Err(BuildError::DuplicateSerial { .. })
    ));
    let family = mpb.family_num;
    let listed = RebuildTarget::Listed { disk_index: 4 };
    mpb.replace_member(1, 1, listed).unwrap();
    assert_eq!((mpb.disks.len(), mpb.family_num), (4, family));
    for volume in &mpb.volumes {
        assert_eq!(rows(&volume.map), [0, 1, 2, 3]);
        assert_eq!(volume.map.state, MapState::Normal);
    }
}
