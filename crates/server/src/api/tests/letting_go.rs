//! Drives that the array has stopped using are closed.

use super::*;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// How soon a drive that has failed is closed, on a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// An array on files of 64 MiB, and their paths.
fn on_files(folder: &TempDir, level: Level, count: usize) -> (Served, Vec<PathBuf>) {
    let path = |at| folder.path().join(format!("d{at}.img"));
    let paths: Vec<PathBuf> = (0..count).map(path).collect();
    for path in &paths {
        File::create(path).unwrap().set_len(64 << 20).unwrap();
    }
    let specs = paths.iter().map(|path| path.display().to_string());
    (Served::on(level, specs.collect()), paths)
}

/// Whether this process has a descriptor of the file, or a ring's table of files has the file.
fn is_open(path: &Path) -> bool {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_listed = targets.any(|target| target == path);
    // The server locks each file, and the lock ends with the last reference to the open file.
    let tried = File::open(path).unwrap();
    is_listed || flock(&tried, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[track_caller]
fn closes(path: &Path) {
    let deadline = Instant::now() + CLOSED_WITHIN;
    while is_open(path) {
        assert!(
            Instant::now() < deadline,
            "{} is still open",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_failed_drive_is_closed_and_can_come_back() {
    let folder = TempDir::new().unwrap();
    let (served, paths) = on_files(&folder, Level::Raid5, 3);
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    assert!(paths.iter().all(|path| is_open(path)));
    served.post("/v1/members/d1.img/fail").unwrap();
    closes(&paths[1]);
    assert!(is_open(&paths[0]) && is_open(&paths[2]));
    // It stays in the status, and is a drive like any other when it is added anew.
    assert_eq!(served.status().members[1].state, "failed");
    served.post("/v1/members/d1.img/remove").unwrap();
    let path = paths[1].display().to_string();
    assert_eq!(served.add_spare(&path, true).unwrap().member, Some(3));
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    assert!(is_open(&paths[1]));
}

#[test]
fn a_drive_with_which_a_volume_failed_is_closed_as_well() {
    let folder = TempDir::new().unwrap();
    let (served, paths) = on_files(&folder, Level::Raid0, 2);
    // The file gets shorter, which the watch notices.
    let file = File::options().write(true).open(&paths[1]).unwrap();
    file.set_len(1 << 20).unwrap();
    drop(file);
    served.wait_until("the failure", |status| status.volumes[0].state == "failed");
    closes(&paths[1]);
    assert!(is_open(&paths[0]));
    let status = served.status();
    assert_eq!(status.members[1].state, "failed");
}
