//! Runs a program that is given a text on its standard input, and ends it when it takes too long.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often it is checked whether a running call has ended; often at first, because most calls are short.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(2);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(50);
/// The longest text on standard input: less than a pipe holds, so that writing it never waits for the program.
const INPUT_BYTES_MAX: usize = 48 << 10;

/// A call of `sh -c` for a command of the operator.
#[must_use]
pub fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

/// Runs `command` with `input` on its standard input. What it prints goes to the standard error of this process. After
/// `at_most` it is killed, together with everything it started.
///
/// # Errors
/// It cannot be started, `input` is longer than 48 KiB, it ended with a failure (which is given), or it was killed.
pub fn run(mut command: Command, input: &[u8], at_most: Duration) -> Result<()> {
    if input.len() > INPUT_BYTES_MAX {
        bail!("its input of {} bytes is too long", input.len());
    }
    let name = command.get_program().display().to_string();
    let output = std::io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::from(output))
        // A process group of its own, so that everything it starts can be killed with it.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let_kernel_end(&child);
    if let Some(mut pipe) = child.stdin.take() {
        // This cannot block, even if the command does not read it; and it need not read it.
        let _ = pipe.write_all(input);
    }
    match wait(&mut child, at_most)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{status}"),
        None => bail!("killed, it took longer than {at_most:?}"),
    }
}

/// A server is never ended when memory runs out, and its children inherit that. A program of the operator is not so important.
fn let_kernel_end(child: &Child) {
    const USUAL: &str = "0";
    // Fails if the program has ended meanwhile.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), USUAL);
}

/// Waits for the end of `child`; `None` when it had to be killed.
fn wait(child: &mut Child, at_most: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + at_most;
    let mut pause = LOOK_EVERY_MIN;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            if let Ok(id) = i32::try_from(child.id())
                && let Some(group) = Pid::from_raw(id)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program reads its score only after it has been given its input.
    #[test]
    fn a_program_may_be_ended_when_memory_runs_out() {
        const OWN: &str = "/proc/self/oom_score_adj";
        std::fs::write(OWN, "1").expect("a score may be raised");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("score");
        let command = format!("read line; cat {OWN} > {}", file.display());
        run(shell(&command), b"go\n", Duration::from_secs(20)).unwrap();
        std::fs::write(OWN, "0").expect("the score it had");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "0\n");
    }
}
