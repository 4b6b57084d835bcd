//! A volume that is a block device of this machine, whatever makes it one.

use anyhow::{Result, anyhow};
use drives::holders::holders;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use words::and;

/// Claims the block device of a volume, as a mount would: as long as the descriptor is open, nothing else can claim it.
///
/// # Errors
/// It is mounted, something else has claimed it, such as LVM, or it cannot be opened. One sentence.
pub(crate) fn claim(volume: &str, device: &Path) -> Result<OwnedFd> {
    let exclusively = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(device, exclusively, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => anyhow!(in_use_by(volume, &holders(device))),
        errno => anyhow!("cannot open {}: {errno}", device.display()),
    })
}

/// Checks that nothing on this machine has claimed the block device of a volume: the kernel's NVMe target does not.
///
/// # Errors
/// Something has, or the device cannot be opened. One sentence.
pub fn check_unused(volume: &str, device: &Path) -> Result<()> {
    claim(volume, device).map(drop)
}

/// A sentence: what uses a volume's device.
fn in_use_by(volume: &str, holders: &[String]) -> String {
    match holders {
        [] => format!("volume {volume} is in use as a block device"),
        holders => format!("volume {volume} is in use by {}", and(holders)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_where_they_are_known() {
        assert_eq!(
            in_use_by("vol0", &[]),
            "volume vol0 is in use as a block device"
        );
        let users = ["the file system mounted at /mnt", "swap"].map(str::to_owned);
        assert_eq!(
            in_use_by("vol0", &users),
            "volume vol0 is in use by the file system mounted at /mnt and swap"
        );
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = claim("vol0", Path::new("/dev/nothing/there")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("cannot open /dev/nothing/there: "),
            "{error}"
        );
    }
}
