//! Processes that use a drive or file.

use super::device_number;
use std::fs;
use std::path::Path;

/// The ids of running processes that hold a lock on the file at `path`.
#[must_use]
pub fn lock_holders(path: &Path) -> Vec<u32> {
    let Ok(stat) = rustix::fs::stat(path) else {
        return Vec::new();
    };
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let lives = |process: &u32| Path::new("/proc").join(process.to_string()).exists();
    locks
        .lines()
        .filter_map(|line| holder(line, &place))
        .filter(lives)
        .collect()
}

/// The ids of processes below `proc` that have opened the file or device at `path`; without this one. Descriptors of
/// other users' processes are visible to root only.
#[must_use]
pub fn openers(proc: &Path, path: &Path) -> Vec<u32> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let number = device_number(&path);
    let is_same = |target: &Path| {
        let is_device = || target.starts_with("/dev") && device_number(target) == number;
        target == path || (number.is_some() && is_device())
    };
    let has_open = |process: &u32| {
        let folder = proc.join(process.to_string()).join("fd");
        let mut descriptors = fs::read_dir(folder).into_iter().flatten().flatten();
        descriptors.any(|entry| fs::read_link(entry.path()).is_ok_and(|target| is_same(&target)))
    };
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut found: Vec<u32> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&process| process != std::process::id())
        .filter(has_open)
        .collect();
    found.sort_unstable();
    found
}

/// The process in a line of /proc/locks, if the line is about the file at `place`:
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF`. Lines with an arrow after the number are about processes that wait
/// for a lock. A process that has ended is listed until its files are closed.
fn holder(line: &str, place: &str) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(4);
    let process = fields.next()?;
    (fields.next()? == place).then(|| process.parse().ok())?
}

/// A process in words: `process 708 (fullstripe serve d0.img d1.img)`.
#[must_use]
pub fn process_in_words(process: u32) -> String {
    const LENGTH_MAX: usize = 60;
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let (program, words) = line
        .trim_end()
        .split_once(' ')
        .unwrap_or((line.trim_end(), ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let line = format!("{program} {words}");
    let line = line.trim_end();
    let short: String = line.chars().take(LENGTH_MAX).collect();
    match (short.is_empty(), short.len() < line.len()) {
        (true, _) => format!("process {process}"),
        (false, true) => format!("process {process} ({short} …)"),
        (false, false) => format!("process {process} ({short})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_have_a_drive_open_are_found_by_their_descriptors() {
        let proc = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        for (process, target) in [(u32::MAX, &*path), (7, Path::new("/dev/null"))] {
            let folder = proc.path().join(process.to_string()).join("fd");
            fs::create_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink(target, folder.join("3")).unwrap();
        }
        fs::create_dir_all(proc.path().join("self/fd")).unwrap();
        assert_eq!(openers(proc.path(), &path), [u32::MAX]);
        assert!(openers(proc.path(), Path::new("/nonexistent/drive")).is_empty());
    }

    #[test]
    fn holders_are_told_from_those_who_wait() {
        let place = "fe:00:1234";
        let line = "1: FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF";
        assert_eq!(holder(line, place), Some(708));
        assert_eq!(holder(line, "fe:00:123"), None);
        let waits = "1: -> FLOCK  ADVISORY  WRITE 709 fe:00:1234 0 EOF";
        assert_eq!(holder(waits, place), None);
        assert_eq!(holder("", place), None);
    }

    #[test]
    fn a_process_is_named_with_what_it_was_started_with() {
        let own = std::process::id();
        let program = std::env::args().next().unwrap();
        let start: String = program
            .rsplit('/')
            .next()
            .unwrap()
            .chars()
            .take(40)
            .collect();
        let words = process_in_words(own);
        assert!(
            words.starts_with(&format!("process {own} ({start}")),
            "{words}"
        );
        assert!(words.ends_with(')'), "{words}");
        assert_eq!(process_in_words(u32::MAX), format!("process {}", u32::MAX));
    }
}
