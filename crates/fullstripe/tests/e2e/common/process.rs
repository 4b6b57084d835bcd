//! Programs that have a time limit and never outlive the test that started them.

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Programs that tests call and the Debian packages they come in.
const PACKAGES: [(&str, &str); 22] = [
    ("blockdev", "util-linux"),
    ("fio", "fio"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("qemu-io", "qemu-utils"),
    ("qemu-img", "qemu-utils"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_repair", "xfsprogs"),
    ("sgdisk", "gdisk"),
    ("losetup", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("fusermount3", "fuse3"),
    ("openssl", "openssl"),
    ("setpriv", "util-linux"),
    ("sync", "coreutils"),
    ("tar", "tar"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
];

/// A command line of an installed program, which the kernel ends when the test ends.
///
/// # Panics
/// The program is missing; the message names its package.
pub fn tool(name: &str) -> Command {
    let found = find(name);
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    let package = package.map_or(name, |(_, package)| package);
    let path =
        found.unwrap_or_else(|| panic!("{name} is missing; apt-get install {package} brings it"));
    tied(&path)
}

/// A command line of the program at `path`, which the kernel ends when the thread that starts it ends.
pub fn tied(path: &Path) -> Command {
    let setpriv =
        find("setpriv").expect("setpriv is missing; apt-get install util-linux brings it");
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(path);
    command
}

/// Looks in `PATH` and in the administrators' folders, which a user's `PATH` may lack.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(more);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Said {
    /// The program and its arguments, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Said {
    /// Expects success.
    #[track_caller]
    pub fn ok(self) -> Said {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Expects a refusal: one sentence on standard error that contains `words`, and no panic.
    #[track_caller]
    pub fn refused(self, words: &str) -> Said {
        assert!(!self.status.success(), "not refused: {self}");
        assert!(self.err.contains(words), "\"{words}\" is missing: {self}");
        assert!(!self.err.contains("panicked"), "{self}");
        assert!(!self.err.contains("RUST_BACKTRACE"), "{self}");
        self
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Said {
            command, status, ..
        } = self;
        write!(
            out,
            "{command}: {status}\n{}\n{}",
            self.out.trim(),
            self.err.trim()
        )
    }
}

/// A program that is killed when this value is dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    command: String,
}

impl Guarded {
    /// Starts `command`.
    ///
    /// # Panics
    /// The program cannot be started.
    pub fn start(command: &mut Command) -> Guarded {
        let text = format!("{command:?}");
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        Guarded {
            child,
            command: text,
        }
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends `signal`; a process that has ended already is fine.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until all threads of the program have stopped after [`Signal::STOP`].
    ///
    /// # Panics
    /// They have not stopped within ten seconds.
    #[track_caller]
    pub fn wait_stopped(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state is the first word behind the name, which is in parentheses.
            stat.rsplit(") ")
                .next()
                .is_none_or(|rest| rest.starts_with('T'))
        };
        let all_stopped = || {
            let tasks = std::fs::read_dir(&tasks).into_iter().flatten();
            tasks.flatten().all(is_stopped)
        };
        while !all_stopped() {
            assert!(Instant::now() < deadline, "{} does not stop", self.command);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the program ends.
    ///
    /// # Panics
    /// It does not end `within` this time.
    #[track_caller]
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => panic!("{} did not end within {within:?}", self.command),
                Err(error) => panic!("{}: {error}", self.command),
            }
        }
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs `command` to its end, which has to come within `seconds`.
#[track_caller]
pub fn run(command: &mut Command, seconds: u64) -> Said {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut guarded = Guarded::start(command);
    let out = collect(guarded.child.stdout.take().expect("it is piped"));
    let err = collect(guarded.child.stderr.take().expect("it is piped"));
    let status = guarded.wait(Duration::from_secs(seconds));
    let text = |thread: JoinHandle<String>| thread.join().expect("the reader does not panic");
    Said {
        command: guarded.command.clone(),
        status,
        out: text(out),
        err: text(err),
    }
}
