//! Opening a drive whose previous user has just ended.
//!
//! The kernel closes the files of an io_uring some time after its process has ended: when the last I/O is
//! complete and a worker has processed it. An array that is started again right after a stop or a crash therefore
//! finds its own drives busy. So a busy drive without a living user is waited for. A drive that a living process uses
//! is refused at once, and the error names the process, because the kernel only reports that the drive is busy.

use super::foreign::{Ends, holds_zfs};
use super::serving::serving;
use drives::drive::{Access, Drive, OpenError};
use drives::holders::{holders, lock_holders, openers, process_in_words};
use drives::spec::{MemberSpec, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take to close the drive. Usually it takes 30 ms, and a second was seen on a loaded
/// machine; an I/O that hangs keeps the drive open for longer.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// Opens a drive; if its user has just ended, waits until the kernel has closed it.
///
/// # Errors
/// See [`OpenError`].
pub fn open(spec: &MemberSpec, access: Access) -> Result<Drive, OpenError> {
    let deadline = Instant::now() + LET_GO_WITHIN;
    loop {
        match Drive::open(spec, access) {
            Err(OpenError::InUse { .. }) if Instant::now() < deadline && !has_user(spec) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other.map_err(|error| naming_users(error, spec)),
        }
    }
}

/// The other processes that are known to have opened one of the drives at `paths` exclusively: those that hold a lock
/// on it and, because nothing shows who has opened a block device, those that serve and name it on their command line.
pub fn users<'a>(paths: impl Iterator<Item = &'a Path>) -> BTreeSet<u32> {
    let serving = serving(Path::new("/proc"));
    let mut users = BTreeSet::new();
    for path in paths {
        users.extend(lock_holders(path));
        let named = serving.iter().filter(|one| one.names(path));
        users.extend(named.map(|one| one.pid));
    }
    users.remove(&std::process::id());
    users
}

/// The socket of the server that has opened the drive at `path`, if its command line names one.
#[must_use]
pub fn socket_of_server(path: &Path) -> Option<PathBuf> {
    let users = users(std::iter::once(path));
    let serving = serving(Path::new("/proc"));
    let of_user = serving.iter().filter(|one| users.contains(&one.pid));
    of_user.into_iter().find_map(|one| one.socket())
}

/// In words, who has opened the drive at `path` exclusively without being in a list of the kernel: processes, or ZFS if
/// its module is loaded and `drive` carries its labels. Root also learns of processes that only have the drive open,
/// because nothing shows whether that is exclusive. Empty if nobody is found.
#[must_use]
pub fn unlisted_users(path: &Path, drive: Option<&Drive>) -> Vec<String> {
    let by_lock_or_name = users(std::iter::once(path));
    let is_device = || drive.is_some_and(|drive| drive.block_device().is_some());
    let processes: Vec<u32> = match by_lock_or_name.is_empty() && is_device() {
        true => openers(Path::new("/proc"), path),
        false => by_lock_or_name.into_iter().collect(),
    };
    let is_zfs = || {
        let is_loaded = ZFS_IS_LOADED.iter().any(|path| Path::new(path).exists());
        let ends = drive.filter(|_| is_loaded).map(Ends::of);
        ends.is_some_and(|ends| ends.is_ok_and(|ends| holds_zfs(&ends)))
    };
    if processes.is_empty() && is_zfs() {
        return vec!["ZFS, whose labels it carries".to_owned()];
    }
    processes.into_iter().map(process_in_words).collect()
}

/// Folders that are there while ZFS's modules are loaded.
const ZFS_IS_LOADED: [&str; 2] = ["/sys/module/zfs", "/proc/spl"];

/// Adds to the error which processes use the drive, if the kernel does not say so.
fn naming_users(error: OpenError, spec: &MemberSpec) -> OpenError {
    match (error, &spec.target) {
        (OpenError::InUse { name, by }, Target::Path(path)) if holders(path).is_empty() => {
            let drive = Drive::open(spec, Access::ReadOnly).ok();
            let users = unlisted_users(path, drive.as_ref());
            let by = if users.is_empty() {
                by
            } else {
                users.join(", ")
            };
            OpenError::InUse { name, by }
        }
        (error, _) => error,
    }
}

/// Whether a process is known to use the drive.
fn has_user(spec: &MemberSpec) -> bool {
    match &spec.target {
        Target::Path(path) => !holders(path).is_empty() || !lock_holders(path).is_empty(),
        Target::Ram { .. } | Target::Null { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive() -> (tempfile::NamedTempFile, MemberSpec) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let spec = file.path().display().to_string().parse().unwrap();
        (file, spec)
    }

    #[test]
    fn a_drive_with_a_living_user_is_refused_at_once() {
        let (file, spec) = drive();
        assert!(!has_user(&spec));
        file.as_file().lock().unwrap();
        assert!(has_user(&spec));
        let started = Instant::now();
        let found = open(&spec, Access::Exclusive);
        assert!(matches!(found, Err(OpenError::InUse { .. })));
        assert!(
            started.elapsed() < LET_GO_WITHIN / 2,
            "the open waited for the drive to be released"
        );
        file.as_file().unlock().unwrap();
        assert!(open(&spec, Access::Exclusive).is_ok());
    }
}
