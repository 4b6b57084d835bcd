//! Answers whether the machine may hibernate. It may not while a volume is a block device: the kernel freezes the process that
//! serves the volume first, then makes room in memory and writes the image. What is swapped out or written to the volume
//! meanwhile waits for the frozen process, and the kernel waits for that.

use anyhow::Result;
use container::refusal::refused;
use exports::names::{Given, given};
use std::path::Path;

/// Where the kernel lists block devices.
const DEVICES: &str = "/sys/class/block";

/// Refuses if a volume is a block device.
///
/// # Errors
/// A refusal that names the devices; or they cannot be found out.
pub fn refuse_served() -> Result<()> {
    let mut devices = given()?;
    devices.retain(|device| is_there(Path::new(DEVICES), &device.node));
    match devices.is_empty() {
        true => Ok(()),
        false => Err(refused(sentence(&devices))),
    }
}

/// Whether the kernel has the device, and it has a size: a device of the NBD client stays without one when it is given up.
fn is_there(devices: &Path, node: &Path) -> bool {
    let name = node.file_name().unwrap_or_default();
    let size = std::fs::read_to_string(devices.join(name).join("size"));
    size.is_ok_and(|size| size.trim() != "0")
}

fn sentence(devices: &[Given]) -> String {
    let named: Vec<String> = devices
        .iter()
        .map(|device| {
            format!(
                "volume {} is the block device {}",
                device.volume,
                device.node.display()
            )
        })
        .collect();
    format!(
        "the machine cannot hibernate while {}, because the process that serves it is frozen before memory is written; unmount it \
         and stop its array first (systemctl stop fullstripe@NAME), or suspend to memory",
        words::and(&named)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_that_is_there_is_named() {
        let root = tempfile::tempdir().unwrap();
        for (name, size) in [("ublkb0", "2048\n"), ("nbd0", "0\n")] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join("size"), size).unwrap();
        }
        let is_there = |node: &str| is_there(root.path(), Path::new(node));
        assert!(is_there("/dev/ublkb0") && !is_there("/dev/nbd0") && !is_there("/dev/ublkb1"));
        let device = Given {
            node: "/dev/ublkb0".into(),
            volume: "vol0".to_owned(),
        };
        insta::assert_snapshot!(sentence(&[device]), @"the machine cannot hibernate while volume vol0 is the block device /dev/ublkb0, because the process that serves it is frozen before memory is written; unmount it and stop its array first (systemctl stop fullstripe@NAME), or suspend to memory");
    }
}
