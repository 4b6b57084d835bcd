//! Drives that come back, and which of them get no more than what the bitmap marks.

use super::*;
use engine::control::record::MemberState;
use engine::units::Slot;
use metadata::imsm::VolumeName;
use metadata::imsm::build::VolumeSpec;
use metadata::imsm::geometry::SizeRequest;

const AWAY: usize = 3;

/// Drives of which one has left, as its record was then, with bits that may have been cleared since a generation.
fn with_one_back(old: &Mpb, events_cleared: u64) -> Vec<Pages> {
    let drives = put(old, |_| bitmap(old, 6, events_cleared));
    let mut now = made(false);
    now.mark_failed(AWAY).unwrap();
    now.generation = 22;
    drives[..AWAY]
        .iter()
        .for_each(|pages| put_record(pages, &now));
    drives
}

/// The slot to which the drive that was away returns, after a start.
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
    // Somebody else may have cleared some.
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
        // It had gone on without another one, or was another one's.
        |mpb| mpb.volumes[0].map.order[1].out_of_sync = true,
        |mpb| mpb.volumes[0].map.order.swap(2, 3),
        // What is recorded of it goes when it leaves.
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
        // A slot of the same number is the only one that it can return to.
        assert_ne!(slot, Some(Slot(AWAY as u8)), "change {number}");
        assert_eq!(slot, None, "change {number}");
    }
    let drives = with_one_back(&made(false), 7);
    let mut now = made(false);
    now.mark_failed(AWAY).unwrap();
    now.generation = 22;
    now.set_bad_ranges(AWAY, std::slice::from_ref(&(8..16)))
        .unwrap();
    drives[..AWAY]
        .iter()
        .for_each(|pages| put_record(pages, &now));
    assert_eq!(
        returns_to(&drives),
        None,
        "the others remember bad blocks of it"
    );
}

/// Another drive holds what is current there now.
#[test]
fn a_drive_whose_slot_is_taken_does_not_return() {
    let old = made(false);
    let drives = with_one_back(&old, 7);
    let mut now = made(false);
    now.mark_failed(AWAY).unwrap();
    let drive = NewDrive {
        serial: metadata::imsm::Serial::from_drive(super::super::name(MEMBERS).as_bytes()),
        total_sectors: now.disks[0].total_sectors,
    };
    let family_salt = 5;
    let target = RebuildTarget::NewDrive { drive, family_salt };
    now.start_rebuild(0, AWAY, target).unwrap();
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

/// What it holds of that volume is current: filling it as a spare would take that away.
#[test]
fn a_drive_that_another_volume_waits_for_does_not_return_as_a_spare() {
    let mut old = made(false);
    let spec = VolumeSpec {
        name: VolumeName::new("fast").unwrap(),
        level: Level::Raid0,
        strip_sectors: 32,
        size: SizeRequest::PerMember {
            sectors: MIB_SECTORS,
        },
        born_in_sync: true,
        allow_wide: true,
    };
    old.add_volume(&spec).unwrap();
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = old.clone();
    now.mark_failed_in(AWAY, |at| at == 0).unwrap();
    now.generation = 22;
    drives[..AWAY]
        .iter()
        .for_each(|pages| put_record(pages, &now));
    assert_eq!(returns_to(&drives), None);
    let still = Memory::open(AWAY, drives[AWAY].clone()).unwrap();
    assert_eq!(still.found().as_ref().unwrap().as_ref().unwrap().mpb, old);
}

/// Nobody knows what an outdated copy was away for: the bits tell what the others have written since they were
/// told that it is away, and they never were.
#[test]
fn an_outdated_copy_never_returns_by_the_bitmap() {
    let old = made(false);
    let drives = put(&old, |_| bitmap(&old, 6, 7));
    let mut now = old.clone();
    now.generation = 22;
    drives[..AWAY]
        .iter()
        .for_each(|pages| put_record(pages, &now));
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
