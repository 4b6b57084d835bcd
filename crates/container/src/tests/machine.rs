//! The drives of a container are found among all drives of a machine.

use super::*;
use crate::machine::Machine;
use crate::root_drive::refuse_container;
use metadata::imsm::Uuid;
use std::fs;
use std::os::unix::fs::symlink;

/// A machine with the drives of `bench`, under their names.
fn machine_with(bench: &Bench) -> Machine {
    let root = bench.folder.path();
    fs::create_dir(root.join("dev")).unwrap();
    for at in 0..=bench.count {
        let name = format!("d{at}.img");
        let device = root.join("sys/block").join(&name);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("size"), "131072\n").unwrap();
        fs::rename(root.join(&name), root.join("dev").join(&name)).unwrap();
    }
    Machine::below(root)
}

#[test]
fn members_are_found_by_the_uuid_of_their_container() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let mpb = bench.open(1)[0].found.clone().unwrap().unwrap().mpb;
    let uuid = Uuid::of_container(&mpb).to_string();
    let machine = machine_with(&bench);
    let names = |uuid: &str| {
        let found = machine.members_of(uuid).unwrap();
        let names: Vec<String> = found
            .members
            .iter()
            .map(|probed| probed.drive.name().rsplit('/').next().unwrap().to_owned())
            .collect();
        (names, found.unreadable.len())
    };
    let all = ["d0.img", "d1.img", "d2.img"].map(str::to_owned).to_vec();
    assert_eq!(names(&uuid), (all.clone(), 0));
    assert_eq!(names(&uuid.to_uppercase()), (all.clone(), 0));
    assert_eq!(names("00000000:00000000:00000000:00000000"), (vec![], 0));

    // A torn record still says to which container the drive belongs.
    let path = machine.place("/dev/d1.img");
    let probed = machine.members_of(&uuid).unwrap().members.remove(1);
    let mut bytes = fs::read(&path).unwrap();
    let image = probed.placement.image(512).offset_bytes as usize;
    bytes[image + 300] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(names(&uuid), (all, 0));
    fs::write(&path, "short").unwrap();
    assert_eq!(names(&uuid).0, ["d0.img", "d2.img"]);
    assert_eq!(names(&uuid).1, 1);
}

#[test]
fn spares_are_found_by_the_container_that_they_name() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let record = bench.open(1)[0].found.clone().unwrap().unwrap().mpb;
    let machine = machine_with(&bench);
    let path = machine.place("/dev/d3.img").display().to_string();
    let uuid = Uuid::of_container(&record).to_string();
    assert!(machine.members_of(&uuid).unwrap().spares.is_empty());
    spare_notes::make_spare(&path, &record);
    let found = machine.members_of(&uuid.to_uppercase()).unwrap();
    assert_eq!((found.members.len(), found.spares), (3, vec![path]));
    let other = machine.members_of("1:2:3:4").unwrap();
    assert!(other.members.is_empty() && other.spares.is_empty());
}

/// Linux md runs a container of these drives and a volume, on which the root file system of `machine` lies.
fn put_root_on(machine: &Machine, drives: &[&str]) {
    for (array, kind, number) in [
        ("md126", "external:/md127/0", "9:126"),
        ("md127", "external:imsm", "9:127"),
    ] {
        let folder = machine.place(format!("/sys/class/block/{array}"));
        fs::create_dir_all(folder.join("md")).unwrap();
        fs::write(folder.join("md/metadata_version"), format!("{kind}\n")).unwrap();
        for drive in drives {
            fs::create_dir_all(folder.join("slaves").join(drive)).unwrap();
            fs::create_dir_all(machine.place(format!("/sys/class/block/{drive}"))).unwrap();
        }
        let numbers = machine.place("/sys/dev/block");
        fs::create_dir_all(&numbers).unwrap();
        symlink(&folder, numbers.join(number)).unwrap();
    }
    fs::create_dir_all(machine.place("/proc/self")).unwrap();
    let mounts = "22 1 9:126 / / rw - ext4 /dev/md126 rw\n";
    fs::write(machine.place("/proc/self/mountinfo"), mounts).unwrap();
}

/// Refuses the container of `bench` if the root file system lies on these of its drives, after `damage` to them.
fn refusal_with_root_on(drives: &[&str], damage: impl Fn(&Machine)) -> Option<String> {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let mpb = bench.open(1)[0].found.clone().unwrap().unwrap().mpb;
    let uuid = Uuid::of_container(&mpb).to_string();
    let machine = machine_with(&bench);
    put_root_on(&machine, drives);
    damage(&machine);
    let refused = refuse_container(&machine, &uuid);
    refused.err().map(|error| error.to_string())
}

#[test]
fn the_container_below_the_root_is_refused() {
    let why = refusal_with_root_on(&["d1.img", "d2.img"], |_| ()).unwrap();
    assert!(
        why.starts_with("the root file system of this machine lies on /")
            && why.contains("/dev/d1.img, "),
        "{why}"
    );
}

/// md runs the root on one drive, and has dropped the others, whose records can be read.
#[test]
fn a_container_is_refused_if_the_drive_below_the_root_cannot_be_read() {
    let cannot_be_read = |machine: &Machine| {
        fs::write(machine.place("/dev/d1.img"), "short").unwrap();
    };
    let why = refusal_with_root_on(&["d1.img"], cannot_be_read).unwrap();
    assert!(
        why.starts_with("the root file system of this machine lies on Linux md's container md127, and may lie on this one"),
        "{why}"
    );
    // Another drive of md's container says which one it is.
    let why = refusal_with_root_on(&["d1.img", "d2.img"], cannot_be_read).unwrap();
    assert!(why.contains("/dev/d2.img, and no process"), "{why}");
}

#[test]
fn a_container_beside_that_of_the_root_is_not_refused() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let machine = machine_with(&bench);
    put_root_on(&machine, &["d0.img", "d1.img"]);
    fs::write(machine.place("/dev/d1.img"), "short").unwrap();
    let other = "00000000:00000001:00000002:00000003";
    refuse_container(&machine, other).unwrap();
}
