//! Several changes in one record. Changes that come while an update is being written are written together by the next.

mod bad_blocks;
mod families;
mod jobs;
mod parts;
mod volumes;

use super::*;
use crate::assemble::geometry_of;
use crate::member::FoundShadow;
use engine::control::bad_blocks::BadRange;
use engine::control::record::{
    BitmapRecord, MemberRecord, MemberState, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::units::Slot;
use metadata::imsm::Uuid;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::{Level, SizeRequest};
use metadata::imsm::record::{MapState, VolumeName};

const SECTOR_BYTES: u64 = 512;
const DRIVE_BYTES: u64 = 64 << 20;

fn identity(number: usize) -> Identity {
    Identity {
        serial: Serial::from_drive(format!("DRIVE{number:04}").as_bytes()),
        placement: Placement::new(DRIVE_BYTES, SectorSize::Bytes512).unwrap(),
        holds: None,
        keeps_shadow: false,
    }
}

/// A volume on drives that are all in sync, and two more drives, which are spares.
fn persister(level: Level, members: usize) -> (Persister, Record) {
    let mpb = container(&spec("v", level, SizeRequest::Largest), members);
    following(mpb, members)
}

fn spec(name: &str, level: Level, size: SizeRequest) -> VolumeSpec {
    VolumeSpec {
        name: VolumeName::new(name).unwrap(),
        level,
        strip_sectors: 128,
        size,
        born_in_sync: true,
        allow_wide: true,
    }
}

fn container(spec: &VolumeSpec, members: usize) -> Mpb {
    let drives: Vec<NewDrive> = (0..members)
        .map(|number| NewDrive {
            serial: identity(number).serial,
            total_sectors: DRIVE_BYTES / SECTOR_BYTES,
        })
        .collect();
    let container = ContainerIdentity {
        family_num: 7,
        creation_time: 0,
    };
    Mpb::create(&drives, spec, container).unwrap()
}

/// The engine's record of these volumes, and the persister that follows it.
fn following(mpb: Mpb, members: usize) -> (Persister, Record) {
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
    let volume = |volume| VolumeRecord {
        geometry: geometry_of(volume, 512).unwrap(),
        not_started: false,
        read_only: false,
        dirty: false,
        slots: (0..members).map(slot).collect(),
        sync: None,
        then_resync: false,
        log: None,
        bitmap: Default::default(),
    };
    let states = (0..members).map(|_| MemberState::Active);
    let record = Record {
        generation: u64::from(mpb.generation),
        bad_blocks: Default::default(),
        members: states.chain([MemberState::Spare; 2]).map(drive).collect(),
        volumes: mpb.volumes.iter().map(volume).collect(),
    };
    let persister = Persister {
        sector: SectorSize::Bytes512,
        drives: (0..members + 2).map(identity).collect(),
        written: Written::new(mpb, &record),
        bitmaps: Vec::new(),
    };
    (persister, record)
}

/// Writes the record; returns the slots that are out of sync then.
fn write(persister: &mut Persister, record: &mut Record) -> Vec<usize> {
    record.generation += 1;
    persister.encode(MemberId(0), record).unwrap();
    let map = persister.mpb().volumes[0].current_map();
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

/// The volume is not written to without the drive, so the drive's data stays current.
#[test]
fn a_loss_is_not_recorded_for_a_volume_that_needs_the_drive() {
    for (level, not_started) in [(Level::Raid0, false), (Level::Raid5, true)] {
        let (mut persister, mut record) = persister(level, 3);
        record.volumes[0].not_started = not_started;
        persister.written.seen = record.clone();
        let before = persister.mpb().volumes[0].clone();
        record.members[1].state = MemberState::Failed;
        // A volume that is not started may have no drive in the slot.
        record.volumes[0].slots[1].current = !not_started;
        assert_eq!(write(&mut persister, &mut record), [0usize; 0]);
        assert!(persister.mpb().disks[1].is_failed());
        assert_eq!(persister.mpb().volumes[0], before);
    }
    let (mut persister, mut record) = persister(Level::Raid5, 3);
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    // One more drive fails, and the volume is not written to any more.
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
    assert_eq!(persister.mpb().volumes[0].map.state, MapState::Degraded);
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
    assert!(persister.mpb().disk_index_of(&serial).is_some());
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
        let state = persister.mpb().volumes[0].map.state;
        assert_eq!(state == MapState::Normal, lost.is_empty(), "{level}");
        let old = persister.drives[0].serial;
        assert_eq!(persister.mpb().disk_index_of(&old), None, "{level}");
    }
}

/// The drive has received part of its slot's data, and misses what is written from now on.
#[test]
fn a_rebuild_that_was_given_up_has_no_checkpoint() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid1, 2)] {
        let (mut persister, mut record) = persister(level, members);
        fail(&mut record, 1);
        write(&mut persister, &mut record);
        begin_rebuild(&mut record, 1, members);
        record.volumes[0].sync.as_mut().unwrap().done_bytes = 16 << 20;
        write(&mut persister, &mut record);
        let reached = persister.mpb().volumes[0].checkpoint_sector();
        assert!(reached > Some(0), "{level}: {reached:?}");
        record.volumes[0].sync = None;
        assert_eq!(write(&mut persister, &mut record), [1], "{level}");
        let left = persister.mpb().volumes[0].checkpoint_sector();
        assert_eq!(left, Some(0), "{level}");
    }
}

/// A power cut can tear the record of a drive, but never record and shadow at once, because the shadow is durable
/// before the record is overwritten.
#[test]
fn a_record_has_a_shadow_and_the_shadow_goes_first() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    for member in (0..4).map(MemberId) {
        record.generation += 1;
        let parts = persister.encode(member, &record).unwrap();
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

/// The newer program that wrote the shadow may still need it.
#[test]
fn a_shadow_of_a_newer_version_is_left_alone() {
    let (mut persister, mut record) = persister(Level::Raid1, 2);
    let placement = identity(0).placement;
    let mut place = shadow::encode(persister.mpb(), None, SectorSize::Bytes512).unwrap();
    let version = &mut place[16..20];
    version.copy_from_slice(&2u32.to_le_bytes());
    let newer = shadow::decode(&place, &placement, SectorSize::Bytes512).unwrap_err();
    persister.drives[1].keeps_shadow = FoundShadow::Damaged(newer).is_newer();
    for (member, parts) in [(0, 2), (1, 1)] {
        record.generation += 1;
        let found = persister.encode(MemberId(member), &record).unwrap();
        assert_eq!(found.len(), parts, "member {member}");
        let (last, image) = found.last().unwrap();
        assert_eq!(*last, placement.image(image.len()).offset_bytes);
    }
    // A shadow that is damaged or has version 0 is overwritten.
    place[16] = 0;
    let damaged = shadow::decode(&place, &placement, SectorSize::Bytes512).unwrap_err();
    assert!(!FoundShadow::Damaged(damaged).is_newer());
}

/// A range at an offset that the format cannot express.
fn beyond_all(member: u8) -> BadRange {
    BadRange {
        member: MemberId(member),
        offset_bytes: 1 << 60,
        length_bytes: 512,
    }
}

type Changed = fn(&mut Record);

/// Every kind of update, on a RAID 5 of four and two spares: its name, what comes before it, and the update itself.
const UPDATES: [(&str, Changed, Changed); 9] = [
    ("failed mark", |_| {}, |record| fail(record, 1)),
    ("dirty", |_| {}, |record| record.volumes[0].dirty = true),
    (
        "clean",
        |record| record.volumes[0].dirty = true,
        |record| record.volumes[0].dirty = false,
    ),
    (
        "rebuild begin",
        |record| fail(record, 1),
        |record| begin_rebuild(record, 1, 4),
    ),
    ("checkpoint", rebuild_begun, |record| {
        record.volumes[0].sync.as_mut().unwrap().done_bytes = 16 << 20;
    }),
    ("rebuild end", rebuild_begun, |record| {
        end_rebuild(record, 1)
    }),
    ("rebuild given up", rebuild_begun, |record| {
        record.volumes[0].sync = None
    }),
    (
        "replacement",
        |_| {},
        |record| {
            record.members[0].state = MemberState::Absent;
            record.members[4].state = MemberState::Active;
            record.volumes[0].slots[0].member = Some(MemberId(4));
        },
    ),
    (
        "bad block",
        |_| {},
        |record| {
            let mut range = beyond_all(2);
            range.offset_bytes = 1 << 20;
            record.bad_blocks.add(range).unwrap();
        },
    ),
];

fn rebuild_begun(record: &mut Record) {
    fail(record, 1);
    begin_rebuild(record, 1, 4);
}

/// If a record cannot be expressed, the next one that is written must not contain any part of it.
#[test]
fn a_record_that_cannot_be_expressed_changes_nothing() {
    for (name, before, update) in UPDATES {
        let (mut persister, mut record) = persister(Level::Raid5, 4);
        before(&mut record);
        write(&mut persister, &mut record);
        let (mpb, expressed) = (persister.mpb().clone(), record.clone());
        let parts = persister.encode(MemberId(3), &record).unwrap();

        let mut wanted = record.clone();
        wanted.generation += 1;
        update(&mut wanted);
        let mut refused = wanted.clone();
        refused.bad_blocks.add(beyond_all(3)).unwrap();
        for member in [0, 3, 0].map(MemberId) {
            let error = persister.encode(member, &refused).unwrap_err().to_string();
            assert!(
                error.starts_with("the metadata cannot express which blocks are lost: "),
                "{name}: {error}"
            );
        }
        assert_eq!(persister.mpb(), &mpb, "{name}");
        assert_eq!(persister.expressed(), &expressed, "{name}");
        let own = |parts: &[(u64, Vec<u8>)]| parts.last().cloned();
        let again = persister.encode(MemberId(3), &record).unwrap();
        assert_eq!(own(&again), own(&parts), "{name}");

        // Without the part that cannot be expressed, the same record is expressed completely.
        persister.encode(MemberId(0), &wanted).unwrap();
        let (mut other, mut as_wanted) = super::tests::persister(Level::Raid5, 4);
        before(&mut as_wanted);
        write(&mut other, &mut as_wanted);
        update(&mut as_wanted);
        write(&mut other, &mut as_wanted);
        assert_eq!(persister.mpb(), other.mpb(), "{name}");
    }
}

#[test]
fn the_header_of_a_bitmap_counts_on_only_with_its_record() {
    let (persister, mut record) = persister(Level::Raid1, 2);
    let volume = BitmapVolume::of(persister.mpb(), 0, SectorSize::Bytes512).unwrap();
    let header = Header {
        uuid: Uuid::of_volume(persister.mpb(), 0).unwrap(),
        events: 0,
        events_cleared: 0,
        region_bytes: 1 << 20,
    };
    let mut persister = persister.with_bitmaps([(0, volume, header)]);
    record.volumes[0].bitmap = Some(BitmapRecord {
        bits_offset_bytes: 0,
        region_bytes: 1 << 20,
        marked: [0].into(),
        cleared_generation: 0,
    });
    write(&mut persister, &mut record);
    let before = persister.written.headers[0].1;
    record.generation += 1;
    record.volumes[0]
        .bitmap
        .as_mut()
        .unwrap()
        .cleared_generation = record.generation;
    let mut refused = record.clone();
    refused.bad_blocks.add(beyond_all(1)).unwrap();
    persister.encode(MemberId(0), &refused).unwrap_err();
    assert_eq!(persister.written.headers[0].1, before);
    let parts = persister.encode(MemberId(0), &record).unwrap();
    assert_eq!(
        parts[0].0,
        persister.bitmaps[0].volume.header_offset_bytes()
    );
}

#[test]
fn the_failure_of_a_member_that_the_record_does_not_list_cannot_be_expressed() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    persister.drives[1].serial = identity(77).serial;
    fail(&mut record, 1);
    record.generation += 1;
    let error = persister.encode(MemberId(0), &record).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the metadata cannot express that a member has failed: drive number 1 is not in its table of disks"
    );
}

/// A spare takes the slot of a failed member, but the start of its rebuild is refused; then the spare fails.
#[test]
fn the_failure_of_a_drive_whose_rebuild_is_not_on_record_leaves_the_record_as_it_is() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    record.members[4].state = MemberState::Active;
    record.volumes[0].slots[1].member = Some(MemberId(4));
    assert_eq!(write(&mut persister, &mut record), [1]);
    let before = persister.mpb().volumes[0].clone();
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    assert_eq!(persister.mpb().volumes[0], before);
}

/// The member fails while an update is being written, and is removed before that update ends.
#[test]
fn a_member_that_fails_and_is_removed_within_one_update_is_marked_failed() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    record.members[1].state = MemberState::Absent;
    record.volumes[0].slots[1].member = None;
    assert_eq!(write(&mut persister, &mut record), [1]);
}

#[test]
fn a_record_that_does_not_fit_its_place_cannot_be_expressed() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    let volume = persister.mpb().volumes[0].clone();
    persister.written.mpb.volumes.resize(300, volume);
    record.generation += 1;
    record.volumes[0].dirty = true;
    let error = persister.encode(MemberId(0), &record).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the metadata cannot express what has changed: "),
        "{error}"
    );
    assert!(!persister.mpb().volumes[0].is_dirty());
}
