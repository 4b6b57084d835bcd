//! Layouts compared with the numbers that mdadm produced, and the limits.

use super::*;
use crate::imsm::golden;
use crate::imsm::record::MapState;
use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;

fn shape(level: Level, members: usize, strip_sectors: u32) -> Shape {
    Shape {
        level,
        members,
        strip_sectors,
    }
}

#[test]
fn largest_volumes_are_as_mdadm_makes_them() {
    for (record, level) in [
        (golden::raid0(), Level::Raid0),
        (golden::raid10(), Level::Raid10),
        (golden::raid5(), Level::Raid5),
        (golden::raid5_128_mib(), Level::Raid5),
    ] {
        let drive_sectors = record.disks[0].total_sectors;
        let layout = lay_out(
            &shape(level, 4, 128),
            SizeRequest::Largest,
            drive_sectors,
            &[],
        )
        .unwrap();
        let volume = &record.volumes[0];
        assert_eq!(layout.size_sectors, volume.size_sectors, "{level}");
        assert_eq!(
            layout.sectors_per_member, volume.map.sectors_per_member,
            "{level}"
        );
        assert_eq!(layout.data_stripes, volume.map.data_stripes, "{level}");
        assert_eq!(
            layout.component_sectors,
            volume.component_sectors(),
            "{level}"
        );
        assert_eq!(check_volume(&record, 0), Ok(level));
    }
}

#[test]
fn a_requested_size_is_rounded_down() {
    // 50 MiB are requested. RAID 1 stores a strip size of 64 KiB whatever is requested.
    let pair = shape(Level::Raid1, 2, 8);
    for size in [
        SizeRequest::Volume {
            sectors: 102_400 + 2047,
        },
        SizeRequest::PerMember { sectors: 102_400 },
    ] {
        let layout = lay_out(&pair, size, 131_072, &[]).unwrap();
        let golden = &golden::raid1().volumes[0];
        assert_eq!(layout.size_sectors, golden.size_sectors);
        assert_eq!(layout.data_stripes, golden.map.data_stripes);
        assert_eq!(layout.sectors_per_member, golden.map.sectors_per_member);
        assert_eq!(layout.strip_sectors, 128);
    }
}

#[test]
fn a_second_volume_starts_8192_sectors_after_the_first() {
    let request = SizeRequest::PerMember { sectors: 16_384 };
    let first = lay_out(&shape(Level::Raid0, 4, 256), request, 65_536, &[]).unwrap();
    assert_eq!((first.size_sectors, first.data_stripes), (65_536, 64));
    assert_eq!(first.sectors_per_member, 18_432);
    let existing = [Extent {
        start: 0,
        end: first.component_sectors,
    }];
    let rest = lay_out(
        &shape(Level::Raid5, 4, 128),
        SizeRequest::Largest,
        65_536,
        &existing,
    );
    let rest = rest.unwrap();
    assert_eq!((rest.start_sector, rest.size_sectors), (24_576, 86_016));
    assert_eq!((rest.sectors_per_member, rest.data_stripes), (30_720, 224));
    assert_eq!(rest.write_hole_log_sector(), 24_576 + 28_672);
}

#[test]
fn a_gap_before_another_volume_is_used_and_kept_apart() {
    let behind = [Extent {
        start: 24_576,
        end: 24_576 + 28_672,
    }];
    let pair = shape(Level::Raid1, 2, 128);
    let layout = lay_out(&pair, SizeRequest::Largest, 65_536, &behind).unwrap();
    assert_eq!((layout.start_sector, layout.component_sectors), (0, 16_384));
    let none = [Extent {
        start: 0,
        end: 55_000,
    }];
    assert!(matches!(
        lay_out(&pair, SizeRequest::Largest, 65_536, &none),
        Err(GeometryError::NoSpace {
            needed_sectors: 0,
            ..
        })
    ));
    assert_eq!(
        lay_out(
            &pair,
            SizeRequest::PerMember { sectors: 18_432 },
            65_536,
            &behind
        ),
        Err(GeometryError::NoSpace {
            needed_sectors: 18_432,
            largest_gap_sectors: 16_384
        })
    );
    assert_eq!(
        lay_out(&pair, SizeRequest::Volume { sectors: 2047 }, 65_536, &[]),
        Err(GeometryError::TooSmall {
            smallest_sectors: 2048
        })
    );
}

#[test]
fn stripes_of_a_raid10_with_the_largest_strip_come_out_whole() {
    let shape = shape(Level::Raid10, 4, 2048);
    let odd = SizeRequest::PerMember { sectors: 7 * 2048 };
    let layout = lay_out(&shape, odd, 65_536, &[]).unwrap();
    assert_eq!(
        (layout.component_sectors, layout.data_stripes),
        (6 * 2048, 3)
    );
}

#[test]
fn levels_are_stored_as_readers_expect() {
    assert_eq!(Level::Raid10.stored(4), 1);
    assert_eq!(Level::Raid10.stored(6), 10);
    assert_eq!(Level::from_stored(1, 2), Some(Level::Raid1));
    assert_eq!(Level::from_stored(1, 4), Some(Level::Raid10));
    assert_eq!(Level::from_stored(10, 4), Some(Level::Raid10));
    assert_eq!(Level::from_stored(1, 3), None);
    assert_eq!(Level::from_stored(10, 2), None);
    assert_eq!(Level::from_stored(5, 2), None);
    assert_eq!(Level::from_stored(6, 4), None);
    assert_eq!(Level::from_stored(0, 0), None);
}

#[test]
fn states_follow_from_the_lost_slots() {
    let state = |level: Level, slots: &str| level.state_with(slots.bytes().map(|b| b == b'U'));
    assert_eq!(state(Level::Raid0, "UU_"), MapState::Failed);
    assert_eq!(state(Level::Raid1, "_U"), MapState::Degraded);
    assert_eq!(state(Level::Raid1, "__"), MapState::Failed);
    assert_eq!(state(Level::Raid5, "U_UU"), MapState::Degraded);
    assert_eq!(state(Level::Raid5, "U_U_"), MapState::Failed);
    // RAID 10 survives the loss of one drive of each pair, in any combination.
    assert_eq!(state(Level::Raid10, "U_U_"), MapState::Degraded);
    assert_eq!(state(Level::Raid10, "U__U"), MapState::Degraded);
    assert_eq!(state(Level::Raid10, "__UU"), MapState::Failed);
    assert_eq!(state(Level::Raid10, "U__UUU"), MapState::Degraded);
    assert_eq!(state(Level::Raid10, "UUUU"), MapState::Normal);
}

#[test]
fn the_safe_set_has_no_reasons_and_the_wide_set_names_them() {
    for (level, members) in [
        (Level::Raid0, 2),
        (Level::Raid0, 12),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 3),
    ] {
        for strip_sectors in [8, 16, 32, 64, 128, 256] {
            let safe = shape(level, members, strip_sectors);
            assert_eq!(safe.check(), Ok(()));
            assert_eq!(safe.reasons_wide(2), []);
        }
    }
    let wide = shape(Level::Raid10, 6, 2048);
    assert_eq!(wide.check(), Ok(()));
    assert_eq!(
        wide.reasons_wide(3),
        [
            WideReason::Raid10AboveFour { members: 6 },
            WideReason::LargeStrip { strip_kib: 1024 },
            WideReason::ManyVolumes { volumes: 3 },
        ]
    );
    assert_eq!(
        shape(Level::Raid0, 1, 128).reasons_wide(1),
        [WideReason::Raid0OfOne]
    );
    assert_eq!(
        shape(Level::Raid5, 13, 128).reasons_wide(1),
        [WideReason::ManyMembers { members: 13 }]
    );
    assert!(
        WideReason::Raid10AboveFour { members: 6 }
            .to_string()
            .contains("mdadm before 4.4")
    );
}

#[test]
fn impossible_shapes_are_refused_with_the_rule() {
    let error = shape(Level::Raid1, 3, 128).check().unwrap_err();
    assert_eq!(error.to_string(), "RAID 1 needs exactly 2 drives, not 3");
    assert!(shape(Level::Raid10, 5, 128).check().is_err());
    assert!(shape(Level::Raid10, 2, 128).check().is_err());
    assert!(shape(Level::Raid5, 2, 128).check().is_err());
    assert!(shape(Level::Raid0, 256, 128).check().is_err());
    assert!(shape(Level::Raid0, 0, 128).check().is_err());
    for strip_sectors in [0, 1, 4, 24, 4096] {
        assert!(
            shape(Level::Raid0, 2, strip_sectors).check().is_err(),
            "{strip_sectors}"
        );
    }
}

#[test]
fn records_that_make_no_sense_are_noticed() {
    let check = |change: fn(&mut crate::imsm::Mpb)| {
        let mut record = golden::raid5();
        change(&mut record);
        check_volume(&record, 0).unwrap_err()
    };
    use GeometryProblem as Problem;
    assert_eq!(
        check(|r| r.volumes[0].map.stored_level = 6),
        Problem::UnknownLevel {
            stored_level: 6,
            members: 4
        }
    );
    assert_eq!(
        check(|r| r.volumes[0].map.sectors_per_strip = 0),
        Problem::Strip { sectors: 0 }
    );
    assert_eq!(
        check(|r| r.volumes[0].map.domains = 0),
        Problem::Domains { domains: 0 }
    );
    assert_eq!(
        check(|r| r.volumes[0].map.order[3].disk_index = 0),
        Problem::SharedDrive { disk_index: 0 }
    );
    assert!(matches!(
        check(|r| r.volumes[0].size_sectors = 0),
        Problem::Size { .. }
    ));
    assert!(matches!(
        check(|r| r.volumes[0].size_sectors += 1),
        Problem::Size { .. }
    ));
    assert!(matches!(
        check(|r| r.disks[2].total_sectors = 118_784 + 2048),
        Problem::BeyondDrive { disk_index: 2, .. }
    ));
    assert!(matches!(
        check(|r| r.volumes[0].map.start_sector = u64::MAX),
        Problem::BeyondDrive { .. }
    ));
    assert!(matches!(
        check(|r| r.volumes.push(r.volumes[0].clone())),
        Problem::Overlap { .. }
    ));
    assert_eq!(
        check(|r| {
            r.start_repair(0).unwrap();
            r.volumes[0].map.data_stripes -= 1;
        }),
        Problem::MapsDiffer
    );
}

#[test]
fn stripes_that_contradict_the_size_are_not_believed() {
    let mut map = golden::raid5().volumes[0].map.clone();
    assert_eq!(map.component_sectors(356_352), 118_784);
    // If the two differ by at most 1 MiB for each data member, the stripes count, otherwise the size.
    assert_eq!(map.component_sectors(356_352 - 2048 * 3), 118_784);
    assert_eq!(
        map.component_sectors(356_352 - 2048 * 3 - 3),
        118_784 - 2049
    );
    map.data_stripes = u64::MAX;
    assert_eq!(map.component_sectors(356_352), 118_784);
}

proptest! {
    #[test]
    fn layouts_fit_the_drive_and_stay_apart(
        drive_mib in 1u64..4096,
        members in 2usize..16,
        level in 0usize..4,
        strip_power in 3u32..=11,
        first_mib in prop::option::of(1u64..2048),
    ) {
        let level = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5][level];
        let shape = shape(level, members, 1 << strip_power);
        let drive_sectors = drive_mib * 2048 + 1234;
        let mut existing: Vec<Extent> = Vec::new();
        let first_size = first_mib.map_or(SizeRequest::Largest, |mib| {
            SizeRequest::PerMember { sectors: mib * 2048 }
        });
        for size in [first_size, SizeRequest::Largest] {
            let Ok(layout) = lay_out(&shape, size, drive_sectors, &existing) else { break };
            let extent = Extent {
                start: layout.start_sector,
                end: layout.start_sector + layout.component_sectors,
            };
            prop_assert!(layout.component_sectors >= 2048);
            prop_assert_eq!(layout.component_sectors % 2048, 0);
            prop_assert!(extent.end + 10_402 <= drive_sectors);
            prop_assert_eq!(
                layout.data_stripes
                    * u64::from(layout.strip_sectors)
                    * u64::from(level.domains()),
                layout.component_sectors
            );
            for other in &existing {
                prop_assert!(extent.end + 8192 <= other.start || other.end + 8192 <= extent.start);
            }
            existing.push(extent);
        }
    }
}
