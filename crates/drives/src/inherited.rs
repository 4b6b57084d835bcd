//! Descriptors that this process was started with, because a service manager has kept them for it: see sd_listen_fds(3).
//!
//! The manager says how many there are (`LISTEN_FDS`), what they are called (`LISTEN_FDNAMES`), and for which process this
//! holds (`LISTEN_PID`), so that programs which inherit the environment do not take it for theirs.

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::env;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of them; those before are standard input, output and error.
const FIRST: RawFd = 3;
/// More than this service manager's store holds for one service.
const COUNT_MAX: usize = 16 << 10;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The descriptors with their names, and none the second time. They are closed when another program is run. To be called
/// before the process opens anything.
#[must_use]
pub fn descriptors() -> Vec<(String, OwnedFd)> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Vec::new();
    }
    let of = |name| env::var(name).ok();
    let names = announced(
        std::process::id(),
        of("LISTEN_PID"),
        of("LISTEN_FDS"),
        of("LISTEN_FDNAMES"),
    );
    (FIRST..)
        .zip(names)
        .filter_map(|(number, name)| Some((name, take(number)?)))
        .collect()
}

/// The names of the descriptors that are for the process `pid`.
fn announced(
    pid: u32,
    for_whom: Option<String>,
    count: Option<String>,
    names: Option<String>,
) -> Vec<String> {
    let is_ours = for_whom.is_some_and(|said| said.parse() == Ok(pid));
    let count: usize = count.and_then(|said| said.parse().ok()).unwrap_or(0);
    if !is_ours || count > COUNT_MAX {
        return Vec::new();
    }
    let names = names.unwrap_or_default();
    let named = names.split(':').map(str::to_owned);
    named
        .chain(std::iter::repeat(String::new()))
        .take(count)
        .collect()
}

fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the borrow ends with this function. A number that is not open is an error of the call, not a danger.
    let is_open = fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
    if !is_open {
        return None;
    }
    // SAFETY: the descriptor is open, the process that started this one has left it to it, and `TAKEN` sees to it that
    // nobody takes it twice.
    let taken = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&taken, FdFlags::CLOEXEC).ok()?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pid: &str, count: &str, names: &str) -> Vec<String> {
        let some = |text: &str| Some(text.to_owned());
        announced(7, some(pid), some(count), some(names))
    }

    #[test]
    fn only_this_process_takes_what_is_announced() {
        assert_eq!(said("7", "2", "one:two"), ["one", "two"]);
        assert_eq!(said("7", "3", "one"), ["one", "", ""]);
        assert_eq!(said("7", "1", "one:two"), ["one"]);
        for (pid, count) in [
            ("8", "1"),
            ("", "1"),
            ("7", ""),
            ("7", "-1"),
            ("7", "99999"),
        ] {
            assert!(said(pid, count, "one").is_empty(), "{pid} {count}");
        }
        assert!(announced(7, None, Some("1".to_owned()), None).is_empty());
    }
}
