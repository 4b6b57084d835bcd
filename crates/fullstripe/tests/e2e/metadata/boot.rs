//! `enable` and `release` on a folder that looks like a machine: its drives lie in `dev`, its files in `etc`, and its
//! programs in `usr/sbin`.

use super::rig::{DRIVE_BYTES, Rig};
use metadata::imsm::Mpb;
use metadata::imsm::build::NewDrive;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

const CONF: &str = "etc/mdadm/mdadm.conf";
const FILE: &str = "etc/fullstripe/fullstripe.toml";
const OLD_CONF: &str = "# mine\nARRAY /dev/md0 UUID=1:2:3:4\n";

/// A machine with a RAID 5 `vol` on d0, d1 and d2.
fn machine(words: &str) -> Rig {
    let rig = Rig::new();
    for folder in ["dev", "etc/mdadm", "usr/sbin"] {
        fs::create_dir_all(rig.path(folder)).unwrap();
    }
    for at in 0..4 {
        rig.drive(&format!("dev/d{at}"), DRIVE_BYTES);
        let device = rig.path(&format!("sys/block/d{at}"));
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("size"), "65536\n").unwrap();
    }
    fs::write(rig.path(CONF), OLD_CONF).unwrap();
    rig.done(&format!("create vol {words} dev/d0 dev/d1 dev/d2"));
    rig
}

/// A program that writes its arguments to the file `NAME.ran` and ends with this code.
fn program(rig: &Rig, name: &str, code: u8) {
    let path = rig.path(&format!("usr/sbin/{name}"));
    let ran = rig.path(&format!("{name}.ran"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\necho it broke >&2\nexit {code}\n",
        ran.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}

fn read(rig: &Rig, name: &str) -> String {
    fs::read_to_string(rig.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The drive becomes a spare that says that it is the array's, as `add-spare` makes one.
fn make_spare(rig: &Rig, name: &str) {
    let path = rig.path(name).display().to_string();
    let opened = container::open::for_change(&[path]).unwrap();
    let drive = NewDrive {
        serial: opened[0].serial,
        total_sectors: opened[0].placement.total_sectors(),
    };
    container::spare_note::write(&opened[0].drive, &rig.record("dev/d0")).unwrap();
    let record = Mpb::spare(&drive, opened[0].sector).unwrap();
    container::write::write_record(&record, &[&opened[0]]).unwrap();
}

#[test]
fn an_array_is_enabled_and_released() {
    let rig = machine("--level 5");
    program(&rig, "update-initramfs", 0);
    program(&rig, "udevadm", 0);
    let done = rig.json("enable fast --root . dev/d0 dev/d2", 0);
    let uuid = done["container_uuid"].as_str().unwrap();
    assert_eq!(
        read(&rig, FILE),
        format!("[array.fast]\nuuid = \"{uuid}\"\n")
    );
    let mode = fs::metadata(rig.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let conf = read(&rig, CONF);
    assert!(conf.starts_with(OLD_CONF), "{conf}");
    assert!(
        conf.ends_with(&format!("\nARRAY <ignore> metadata=imsm UUID={uuid}\n")),
        "{conf}"
    );
    assert_eq!(
        read(&rig, "etc/mdadm/mdadm.conf.before-fullstripe"),
        OLD_CONF
    );
    assert_eq!(read(&rig, "update-initramfs.ran"), "-u -k all\n");
    let more = "# the operator's\n".to_owned() + &read(&rig, FILE);
    fs::write(rig.path(FILE), more).unwrap();

    make_spare(&rig, "dev/d3");
    let line = "release fast --to md --root .";
    let released = rig.done(line);
    assert_eq!(read(&rig, FILE), "# the operator's\n");
    assert_eq!(read(&rig, CONF), OLD_CONF);
    assert_eq!(read(&rig, "update-initramfs.ran"), "-u -k all\n-u -k all\n");
    let told = read(&rig, "udevadm.ran");
    assert!(told.starts_with("trigger --action=add --settle "), "{told}");
    for drive in ["dev/d0", "dev/d1", "dev/d2", "dev/d3"] {
        assert!(told.contains(drive), "{told}");
    }
    assert!(
        released.stdout.contains("mdadm.imsm.test=1"),
        "{released:?}"
    );
    rig.refused(
        line,
        1,
        "the settings have no array \"fast\", nor any other",
        &[],
    );
}

#[test]
fn what_cannot_be_enabled_changes_nothing() {
    let rig = machine("--level 5");
    for at in 4..6 {
        rig.drive(&format!("dev/d{at}"), DRIVE_BYTES);
    }
    rig.done("create other --level 1 dev/d4 dev/d5");
    for (line, wanted) in [
        (
            "enable a dev/d0 dev/d3",
            "dev/d3 holds no array; leave it out",
        ),
        (
            "enable a dev/d0 dev/d4",
            "; name the drives of one container",
        ),
        ("enable .a dev/d0", "\".a\" cannot be the name of an array"),
        ("enable a dev/d0 dev/none", "dev/none does not exist"),
    ] {
        rig.refused(&format!("{line} --root ."), 1, wanted, &[]);
        assert!(
            !rig.path(FILE).exists() && read(&rig, CONF) == OLD_CONF,
            "{line}"
        );
    }
    rig.done("enable a dev/d0 --root . --no-initramfs");
    let before = (read(&rig, FILE), read(&rig, CONF));
    for (line, wanted) in [
        ("enable a dev/d4", "has an array \"a\" already"),
        ("enable b dev/d1", "already, as array \"a\""),
    ] {
        rig.refused(&format!("{line} --root ."), 1, wanted, &[]);
        assert_eq!((read(&rig, FILE), read(&rig, CONF)), before, "{line}");
    }
}

#[test]
fn a_program_that_fails_is_told_and_the_rest_is_done() {
    let rig = machine("--level 5");
    program(&rig, "update-initramfs", 3);
    let told = rig.run("enable a dev/d0 --root .");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr
            .contains("the files are changed, but the initramfs"),
        "{told:?}"
    );
    assert!(told.stderr.contains("it broke"), "{told:?}");
    assert!(read(&rig, FILE).contains("[array.a]") && read(&rig, CONF).contains("<ignore>"));
    fs::remove_file(rig.path("update-initramfs.ran")).unwrap();
    let left_out = rig.done("release a --to md --root . --no-initramfs --no-udev");
    assert!(
        left_out
            .stdout
            .contains("Next: update-initramfs -u -k all renews"),
        "{left_out:?}"
    );
    assert!(!rig.path("update-initramfs.ran").exists());
}

#[test]
fn what_is_served_or_not_for_md_is_not_released() {
    let rig = machine("--level 5 --wide --write-hole bitmap --bitmap-region 64k");
    let done = rig.json("enable a dev/d0 --root . --no-initramfs", 0);
    let before = (read(&rig, FILE), read(&rig, CONF));
    let line = "release a --to md --root . --no-initramfs";
    rig.refused(line, 4, "the bitmap of volume vol for 64 MiB", &["dev/d0"]);
    rig.done("write-hole vol off dev/d0 dev/d1 dev/d2");

    let drive = File::open(rig.path("dev/d1")).unwrap();
    drive.lock().unwrap();
    rig.refused(line, 4, "dev/d1 is in use by", &[]);
    drop(drive);
    let uuid = done["container_uuid"].as_str().unwrap();
    let folder = rig.path(&format!("state/fullstripe/arrays/{uuid}"));
    fs::create_dir_all(&folder).unwrap();
    let server = File::open(&folder).unwrap();
    server.lock().unwrap();
    rig.refused(line, 4, "array \"a\" is being served; stop it first", &[]);
    assert_eq!((read(&rig, FILE), read(&rig, CONF)), before);
    drop(server);
    rig.done(line);
}
