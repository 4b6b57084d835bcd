//! Which parts of an update are written to each member, and in which order. Each is durable before the next is written.

use super::*;

/// What a part contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Header,
    Shadow,
    Record,
}

const HEADER: [Part; 3] = [Part::Header, Part::Shadow, Part::Record];
const NO_HEADER: [Part; 2] = [Part::Shadow, Part::Record];

/// A mirror with a bitmap, whose header is on all drives that are present.
fn with_bitmap() -> (Persister, Record) {
    let (persister, mut record) = persister(Level::Raid1, 2);
    let volume = BitmapVolume::of(persister.mpb(), 0, SectorSize::Bytes512).unwrap();
    let header = Header {
        uuid: Uuid::of_volume(persister.mpb(), 0).unwrap(),
        events: 0,
        events_cleared: 0,
        region_bytes: 1 << 20,
    };
    record.volumes[0].bitmap = Some(BitmapRecord {
        bits_offset_bytes: volume.bits_offset_bytes(),
        region_bytes: 1 << 20,
        marked: [0].into(),
        cleared_generation: 0,
    });
    (persister.with_bitmaps([(0, volume, header)]), record)
}

/// The next update. If it `clears`, bits may be cleared after it.
fn update(record: &mut Record, clears: bool) {
    record.generation += 1;
    if clears {
        let bitmap = record.volumes[0].bitmap.as_mut().unwrap();
        bitmap.cleared_generation = record.generation;
    }
}

/// The parts for a member, each of which must hold what this update says.
fn parts(persister: &mut Persister, member: u8, record: &Record) -> Vec<Part> {
    let parts = persister.encode(MemberId(member), record).unwrap();
    let placement = identity(0).placement;
    let volume = persister.bitmaps[0].volume;
    let part = |(offset_bytes, bytes): &(u64, Vec<u8>)| {
        if *offset_bytes == volume.header_offset_bytes() {
            let header = Header::decode(bytes, &volume).unwrap();
            let cleared = record.volumes[0].bitmap.as_ref().unwrap();
            let known = (header.events, header.events_cleared);
            assert_eq!(known, (record.generation, cleared.cleared_generation));
            Part::Header
        } else if *offset_bytes == placement.shadow().offset_bytes {
            let shadow = shadow::decode(bytes, &placement, SectorSize::Bytes512).unwrap();
            let generation = shadow.map(|shadow| u64::from(shadow.mpb.generation));
            assert_eq!(generation, Some(record.generation));
            Part::Shadow
        } else {
            assert_eq!(*offset_bytes, placement.image(bytes.len()).offset_bytes);
            assert!(*bytes == persister.written.image && !bytes.is_empty());
            Part::Record
        }
    };
    parts.iter().map(part).collect()
}

/// After the record, bits may be cleared. So before it is written, the header on every member must say that drives with
/// older records cannot come back by the bitmap.
#[test]
fn each_member_gets_a_header_before_the_record_that_lets_bits_be_cleared() {
    let (mut persister, mut record) = with_bitmap();
    update(&mut record, false);
    for member in 0..2 {
        assert_eq!(parts(&mut persister, member, &record), NO_HEADER);
    }
    for _ in 0..2 {
        update(&mut record, true);
        for member in 0..2 {
            assert_eq!(parts(&mut persister, member, &record), HEADER, "{member}");
        }
        update(&mut record, false);
        for member in 0..2 {
            assert_eq!(parts(&mut persister, member, &record), NO_HEADER);
        }
    }
}

/// A member to which an update was not written gets its header with the next update.
#[test]
fn a_member_that_missed_an_update_gets_the_header_with_the_next() {
    let (mut persister, mut record) = with_bitmap();
    update(&mut record, true);
    assert_eq!(parts(&mut persister, 0, &record), HEADER);
    update(&mut record, false);
    assert_eq!(parts(&mut persister, 1, &record), HEADER);
    assert_eq!(parts(&mut persister, 0, &record), NO_HEADER);
}

/// A header that the drive had before may belong to another volume.
#[test]
fn a_drive_that_joins_gets_the_header_with_its_first_record() {
    let (mut persister, mut record) = with_bitmap();
    let joins = persister.drives.len();
    // Two drives join, and the second is written to first.
    persister.add_drive(identity(joins));
    persister.add_drive(identity(joins + 1));
    let size_bytes = DRIVE_BYTES;
    let state = MemberState::Spare;
    let drive = MemberRecord {
        state,
        size_bytes,
        ..MemberRecord::ABSENT
    };
    record.members.extend([drive; 2]);
    update(&mut record, false);
    for member in [joins + 1, joins] {
        let member = member as u8;
        assert_eq!(parts(&mut persister, member, &record), HEADER, "{member}");
    }
    assert_eq!(parts(&mut persister, 0, &record), NO_HEADER);
}

/// So a torn record can be told from one of another program: each shadow names the record that its update replaces.
#[test]
fn a_shadow_names_the_record_that_the_update_replaces() {
    let (mut persister, mut record) = with_bitmap();
    let placement = identity(0).placement;
    let mut before = [None; 2];
    for _ in 0..3 {
        update(&mut record, true);
        for member in 0..2 {
            let found = persister.encode(MemberId(member), &record).unwrap();
            let of_shadow = |part: &&(u64, Vec<u8>)| part.0 == placement.shadow().offset_bytes;
            let bytes = &found.iter().find(of_shadow).unwrap().1;
            let shadow = shadow::decode(bytes, &placement, SectorSize::Bytes512).unwrap();
            let shadow = shadow.unwrap();
            let member = usize::from(member);
            assert_eq!(shadow.replaced, before[member], "member {member}");
            before[member] = Some(shadow.print);
        }
    }
}

/// The first update may contain no change, as when the record is only written to another drive. It is written anyway.
#[test]
fn a_record_that_has_not_changed_is_written_whole() {
    let (mut persister, record) = with_bitmap();
    assert_eq!(parts(&mut persister, 0, &record), NO_HEADER);
}

/// On a small drive, a volume or its log may reach into the shadow's place.
#[test]
fn a_drive_without_room_for_a_shadow_gets_none() {
    let (mut persister, mut record) = with_bitmap();
    let end = persister.mpb().volumes[0].extent().end;
    for (sectors, wanted) in [
        (2048 + 2352, &NO_HEADER[..]),
        (2048 + 2351, &[Part::Record]),
    ] {
        let drive_bytes = (end + sectors) * SECTOR_BYTES;
        let placement = Placement::new(drive_bytes, SectorSize::Bytes512).unwrap();
        persister.drives[0].placement = placement;
        update(&mut record, false);
        let found = persister.encode(MemberId(0), &record).unwrap();
        let (last, image) = found.last().unwrap();
        assert_eq!(*last, placement.image(image.len()).offset_bytes);
        assert_eq!(found.len(), wanted.len());
    }
}
