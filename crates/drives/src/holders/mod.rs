//! Finds out what else uses a drive or file, and says it in words.
//!
//! `O_EXCL` only reports "busy". The kernel's lists say who is the user: sysfs (the module `kernel`: md, device mapper,
//! bcache, btrfs), mounts, swap, and loop devices on a file. Users of partitions count as users of their drive. A process
//! that has opened a block device exclusively is in none of these lists; [`openers`] finds it by its descriptors, if the
//! caller may look at them.

mod kernel;
mod processes;

pub use processes::{lock_holders, openers, process_in_words};

use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A user of a drive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// Who it is: `Linux md array md127`, `the file system mounted at /home`.
    pub who: String,
    /// What makes it let go of the drive: a command, or an order in words.
    pub release: String,
}

impl Holder {
    /// See the fields.
    #[must_use]
    pub fn new(who: impl Into<String>, release: impl Into<String>) -> Holder {
        Holder {
            who: who.into(),
            release: release.into(),
        }
    }
}

/// The users that [`users`] finds, in words.
#[must_use]
pub fn holders(path: &Path) -> Vec<String> {
    users(path).into_iter().map(|user| user.who).collect()
}

/// All known users of the block device or file at `path`, including those of its partitions. Empty if there is none, or
/// if none can be found out.
#[must_use]
pub fn users(path: &Path) -> Vec<Holder> {
    let Ok(stat) = rustix::fs::stat(path) else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        let number = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        for (part, folder) in with_partitions(number) {
            found.extend(kernel::users(Path::new("/"), &folder));
            found.extend(mounts(part));
        }
        found.extend(swaps(path, &with_partitions(number)));
    } else {
        found.extend(loop_devices(path));
        found.extend(swaps(path, &[]));
    }
    found.into_iter().collect()
}

type Number = (u32, u32);

/// The device and its partitions, with their folders in sysfs.
fn with_partitions(number: Number) -> Vec<(Number, PathBuf)> {
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
    let mut all = vec![(number, folder.clone())];
    for child in partitions(&folder) {
        if let Ok(text) = fs::read_to_string(child.join("dev"))
            && let Some(part) = parse_number(text.trim())
        {
            all.push((part, child));
        }
    }
    all
}

/// The folders of the partitions that the kernel shows of the device with this folder in sysfs.
#[must_use]
pub fn partitions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path());
    folders
        .filter(|folder| folder.join("partition").exists())
        .collect()
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn mounts(number: Number) -> Vec<Holder> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts_in(&table, number, |source| device_number(Path::new(source)))
}

/// Lines of mountinfo: `36 35 98:0 /root /mnt opts … - ext4 /dev/sda1 superopts`. File systems on several devices show
/// an anonymous number, so the source is compared too.
fn mounts_in(
    table: &str,
    number: Number,
    number_of: impl Fn(&str) -> Option<Number>,
) -> Vec<Holder> {
    let mut found = Vec::new();
    for line in table.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let fields: Vec<&str> = left.split(' ').collect();
        let (Some(shown), Some(place)) = (fields.get(2), fields.get(4)) else {
            continue;
        };
        let source = right.split(' ').nth(1).unwrap_or_default();
        let named = || source.starts_with('/') && number_of(source) == Some(number);
        if parse_number(shown) == Some(number) || named() {
            let place = unescape(place);
            found.push(Holder::new(
                format!("the file system mounted at {place}"),
                format!("umount {place}"),
            ));
        }
    }
    found
}

/// Mount tables write white space as octal, like `\040`.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\');
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn device_number(path: &Path) -> Option<Number> {
    let stat = rustix::fs::stat(path).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice).then(|| {
        (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        )
    })
}

fn swaps(path: &Path, parts: &[(Number, PathBuf)]) -> Vec<Holder> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| PathBuf::from(unescape(name)))
        .filter(|swap| {
            let number = device_number(swap);
            *swap == canonical || parts.iter().any(|(part, _)| Some(*part) == number)
        })
        .map(|swap| {
            let swap = swap.display();
            Holder::new(format!("swap on {swap}"), format!("swapoff {swap}"))
        })
        .collect()
}

fn loop_devices(path: &Path) -> Vec<Holder> {
    let Ok(canonical) = path.canonicalize() else {
        return Vec::new();
    };
    fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file"))
                .is_ok_and(|file| Path::new(file.trim_end_matches('\n')) == canonical)
        })
        .map(|entry| {
            let device = format!("/dev/{}", entry.file_name().to_string_lossy());
            let detach = format!("losetup --detach {device}");
            Holder::new(format!("loop device {device}"), detach)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 98:0 / / rw,relatime - ext4 /dev/ubda rw
31 22 0:40 / /data\\040disk rw - btrfs /dev/sdb rw
32 22 0:41 / /proc rw - proc proc rw
broken line
";

    #[test]
    fn partitions_are_those_that_the_kernel_shows() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("queue")).unwrap();
        assert!(partitions(folder.path()).is_empty());
        let part = folder.path().join("nvme0n1p1");
        std::fs::create_dir(&part).unwrap();
        std::fs::write(part.join("partition"), "1").unwrap();
        assert_eq!(partitions(folder.path()), [part]);
    }

    #[test]
    fn mounts_are_found_by_number_and_by_source() {
        let number_of = |source: &str| (source == "/dev/sdb").then_some((8, 16));
        let root = Holder::new("the file system mounted at /", "umount /");
        assert_eq!(mounts_in(TABLE, (98, 0), number_of), [root]);
        let data = Holder::new("the file system mounted at /data disk", "umount /data disk");
        assert_eq!(mounts_in(TABLE, (8, 16), number_of), [data]);
        assert!(mounts_in(TABLE, (8, 17), number_of).is_empty());
    }

    #[test]
    fn octal_escapes() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape("/end\\04"), "/end\\04");
    }

    #[test]
    fn a_fresh_file_is_nobodys() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(holders(file.path()).is_empty());
        assert!(holders(Path::new("/nonexistent/drive")).is_empty());
    }

    #[test]
    fn the_device_under_the_root_file_system_is_claimed() {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let source = table.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let source = right.split(' ').nth(1)?;
            (left.split(' ').nth(4)? == "/" && device_number(Path::new(source)).is_some())
                .then(|| source.to_owned())
        });
        match source {
            Some(source) => {
                let found = holders(Path::new(&source));
                assert!(
                    found.iter().any(|who| who.contains("mounted at /")),
                    "{found:?}"
                );
            }
            None => println!("skipped: the root file system is on no visible block device"),
        }
    }
}
