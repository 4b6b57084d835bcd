//! What a drive's own record has to say for the drive to come back to its slot. These tests look at the record alone,
//! as happens when somebody adds a drive to an array that is being served.

use super::super::rig::spec;
use super::*;
use crate::assemble::bitmap::returning;
use engine::control::record::Returning;
use engine::units::Slot;
use metadata::imsm::record::SlotEntry;

/// The slot to which a drive with the record `own` would come back, if the others' record is `now`.
fn asked(own: &Mpb, now: &Mpb) -> Option<Returning> {
    let pages = Pages::default();
    put_record(&pages, own);
    returning(&Memory::open(AWAY, pages).unwrap(), now)
}

fn with_two_volumes(level: Level) -> Mpb {
    let mut mpb = made(false);
    mpb.add_volume(&spec("second", level)).unwrap();
    mpb
}

#[test]
fn a_drive_says_which_slot_it_had_and_how_old_its_record_is() {
    for old in [made(false), with_two_volumes(Level::Raid5)] {
        let slot = Slot(AWAY as u8);
        let generation = 20;
        let said = Returning { slot, generation };
        assert_eq!(asked(&old, &without(&old)), Some(said));
    }
}

#[test]
fn a_drive_of_another_container_or_of_other_volumes_does_not_come_back() {
    let old = made(false);
    let changes: [Change; 6] = [
        |mpb| mpb.orig_family_num = 99,
        |mpb| mpb.volumes[0].map.stored_level = 5,
        |mpb| {
            let order = &mut mpb.volumes[0].map.order;
            order.push(SlotEntry::in_sync(0));
        },
        |mpb| mpb.volumes[0].map.sectors_per_strip *= 2,
        |mpb| mpb.add_volume(&spec("more", Level::Raid10)).unwrap(),
        |mpb| mpb.volumes.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut own = old.clone();
        change(&mut own);
        assert_eq!(asked(&own, &without(&old)), None, "change {number}");
    }
}

/// If a slot was out of sync in the drive's own record, the drive may have been in use without the others.
#[test]
fn a_drive_that_left_during_a_rebuild_does_not_come_back() {
    for filled in [1, AWAY] {
        let old = made(false);
        let mut own = old.clone();
        rebuild_onto(&mut own, filled, filled);
        assert_eq!(asked(&own, &without(&old)), None, "slot {filled}");
    }
}

/// Without a bitmap nobody knows what has been written meanwhile.
#[test]
fn a_drive_comes_back_only_beside_a_bitmap() {
    for policy in [WriteHolePolicy::Off, WriteHolePolicy::Bitmap] {
        let mut old = made(false);
        old.set_write_hole_policy(0, policy).unwrap();
        let said = asked(&old, &without(&old));
        assert_eq!(said.is_some(), policy == WriteHolePolicy::Bitmap);
    }
}

/// A drive returns to one slot, which has to be the same in all volumes.
#[test]
fn a_drive_that_had_different_slots_does_not_come_back() {
    let old = with_two_volumes(Level::Raid5);
    let mut own = old.clone();
    own.volumes[1].map.order.swap(1, AWAY);
    assert_eq!(asked(&own, &without(&own)), None);
}

/// The drive's data of that volume is current. Filling the drive as a spare would overwrite it.
#[test]
fn a_drive_that_a_volume_waits_for_does_not_come_back_as_a_spare() {
    let old = with_two_volumes(Level::Raid0);
    let waiting = |change: Change| {
        let mut now = old.clone();
        now.mark_failed_in(AWAY, |at| at == 0).unwrap();
        now.generation = 22;
        change(&mut now);
        asked(&old, &now)
    };
    assert_eq!(waiting(|_| {}), None);
    // The drive was missing when the others were started, instead of failing.
    assert_eq!(
        waiting(|mpb| mpb.mark_missing_in(AWAY, |_| false).unwrap()),
        None
    );
    // The volume continues without the drive after all, or waits for another drive.
    let slot = Slot(AWAY as u8);
    let generation = 20;
    let said = Some(Returning { slot, generation });
    assert_eq!(waiting(|mpb| mpb.mark_failed(AWAY).unwrap()), said);
    assert_eq!(
        waiting(|mpb| {
            mpb.mark_failed(AWAY).unwrap();
            mpb.mark_failed_in(1, |_| false).unwrap();
        }),
        said
    );
}

/// When a start decides which bits to keep, the record does not yet say that the slot is lost.
#[test]
fn marks_of_a_volume_that_lacks_a_drive_stay() {
    let mpb = made(false);
    for lost_slots in [vec![], vec![1]] {
        let mut found = [bitmap(&mpb, 6, 7)];
        let left = if lost_slots.is_empty() { 0 } else { 6 };
        let modes = [StartMode::ReadWrite {
            sync: SyncWork::None,
            lost_slots,
            replay: false,
            switch_policy: None,
        }];
        follow(&mut found, &mpb, &modes);
        assert_eq!(found[0].marked, [left]);
    }
}

/// A drive that takes the empty slot needs all data.
#[test]
fn a_new_bitmap_of_a_volume_without_a_drive_marks_everything() {
    let mut mpb = made(false);
    mpb.mark_failed(AWAY).unwrap();
    let new = new_bitmap(&mpb, 0, SECTOR, Some(REGION_BYTES)).unwrap();
    assert_eq!(new.marked, all_words(REGIONS));
}
