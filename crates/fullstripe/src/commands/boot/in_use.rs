//! Answers whether a block device of fullstripe is in use, and by whom. The script that removes a package asks this before it
//! stops the servers: whatever uses a device whose server has ended waits until the next server of that array, which a removed
//! program cannot start.
//!
//! Devices are found by what their servers wrote about them ([`exports::names`]), so those of servers that were started by hand
//! are among them, and those that wait for their next server.

use anyhow::Result;
use container::refusal::refused;
use drives::holders::{Holder, openers, process_in_words, users};
use exports::names::{Given, given};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// Refuses if any of the devices is mounted, or something has claimed it.
///
/// # Errors
/// A refusal that names each device that is in use, its users, and how they release it; or the devices cannot be found out.
pub fn refuse_used() -> Result<()> {
    let devices = given()?;
    let used: Vec<(Given, Vec<Holder>)> = devices
        .into_iter()
        .map(|device| {
            let users = users_of(&device.node);
            (device, users)
        })
        .filter(|(_, users)| !users.is_empty())
        .collect();
    match used.is_empty() {
        true => Ok(()),
        false => Err(refused(sentence(&used))),
    }
}

/// Which of these volumes' devices are in use, and by whom: part of a sentence. `None` if none of them is.
pub(in crate::commands) fn in_use<'a>(
    devices: impl Iterator<Item = (&'a str, &'a Path)>,
) -> Option<String> {
    let uses: Vec<String> = devices
        .map(|(volume, node)| (volume, node, users_of(node)))
        .filter(|(_, _, users)| !users.is_empty())
        .map(|(volume, node, users)| use_of(volume, node, &users))
        .collect();
    (!uses.is_empty()).then(|| words::and(&uses))
}

/// Who has mounted or claimed the device. A device that the kernel does not have any more is not in use.
fn users_of(node: &Path) -> Vec<Holder> {
    let listed = users(node);
    if !listed.is_empty() {
        return listed;
    }
    let exclusively = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(node, exclusively, Mode::empty()) {
        Ok(_) | Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Vec::new(),
        Err(Errno::BUSY) => {}
        // It may be in use, so it counts as used.
        Err(errno) => {
            let why = words::without_error_number(&errno.to_string());
            let who = format!("nobody knows what, because it cannot be opened ({why})");
            return vec![Holder::new(who, format!("detach {}", node.display()))];
        }
    }
    let open: Vec<String> = openers(Path::new("/proc"), node)
        .into_iter()
        .map(process_in_words)
        .collect();
    let who = match &open[..] {
        [] => "a program that has claimed it".to_owned(),
        open => words::and(open),
    };
    vec![Holder::new(
        who,
        format!("end what has {} open", node.display()),
    )]
}

fn use_of(volume: &str, node: &Path, users: &[Holder]) -> String {
    let who: Vec<&str> = users.iter().map(|user| user.who.as_str()).collect();
    let node = node.display();
    format!("volume {volume} ({node}) is in use by {}", words::and(&who))
}

/// What uses which device, and what releases them.
fn sentence(used: &[(Given, Vec<Holder>)]) -> String {
    let uses: Vec<String> = used
        .iter()
        .map(|(device, users)| use_of(&device.volume, &device.node, users))
        .collect();
    let releases: Vec<&str> = used
        .iter()
        .flat_map(|(_, users)| users.iter().map(|user| user.release.as_str()))
        .collect();
    format!(
        "{}; release it first: {}",
        words::and(&uses),
        releases.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(node: &str, volume: &str) -> Given {
        Given {
            node: node.into(),
            volume: volume.to_owned(),
        }
    }

    #[test]
    fn every_user_is_named_with_what_releases_the_device() {
        let mounted = Holder::new("the file system mounted at /mnt", "umount /mnt");
        let mapped = Holder::new("LUKS volume safe (dm-0)", "cryptsetup close safe");
        let one = (device("/dev/ublkb0", "vol0"), vec![mounted]);
        let other = (device("/dev/nbd0", "vol1"), vec![mapped]);
        insta::assert_snapshot!(sentence(std::slice::from_ref(&one)), @"volume vol0 (/dev/ublkb0) is in use by the file system mounted at /mnt; release it first: umount /mnt");
        insta::assert_snapshot!(sentence(&[one, other]), @"volume vol0 (/dev/ublkb0) is in use by the file system mounted at /mnt and volume vol1 (/dev/nbd0) is in use by LUKS volume safe (dm-0); release it first: umount /mnt; cryptsetup close safe");
    }

    #[test]
    fn a_device_that_is_gone_is_not_in_use() {
        let gone = Path::new("/dev/fullstripe-none");
        assert_eq!(users_of(gone), []);
        assert_eq!(in_use([("vol0", gone)].into_iter()), None);
    }

    #[test]
    fn a_device_that_cannot_be_opened_counts_as_in_use() {
        // No device can be claimed here; a file that is no device stands for what cannot be told.
        let odd = Path::new("/proc/self/mem/none");
        let used = in_use([("vol0", Path::new("/dev/fullstripe-none")), ("vol1", odd)].into_iter());
        let used = used.expect("it counts as used");
        assert!(
            used.starts_with("volume vol1 (/proc/self/mem/none) is in use by nobody knows what"),
            "{used}"
        );
    }
}
