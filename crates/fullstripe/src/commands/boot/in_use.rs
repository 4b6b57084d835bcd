//! Answers whether a block device of fullstripe is in use, and by whom. `stop` asks this, and the script that removes a package,
//! before a server is stopped: whatever uses a device whose server has ended waits until the next server of that array, which a
//! removed program cannot start.
//!
//! For the package, devices are found by what their servers wrote about them ([`exports::names`]), so those of servers that were started by hand
//! are among them, and those that wait for their next server.

use anyhow::Result;
use container::refusal::refused;
use drives::holders::{Holder, openers, process_in_words, users};
use exports::names::given;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// Refuses if any of the devices is mounted, or something has claimed it.
///
/// # Errors
/// A refusal that names each device that is in use, its users, and how they release it; or the devices cannot be found out.
pub fn refuse_used() -> Result<()> {
    let devices = given()?;
    let named = devices
        .iter()
        .map(|device| (device.volume.as_str(), device.node.as_path()));
    refusal(named).map_or(Ok(()), |sentence| Err(refused(sentence)))
}

/// Which of these volumes' devices are in use, by whom, and how they release it: a sentence. `None` if none of them is.
pub fn refusal<'a>(devices: impl Iterator<Item = (&'a str, &'a Path)>) -> Option<String> {
    let used = used(devices);
    (!used.is_empty()).then(|| sentence(&used))
}

/// Which of these volumes' devices are in use, and by whom: part of a sentence. `None` if none of them is.
pub(in crate::commands) fn in_use<'a>(
    devices: impl Iterator<Item = (&'a str, &'a Path)>,
) -> Option<String> {
    let uses: Vec<String> = used(devices).iter().map(Used::in_words).collect();
    (!uses.is_empty()).then(|| words::and(&uses))
}

/// A volume's device that is in use.
struct Used<'a> {
    volume: &'a str,
    node: &'a Path,
    users: Vec<Holder>,
}

fn used<'a>(devices: impl Iterator<Item = (&'a str, &'a Path)>) -> Vec<Used<'a>> {
    let looked_at = devices.map(|(volume, node)| Used {
        volume,
        node,
        users: users_of(node),
    });
    looked_at.filter(|one| !one.users.is_empty()).collect()
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

impl Used<'_> {
    fn in_words(&self) -> String {
        let who: Vec<&str> = self.users.iter().map(|user| user.who.as_str()).collect();
        let (volume, node) = (self.volume, self.node.display());
        format!("volume {volume} ({node}) is in use by {}", words::and(&who))
    }
}

/// What uses which device, and what releases them.
fn sentence(used: &[Used]) -> String {
    let uses: Vec<String> = used.iter().map(Used::in_words).collect();
    let users = used.iter().flat_map(|one| &one.users);
    let releases: Vec<&str> = users.map(|user| user.release.as_str()).collect();
    format!(
        "{}; release it first: {}",
        words::and(&uses),
        releases.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_is_named_with_what_releases_the_device() {
        let mounted = Holder::new("the file system mounted at /mnt", "umount /mnt");
        let mapped = Holder::new("LUKS volume safe (dm-0)", "cryptsetup close safe");
        let one = || Used {
            volume: "vol0",
            node: Path::new("/dev/ublkb0"),
            users: vec![mounted.clone()],
        };
        let other = Used {
            volume: "vol1",
            node: Path::new("/dev/nbd0"),
            users: vec![mapped],
        };
        insta::assert_snapshot!(sentence(&[one()]), @"volume vol0 (/dev/ublkb0) is in use by the file system mounted at /mnt; release it first: umount /mnt");
        insta::assert_snapshot!(sentence(&[one(), other]), @"volume vol0 (/dev/ublkb0) is in use by the file system mounted at /mnt and volume vol1 (/dev/nbd0) is in use by LUKS volume safe (dm-0); release it first: umount /mnt; cryptsetup close safe");
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
