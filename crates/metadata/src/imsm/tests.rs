//! The rules applied to arbitrary records. Whatever a record contains, no rule may panic, and a change either gives a
//! record that can be written or changes nothing.

use super::build::{NewDrive, RebuildTarget, VolumeSpec};
use super::choose::{Candidate, Content, choose};
use super::geometry::{Level, SizeRequest, check_volume};
use super::record::{Mpb, SectorSize, VolumeName};
use super::serial::Serial;
use super::start::{StartMode, StartOptions, start_mode};
use super::uuid::Uuid;
use super::{BadBlockEntry, MapState, arbitrary};
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;

fn candidate(mpb: &Mpb, row: usize) -> Candidate {
    let disk = &mpb.disks[row % mpb.disks.len()];
    Candidate {
        name: "drive".into(),
        serial: disk.serial,
        total_sectors: disk.total_sectors,
        sector: SectorSize::Bytes512,
        content: Content::Record(Box::new(mpb.clone())),
        shadow: None,
    }
}

/// Applies one of the changes; `a` and `b` choose volumes, drives and slots.
fn change(mpb: &mut Mpb, which: u8, a: usize, b: usize) -> bool {
    let drive = NewDrive {
        serial: Serial::from_drive(b"NEW"),
        total_sectors: u64::from(u32::MAX),
    };
    let target = RebuildTarget::NewDrive {
        drive,
        family_salt: 1,
    };
    let spec = VolumeSpec {
        name: VolumeName::new("new").unwrap(),
        level: [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5][b % 4],
        strip_sectors: 128,
        size: SizeRequest::Largest,
        born_in_sync: false,
        allow_wide: true,
    };
    match which {
        0 => mpb.mark_failed(a).is_ok(),
        1 => mpb.mark_missing(a).is_ok(),
        2 => mpb.start_rebuild(a, b, target).is_ok(),
        3 => mpb
            .start_rebuild(a, b, RebuildTarget::Listed { disk_index: b })
            .is_ok(),
        4 => mpb.finish_rebuild(a).is_ok(),
        5 => mpb.start_initial_sync(a).is_ok(),
        6 => mpb.start_repair(a).is_ok(),
        7 => mpb.finish_sync(a).is_ok(),
        8 => mpb.add_volume(&spec).is_ok(),
        9 => mpb.delete_volume(a).is_ok(),
        10 => mpb.set_checkpoint(a, b as u64).is_ok(),
        11 => mpb.set_dirty(a, b == 0).is_ok(),
        12 => mpb.add_bad_blocks(a, b as u64 * 100, 300).is_ok(),
        _ => mpb.remove_bad_blocks(a, b as u64 * 100, 50).is_ok(),
    }
}

proptest! {
    #[test]
    fn no_rule_panics_whatever_the_record_says(
        mpb in arbitrary::record(),
        other in arbitrary::record(),
        present in prop::collection::vec(any::<bool>(), 0..6),
        accept in any::<(bool, bool, bool)>(),
        same_family in any::<bool>(),
    ) {
        let options = StartOptions {
            degraded: accept.0, accept_write_hole: accept.1, accept_unsynced: accept.2,
            trust_returned_drive: false,
        };
        for index in 0..=mpb.volumes.len() {
            let mode = start_mode(&mpb, index, &present, options);
            if index < mpb.volumes.len() {
                // A volume whose layout is not valid does not start.
                let sane = check_volume(&mpb, index).is_ok();
                let refused = matches!(mode, StartMode::Refused { .. });
                prop_assert!(sane || refused);
                let volume = &mpb.volumes[index];
                let position = volume.checkpoint_sector();
                prop_assert!(position.is_none_or(|at| at <= volume.component_sectors()));
                let _ = volume.checkpoint_at(u64::MAX);
            }
            let _ = Uuid::of_volume(&mpb, index);
        }
        let mut other = other;
        if same_family {
            other.orig_family_num = mpb.container_family();
            other.disks[0].serial = mpb.disks[0].serial;
        }
        let mut candidates: Vec<Candidate> =
            (0..mpb.disks.len()).map(|row| candidate(&mpb, row)).collect();
        candidates.push(candidate(&other, 1));
        for found in choose(&candidates).containers {
            if let Ok(mut assembly) = found.outcome {
                prop_assert_eq!(assembly.members.len(), assembly.mpb.disks.len());
                assembly.record_absences(|_| true).unwrap();
            }
        }
    }

    #[test]
    fn changes_give_records_that_can_be_written_or_change_nothing(
        mut mpb in arbitrary::record(),
        changes in prop::collection::vec((0u8..14, 0usize..4, 0usize..8), 1..12),
    ) {
        // Arbitrary entries may name drives that do not exist.
        mpb.bad_blocks.retain(|entry: &BadBlockEntry| {
            usize::from(entry.disk_index) < mpb.disks.len()
        });
        for (which, a, b) in changes {
            let before = mpb.clone();
            let done = change(&mut mpb, which, a, b);
            prop_assert!(done || mpb == before, "change {} failed half-way", which);
            let bytes = mpb.encode(SectorSize::Bytes512);
            prop_assert!(bytes.is_ok(), "{:?}", bytes);
            let again = Mpb::decode(&bytes.unwrap(), SectorSize::Bytes512);
            prop_assert!(again.is_ok(), "{:?}", again);
        }
    }

    /// Lost slots are never forgotten: in any history of a valid container, only a finished rebuild marks a lost slot
    /// in sync again.
    #[test]
    fn only_a_finished_rebuild_makes_a_lost_slot_good(
        which in 0usize..3,
        changes in prop::collection::vec((0u8..12, 0usize..5), 1..40),
    ) {
        let golden = [super::golden::raid1(), super::golden::raid10(), super::golden::raid5()];
        let mut mpb = golden[which].clone();
        let lost = |mpb: &Mpb| -> Vec<usize> {
            let map = mpb.volumes[0].current_map();
            (0..map.members()).filter(|&slot| map.order[slot].out_of_sync).collect()
        };
        for (kind, b) in changes {
            if kind == 8 || kind == 9 {
                continue;
            }
            let before = lost(&mpb);
            let (first, second) = if kind < 2 { (b, 0) } else { (0, b) };
            let done = change(&mut mpb, kind, first, second);
            let after = lost(&mpb);
            if !(kind == 4 && done) {
                prop_assert!(before.iter().all(|slot| after.contains(slot)));
            }
            let map = mpb.volumes[0].current_map();
            if map.state == MapState::Normal {
                prop_assert!(after.is_empty());
            }
            if after.is_empty() && mpb.volumes[0].migration.is_none() {
                prop_assert_eq!(map.state, MapState::Normal);
            }
        }
    }
}
