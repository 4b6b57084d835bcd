//! Opening a drive whose previous user has just ended.
//!
//! The kernel closes the files of an io_uring some time after its process has ended: when the last I/O is
//! complete and a worker has processed it. An array that is started again right after a stop or a crash therefore
//! finds its own drives busy. So a busy drive without a living user is waited for. A drive that a living process uses
//! is refused at once, and the error names the process, because the kernel only reports that the drive is busy.

use super::serving::serving;
use drives::drive::{Access, Drive, OpenError};
use drives::holders::{holders, lock_holders, process_in_words};
use drives::spec::{MemberSpec, Target};
use std::collections::BTreeSet;
use std::path::Path;
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

/// Adds to the error which processes use the drive, if the kernel does not say so.
fn naming_users(error: OpenError, spec: &MemberSpec) -> OpenError {
    match (error, &spec.target) {
        (OpenError::InUse { name, by }, Target::Path(path)) if holders(path).is_empty() => {
            let users = users(std::iter::once(path.as_path()));
            let users: Vec<String> = users.into_iter().map(process_in_words).collect();
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
