//! Opening a drive whose last user has just ended.
//!
//! The kernel lets go of the files of an io_uring some time after its process is gone: when the last I/O is
//! done and a worker has come to it. An array that is started again at once, after a stop or a crash, meets
//! its own drives as busy. So a busy drive without a living user is waited for; one that has a living user
//! is refused at once, and named: the kernel says only that the drive is busy.

use super::serving::serving;
use drives::drive::{Access, Drive, OpenError};
use drives::holders::{holders, lock_holders, process_in_words};
use drives::spec::{MemberSpec, Target};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the kernel may take to let go. Usually it takes 30 ms, and a second was seen on a loaded
/// machine; an I/O that hangs holds a drive longer.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// Opens a drive; waits for one whose user has ended.
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

/// The other processes that are known to have one of the drives at `paths` open for themselves: who holds a lock on
/// it and, because nothing says who has a block device, who serves and names it.
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

/// Says which processes use the drive, where the kernel does not say who does.
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

/// Whether somebody is known to use the drive.
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
        assert!(started.elapsed() < LET_GO_WITHIN / 2, "it has waited");
        file.as_file().unlock().unwrap();
        assert!(open(&spec, Access::Exclusive).is_ok());
    }
}
