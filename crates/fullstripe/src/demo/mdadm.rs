//! Lets Linux's own RAID tool read our metadata.
//!
//! mdadm reads block devices only, so the file is shown to it as a read-only loop device for a moment. It
//! looks for a drive's serial number in the metadata; a loop device has none, and the two variables let it
//! take the device's name instead of asking a platform that is not there. That name is not in the metadata,
//! which keeps mdadm from telling which of the drives this is, and from nothing else.

use super::programs::{Ended, Programs, find};
use super::server::SHORTLY;
use anyhow::Result;
use rustix::process::geteuid;
use std::path::Path;

/// What became of it.
pub(super) enum Reading {
    /// mdadm ran.
    Done(Ended),
    /// It could not be tried, and why.
    Skipped(String),
}

/// Lets mdadm examine `file`.
///
/// # Errors
/// A program that is there cannot be started or does not end, or a signal came.
pub(super) fn examine(programs: &Programs, file: &str) -> Result<Reading> {
    let skipped = |why: &str| Ok(Reading::Skipped(why.to_owned()));
    let Some(mdadm) = find("mdadm") else {
        return skipped("mdadm is not installed");
    };
    if !geteuid().is_root() {
        return skipped("mdadm reads block devices only, and making one of a file takes root");
    }
    if find("losetup").is_none() {
        return skipped("losetup is not installed");
    }
    let attach = ["losetup", "--read-only", "--find", "--show", file];
    let attached = programs.run("losetup", &attach, SHORTLY)?;
    let device = attached.stdout.trim();
    if !attached.status.success() || !device.starts_with("/dev/loop") {
        return skipped("this system gives no loop device, and mdadm reads block devices only");
    }
    programs.guard.add_loop_device(Path::new(device));
    let mdadm = mdadm.to_string_lossy();
    let words = [
        "env",
        "IMSM_NO_PLATFORM=1",
        "IMSM_DEVNAME_AS_SERIAL=1",
        mdadm.as_ref(),
        "--examine",
        device,
    ];
    let read = programs.run("mdadm", &words, SHORTLY);
    programs.guard.clear_loop_devices();
    Ok(Reading::Done(read?))
}

/// The values that mdadm prints behind `key`, in order: of the container first, then of its volumes.
pub(super) fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(" : "))
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "          Magic : Intel Raid ISM Cfg Sig.\n           UUID : 1:2\n\
                    \x20      Checksum : 0badcafe correct\n\n[vol0]:\n           UUID : 3:4\n\
                    \x20  RAID Level : 5 <-- 5\n";
        assert_eq!(values(text, "UUID"), ["1:2", "3:4"]);
        assert_eq!(values(text, "Checksum"), ["0badcafe correct"]);
        assert!(values(text, "Raid").is_empty());
    }
}
