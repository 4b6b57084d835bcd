//! What the engine's record says must be found when the drives are read again.

mod bitmaps;
mod for_md;
mod logs;
mod machine;
mod named;
mod recorded;
mod shadows;
mod spare_notes;
mod twins;

use super::Container;
use super::assemble::assemble;
use super::probe::{Probed, probe_all};
use super::write::write_record;
use drives::drive::Access;
use engine::control::record::{MemberState, Record, SlotRecord, SyncKind, SyncRecord};
use engine::units::{MemberId, Slot};
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::layout::SizeRequest;
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Level, Mpb, VolumeName};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

struct Bench {
    folder: TempDir,
    count: usize,
}

impl Bench {
    /// `members` files with an array of `level` on them, and one more file that is empty.
    fn new(level: Level, members: usize, volumes: usize) -> Bench {
        let folder = TempDir::new().unwrap();
        for at in 0..=members {
            let file = std::fs::File::create(folder.path().join(format!("d{at}.img"))).unwrap();
            file.set_len(64 * MIB).unwrap();
        }
        let bench = Bench {
            folder,
            count: members,
        };
        let drives = bench.open(members);
        let new: Vec<NewDrive> = drives
            .iter()
            .map(|probed| NewDrive {
                serial: probed.serial,
                total_sectors: probed.placement.total_sectors(),
            })
            .collect();
        let volume = |name: &str| VolumeSpec {
            name: VolumeName::new(name).unwrap(),
            level,
            strip_sectors: 128,
            size: SizeRequest::PerMember { sectors: 16384 },
            born_in_sync: true,
            allow_wide: true,
        };
        let identity = ContainerIdentity {
            family_num: 0x1234_5678,
            creation_time: 1_700_000_000,
        };
        let mut mpb = Mpb::create(&new, &volume("one"), identity).unwrap();
        if volumes == 2 {
            mpb.add_volume(&volume("two")).unwrap();
        }
        mpb.bump_generation();
        write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
        bench
    }

    fn open(&self, count: usize) -> Vec<Probed> {
        let paths: Vec<String> = (0..count)
            .map(|at| {
                self.folder
                    .path()
                    .join(format!("d{at}.img"))
                    .display()
                    .to_string()
            })
            .collect();
        probe_all(&paths, Access::Exclusive).unwrap()
    }

    fn assemble(&self, count: usize) -> anyhow::Result<Container> {
        assemble(self.open(count), StartOptions::default(), false)
    }
}

/// Encodes `record` with the persister and writes it to the members still in use.
fn persist(container: &mut Container, record: &mut Record) {
    record.generation += 1;
    for member in record.active().iter() {
        for (offset, bytes) in container.persister.encode(member, record).unwrap() {
            let drive = &container.members[member.0 as usize].drive;
            drive.write_at(offset, &bytes).unwrap();
        }
    }
}

#[test]
fn a_fresh_array_comes_back_as_it_was_made() {
    for (level, members) in [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 3),
    ] {
        let bench = Bench::new(level, members, 2);
        let container = bench.assemble(members).unwrap();
        assert_eq!(container.volume_names, ["one", "two"]);
        assert_eq!(container.record.members.len(), members);
        for volume in &container.record.volumes {
            assert!(!volume.dirty && volume.sync.is_none());
            assert_eq!(volume.current_slots().count() as usize, members);
        }
    }
}

#[test]
fn a_dirty_array_is_resynced() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    {
        let mut container = bench.assemble(3).unwrap();
        let mut record = container.record.clone();
        record.volumes[0].dirty = true;
        persist(&mut container, &mut record);
    }
    let container = bench.assemble(3).unwrap();
    let sync = SyncRecord {
        kind: SyncKind::Resync,
        done_bytes: 0,
    };
    assert_eq!(container.record.volumes[0].sync, Some(sync));
    assert!(
        container.record.volumes[0].dirty,
        "the volume is clean before its resync has ended"
    );
}

#[test]
fn the_life_of_a_member_survives_restarts() {
    for volumes in [1, 2] {
        let bench = Bench::new(Level::Raid5, 4, volumes);
        {
            let mut container = bench.assemble(4).unwrap();
            let mut record = container.record.clone();
            record.members[1].state = MemberState::Failed;
            record
                .volumes
                .iter_mut()
                .for_each(|volume| volume.slots[1].current = false);
            persist(&mut container, &mut record);
        }
        {
            // The failed drive is still there with its old record, and must not serve.
            let mut container = bench.assemble(4).unwrap();
            assert_eq!(container.members.len(), 3, "{:?}", container.notes);
            assert_eq!(
                container.record.volumes[0].slots[1],
                SlotRecord {
                    member: None,
                    current: false
                }
            );
            // A spare joins, in the way the API adds it.
            let spare = probe_all(
                &[bench.folder.path().join("d4.img").display().to_string()],
                Access::Exclusive,
            )
            .unwrap()
            .remove(0);
            container
                .persister
                .add_drive(super::persist::Identity::of(&spare));
            container.members.push(spare);
            let mut record = container.record.clone();
            record.members.push(record.members[0]);
            let new = MemberId(3);
            for volume in &mut record.volumes {
                volume.slots[1] = SlotRecord {
                    member: Some(new),
                    current: false,
                };
            }
            let rebuild = SyncKind::Rebuild(Slot(1));
            record.volumes[0].sync = Some(SyncRecord {
                kind: rebuild,
                done_bytes: 0,
            });
            persist(&mut container, &mut record);
            record.volumes[0].sync = Some(SyncRecord {
                kind: rebuild,
                done_bytes: 4 * MIB,
            });
            persist(&mut container, &mut record);
        }
        {
            let mut container = bench.assemble(5).unwrap();
            let volume = &container.record.volumes[0];
            let rebuild = SyncKind::Rebuild(Slot(1));
            assert_eq!(
                volume.sync,
                Some(SyncRecord {
                    kind: rebuild,
                    done_bytes: 4 * MIB
                })
            );
            let member = volume.slots[1].member.expect("the new drive is known");
            assert!(
                container.members[member.0 as usize]
                    .drive
                    .name()
                    .ends_with("d4.img")
            );
            let mut record = container.record.clone();
            for at in 0..volumes {
                if at > 0 {
                    record.volumes[at].slots[1] = SlotRecord {
                        member: Some(member),
                        current: false,
                    };
                    record.volumes[at].sync = Some(SyncRecord {
                        kind: rebuild,
                        done_bytes: 0,
                    });
                    persist(&mut container, &mut record);
                }
                record.volumes[at].sync = None;
                record.volumes[at].slots[1].current = true;
                persist(&mut container, &mut record);
            }
        }
        let container = bench.assemble(5).unwrap();
        assert_eq!(container.members.len(), 4);
        for volume in &container.record.volumes {
            assert_eq!(volume.current_slots().count(), 4);
            assert!(volume.sync.is_none());
        }
        assert!(
            container.notes.iter().any(|note| note.contains("d1.img")),
            "{:?}",
            container.notes
        );
        assert_eq!(bench.count, 4);
    }
}

/// Adds d4 to `container`. Returns the record after d4 has taken slot 2 of each volume.
fn replace_one(bench: &Bench, container: &mut Container) -> Record {
    let path = bench.folder.path().join("d4.img").display().to_string();
    let spare = probe_all(&[path], Access::Exclusive).unwrap().remove(0);
    let identity = super::persist::Identity::of(&spare);
    container.persister.add_drive(identity);
    container.members.push(spare);
    let mut record = container.record.clone();
    record.members.push(record.members[0]);
    record.members[2].state = MemberState::Absent;
    for volume in &mut record.volumes {
        volume.slots[2].member = Some(MemberId(4));
    }
    persist(container, &mut record);
    record
}

fn names(container: &Container) -> Vec<String> {
    let name = |probed: &Probed| probed.drive.name().to_owned();
    container.members.iter().map(name).collect()
}

#[test]
fn a_replaced_drive_stays_out() {
    for volumes in [1, 2] {
        let bench = Bench::new(Level::Raid10, 4, volumes);
        replace_one(&bench, &mut bench.assemble(4).unwrap());
        let container = bench.assemble(5).unwrap();
        let names = names(&container);
        assert!(
            names.iter().all(|name| !name.ends_with("d2.img")),
            "{names:?}"
        );
        for volume in &container.record.volumes {
            assert_eq!(volume.current_slots().count(), 4);
            assert!(volume.sync.is_none());
            let slot = volume.slots[2].member.unwrap();
            assert!(names[slot.0 as usize].ends_with("d4.img"));
        }
    }
}

/// The new drive fails while the record that names it is being written, and the old drive stays.
#[test]
fn a_replacement_can_be_taken_back() {
    for volumes in [1, 2] {
        let bench = Bench::new(Level::Raid10, 4, volumes);
        {
            let mut container = bench.assemble(4).unwrap();
            let mut record = replace_one(&bench, &mut container);
            record.members[2].state = MemberState::Active;
            record.members[4].state = MemberState::Failed;
            for volume in &mut record.volumes {
                volume.slots[2].member = Some(MemberId(2));
            }
            persist(&mut container, &mut record);
        }
        let container = bench.assemble(5).unwrap();
        let names = names(&container);
        assert!(
            names.iter().all(|name| !name.ends_with("d4.img")),
            "{names:?}"
        );
        for volume in &container.record.volumes {
            assert_eq!(volume.current_slots().count(), 4);
            let slot = volume.slots[2].member.unwrap();
            assert!(names[slot.0 as usize].ends_with("d2.img"));
        }
    }
}
