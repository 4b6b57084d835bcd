//! The mounted file system, as a test holds it.

use crate::faults::{CutAt, Fault};
use crate::files::Files;
use crate::journal::Entry;
use crate::media::Loss;
use crate::state::State;
use fuser::{Config, MountOption, Session};
use repeatable::random::Stream;
use rustix::mount::{UnmountFlags, unmount};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How the file system behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a write that the kernel flags `O_DSYNC` is durable when it is answered. Many FUSE file systems ignore
    /// that flag.
    pub heeds_dsync: bool,
    /// How often an answer is held back until later operations have come: `times` in `of`; (0, 1) for never.
    pub held: (u64, u64),
    /// Seed for drawing which answers are held back.
    pub seed: u64,
    /// The journal keeps the data of writes that end within this many bytes of the end of a file.
    pub kept_bytes: u64,
    /// Whether the journal keeps reads.
    pub keeps_reads: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            heeds_dsync: false,
            held: (0, 1),
            seed: 0,
            kept_bytes: 0,
            keeps_reads: false,
        }
    }
}

/// Why the file system cannot be mounted; one sentence.
#[derive(Debug)]
pub struct MountError(String);

impl fmt::Display for MountError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for MountError {}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub changed: Condvar,
}

impl Shared {
    pub fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the crate's documentation. Dropping this value unmounts the file system.
pub struct FaultFs {
    place: PathBuf,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<std::io::Result<()>>>,
    releasing: Option<JoinHandle<()>>,
    ended: Arc<Mutex<bool>>,
}

impl FaultFs {
    /// Mounts files of these names and sizes, all zeros, in the folder `place`, which is created if needed.
    ///
    /// # Errors
    ///
    /// If there is no `/dev/fuse`, or this process may not mount.
    pub fn mount(
        place: &Path,
        files: &[(&str, u64)],
        options: Options,
    ) -> Result<FaultFs, MountError> {
        let because = |what: &str, error: &dyn fmt::Display| {
            let place = place.display();
            MountError(format!(
                "{what} {place}: {error}; it takes root and /dev/fuse"
            ))
        };
        if let Err(error) = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
        {
            return Err(because("cannot open /dev/fuse to mount", &error));
        }
        std::fs::create_dir_all(place).map_err(|error| because("cannot make", &error))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(options, files)),
            changed: Condvar::new(),
        });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faultfs".to_owned())];
        let session = Session::new(Files(shared.clone()), place, &config)
            .map_err(|error| because("cannot mount", &error))?;
        let serving = std::thread::spawn(move || session.run());
        let ended = Arc::new(Mutex::new(false));
        let releasing = {
            let (shared, ended) = (shared.clone(), ended.clone());
            std::thread::spawn(move || release(&shared, &ended))
        };
        Ok(FaultFs {
            place: place.to_owned(),
            shared,
            serving: Some(serving),
            releasing: Some(releasing),
            ended,
        })
    }

    /// The path of the file with this number.
    #[must_use]
    pub fn path(&self, file: usize) -> PathBuf {
        self.place.join(&self.shared.hold().files[file].name)
    }

    /// A new moment, later than all before.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.shared.hold().moment()
    }

    /// All operations since the file system was mounted, or since [`FaultFs::go_on`].
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.shared.hold().journal.clone()
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.hold().faults.push(fault);
    }

    /// Removes all faults. What a failed sync has lost stays lost.
    pub fn heal(&self) {
        self.shared.hold().faults.clear();
    }

    /// Reads what would be left after a power cut that loses everything not durable.
    #[must_use]
    pub fn durable(&self, file: usize, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
        let state = self.shared.hold();
        state.files[file]
            .media
            .durable(offset_bytes, length_bytes)
            .to_vec()
    }

    /// Reads the current content, durable or not.
    #[must_use]
    pub fn current(&self, file: usize, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
        let state = self.shared.hold();
        state.files[file]
            .media
            .read(offset_bytes, length_bytes)
            .to_vec()
    }

    /// Cuts the power: every operation is answered with EIO from now on.
    pub fn cut(&self) {
        self.shared.hold().cut();
        self.shared.changed.notify_all();
    }

    /// Cuts the power later, at the operation that `cut_at` names.
    pub fn cut_at(&self, cut_at: CutAt) {
        self.shared.hold().cut_at = Some(cut_at);
    }

    /// Whether the power is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.shared.hold().is_cut
    }

    /// Waits at most `within` until `wanted` is true of the journal; says whether it became true.
    pub fn wait_for(&self, within: Duration, wanted: impl Fn(&[Entry]) -> bool) -> bool {
        self.wait(within, |state| wanted(&state.journal))
    }

    /// Waits at most `within` until the power is cut; says whether it is.
    pub fn wait_cut(&self, within: Duration) -> bool {
        self.wait(within, |state| state.is_cut)
    }

    /// Waits at most `within` until no program has any of the files open; says whether that is so.
    pub fn wait_closed(&self, within: Duration) -> bool {
        self.wait(within, |state| {
            state.files.iter().all(|file| file.open_count == 0)
        })
    }

    fn wait(&self, within: Duration, wanted: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.shared.hold();
        while !wanted(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Restores the power. Each file loses what was not durable as its entry of `losses` says (in the order of the
    /// files). The journal starts empty, and all faults are removed.
    pub fn go_on(&self, losses: &[Loss], random: &mut Stream) {
        self.shared.hold().go_on(losses, random);
    }
}

/// Sends answers that are held back when their time is over.
fn release(shared: &Shared, ended: &Mutex<bool>) {
    const LOOK_AGAIN: Duration = Duration::from_millis(20);
    let has_ended = || *ended.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = shared.hold();
    while !has_ended() {
        let now = Instant::now();
        let until = state.release();
        let pause = until.map_or(LOOK_AGAIN, |until| until.saturating_duration_since(now));
        let pause = pause.max(Duration::from_micros(50));
        let waited = shared.changed.wait_timeout(state, pause);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl FaultFs {
    /// A process that is not root could mount only with `fusermount3`, and unmounts with it too.
    fn let_unmount(&self) -> bool {
        let mut command = Command::new("fusermount3");
        command.args(["-u", "-q", "-z", "--"]).arg(&self.place);
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_all();
        if let Some(releasing) = self.releasing.take() {
            let _ = releasing.join();
        }
        // Lazily: a file that is still open (which happens after a panic) must not keep the file system mounted.
        let unmounted = unmount(&self.place, UnmountFlags::DETACH).is_ok() || self.let_unmount();
        if let Some(serving) = self.serving.take()
            && unmounted
            && self.wait_closed(Duration::from_secs(5))
        {
            let _ = serving.join();
        }
    }
}
