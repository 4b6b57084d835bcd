//! The drives of a container are found among all drives of a machine.

use super::*;
use crate::machine::Machine;
use metadata::imsm::Uuid;
use std::fs;

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
