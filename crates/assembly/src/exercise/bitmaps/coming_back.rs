//! Drives that come back: which of them return to their slots, so that only the regions which the bitmap marks are
//! copied to them.

use super::super::rig::{new_drive, put_on, spec};
use super::*;
use engine::control::record::MemberState;
use engine::units::Slot;
use metadata::imsm::build::RebuildTarget;
use metadata::imsm::log::{LoggedVolume, walk};
use metadata::imsm::record::{Disk, SlotEntry};
use metadata::imsm::{MapState, VolumeName};

/// Drives of which one has left and still has its old record. Bits may have been cleared since generation
/// `events_cleared`.
fn with_one_back(old: &Mpb, events_cleared: u64) -> Vec<Pages> {
    let drives = put(old, |_| bitmap(old, 6, events_cleared));
    let now = without(&made(false));
    put_on(&drives[..AWAY], &now);
    drives
}

/// Starts the array. Returns the slot to which the drive that was away returns.
fn returns_to(drives: &[Pages]) -> Option<Slot> {
    let container = started(drives, NOTHING);
    let of = |member: &&Memory| member.name == super::super::name(AWAY);
    let Some(at) = container.members.iter().position(|member| of(&member)) else {
        assert_eq!(container.members.len(), AWAY);
        return None;
    };
    let member = &container.record.members[at];
    assert_eq!(member.state, MemberState::Spare);
    assert!(
        container
            .notes
            .iter()
            .any(|note| note.contains("comes back"))
    );
    member.returns_to
}

#[test]
fn a_drive_that_was_away_returns_to_its_slot_if_no_bit_was_cleared_without_it() {
    let old = made(false);
    for (events_cleared, slot) in [(7, Some(Slot(3))), (20, Some(Slot(3))), (21, None)] {
        assert_eq!(returns_to(&with_one_back(&old, events_cleared)), slot);
    }
    // Without shadows, another program may have cleared some.
    let drives = with_one_back(&old, 7);
    drives.iter().for_each(erase_shadow);
    assert_eq!(returns_to(&drives), None);
}

#[test]
fn a_drive_whose_record_means_another_place_does_not_return() {
    let changes: [fn(&mut Mpb); 9] = [
        |mpb| mpb.volumes[0].name = VolumeName::new("other").unwrap(),
        |mpb| mpb.volumes[0].size_sectors -= 8,
        |mpb| mpb.volumes[0].map.start_sector += 8,
        |mpb| mpb.volumes[0].map.sectors_per_strip *= 2,
        |mpb| mpb.volumes[0].write_hole_policy = WriteHolePolicy::Off,
        // The drive had been in use without another one, or had another slot.
        |mpb| mpb.volumes[0].map.order[1].out_of_sync = true,
        |mpb| mpb.volumes[0].map.order.swap(2, 3),
        // The bad blocks of a drive are dropped from the others' record when it leaves.
        |mpb| {
            mpb.set_bad_ranges(AWAY, std::slice::from_ref(&(8..16)))
                .unwrap()
        },
        |mpb| {
            let volume = mpb.volumes[0].clone();
            mpb.volumes.push(volume);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let drives = with_one_back(&made(false), 7);
        let mut old = made(false);
        change(&mut old);
        put_record(&drives[AWAY], &old);
        let slot = returns_to(&drives);
        // It could return to its own slot only.
        assert_ne!(slot, Some(Slot(AWAY as u8)), "change {number}");
        assert_eq!(slot, None, "change {number}");
    }
    let drives = with_one_back(&made(false), 7);
    let mut now = without(&made(false));
    now.set_bad_ranges(AWAY, std::slice::from_ref(&(8..16)))
        .unwrap();
    put_on(&drives[..AWAY], &now);
    assert_eq!(
        returns_to(&drives),
        None,
        "the others' record lists bad blocks of it"
    );
}

/// Another drive is current in the slot now.
#[test]
fn a_drive_whose_slot_is_taken_does_not_return() {
    let old = made(false);
    let drives = with_one_back(&old, 7);
    let mut now = made(false);
    rebuild_onto(&mut now, AWAY, MEMBERS);
    now.finish_rebuild(0).unwrap();
    now.generation = 23;
    let new = Pages::default();
    put_bitmap(&new, &bitmap(&old, 6, 7));
    let mut drives = drives;
    drives.push(new);
    for (slot, pages) in drives.iter().enumerate().filter(|(slot, _)| *slot != AWAY) {
        put_record(pages, &now);
        assert_ne!(slot, AWAY);
    }
    let container = started(&drives, NOTHING);
    assert_eq!(container.members.len(), MEMBERS);
    let names: Vec<_> = container.members.iter().map(Member::name).collect();
    assert!(
        !names.contains(&super::super::name(AWAY).as_str()),
        "{names:?}"
    );
}

/// The drive that took the slot has failed before its rebuild ended. So the bitmap still marks what the first drive
/// lacks.
#[test]
fn a_drive_returns_when_the_one_that_took_its_slot_has_failed_and_not_before() {
    for has_failed in [false, true] {
        let mut drives = with_one_back(&made(false), 7);
        drives.push(Pages::default());
        let mut now = made(false);
        rebuild_onto(&mut now, AWAY, MEMBERS);
        if has_failed {
            let row = now.disk_index_of(&new_drive(MEMBERS).serial).unwrap();
            now.mark_failed(row).unwrap();
        }
        now.generation = 23;
        for at in [0, 1, 2, MEMBERS] {
            put_record(&drives[at], &now);
        }
        let container = started(&drives, NOTHING);
        let names: Vec<_> = container.members.iter().map(Member::name).collect();
        let away = super::super::name(AWAY);
        let at = names.iter().position(|name| *name == away);
        let returns_to = at.and_then(|at| container.record.members[at].returns_to);
        let wanted = has_failed.then_some(Slot(AWAY as u8));
        assert_eq!(
            (at.is_some(), returns_to),
            (has_failed, wanted),
            "{names:?}"
        );
    }
}

/// Another drive has the slot. It has failed, but a volume waits for it.
#[test]
fn a_drive_does_not_return_to_the_slot_of_one_that_a_volume_waits_for() {
    let mut old = made(false);
    old.add_volume(&spec("fast", Level::Raid0)).unwrap();
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = old.clone();
    let drive = new_drive(MEMBERS);
    let target = RebuildTarget::NewDrive {
        drive,
        family_salt: 5,
    };
    now.replace_member(0, AWAY, target).unwrap();
    let disk_index = now.disk_index_of(&drive.serial).unwrap();
    let target = RebuildTarget::Listed { disk_index };
    now.replace_member(1, AWAY, target).unwrap();
    let row = now.disk_index_of(&drive.serial).unwrap();
    now.mark_failed_in(row, |at| at == 0).unwrap();
    now.generation = 22;
    put_on(&drives[..AWAY], &now);
    let before = drives[AWAY].borrow().clone();
    assert_eq!(returns_to(&drives), None);
    assert!(*drives[AWAY].borrow() == before, "the drive was written to");
}

/// Each volume has a bitmap of its own.
#[test]
fn a_drive_returns_only_if_no_volume_has_cleared_bits_without_it_or_filled_its_slot() {
    let mut old = made(false);
    old.add_volume(&spec("second", Level::Raid10)).unwrap();
    old.set_write_hole_policy(1, WriteHolePolicy::Bitmap)
        .unwrap();
    for (cleared, is_filled, returns) in [
        ([7, 9], false, true),
        ([21, 9], false, false),
        ([7, 21], false, false),
        ([7, 9], true, false),
    ] {
        let mut now = without(&old);
        if is_filled {
            // The second volume has another drive there.
            now.disks.push(Disk::member(
                new_drive(MEMBERS).serial,
                now.disks[0].total_sectors,
            ));
            now.volumes[1].map.order[AWAY] = SlotEntry::in_sync(MEMBERS as u32);
            now.volumes[1].map.state = MapState::Normal;
        }
        let mut drives = put(&old, |_| bitmap(&old, 6, cleared[0]));
        drives.push(Pages::default());
        for (at, pages) in drives.iter().enumerate() {
            let mut second = new_bitmap(&old, 1, SECTOR, Some(REGION_BYTES)).unwrap();
            second.header.events_cleared = cleared[1];
            put_bitmap(pages, &second);
            if at != AWAY && (at < MEMBERS || is_filled) {
                put_record(pages, &now);
            }
        }
        if !is_filled {
            drives.pop();
        }
        let container = started(&drives, NOTHING);
        let away = super::super::name(AWAY);
        let is_here = container.members.iter().any(|member| member.name == away);
        assert_eq!(is_here, returns, "{cleared:?} {is_filled}");
    }
}

/// A drive that returns is filled in all volumes, and a volume that is not started cannot be filled.
#[test]
fn a_drive_does_not_return_beside_a_volume_that_is_not_started() {
    let mut old = made(false);
    old.add_volume(&spec("doubt", Level::Raid5)).unwrap();
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = without(&old);
    now.set_dirty(1, true).unwrap();
    put_on(&drives[..AWAY], &now);
    let container = started(&drives, NOTHING);
    assert!(container.not_started[1].is_some());
    let mut members = container.record.members.iter();
    let is_usable = |member: &engine::control::record::MemberRecord| {
        member.returns_to.is_some() || member.state == MemberState::Spare
    };
    assert!(!members.any(is_usable));
}

/// The log on the returned drive is older than the others' logs. Its newest unit must never be replayed.
#[test]
fn the_old_log_of_a_drive_that_returns_is_emptied() {
    let mut old = made(false);
    old.add_volume(&spec("logged", Level::Raid5)).unwrap();
    old.set_write_hole_policy(1, WriteHolePolicy::Log).unwrap();
    let logged = LoggedVolume::of(&old, 1, SECTOR).unwrap();
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let now = without(&old);
    put_on(&drives[..AWAY], &now);
    let unit = metadata::imsm::log::Header {
        generation: 9,
        entries: vec![Default::default()],
        ..metadata::imsm::log::Header::empty(logged.signature)
    };
    let at = logged.log_sector() * 512;
    write(&drives[AWAY], at, &unit.encode(SECTOR));
    assert_eq!(returns_to(&drives), Some(Slot(AWAY as u8)));
    let area = read(&drives[AWAY], at, logged.log_bytes());
    let newest = walk(&area, logged.signature, SECTOR).newest;
    assert!(newest.is_none_or(|unit| unit.header.entries.is_empty()));
}

/// A drive can come back only if it may be written to.
#[test]
fn no_drive_returns_to_a_container_that_is_only_read() {
    let drives = with_one_back(&made(false), 7);
    let before: Vec<_> = drives.iter().map(|pages| pages.borrow().clone()).collect();
    let container = assemble(open(&drives), NOTHING, true).unwrap();
    assert_eq!(container.members.len(), AWAY);
    for (pages, before) in drives.iter().zip(&before) {
        assert!(*pages.borrow() == *before, "something was written");
    }
}

/// The shadow of a drive that is left out does not tell which program wrote the other drives' records.
#[test]
fn the_shadow_of_a_drive_that_is_left_out_does_not_make_the_counter_believed() {
    let mut old = made(false);
    old.generation = 22;
    let drives = with_one_back(&old, 7);
    drives[..AWAY].iter().for_each(erase_shadow);
    assert_eq!(found(&drives).header.events_cleared, 22);
}

/// The drive's data of that volume is current. Filling the drive as a spare would overwrite it.
#[test]
fn a_drive_that_another_volume_waits_for_does_not_return_as_a_spare() {
    let mut old = made(false);
    old.add_volume(&spec("fast", Level::Raid0)).unwrap();
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = old.clone();
    now.mark_failed_in(AWAY, |at| at == 0).unwrap();
    now.generation = 22;
    put_on(&drives[..AWAY], &now);
    assert_eq!(returns_to(&drives), None);
    let still = Memory::open(AWAY, drives[AWAY].clone()).unwrap();
    assert_eq!(still.found().as_ref().unwrap().as_ref().unwrap().mpb, old);
}

/// Nobody knows which writes an outdated copy has missed. The bitmap tells what the other drives have written since the
/// record says that a drive is away, and no record has ever said that here.
#[test]
fn an_outdated_copy_never_returns_by_the_bitmap() {
    let old = made(false);
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = old.clone();
    now.generation = 22;
    put_on(&drives[..AWAY], &now);
    let at = found(&drives);
    for round in 0..3 {
        let container = started(&drives, DEGRADED);
        assert_eq!(container.members.len(), AWAY, "start {round}");
        let record = &container.record;
        let bitmap = record.volumes[0].bitmap.as_ref().unwrap();
        assert_eq!(bitmap.cleared_generation, 23, "start {round}");
        let slots = &record.volumes[0].slots;
        assert!(slots[AWAY].member.is_none() && !slots[AWAY].current);
        for (header, words) in &left(&drives, &at)[..AWAY] {
            assert_eq!((header.events_cleared, &words[..]), (23, &[6][..]));
        }
    }
    let still = Memory::open(AWAY, drives[AWAY].clone()).unwrap();
    assert_eq!(still.found().as_ref().unwrap().as_ref().unwrap().mpb, old);
}
