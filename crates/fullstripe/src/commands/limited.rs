//! Work with a time limit: a program that is killed at its end, or a thread that is left behind.
//!
//! A process or a thread that waits for a drive inside the kernel cannot be ended by anybody. Neither is waited for
//! longer than its limit.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, copy, sink};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The longest output that is kept.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the rest of the output may take once a program has ended.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// What a program printed, and how it ended.
pub struct Printed {
    pub status: ExitStatus,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

/// Runs a program; after `within` it is killed with everything that it started.
///
/// # Errors
/// It cannot be started, or did not end in time: the reason.
pub fn run(mut command: Command, within: Duration) -> Result<Printed, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let out = collected(child.stdout.take().expect("it is piped"));
    let err = collected(child.stderr.take().expect("it is piped"));
    let deadline = Instant::now() + within;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            Ok(None) => {
                if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                // The kernel may let it end much later, or not at all; this process does not wait for that.
                std::thread::sleep(LOOK_EVERY);
                let _ = child.try_wait();
                return Err(too_long(within));
            }
            Err(error) => return Err(format!("its end cannot be waited for: {error}")),
        }
    };
    let rest = |from: Receiver<Vec<u8>>| from.recv_timeout(REST_WITHIN).unwrap_or_default();
    Ok(Printed {
        status,
        out: rest(out),
        err: rest(err),
    })
}

fn too_long(within: Duration) -> String {
    format!("it took longer than {} s", within.as_secs_f32())
}

/// Everything that comes `from` a pipe, once it has ended; what exceeds the limit is dropped.
fn collected(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut from = from.take(OUTPUT_BYTES_MAX);
        let mut bytes = Vec::new();
        if from.read_to_end(&mut bytes).is_ok() {
            // The program goes on only while somebody reads.
            let _ = copy(&mut from.into_inner(), &mut sink());
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Calls `work` on a thread of its own.
///
/// # Errors
/// The error of `work`, or that it took too long.
pub fn call<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
    within: Duration,
) -> Result<T, String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver
        .recv_timeout(within)
        .unwrap_or_else(|_| Err(too_long(within)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str, within_ms: u64) -> Result<Printed, String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        run(shell, Duration::from_millis(within_ms))
    }

    #[test]
    fn what_a_program_prints_is_collected_and_one_that_hangs_is_killed() {
        let printed = shell("echo a; echo b >&2; exit 3", 20_000).unwrap();
        assert_eq!(printed.status.code(), Some(3));
        assert_eq!((&*printed.out, &*printed.err), (&b"a\n"[..], &b"b\n"[..]));
        let long = shell("head -c 20000000 /dev/zero", 20_000).unwrap();
        assert_eq!(long.out.len() as u64, OUTPUT_BYTES_MAX);
        let folder = tempfile::tempdir().unwrap();
        let survived = folder.path().join("survived");
        let begin = Instant::now();
        let hangs = format!("(sleep 1; touch {}) & wait", survived.display());
        let error = shell(&hangs, 100).err().unwrap();
        assert_eq!(error, "it took longer than 0.1 s");
        assert!(begin.elapsed() < Duration::from_millis(900));
        std::thread::sleep(Duration::from_millis(1300));
        assert!(!survived.exists(), "what it started goes on");
    }

    #[test]
    fn a_call_that_hangs_is_left_behind() {
        let quick = call(|| Ok(1), Duration::from_secs(20));
        assert_eq!(quick, Ok(1));
        let (_keep, never) = channel::<()>();
        let hangs = move || never.recv().map_err(|error| error.to_string());
        let left = call(hangs, Duration::from_millis(100));
        assert_eq!(left, Err("it took longer than 0.1 s".to_owned()));
    }
}
