//! The drives of this machine: which block devices can be members of an array, and what is on them.

use crate::open::one_to_look;
use crate::probe::Probed;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use words::without_error_number;

/// Where the kernel lists the block devices.
pub const SYSFS_BLOCK: &str = "/sys/block";

/// Opens each of `specs` read-only and reads its metadata. The second list has a sentence for each drive that cannot be
/// read.
#[must_use]
pub fn look_at(specs: &[String]) -> (Vec<Probed>, Vec<String>) {
    let mut drives = Vec::new();
    let mut unreadable = Vec::new();
    for spec in specs {
        match one_to_look(spec) {
            Ok(probed) => drives.push(probed),
            Err(error) => unreadable.push(without_error_number(&format!("{error:#}"))),
        }
    }
    (drives, unreadable)
}

/// Paths of the block devices that can be members: no RAM disks, no optical or floppy drives, no device stacked on
/// other devices, no loop device without a file, no device of size 0. `folder` is [`SYSFS_BLOCK`], except in tests.
///
/// # Errors
/// The folder cannot be read.
pub fn block_devices(folder: &Path) -> Result<Vec<String>> {
    const OTHERS: [&str; 7] = ["ram", "zram", "sr", "fd", "md", "dm-", "nbd"];
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot list the block devices in {}", folder.display()))?;
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let has_size = fs::read_to_string(path.join("size")).is_ok_and(|text| text.trim() != "0");
        let is_other = OTHERS.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let is_bare_loop = name.starts_with("loop") && !path.join("loop/backing_file").exists();
        if has_size && !is_other && !is_bare_loop {
            // In sysfs a slash in a device's name is written as an exclamation mark.
            names.insert(format!("/dev/{}", name.replace('!', "/")));
        }
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_can_hold_members_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in [
            ("nvme0n1", "100"),
            ("sda", "0"),
            ("sdb", "8"),
            ("loop0", "8"),
            ("loop1", "8"),
            ("md127", "8"),
            ("dm-0", "8"),
            ("ram0", "8"),
            ("cciss!c0d0", "8"),
        ] {
            let device = folder.path().join(name);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("size"), format!("{size}\n")).unwrap();
        }
        fs::create_dir(folder.path().join("loop1/loop")).unwrap();
        fs::write(folder.path().join("loop1/loop/backing_file"), "/f\n").unwrap();
        assert_eq!(
            block_devices(folder.path()).unwrap(),
            ["/dev/cciss/c0d0", "/dev/loop1", "/dev/nvme0n1", "/dev/sdb"]
        );
    }
}
