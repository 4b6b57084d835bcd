//! A process that was killed and has not ended, because a drive does not answer it.
//!
//! The kernel ends a process only once the process's requests to drives have ended. Until then the process keeps its drives, its
//! block devices and its sockets, and no other can have them: whoever finds such a process is told which drive it is.

use rustix::fs::{FileType, major, minor};
use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::{Path, PathBuf};

/// Block devices that a server makes of volumes. Requests that wait there are those of its clients.
const OWN_DEVICES: [&str; 2] = ["nbd", "ublkb"];

/// Why a process that was killed has not ended, in one sentence. `None` if it was not killed, has ended, or cannot be looked at.
#[must_use]
pub fn why_not_ended(process: i32) -> Option<String> {
    let place = PathBuf::from(format!("/proc/{process}"));
    is_killed(&place).then(|| in_words(process, &silent_drives(&place)))
}

/// Whether the first thread of a process has ended, and others have not.
fn is_killed(process: &Path) -> bool {
    let status = read_to_string(process.join("status")).unwrap_or_default();
    let threads = read_dir(process.join("task")).map_or(0, Iterator::count);
    status.lines().any(|line| line.starts_with("State:\tZ")) && threads > 1
}

/// The drives that a process has open and that have requests to answer, by the paths under which they were opened.
fn silent_drives(process: &Path) -> BTreeSet<String> {
    let entries = |folder: PathBuf| read_dir(folder).into_iter().flatten().flatten();
    let threads = entries(process.join("task"));
    let files = threads.flat_map(|thread| entries(thread.path().join("fd")));
    let paths = files.filter_map(|file| read_link(file.path()).ok());
    let silent = paths.filter(|path| device_of(path).is_some_and(|device| is_silent(&device)));
    silent.map(|path| path.display().to_string()).collect()
}

/// Where the kernel tells of a block device that is not of a server's own making.
fn device_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    if OWN_DEVICES.iter().any(|own| name.starts_with(own)) {
        return None;
    }
    let stat = rustix::fs::stat(path).ok()?;
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
    is_block.then(|| PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
}

/// Whether a device has requests to answer, or is one of the device mapper that keeps them back.
fn is_silent(device: &Path) -> bool {
    let text = |name| read_to_string(device.join(name)).unwrap_or_default();
    let under_way = text("inflight");
    let mut under_way = under_way.split_whitespace();
    under_way.any(|count| count != "0") || text("dm/suspended").trim() == "1"
}

fn in_words(process: i32, drives: &BTreeSet<String>) -> String {
    let drives = match drives.len() {
        0 => "a drive".to_owned(),
        _ => drives.iter().cloned().collect::<Vec<_>>().join(" and "),
    };
    format!(
        "process {process} was killed and has not ended, because the kernel waits for {drives} to answer it; try again when that has \
         happened or the drive is removed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_process_is_held_whose_first_thread_alone_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let process = |name: &str, state: &str, threads: &[&str]| {
            let place = folder.path().join(name);
            write(
                place.join("status"),
                &format!("Name:\tserve\nState:\t{state}\n"),
            );
            for thread in threads {
                std::fs::create_dir_all(place.join("task").join(thread)).unwrap();
            }
            is_killed(&place)
        };
        assert!(process("1", "Z (zombie)", &["1", "2"]));
        assert!(
            !process("3", "Z (zombie)", &["3"]),
            "it only waits for its parent"
        );
        assert!(!process("4", "S (sleeping)", &["4", "5"]));
        assert!(!is_killed(&folder.path().join("6")));
        assert_eq!(why_not_ended(std::process::id().cast_signed()), None);
    }

    #[test]
    fn a_drive_is_silent_that_has_requests_or_keeps_them_back() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, inflight: &str, suspended: Option<&str>| {
            let place = folder.path().join(name);
            write(place.join("inflight"), inflight);
            if let Some(suspended) = suspended {
                write(place.join("dm/suspended"), suspended);
            }
            is_silent(&place)
        };
        assert!(device("8:0", "       0        3\n", None));
        assert!(!device("8:16", "       0        0\n", None));
        assert!(device("253:0", "       0        0\n", Some("1\n")));
        assert!(!device("253:1", "       0        0\n", Some("0\n")));
        assert_eq!(device_of(Path::new("/dev/ublkb0")), None);
        assert_eq!(device_of(Path::new("/dev/null")), None);
    }

    #[test]
    fn the_drives_are_named() {
        let words =
            |drives: &[&str]| in_words(7, &drives.iter().map(|&drive| drive.to_owned()).collect());
        let wanted = "process 7 was killed and has not ended, because the kernel waits for /dev/nvme3n1 to answer it; try again when that has \
             happened or the drive is removed";
        assert_eq!(words(&["/dev/nvme3n1"]), wanted);
        assert!(words(&[]).contains("waits for a drive to answer"));
        assert!(words(&["/dev/a", "/dev/b"]).contains("waits for /dev/a and /dev/b to answer"));
    }
}
