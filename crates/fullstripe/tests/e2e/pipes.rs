//! The reader of a command's output may stop reading, as `| head -1` does. The command then ends as if all had been
//! read, and reports nothing about it.

use std::process::{Command, Output, Stdio};

/// The binary with the words of `line`, in an empty folder.
fn fullstripe(line: &str) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command
        .args(["120", env!("CARGO_BIN_EXE_fullstripe")])
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .stdin(Stdio::null());
    (command, folder)
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_of_the_output_who_stops_reading_is_no_failure() {
    for line in [
        "--help",
        "bench --help",
        "--version",
        "plan --drive p4510-2tb --platform s2600wft-6154-x8 --level 0 --op read --threads 1 --qd 4 --json",
        "claims --only S",
        "doctor --json",
        "completions bash",
        "sim faults --seeds 1..2",
        "bench --level 5 --count 3 --member ram:32m --time 200ms",
        "bench --level 5 --count 3 --member ram:32m --time 200ms --json",
    ] {
        let read = fullstripe(line).0.output().unwrap();
        assert!(read.status.success(), "{line}: {read:?}");
        assert!(!read.stdout.is_empty(), "{line} prints nothing");
        let (mut command, _folder) = fullstripe(line);
        let Output { status, stderr, .. } = command.stdout(closed_pipe()).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{line}: {status}, {said}");
        // Progress may be printed, since on a slow machine the work takes long enough for that.
        let is_progress = |said: &&str| said.contains(" UTC  points: ");
        let said: Vec<&str> = said.lines().filter(|said| !is_progress(said)).collect();
        assert!(said.is_empty(), "{line}: {said:?}");
    }
}

#[test]
fn a_failure_that_nobody_reads_of_keeps_its_exit_code() {
    for (line, code) in [
        ("examine no-such.img", 1),
        ("examine no-such.img --json", 1),
        ("no-such-command", 2),
        ("examine --no-such-option --json", 2),
    ] {
        let (mut command, _folder) = fullstripe(line);
        let status = command.stderr(closed_pipe()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}
