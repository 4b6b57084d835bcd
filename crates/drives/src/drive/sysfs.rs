//! What the kernel reports about a block device under `/sys/dev/block`.

use super::{ENODEV, ENXIO, serial_from};
use std::fs;
use std::path::PathBuf;

/// The unit of `size`, whatever the device's sectors are.
const SECTOR_BYTES: u64 = 512;

/// A block device, identified by its number.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    major: u32,
    minor: u32,
    /// The folder in which the kernel lists block devices by number.
    all: PathBuf,
}

impl Device {
    /// From `st_rdev`.
    pub fn new(number: u64) -> Device {
        Device::among("/sys/dev/block", number)
    }

    /// The same, with another folder instead of the kernel's.
    pub fn among(all: impl Into<PathBuf>, number: u64) -> Device {
        Device {
            major: rustix::fs::major(number),
            minor: rustix::fs::minor(number),
            all: all.into(),
        }
    }

    pub fn number(&self) -> (u32, u32) {
        (self.major, self.minor)
    }

    fn folder(&self) -> PathBuf {
        self.all.join(format!("{}:{}", self.major, self.minor))
    }

    /// Checks that the kernel still has the device, with at least `expected_bytes`. This never waits for the device, not
    /// even for a command that hangs, because only the kernel's list is read. Before the kernel ends the I/O of a drive
    /// that it removes, it sets the drive's capacity to zero. If /sys is not mounted, the device passes.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the kernel has removed the device, `ENXIO` if it is smaller.
    pub fn check(&self, expected_bytes: u64) -> Result<(), i32> {
        let folder = self.folder();
        let Ok(text) = fs::read_to_string(folder.join("size")) else {
            let is_known = folder.exists() || !self.all.exists();
            return if is_known { Ok(()) } else { Err(ENODEV) };
        };
        match text.trim().parse::<u64>() {
            Ok(0) if expected_bytes > 0 => Err(ENODEV),
            Ok(sectors) if sectors.saturating_mul(SECTOR_BYTES) < expected_bytes => Err(ENXIO),
            _ => Ok(()),
        }
    }

    /// An attribute of the device or, for a partition, of the drive that it is part of.
    fn attribute(&self, name: &str) -> Option<String> {
        let folder = self.folder();
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        // The entry is a link into the device tree, so `..` of a partition is its drive.
        let text = read(folder.join(name)).or_else(|| {
            folder
                .join("partition")
                .exists()
                .then(|| read(folder.join("..").join(name)))?
        })?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Whether the cache is volatile. Unknown counts as volatile: a needless flush costs time, a missing one costs
    /// data.
    pub fn volatile_cache(&self) -> bool {
        self.attribute("queue/write_cache")
            .is_none_or(|mode| mode != "write through")
    }

    /// Whether a discarded range reads as zeros afterwards. Linux punches holes in a block device with the drive's
    /// command for writing zeros, and refuses if there is none. Unknown counts as yes, until the first refusal.
    pub fn discards(&self) -> bool {
        self.attribute("queue/write_zeroes_max_bytes")
            .is_none_or(|bytes| bytes != "0")
    }

    /// The drive's model.
    pub fn model(&self) -> Option<String> {
        self.attribute("device/model")
    }

    /// The serial that the drive reports, or a loop device's file name.
    pub fn serial(&self) -> Option<String> {
        if let Some(file) = self.attribute("loop/backing_file") {
            let name = file.rsplit('/').next().unwrap_or(&file);
            return Some(serial_from(name.trim_end_matches(" (deleted)")));
        }
        let text = self
            .attribute("device/serial")
            .or_else(|| self.attribute("serial"))
            .or_else(|| self.scsi_serial())
            .or_else(|| self.attribute("device/wwid"))?;
        Some(serial_from(&text))
    }

    /// INQUIRY page 0x80: four bytes of header, the last of which is the length, then the serial.
    fn scsi_serial(&self) -> Option<String> {
        let page = fs::read(self.folder().join("device/vpd_pg80")).ok()?;
        scsi_unit_serial(&page)
    }
}

fn scsi_unit_serial(page: &[u8]) -> Option<String> {
    let length = usize::from(*page.get(3)?);
    let text = page.get(4..4 + length)?;
    let text: String = text.iter().copied().map(char::from).collect();
    let text = text.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Makes a drive 259:0 with a partition 259:1, laid out as in `/sys`, without any attributes.
    /// Returns the folder that lists devices by number, and the folder of the drive's queue.
    pub(in crate::drive) fn drive_with_partition(folder: &Path) -> (PathBuf, PathBuf) {
        let (all, drive) = (folder.join("block"), folder.join("nvme0n1"));
        let (partition, queue) = (drive.join("nvme0n1p1"), drive.join("queue"));
        for made in [&all, &partition, &queue] {
            fs::create_dir_all(made).unwrap();
        }
        fs::write(partition.join("partition"), "1\n").unwrap();
        symlink(&drive, all.join("259:0")).unwrap();
        symlink(&partition, all.join("259:1")).unwrap();
        (all, queue)
    }

    #[test]
    fn only_a_drive_that_says_so_needs_no_flushes() {
        let folder = tempfile::tempdir().unwrap();
        let (all, queue) = drive_with_partition(folder.path());
        for minor in [0, 1] {
            let device = Device::among(&all, makedev(259, minor));
            for (mode, volatile) in [
                (None, true),
                (Some("write back\n"), true),
                (Some("write through\n"), false),
                (Some("\n"), true),
                (Some("of another kind\n"), true),
            ] {
                let _ = fs::remove_file(queue.join("write_cache"));
                if let Some(mode) = mode {
                    fs::write(queue.join("write_cache"), mode).unwrap();
                }
                assert_eq!(device.volatile_cache(), volatile, "{minor} {mode:?}");
            }
            fs::remove_file(queue.join("write_cache")).unwrap();
        }
        let unknown = Device::among(&all, makedev(8, 0));
        assert!(unknown.volatile_cache());
    }

    #[test]
    fn a_drive_without_a_command_for_zeroes_does_not_discard() {
        let folder = tempfile::tempdir().unwrap();
        let (all, queue) = drive_with_partition(folder.path());
        for (bytes, discards) in [("0\n", false), ("131072\n", true), ("\n", true)] {
            fs::write(queue.join("write_zeroes_max_bytes"), bytes).unwrap();
            for minor in [0, 1] {
                let device = Device::among(&all, makedev(259, minor));
                assert_eq!(device.discards(), discards, "{minor} {bytes:?}");
            }
        }
        assert!(
            Device::among(&all, makedev(8, 0)).discards(),
            "an unknown device discards"
        );
    }

    #[test]
    fn a_drive_is_gone_when_the_kernel_has_it_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let (all, _) = drive_with_partition(folder.path());
        let partition = Device::among(&all, makedev(259, 1));
        let absent = Device::among(&all, makedev(259, 2));
        assert_eq!(partition.check(4096), Ok(()), "its size is not known");
        assert_eq!(absent.check(4096), Err(ENODEV));
        let nowhere = folder.path().join("nowhere");
        let device = Device::among(nowhere, makedev(259, 2));
        assert_eq!(
            device.check(4096),
            Ok(()),
            "without a folder of devices, no device counts as gone"
        );
    }

    #[test]
    fn a_drive_is_gone_when_its_capacity_is() {
        let folder = tempfile::tempdir().unwrap();
        let (all, _) = drive_with_partition(folder.path());
        let device = Device::among(&all, makedev(259, 0));
        for (sectors, result) in [
            ("8\n", Ok(())),
            ("9\n", Ok(())),
            ("7\n", Err(ENXIO)),
            ("0\n", Err(ENODEV)),
            ("many\n", Ok(())),
        ] {
            fs::write(all.join("259:0/size"), sectors).unwrap();
            assert_eq!(device.check(4096), result, "{sectors:?}");
        }
        assert_eq!(
            Device::among(&all, makedev(259, 1)).check(4096),
            Ok(()),
            "the size of a drive says nothing about its partitions"
        );
    }

    #[test]
    fn scsi_page_80() {
        assert_eq!(
            scsi_unit_serial(b"\0\x80\0\x06 WD42 rest").as_deref(),
            Some("WD42")
        );
        assert_eq!(scsi_unit_serial(b"\0\x80\0\x04    "), None);
        assert_eq!(scsi_unit_serial(b"\0\x80\0\x09short"), None);
        assert_eq!(scsi_unit_serial(b"\0"), None);
    }
}
