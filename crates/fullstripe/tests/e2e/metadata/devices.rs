//! Block devices: loop devices over files, where the machine allows them.

use super::rig::{Rig, program, run_program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device over a file, detached at the end.
pub struct Loop {
    pub device: String,
    losetup: PathBuf,
}

impl Loop {
    /// A device over `file`. If there is none, prints why the test is skipped.
    pub fn over(file: &Path) -> Option<Loop> {
        let losetup = program("losetup")?;
        let output = Command::new(&losetup)
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            println!("skipped: no loop device here ({})", why.trim());
            return None;
        }
        Some(Loop {
            device: String::from_utf8(output.stdout).unwrap().trim().to_owned(),
            losetup,
        })
    }

    /// A device over each of the rig's drives d0, d1, ….
    pub fn over_all(rig: &Rig, count: usize) -> Option<Vec<Loop>> {
        (0..count)
            .map(|at| Loop::over(&rig.path(&format!("d{at}"))))
            .collect()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new(&self.losetup)
            .args(["--detach", &self.device])
            .status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be detached", self.device);
        }
    }
}

#[test]
fn a_file_behind_a_loop_device_is_left_alone() {
    let rig = Rig::with_drives(2);
    let Some(device) = Loop::over(&rig.path("d1")) else {
        return;
    };
    rig.refused(
        "create vol --level 1 d0 d1",
        4,
        &format!("d1 is in use by loop device {}", device.device),
        &["d0", "d1"],
    );
}

#[test]
fn an_array_behind_a_loop_device_is_not_served_or_changed() {
    let rig = Rig::with_array("vol --level 1", 2);
    let Some(device) = Loop::over(&rig.path("d1")) else {
        return;
    };
    let wanted = format!("d1 is in use by loop device {}", device.device);
    for line in [
        "serve --socket api --nbd unix:nbd d0 d1",
        "serve --read-only --socket api --nbd unix:nbd d0 d1",
        "destroy vol --yes d0 d1",
    ] {
        rig.refused(line, 4, &wanted, &["d0", "d1"]);
    }
}

#[test]
fn a_mounted_device_is_left_alone_whatever_is_forced() {
    let rig = Rig::with_drives(2);
    let (Some(mkfs), Some(mount), Some(umount)) =
        (program("mkfs.ext4"), program("mount"), program("umount"))
    else {
        return;
    };
    run_program(&mkfs, &["-q", &rig.path("d1").display().to_string()]);
    let Some(device) = Loop::over(&rig.path("d1")) else {
        return;
    };
    let place = rig.path("place");
    std::fs::create_dir(&place).unwrap();
    let mounted = Command::new(mount).arg(&device.device).arg(&place).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting is not possible here");
        return;
    }
    let outcome = rig.run(&format!(
        "create vol --level 1 --force d0 {}",
        device.device
    ));
    let looked = rig.run(&format!("examine {}", device.device));
    run_program(&umount, &[&place.display().to_string()]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    let wanted = format!(
        "is in use by the file system mounted at {}",
        place.display()
    );
    assert!(outcome.stderr.contains(&wanted), "{outcome:?}");
    assert!(
        looked.stdout.contains("holds an ext4 file system"),
        "{looked:?}"
    );
}

#[test]
fn an_array_on_block_devices_is_found_by_list() {
    let rig = Rig::with_drives(3);
    let Some(devices) = Loop::over_all(&rig, 3) else {
        return;
    };
    let names: Vec<&str> = devices
        .iter()
        .map(|device| device.device.as_str())
        .collect();
    let made = rig.json(&format!("create found --level 5 {}", names.join(" ")), 0);
    assert_eq!(made["in_sync"], true, "loop devices can be zeroed: {made}");
    let listed = rig.json("list", 0);
    let containers = listed["containers"].as_array().unwrap();
    let found = containers
        .iter()
        .find(|container| container["uuid"] == made["container_uuid"])
        .unwrap();
    assert_eq!(found["volumes"][0]["state"], "optimal");
    rig.done(&format!("destroy found --yes {}", names.join(" ")));
}
