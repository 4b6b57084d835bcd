//! Several changes in one record: what the last update did not have time for comes together in the next.

use super::*;
use crate::assemble::geometry_of;
use crate::member::FoundShadow;
use engine::control::record::{MemberRecord, SlotRecord};
use metadata::imsm::build::{ContainerIdentity, VolumeSpec};
use metadata::imsm::geometry::{Level, SizeRequest};
use metadata::imsm::record::{MapState, VolumeName};

const DRIVE_BYTES: u64 = 64 << 20;

fn identity(number: usize) -> Identity {
    Identity {
        serial: Serial::from_drive(format!("DRIVE{number:04}").as_bytes()),
        placement: Placement::new(DRIVE_BYTES, SectorSize::Bytes512).unwrap(),
        holds: None,
        keeps_shadow: false,
    }
}

/// A volume on drives that are all in sync, and two drives more that are spares.
fn persister(level: Level, members: usize) -> (Persister, Record) {
    let drives: Vec<NewDrive> = (0..members)
        .map(|number| NewDrive {
            serial: identity(number).serial,
            total_sectors: DRIVE_BYTES / SECTOR_BYTES,
        })
        .collect();
    let spec = VolumeSpec {
        name: VolumeName::new("v").unwrap(),
        level,
        strip_sectors: 128,
        size: SizeRequest::Largest,
        born_in_sync: true,
        allow_wide: true,
    };
    let container = ContainerIdentity {
        family_num: 7,
        creation_time: 0,
    };
    let mpb = Mpb::create(&drives, &[spec][0], container).unwrap();
    let drive = |state| MemberRecord {
        state,
        size_bytes: DRIVE_BYTES,
        volatile_cache: true,
        ..MemberRecord::ABSENT
    };
    let slot = |number| SlotRecord {
        member: Some(MemberId(number as u8)),
        current: true,
    };
    let states = (0..members).map(|_| MemberState::Active);
    let record = Record {
        generation: u64::from(mpb.generation),
        bad_blocks: Default::default(),
        members: states.chain([MemberState::Spare; 2]).map(drive).collect(),
        volumes: vec![VolumeRecord {
            geometry: geometry_of(&mpb.volumes[0], 512).unwrap(),
            not_started: false,
            read_only: false,
            dirty: false,
            slots: (0..members).map(slot).collect(),
            sync: None,
            then_resync: false,
            log: None,
            bitmap: Default::default(),
        }],
    };
    let persister = Persister {
        mpb,
        sector: SectorSize::Bytes512,
        drives: (0..members + 2).map(identity).collect(),
        seen: record.clone(),
        image: Vec::new(),
        bitmaps: Vec::new(),
        problems: Vec::new(),
    };
    (persister, record)
}

/// The record is written; returns the slots that are out of sync then.
fn write(persister: &mut Persister, record: &mut Record) -> Vec<usize> {
    record.generation += 1;
    persister.encode(MemberId(0), record);
    assert_eq!(persister.take_problems(), Vec::<String>::new());
    let map = persister.mpb.volumes[0].current_map();
    let slots = map.order.iter().enumerate();
    slots
        .filter(|(_, slot)| slot.out_of_sync)
        .map(|(at, _)| at)
        .collect()
}

fn fail(record: &mut Record, slot: usize) {
    let at = record.volumes[0].slots[slot].member.unwrap().0 as usize;
    record.members[at].state = MemberState::Failed;
    record.volumes[0].slots[slot].current = false;
}

/// The volume stands still without the drive, so what that holds stays current.
#[test]
fn a_loss_is_not_recorded_for_a_volume_that_needs_the_drive() {
    for (level, not_started) in [(Level::Raid0, false), (Level::Raid5, true)] {
        let (mut persister, mut record) = persister(level, 3);
        record.volumes[0].not_started = not_started;
        persister.seen = record.clone();
        let before = persister.mpb.volumes[0].clone();
        record.members[1].state = MemberState::Failed;
        // One that is not started may not even know the drive.
        record.volumes[0].slots[1].current = !not_started;
        assert_eq!(write(&mut persister, &mut record), [0usize; 0]);
        assert!(persister.mpb.disks[1].is_failed());
        assert_eq!(persister.mpb.volumes[0], before);
    }
    let (mut persister, mut record) = persister(Level::Raid5, 3);
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    // One more, and the volume stands still.
    record.members[2].state = MemberState::Failed;
    assert_eq!(write(&mut persister, &mut record), [1]);
}

fn begin_rebuild(record: &mut Record, slot: usize, spare: usize) {
    record.members[spare].state = MemberState::Active;
    let volume = &mut record.volumes[0];
    volume.slots[slot].member = Some(MemberId(spare as u8));
    volume.sync = Some(SyncRecord {
        kind: SyncKind::Rebuild(Slot(slot as u8)),
        done_bytes: 0,
    });
}

fn end_rebuild(record: &mut Record, slot: usize) {
    record.volumes[0].sync = None;
    record.volumes[0].slots[slot].current = true;
}

#[test]
fn a_drive_that_fails_as_another_becomes_current_is_the_only_one_lost() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    begin_rebuild(&mut record, 1, 4);
    assert_eq!(write(&mut persister, &mut record), [1]);
    end_rebuild(&mut record, 1);
    fail(&mut record, 3);
    assert_eq!(write(&mut persister, &mut record), [3]);
    assert_eq!(persister.mpb.volumes[0].map.state, MapState::Degraded);
    begin_rebuild(&mut record, 3, 5);
    write(&mut persister, &mut record);
    end_rebuild(&mut record, 3);
    assert_eq!(write(&mut persister, &mut record), [0; 0]);
}

#[test]
fn a_slot_can_be_filled_anew_at_once_with_another_drive() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    begin_rebuild(&mut record, 1, 4);
    write(&mut persister, &mut record);
    record.members[4].state = MemberState::Failed;
    begin_rebuild(&mut record, 1, 5);
    assert_eq!(write(&mut persister, &mut record), [1]);
    let serial = persister.drives[5].serial;
    assert!(persister.mpb.disk_index_of(&serial).is_some());
    end_rebuild(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [0; 0]);
}

#[test]
fn a_drive_of_a_raid_0_or_of_a_degraded_volume_can_be_replaced() {
    for (level, members) in [(Level::Raid0, 3), (Level::Raid5, 4), (Level::Raid1, 2)] {
        let (mut persister, mut record) = persister(level, members);
        let mut lost = vec![];
        if level != Level::Raid0 {
            fail(&mut record, 1);
            lost.push(1);
        }
        record.members[0].state = MemberState::Absent;
        record.members[members].state = MemberState::Active;
        record.volumes[0].slots[0].member = Some(MemberId(members as u8));
        assert_eq!(write(&mut persister, &mut record), lost, "{level}");
        let state = persister.mpb.volumes[0].map.state;
        assert_eq!(state == MapState::Normal, lost.is_empty(), "{level}");
        let old = persister.drives[0].serial;
        assert_eq!(persister.mpb.disk_index_of(&old), None, "{level}");
    }
}

/// The drive has been given part of what its slot holds, and misses what is written from now on.
#[test]
fn a_rebuild_that_was_given_up_has_no_checkpoint() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid1, 2)] {
        let (mut persister, mut record) = persister(level, members);
        fail(&mut record, 1);
        write(&mut persister, &mut record);
        begin_rebuild(&mut record, 1, members);
        record.volumes[0].sync.as_mut().unwrap().done_bytes = 16 << 20;
        write(&mut persister, &mut record);
        let reached = persister.mpb.volumes[0].checkpoint_sector();
        assert!(reached > Some(0), "{level}: {reached:?}");
        record.volumes[0].sync = None;
        assert_eq!(write(&mut persister, &mut record), [1], "{level}");
        let left = persister.mpb.volumes[0].checkpoint_sector();
        assert_eq!(left, Some(0), "{level}");
    }
}

/// A power cut can tear the record of a drive, never record and shadow at once: the shadow is durable before
/// the record is touched.
#[test]
fn a_record_has_a_shadow_and_the_shadow_goes_first() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    for member in (0..4).map(MemberId) {
        record.generation += 1;
        let parts = persister.encode(member, &record);
        let [(shadow_at, shadow), (image_at, image)] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        let placement = identity(0).placement;
        assert_eq!(*shadow_at, placement.shadow().offset_bytes);
        assert_eq!(*image_at, placement.image(image.len()).offset_bytes);
        let shadow = shadow::decode(shadow, &placement, SectorSize::Bytes512).unwrap();
        let generation = shadow.map(|shadow| u64::from(shadow.mpb.generation));
        assert_eq!(generation, Some(record.generation));
    }
}

/// Whoever wrote it may know what to do with it.
#[test]
fn a_shadow_of_a_newer_version_is_left_alone() {
    let (mut persister, mut record) = persister(Level::Raid1, 2);
    let placement = identity(0).placement;
    let mut place = shadow::encode(&persister.mpb, None, SectorSize::Bytes512).unwrap();
    let version = &mut place[16..20];
    version.copy_from_slice(&2u32.to_le_bytes());
    let newer = shadow::decode(&place, &placement, SectorSize::Bytes512).unwrap_err();
    persister.drives[1].keeps_shadow = FoundShadow::Damaged(newer).is_newer();
    for (member, parts) in [(0, 2), (1, 1)] {
        record.generation += 1;
        let found = persister.encode(MemberId(member), &record);
        assert_eq!(found.len(), parts, "member {member}");
        let (last, image) = found.last().unwrap();
        assert_eq!(*last, placement.image(image.len()).offset_bytes);
    }
    // One that is damaged, or of no version that there has been, is written anew.
    place[16] = 0;
    let damaged = shadow::decode(&place, &placement, SectorSize::Bytes512).unwrap_err();
    assert!(!FoundShadow::Damaged(damaged).is_newer());
}
