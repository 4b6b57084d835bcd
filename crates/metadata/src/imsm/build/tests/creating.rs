//! New containers, volumes and spares.

use super::*;

#[test]
fn a_new_container_equals_mdadms_but_for_style() {
    let drives: Vec<NewDrive> = (10..14).map(|number| drive(number, 131_072)).collect();
    let mut ours = Mpb::create(&drives, &spec("r5", Level::Raid5), IDENTITY).unwrap();
    let mut golden = golden::raid5();
    assert_eq!(ours.attributes, Attributes(0x8000_0010));
    assert_eq!(&ours.signature[24..30], b"1.3.00");
    assert_eq!(ours.generation, 1);
    // mdadm 4.2 writes an older version string and no level bit; the rest is equal.
    golden.signature = ours.signature;
    golden.attributes = ours.attributes;
    golden.generation = 2;
    ours.bump_generation();
    assert_eq!(ours, golden);
}

#[test]
fn level_attributes_are_those_of_newer_mdadm() {
    for (level, members, attributes) in [
        (Level::Raid0, 4, 0x8000_0001),
        (Level::Raid1, 2, 0x8000_0002),
        (Level::Raid10, 4, 0x8000_0004),
        (Level::Raid5, 4, 0x8000_0010),
    ] {
        assert_eq!(
            container(level, members).attributes,
            Attributes(attributes),
            "{level}"
        );
    }
    let mut wide = spec("v", Level::Raid10);
    wide.size = SizeRequest::PerMember { sectors: 16_384 };
    wide.strip_sectors = 256;
    let refused = Mpb::create(&drives(6, 65_536), &wide, IDENTITY);
    assert!(matches!(
        refused,
        Err(BuildError::Geometry(GeometryError::Wide { .. }))
    ));
    wide.allow_wide = true;
    let mpb = Mpb::create(&drives(6, 65_536), &wide, IDENTITY).unwrap();
    assert_eq!(mpb.attributes, Attributes(0x8000_0084));
    assert_eq!(mpb.volumes[0].map.stored_level, 10);
    assert_eq!(
        mpb.encode(SectorSize::Bytes512).unwrap().len(),
        688 - 8 * 6 - 2 * 4 + 48 + 8
    );
}

#[test]
fn two_volumes_share_the_drives() {
    let mut first = spec("a", Level::Raid0);
    first.strip_sectors = 256;
    first.size = SizeRequest::PerMember { sectors: 16_384 };
    let mut mpb = Mpb::create(&drives(4, 65_536), &first, IDENTITY).unwrap();
    assert_eq!(
        mpb.add_volume(&spec("a", Level::Raid5)),
        Err(BuildError::DuplicateName {
            name: VolumeName::new("a").unwrap()
        })
    );
    mpb.add_volume(&spec("b", Level::Raid5)).unwrap();
    assert_eq!(mpb.attributes, Attributes(0x8000_0011));
    assert_eq!(mpb.encode(SectorSize::Bytes512).unwrap().len(), 760);
    let second = &mpb.volumes[1];
    assert_eq!(
        (second.map.start_sector, second.size_sectors),
        (24_576, 86_016)
    );
    assert_eq!((second.volume_id, mpb.num_raid_devs_created), (2, 2));

    // When the first volume is deleted, the second keeps its place, and the first one's id is not used again.
    assert_eq!(mpb.delete_volume(0), Ok(1));
    assert_eq!(mpb.attributes, Attributes(0x8000_0010));
    assert_eq!(mpb.volumes[0].map.start_sector, 24_576);
    mpb.add_volume(&spec("c", Level::Raid10)).unwrap();
    assert_eq!(mpb.volumes[1].volume_id, 3);
    assert_eq!(mpb.volumes[1].map.start_sector, 0);
    assert_eq!(mpb.delete_volume(1), Ok(1));
    assert_eq!(mpb.delete_volume(0), Ok(0));
    assert!(mpb.is_spare());
    assert!(matches!(
        mpb.delete_volume(0),
        Err(BuildError::NoSuchVolume { .. })
    ));
}

#[test]
fn drives_that_cannot_be_told_apart_are_refused() {
    let twice = [drive(1, 131_072), drive(1, 131_072)];
    let refused = Mpb::create(&twice, &spec("v", Level::Raid1), IDENTITY);
    assert_eq!(
        refused,
        Err(BuildError::DuplicateSerial {
            serial: twice[0].serial
        })
    );
    let nameless = [
        drive(1, 131_072),
        NewDrive {
            serial: Serial::default(),
            ..twice[0]
        },
    ];
    let refused = Mpb::create(&nameless, &spec("v", Level::Raid1), IDENTITY);
    assert_eq!(refused, Err(BuildError::NoSerial));
}

#[test]
fn a_spare_lists_only_itself() {
    let spare = Mpb::spare(&drive(7, 131_072), SectorSize::Bytes512).unwrap();
    let bytes = spare.encode(SectorSize::Bytes512).unwrap();
    assert_eq!(bytes.len(), 264);
    assert_eq!((spare.generation, spare.orig_family_num), (1, 0));
    assert_eq!(spare.disks[0].status, Disk::SPARE);
    let mut without_family = spare.clone();
    without_family.family_num = 0;
    let bytes = without_family.encode(SectorSize::Bytes512).unwrap();
    assert_eq!(spare.family_num, crate::imsm::codec::checksum(&bytes));
}
