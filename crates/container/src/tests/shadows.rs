//! Records that are torn on every member, written by the same code that serves an array.

use super::*;
use crate::probe::FoundShadow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Length of the end of a drive that holds all metadata.
const END_BYTES: u64 = 2 * MIB;

impl Bench {
    fn file(&self, at: usize) -> File {
        let path = self.folder.path().join(format!("d{at}.img"));
        File::options().read(true).write(true).open(path).unwrap()
    }

    fn end(&self, at: usize) -> Vec<u8> {
        let mut bytes = vec![0; END_BYTES as usize];
        let file = self.file(at);
        file.read_exact_at(&mut bytes, 64 * MIB - END_BYTES)
            .unwrap();
        bytes
    }

    fn put_end(&self, at: usize, bytes: &[u8]) {
        let file = self.file(at);
        file.write_all_at(bytes, 64 * MIB - END_BYTES).unwrap();
    }

    /// Damages a drive's own record after its header.
    fn tear(&self, at: usize) {
        let place = 64 * MIB - 1024 + 300;
        self.file(at).write_all_at(&[0xFF; 8], place).unwrap();
    }
}

/// Fails member 1 and writes the record to the remaining drives. Returns the record.
fn lose_one(container: &mut Container) -> Record {
    let mut record = container.record.clone();
    record.members[1].state = MemberState::Failed;
    for volume in &mut record.volumes {
        volume.slots[1].current = false;
    }
    persist(container, &mut record);
    record
}

fn notes(container: &Container) -> String {
    container.notes.join("; ")
}

/// A mirror with one drive left has only one record. Whatever a power cut leaves of an update to it, the lost drive,
/// which is still present, does not come back with its old data.
#[test]
fn a_lone_drive_survives_every_cut_of_an_update() {
    let bench = Bench::new(Level::Raid1, 2, 2);
    let (parts, generation) = {
        let mut container = bench.assemble(2).unwrap();
        let mut record = lose_one(&mut container);
        record.generation += 1;
        // The record of the second volume lies in the second sector.
        record.volumes[1].dirty = true;
        let parts = container.persister.encode(MemberId(0), &record).unwrap();
        (parts, record.generation as u32)
    };
    let before = bench.end(0);
    let lost = bench.end(1);
    assert_eq!(parts.len(), 2, "shadow and record");
    let mut from_shadow = 0;
    for cut_in in 0..parts.len() {
        let sectors = parts[cut_in].1.len() / 512;
        assert!(sectors > 1, "a record that can be torn");
        for landed in 0..1 << sectors {
            bench.put_end(0, &before);
            bench.put_end(1, &lost);
            let file = bench.file(0);
            for (at, bytes) in &parts[..cut_in] {
                file.write_all_at(bytes, *at).unwrap();
            }
            let (at, bytes) = &parts[cut_in];
            for sector in (0..sectors).filter(|sector| landed >> sector & 1 == 1) {
                let from = sector * 512;
                file.write_all_at(&bytes[from..from + 512], at + from as u64)
                    .unwrap();
            }
            let (own_at, own) = &parts[1];
            let mut now = vec![0; own.len()];
            file.read_exact_at(&mut now, *own_at).unwrap();
            let in_end = (own_at - (64 * MIB - END_BYTES)) as usize;
            let whole = now == *own;
            let torn = !whole && now[..] != before[in_end..in_end + own.len()];
            let container = bench.assemble(2).unwrap();
            let used = notes(&container).contains("shadow copy of generation");
            assert_eq!(
                used,
                torn,
                "part {cut_in}, {landed:b}: {}",
                notes(&container)
            );
            from_shadow += usize::from(used);
            assert_eq!(container.members.len(), 1);
            assert!(container.members[0].drive.name().ends_with("d0.img"));
            let wanted = if torn || whole {
                generation
            } else {
                generation - 1
            };
            let chosen = container.persister.mpb().generation;
            assert!(
                (wanted..=wanted + 1).contains(&chosen),
                "part {cut_in}, {landed:b}: {chosen}"
            );
            drop(container);
            // The start has repaired the record.
            let container = bench.assemble(2).unwrap();
            assert!(!notes(&container).contains("shadow"));
            assert_eq!(container.record.volumes[1].current_slots().count(), 1);
        }
    }
    assert!(from_shadow > 0);
}

#[test]
fn torn_records_everywhere_are_written_again_from_the_shadows() {
    for (level, members) in [(Level::Raid0, 3), (Level::Raid10, 4), (Level::Raid5, 3)] {
        let bench = Bench::new(level, members, 1);
        let wanted = {
            let container = bench.assemble(members).unwrap();
            container.persister.mpb().clone()
        };
        (0..members).for_each(|at| bench.tear(at));
        let torn: Vec<_> = (0..members).map(|at| bench.end(at)).collect();
        {
            // A read-only session serves as well, and changes nothing on the drives.
            let drives = bench.open(members);
            let container = assemble(drives, StartOptions::default(), true).unwrap();
            assert_eq!(container.persister.mpb(), &wanted);
            assert!(notes(&container).contains("every member's record is torn"));
        }
        assert!((0..members).all(|at| bench.end(at) == torn[at]));
        let generation = {
            let container = bench.assemble(members).unwrap();
            assert!(notes(&container).contains("every member's record is torn"));
            assert_eq!(container.record.members.len(), members);
            container.persister.mpb().generation
        };
        assert_eq!(generation, wanted.generation + 1);
        let drives = bench.open(members);
        for probed in &drives {
            let FoundShadow::Whole(shadow) = &probed.shadow else {
                panic!("{:?}", probed.shadow);
            };
            let own = &probed.found.as_ref().unwrap().as_ref().unwrap().mpb;
            assert_eq!(*own, shadow.mpb);
            assert_eq!(own.generation, generation);
        }
    }
}

#[test]
fn an_array_without_shadows_gets_them_with_its_first_update() {
    let bench = Bench::new(Level::Raid1, 2, 1);
    for probed in &bench.open(2) {
        crate::write::erase_shadow(probed).unwrap();
    }
    let has_shadows = || -> Vec<bool> {
        let drives = bench.open(2);
        let whole = |probed: &Probed| matches!(probed.shadow, FoundShadow::Whole(_));
        drives.iter().map(whole).collect()
    };
    assert_eq!(has_shadows(), [false, false]);
    let mut container = bench.assemble(2).unwrap();
    let mut record = container.record.clone();
    record.volumes[0].dirty = true;
    persist(&mut container, &mut record);
    drop(container);
    assert_eq!(has_shadows(), [true, true]);
}

/// Another program has grown a volume into the place of the shadow. The volume keeps its data.
#[test]
fn a_volume_that_needs_the_place_gets_no_shadow() {
    let bench = Bench::new(Level::Raid1, 2, 1);
    for at in 0..2 {
        bench.tear(at);
    }
    let mut mpb = {
        let container = bench.assemble(2).unwrap();
        container.persister.mpb().clone()
    };
    let last = &mut mpb.volumes[0].map;
    last.start_sector = 64 * MIB / 512 - 3000 - 16384;
    mpb.bump_generation();
    let drives = bench.open(2);
    let place = drives[0].placement.shadow();
    for probed in &drives {
        probed
            .drive
            .write_at(place.offset_bytes, &vec![0xDA; 4096])
            .unwrap();
    }
    write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
    drop(drives);
    {
        let mut container = bench.assemble(2).unwrap();
        let mut record = container.record.clone();
        record.volumes[0].dirty = true;
        persist(&mut container, &mut record);
    }
    for probed in &bench.open(2) {
        let bytes = probed.drive.read_at(place.offset_bytes, 4096).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0xDA));
        assert!(matches!(probed.shadow, FoundShadow::Nothing));
        crate::write::erase_shadow(probed).unwrap();
    }
}

/// A drive that becomes a spare loses the shadow that another array has left on it.
#[test]
fn a_spare_has_no_shadow() {
    let bench = Bench::new(Level::Raid1, 2, 1);
    let drive = &bench.open(1)[0];
    assert!(matches!(drive.shadow, FoundShadow::Whole(_)));
    let new = NewDrive {
        serial: drive.serial,
        total_sectors: drive.placement.total_sectors(),
    };
    write_record(&Mpb::spare(&new, drive.sector).unwrap(), &[drive]).unwrap();
    let drive = &crate::probe::probe(drive.spec.clone(), Access::ReadOnly).unwrap();
    assert!(matches!(drive.shadow, FoundShadow::Nothing));
    assert!(
        drive
            .found
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .mpb
            .is_spare()
    );
}
