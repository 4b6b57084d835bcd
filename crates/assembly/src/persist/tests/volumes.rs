//! Containers of two volumes and of unlike drives: what is recorded about one volume or drive changes no other's.

use super::*;

const MEMBERS: usize = 4;

fn two_volumes() -> (Persister, Record) {
    let size = SizeRequest::PerMember { sectors: 1 << 14 };
    let mut mpb = container(&spec("first", Level::Raid5, size), MEMBERS);
    mpb.add_volume(&spec("second", Level::Raid10, size))
        .unwrap();
    following(mpb, MEMBERS)
}

/// Slots that are out of sync, by volume.
fn lost(persister: &Persister) -> [Vec<usize>; 2] {
    [0, 1].map(|at| {
        let order = &persister.mpb().volumes[at].current_map().order;
        let slots = order.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.out_of_sync)
            .map(|(slot, _)| slot)
            .collect()
    })
}

#[test]
fn each_volume_is_dirty_and_synchronised_for_itself() {
    for at in [0, 1] {
        let (mut persister, mut record) = two_volumes();
        record.volumes[at].dirty = true;
        record.volumes[at].sync = Some(SyncRecord {
            kind: SyncKind::Resync,
            done_bytes: 0,
        });
        write(&mut persister, &mut record);
        let (mpb, other) = (persister.mpb(), 1 - at);
        assert!(mpb.volumes[at].is_dirty() && mpb.volumes[at].migration.is_some());
        assert!(!mpb.volumes[other].is_dirty() && mpb.volumes[other].migration.is_none());
    }
}

/// A drive fails for both, and is filled for one after the other.
#[test]
fn a_drive_is_in_sync_in_the_volume_that_it_has_been_filled_for() {
    let (mut persister, mut record) = two_volumes();
    record.members[1].state = MemberState::Failed;
    record
        .volumes
        .iter_mut()
        .for_each(|volume| volume.slots[1].current = false);
    write(&mut persister, &mut record);
    assert_eq!(lost(&persister), [[1], [1]]);
    record.members[4].state = MemberState::Active;
    for (at, left) in [(0, [vec![], vec![1]]), (1, [vec![], vec![]])] {
        record.volumes[at].slots[1].member = Some(MemberId(4));
        record.volumes[at].sync = Some(SyncRecord {
            kind: SyncKind::Rebuild(Slot(1)),
            done_bytes: 0,
        });
        write(&mut persister, &mut record);
        record.volumes[at].slots[1].current = true;
        record.volumes[at].sync = None;
        write(&mut persister, &mut record);
        assert_eq!(lost(&persister), left);
    }
    let listed = |number| persister.mpb().disk_index_of(&identity(number).serial);
    let rows = [0, 1, 2, 3, 4].map(|number| listed(number).is_some());
    assert_eq!(rows, [true, false, true, true, true]);
    assert_eq!(persister.mpb().disks.len(), MEMBERS);
}

#[test]
fn each_bitmap_has_a_header_of_its_own() {
    let (persister, mut record) = two_volumes();
    let header = |at| {
        let volume = BitmapVolume::of(persister.mpb(), at, SectorSize::Bytes512).unwrap();
        let header = Header {
            uuid: volume.uuid,
            events: 0,
            events_cleared: 0,
            region_bytes: 1 << 20,
        };
        (at, volume, header)
    };
    let headers = [0, 1].map(header);
    let mut persister = persister.with_bitmaps(headers);
    for volume in &mut record.volumes {
        volume.bitmap = Some(BitmapRecord {
            bits_offset_bytes: 0,
            region_bytes: 1 << 20,
            marked: [0].into(),
            cleared_generation: 0,
        });
    }
    for at in [1, 0, 1] {
        record.generation += 1;
        let bitmap = record.volumes[at].bitmap.as_mut().unwrap();
        bitmap.cleared_generation = record.generation;
        let parts = persister.encode(MemberId(2), &record).unwrap();
        assert_eq!(parts.len(), 3, "one header, the shadow and the record");
        let (offset_bytes, bytes) = &parts[0];
        let (_, volume, _) = headers[at];
        assert_eq!(*offset_bytes, volume.header_offset_bytes());
        let header = Header::decode(bytes, &volume).unwrap();
        assert_eq!(header.events_cleared, record.generation);
    }
}

/// All places are counted from the end of a drive, and the drives have different sizes.
#[test]
fn each_drive_gets_its_copies_where_they_belong_on_it() {
    let (mut persister, mut record) = two_volumes();
    for (member, more_bytes) in [(0, 0), (1, 8 << 20), (2, 3 << 20)] {
        let placement = Placement::new(DRIVE_BYTES + more_bytes, SectorSize::Bytes512).unwrap();
        persister.drives[member].placement = placement;
        record.generation += 1;
        let parts = persister.encode(MemberId(member as u8), &record).unwrap();
        let [(shadow_at, _), (image_at, image)] = &parts[..] else {
            panic!("{} parts", parts.len());
        };
        assert_eq!(*shadow_at, placement.shadow().offset_bytes);
        assert_eq!(*image_at, placement.image(image.len()).offset_bytes);
    }
}
