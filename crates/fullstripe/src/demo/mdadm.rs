//! Lets Linux's own RAID tool read our metadata.
//!
//! mdadm reads block devices only, so it gets the file as a temporary read-only loop device. It looks for the drive's
//! serial number in the metadata. A loop device has none, so two environment variables let mdadm use the device's name
//! instead, and skip the check of the platform. That name is not in the metadata, so mdadm cannot tell which of the
//! drives this is, but it can read everything else.

use super::programs::{Ended, Programs, find};
use super::server::SHORTLY;
use anyhow::Result;
use rustix::process::geteuid;
use std::path::Path;

/// The outcome of an attempt to read.
pub(super) enum Reading {
    /// mdadm ran.
    Done(Ended),
    /// mdadm could not be run, for this reason.
    Skipped(String),
}

/// Lets mdadm examine `file`.
///
/// # Errors
/// An installed program cannot be started or does not end, or a signal came.
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

/// The values that mdadm prints after `key`, in order: first the container's, then those of its volumes.
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
