//! The names of block devices, in folders that stand for those of the machine.

use super::*;
use engine::units::VolumeId;
use std::sync::{Arc, Mutex};

fn offer(name: &str) -> Offer {
    Offer {
        volume: VolumeId(0),
        name: name.to_owned(),
        identity: std::array::from_fn(|at| at as u8),
        description: String::new(),
        size_bytes: 1 << 30,
        block_bytes: 512,
        chunk_bytes: 65536,
        row_bytes: 3 << 16,
        read_only: false,
        discards: true,
    }
}

#[test]
fn devices_are_found_by_what_was_written_about_them() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(given_in(&folder.path().join("none")).unwrap(), []);
    let (named, nameless) = (offer("vol0"), offer("two words"));
    std::fs::write(folder.path().join("ublkb1"), text(&nameless)).unwrap();
    std::fs::write(folder.path().join("nbd0"), text(&named)).unwrap();
    // A server was killed while it wrote this one.
    std::fs::write(folder.path().join(".nbd3"), "").unwrap();
    let uuid = Uuid(nameless.identity).to_string();
    let device = |node: &str, volume: &str| Given {
        node: PathBuf::from(node),
        volume: volume.to_owned(),
        uuid: uuid.clone(),
    };
    assert_eq!(
        given_in(folder.path()).unwrap(),
        [device("/dev/nbd0", "vol0"), device("/dev/ublkb1", &uuid)]
    );
    std::fs::create_dir(folder.path().join("nbd1")).unwrap();
    let error = given_in(folder.path()).unwrap_err();
    assert!(error.to_string().contains("nbd1"), "{error}");
}

#[test]
fn nothing_is_left_of_a_device_that_is_given_up() {
    let root = tempfile::tempdir().unwrap();
    let [links, properties, devices] = ["fullstripe", "properties", "sys"].map(|name| {
        let folder = root.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    });
    let folders = Folders {
        links: &links,
        properties: &properties,
        devices: &devices,
    };
    let node = root.path().join("ublkb0");
    std::os::unix::fs::symlink("../ublkb0", links.join("vol0")).unwrap();
    std::os::unix::fs::symlink("../ublkb1", links.join("vol1")).unwrap();
    std::fs::write(properties.join("ublkb0"), text(&offer("vol0"))).unwrap();
    let given = Given {
        node,
        volume: "vol0".to_owned(),
        uuid: String::new(),
    };
    given.forget_in(&folders);
    assert!(!links.join("vol0").is_symlink() && !properties.join("ublkb0").exists());
    assert!(links.join("vol1").is_symlink(), "it leads elsewhere");
}

#[test]
fn a_device_with_a_size_is_there() {
    let root = tempfile::tempdir().unwrap();
    for (name, size) in [("ublkb0", "2048\n"), ("nbd0", "0\n")] {
        std::fs::create_dir(root.path().join(name)).unwrap();
        std::fs::write(root.path().join(name).join("size"), size).unwrap();
    }
    let is_there = |node: &str| is_there(root.path(), Path::new(node));
    assert!(is_there("/dev/ublkb0") && !is_there("/dev/nbd0") && !is_there("/dev/ublkb1"));
}

#[test]
fn udev_is_told_what_a_device_is_and_when_it_is_none_any_more() {
    let root = tempfile::tempdir().unwrap();
    let [folder, devices] = ["run/fullstripe/devices", "sys"].map(|name| root.path().join(name));
    let part = devices.join("ublkb0/ublkb0p1");
    std::fs::create_dir_all(&part).unwrap();
    std::fs::create_dir_all(devices.join("ublkb0/queue")).unwrap();
    std::fs::write(part.join("partition"), "1").unwrap();
    let announced = [devices.join("ublkb0"), part].map(|folder| folder.join("uevent"));
    let are_announced = |action: &str| {
        let mut files = announced.iter();
        files.all(|file| std::fs::read_to_string(file).unwrap() == action)
    };
    let node = Path::new("/dev/ublkb0");
    let told = Properties::tell(&folder, &devices, &offer("vol0"), node).unwrap();
    let file = folder.join("ublkb0");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "FULLSTRIPE_UUID=03020100:07060504:0b0a0908:0f0e0d0c\nFULLSTRIPE_NAME=vol0\n"
    );
    assert!(are_announced("add"));
    assert!(!devices.join("ublkb0/queue/uevent").exists());
    drop(told);
    assert!(!file.exists());
    assert!(are_announced("change"));
}

/// Folders like those of a machine that has the device `ublkb0`.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/ublkb0")).unwrap();
        std::fs::create_dir(root.path().join("run")).unwrap();
        Machine(root)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Gives what is missing of a name, and returns what is said.
    fn complete(&self, name: &mut Name) -> Vec<String> {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let say: Say = Arc::new(move |sentence| heard.lock().unwrap().push(sentence.to_string()));
        let [links, properties, devices] = ["dev", "run", "sys"].map(|name| self.at(name));
        let folders = Folders {
            links: &links,
            properties: &properties,
            devices: &devices,
        };
        name.complete_and_say(&folders, &offer("vol0"), &say);
        std::mem::take(&mut *said.lock().unwrap())
    }
}

/// Where nothing can be written, as on a full /run.
#[test]
fn a_device_that_is_taken_over_waits_for_no_name() {
    let machine = Machine::new();
    let file = machine.at("run/ublkb0");
    std::fs::write(&file, "FULLSTRIPE_UUID=another\n").unwrap();
    std::fs::create_dir(machine.at("run/.ublkb0")).unwrap();
    let mut name = Name::none(Path::new("/dev/ublkb0"));
    let said = machine.complete(&mut name);
    assert!(
        said.len() == 1
            && said[0].starts_with(
                "volume vol0 is served as /dev/ublkb0, but without its name, which is tried again every second: cannot write "
            ),
        "{said:?}"
    );
    // What needs no room is there, and nothing is lost of what was there.
    assert_eq!(name.path(), machine.at("dev/vol0"));
    assert!(machine.at("dev/vol0").is_symlink());
    let there = std::fs::read_to_string(&file).unwrap();
    assert_eq!(there, "FULLSTRIPE_UUID=another\n");
    assert!(machine.complete(&mut name).is_empty(), "it was said before");
    std::fs::remove_dir(machine.at("run/.ublkb0")).unwrap();
    let said = machine.complete(&mut name);
    assert_eq!(said, ["volume vol0, /dev/ublkb0, has its name now"]);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        text(&offer("vol0"))
    );
    assert!(machine.complete(&mut name).is_empty());
    drop(name);
    assert!(!file.exists() && !machine.at("dev/vol0").is_symlink());
}

#[test]
fn a_name_that_is_there_needs_no_room() {
    let machine = Machine::new();
    let mut name = Name::none(Path::new("/dev/ublkb0"));
    assert!(machine.complete(&mut name).is_empty());
    name.leave();
    std::fs::create_dir(machine.at("run/.ublkb0")).unwrap();
    std::fs::create_dir(machine.at("dev/.vol0")).unwrap();
    let mut name = Name::none(Path::new("/dev/ublkb0"));
    assert!(machine.complete(&mut name).is_empty());
    assert!(name.link.is_some() && name.properties.is_some());
}

#[test]
fn a_device_whose_name_is_taken_is_called_as_the_kernel_calls_it() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.at("dev/vol0")).unwrap();
    let mut name = Name::none(Path::new("/dev/ublkb0"));
    let said = machine.complete(&mut name);
    assert!(said.len() == 1 && said[0].ends_with("is no link; remove it"));
    assert_eq!(name.path(), Path::new("/dev/ublkb0"));
}

#[test]
fn a_name_that_udev_would_change_is_not_told() {
    assert_eq!(text(&offer("my data")), text(&offer("a\nb")));
    assert!(!text(&offer("my data")).contains("NAME"));
}

#[test]
fn a_device_that_cannot_be_announced_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("sys");
    let error = Properties::tell(root.path(), &missing, &offer("v"), Path::new("/dev/nbd0"));
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "the kernel does not announce /dev/nbd0 to udev");
}
