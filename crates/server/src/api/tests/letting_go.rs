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

#[test]
fn a_drive_that_comes_back_under_another_path_is_known_by_its_serial() {
    let folder = TempDir::new().unwrap();
    let (served, paths) = on_files(&folder, Level::Raid5, 3);
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    served.post("/v1/members/d1.img/fail").unwrap();
    closes(&paths[1]);
    let elsewhere = folder.path().join("elsewhere.img");
    std::fs::rename(&paths[1], &elsewhere).unwrap();
    let spec = format!("{},serial=d1.img", elsewhere.display());
    let (code, sentence, _) = refusal(served.add_spare(&spec, true));
    let wanted = format!(
        "{} has the serial number d1.img of the failed drive {}; `fullstripe remove d1.img` first",
        elsewhere.display(),
        paths[1].display()
    );
    assert_eq!((code, sentence), (409, wanted));
    served.post("/v1/members/d1.img/remove").unwrap();
    served.add_spare(&spec, true).unwrap();
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
}

#[test]
fn another_drive_may_have_the_path_of_a_failed_one() {
    let folder = TempDir::new().unwrap();
    let (served, paths) = on_files(&folder, Level::Raid5, 3);
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    served.post("/v1/members/d1.img/fail").unwrap();
    closes(&paths[1]);
    let path = paths[1].display().to_string();
    // The failed drive itself is refused.
    let (code, sentence, protects) = refusal(served.add_spare(&path, true));
    assert_eq!((code, protects), (409, true), "{sentence}");
    assert!(
        sentence.contains("is in this array already (v:1, failed); `fullstripe remove "),
        "{sentence}"
    );
    std::fs::remove_file(&path).unwrap();
    let file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    drop(file);
    let other = format!("{path},serial=OTHER");
    assert_eq!(served.add_spare(&other, false).unwrap().member, Some(3));
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    // A drive in use is known by its path, whatever serial is given.
    let (_, sentence, protects) = refusal(served.add_spare(&format!("{path},serial=X"), true));
    assert!(protects, "{sentence}");
    assert!(
        sentence.contains("is in this array already (v:1, active)"),
        "{sentence}"
    );
    served.post("/v1/members/d1.img/remove").unwrap();
    assert_eq!(served.status().members[1].state, "removed");
}
