//! Runs programs in the demonstration's folder: this very binary, fio, mdadm and small tools.
//!
//! Each gets a process group of its own, so that Ctrl-C on the terminal reaches only the demonstration, which then ends
//! everything in order ([`super::guard`]). The output of programs goes to files in the folder `log`; if a step fails,
//! the last lines are read from there.

use super::guard::Guard;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a running program is polled.
const LOOK: Duration = Duration::from_millis(5);
/// The folder with what programs print.
const LOG: &str = "log";
/// Where administrators' programs lie, which is not in every user's search path.
const MORE_PATHS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Starts programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// Every started program is registered here.
    pub guard: Guard,
    /// The folder in which programs run, to which paths are relative.
    pub folder: PathBuf,
    fullstripe: PathBuf,
}

/// What a program printed and how it ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// The command line, with `fullstripe` for this binary.
    pub line: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Everything that helps to find the cause of a failure.
    pub fn evidence(&self) -> String {
        let mut text = format!("$ {}\n{}", self.line, self.status);
        for part in [&self.stdout, &self.stderr] {
            if !part.trim().is_empty() {
                text += &format!("\n{}", part.trim_end());
            }
        }
        text
    }
}

impl Programs {
    /// A starter for programs that run in `folder`.
    ///
    /// # Errors
    /// The folder for logs cannot be made, or this binary cannot be found.
    pub fn new(guard: Guard, folder: &Path) -> Result<Programs> {
        let log = folder.join(LOG);
        std::fs::create_dir(&log).with_context(|| format!("cannot make {}", log.display()))?;
        Ok(Programs {
            guard,
            folder: folder.to_owned(),
            fullstripe: std::env::current_exe().context("cannot find this program's own file")?,
        })
    }

    /// The path of the log `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(LOG).join(name)
    }

    /// The content of a log; empty if there is none.
    pub fn read_log(&self, name: &str) -> String {
        let bytes = std::fs::read(self.log(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Starts the program and arguments of `words`; it prints to `name`.out and `name`.err.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, name: &str, words: &[&str]) -> Result<Running> {
        self.guard.check()?;
        let (program, arguments) = words
            .split_first()
            .context("there is no program to start")?;
        let path = match *program {
            "fullstripe" => self.fullstripe.clone(),
            other => find(other).with_context(|| format!("{other} is not installed"))?,
        };
        let file = |ending: &str| {
            let path = self.log(&format!("{name}.{ending}"));
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))
        };
        let child = Command::new(path)
            .args(arguments)
            .current_dir(&self.folder)
            .env("FULLSTRIPE_SOCKET", self.folder.join("api.sock"))
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("XDG_CACHE_HOME", self.folder.join("cache"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let leader = Pid::from_child(&child);
        self.guard.add_group(leader);
        Ok(Running {
            programs: self.clone(),
            child,
            leader,
            name: name.to_owned(),
            line: words.join(" "),
            status: None,
        })
    }

    /// Runs the program and arguments of `words` to their end, at most for `within`.
    ///
    /// # Errors
    /// It cannot be started or does not end in time, or a signal came.
    pub fn run(&self, name: &str, words: &[&str], within: Duration) -> Result<Ended> {
        self.start(name, words)?.finish(within, || Ok(()))
    }
}

/// The path of an installed program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE_PATHS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// A started program; it is ended when dropped.
#[derive(Debug)]
pub(super) struct Running {
    programs: Programs,
    child: Child,
    leader: Pid,
    name: String,
    line: String,
    status: Option<ExitStatus>,
}

impl Running {
    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system cannot report it.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let reap = || self.child.try_wait().transpose();
            let status = self.programs.guard.reap_group(self.leader, reap);
            self.status = status
                .transpose()
                .with_context(|| format!("cannot wait for {}", self.line))?;
        }
        Ok(self.status)
    }

    /// Waits for its end, at most for `within`, and calls `meanwhile` again and again.
    ///
    /// # Errors
    /// It does not end in time, `meanwhile` fails, or a signal came.
    pub fn finish(
        mut self,
        within: Duration,
        mut meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<Ended> {
        let deadline = Instant::now() + within;
        let status = loop {
            let status = self.poll()?;
            self.programs.guard.check()?;
            if let Some(status) = status {
                break status;
            }
            if Instant::now() > deadline {
                bail!(
                    "`{}` has not ended within {} s\n{}",
                    self.line,
                    within.as_secs(),
                    self.printed()
                );
            }
            meanwhile()?;
            std::thread::sleep(LOOK);
        };
        Ok(Ended {
            line: self.line.clone(),
            status,
            stdout: self.programs.read_log(&format!("{}.out", self.name)),
            stderr: self.programs.read_log(&format!("{}.err", self.name)),
        })
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        let log = |ending| self.programs.read_log(&format!("{}.{ending}", self.name));
        format!("{}{}", log("out"), log("err"))
    }

    /// Sends a signal to it and all it has started.
    pub fn signal(&mut self, signal: Signal) {
        let leader = self.leader;
        // Done under the guard's lock: the process number is valid until the process has been waited for.
        if self.status.is_none() {
            self.programs.guard.reap_group::<()>(leader, || {
                let _ = kill_process_group(leader, signal);
                None
            });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.poll(), Ok(None)) {
            self.signal(Signal::KILL);
            let child = &mut self.child;
            self.programs
                .guard
                .reap_group(self.leader, || child.wait().ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> (Programs, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::new(Guard::default(), folder.path()).unwrap();
        (programs, folder)
    }

    #[test]
    fn a_program_is_run_in_the_folder_and_its_output_kept() {
        let (programs, folder) = programs();
        let words = ["sh", "-c", "pwd; echo oops >&2; exit 3"];
        let ended = programs
            .run("shell", &words, Duration::from_secs(20))
            .unwrap();
        assert_eq!(ended.status.code(), Some(3));
        let there = std::fs::canonicalize(folder.path()).unwrap();
        assert_eq!(Path::new(ended.stdout.trim()), there);
        assert!(
            ended.evidence().ends_with("oops"),
            "evidence: {}",
            ended.evidence()
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let (programs, _folder) = programs();
        let words = ["sh", "-c", "echo started; sleep 60"];
        let error = programs
            .run("slow", &words, Duration::from_millis(300))
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("has not ended within"), "{text}");
        assert!(text.ends_with("started\n"), "{text}");
    }

    #[test]
    fn programs_that_are_missing_are_named() {
        let (programs, _folder) = programs();
        let error = programs.start("none", &["no-such-program"]).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not installed");
        assert!(find("sh").is_some());
    }
}
