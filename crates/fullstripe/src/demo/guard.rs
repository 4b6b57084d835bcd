//! Leaves nothing behind, however the demonstration ends.
//!
//! Everything that would outlive it is registered here: processes, loop devices, the folder. They are removed at the
//! end, after a failure, and after SIGINT, SIGTERM or SIGHUP. A thread waits for those signals. It ends the processes
//! at once, which wakes the thread that waits for them, so that the story ends by itself. If the story does not end
//! within [`PATIENCE`], the signal thread removes everything and ends the process.

use super::programs::find;
use crate::terminal::print::print_note;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

/// How long the story may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// The list of everything that has to be removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The signal that ends the demonstration; 0 if none has come.
    signal: AtomicI32,
    debts: Mutex<Debts>,
}

/// What would be left behind.
#[derive(Debug, Default)]
struct Debts {
    /// Process groups whose leader has not been waited for, so that the kernel cannot reuse its number.
    groups: Vec<Pid>,
    loop_devices: Vec<PathBuf>,
    folder: Option<PathBuf>,
}

/// A signal has ended the demonstration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupted(pub i32);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "signal {} came", self.0)
    }
}

impl std::error::Error for Interrupted {}

impl Guard {
    /// Starts to watch for signals.
    ///
    /// # Errors
    /// No thread can be started, or no signal handler installed.
    pub fn watch() -> Result<Guard> {
        let guard = Guard::default();
        let watched = guard.clone();
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watched.wait_for_signal(&ready))
            .context("cannot start a thread that waits for signals")?;
        is_ready
            .recv()
            .context("the thread that waits for signals has ended")??;
        Ok(guard)
    }

    fn wait_for_signal(&self, ready: &mpsc::Sender<Result<()>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime.context("cannot wait for signals") {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        runtime.block_on(async {
            let mut signals = match Handlers::install() {
                Ok(signals) => signals,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            let number = signals.first().await;
            self.0.signal.store(number, Ordering::SeqCst);
            self.debts().end_processes();
            tokio::time::sleep(PATIENCE).await;
            self.clear();
            std::process::exit(exit_code(number).into());
        });
    }

    /// Checks that no signal has ended the demonstration.
    ///
    /// # Errors
    /// [`Interrupted`] after a signal.
    pub fn check(&self) -> Result<()> {
        match self.0.signal.load(Ordering::SeqCst) {
            0 => Ok(()),
            number => bail!(Interrupted(number)),
        }
    }

    /// Registers the leader of a new process group; if a signal has come, the group is ended at once.
    pub fn add_group(&self, leader: Pid) {
        let mut debts = self.debts();
        debts.groups.push(leader);
        if self.check().is_err() {
            debts.end_processes();
        }
    }

    /// Waits for a leader with `reap`, and removes it from the list when it is gone. Both are done under the lock,
    /// because the kernel may reuse the number as soon as it has been waited for.
    pub fn reap_group<T>(&self, leader: Pid, reap: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut debts = self.debts();
        let reaped = reap();
        if reaped.is_some() {
            debts.groups.retain(|&other| other != leader);
        }
        reaped
    }

    /// Registers a loop device.
    pub fn add_loop_device(&self, device: &Path) {
        self.debts().loop_devices.push(device.to_owned());
    }

    /// Detaches the loop devices at once.
    pub fn clear_loop_devices(&self) {
        self.debts().detach_loop_devices();
    }

    /// Registers the folder.
    pub fn add_folder(&self, folder: &Path) {
        self.debts().folder = Some(folder.to_owned());
    }

    /// Removes the folder from the list, so that it is kept.
    pub fn keep_folder(&self) {
        self.debts().folder = None;
    }

    /// Removes everything registered.
    pub fn clear(&self) {
        self.debts().clear();
    }

    /// Like [`Guard::clear`], but does nothing if the list is locked, perhaps by the calling thread.
    pub fn clear_if_free(&self) {
        if let Ok(mut debts) = self.0.debts.try_lock() {
            debts.clear();
        }
    }

    fn debts(&self) -> MutexGuard<'_, Debts> {
        self.0.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debts {
    fn clear(&mut self) {
        self.end_processes();
        self.detach_loop_devices();
        let Some(folder) = self.folder.take() else {
            return;
        };
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            print_note(&format!(
                "fullstripe: {} could not be removed: {error}",
                folder.display()
            ));
        }
    }

    fn end_processes(&self) {
        for &leader in &self.groups {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    fn detach_loop_devices(&mut self) {
        for device in std::mem::take(&mut self.loop_devices) {
            let Some(losetup) = find("losetup") else {
                continue;
            };
            let mut detach = Command::new(losetup);
            detach.arg("-d").arg(&device).stdin(Stdio::null());
            if !detach.status().is_ok_and(|status| status.success()) {
                print_note(&format!(
                    "fullstripe: {} could not be detached; losetup -d {0} does it",
                    device.display()
                ));
            }
        }
    }
}

/// The exit code that shells report for a process ended by a signal.
pub(super) fn exit_code(signal: i32) -> u8 {
    128u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}

struct Handlers {
    interrupt: Signals,
    terminate: Signals,
    hang_up: Signals,
}

impl Handlers {
    fn install() -> Result<Handlers> {
        let handler = |kind| signal(kind).context("cannot wait for signals");
        Ok(Handlers {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
            hang_up: handler(SignalKind::hangup())?,
        })
    }

    /// The number of the first signal that comes.
    async fn first(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hang_up.recv() => SignalKind::hangup().as_raw_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    #[test]
    fn what_was_entered_is_cleared_away() {
        let folder = std::env::temp_dir().join(format!("fullstripe-guard-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("d0"), "x").unwrap();
        let guard = Guard::default();
        guard.add_folder(&folder);
        let mut child = Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        guard.add_group(Pid::from_child(&child));
        guard.clear();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(!folder.exists());
    }

    #[test]
    fn a_leader_that_was_waited_for_is_struck_out() {
        let guard = Guard::default();
        let leader = Pid::from_raw(4_000_000).unwrap();
        guard.add_group(leader);
        assert_eq!(guard.reap_group::<()>(leader, || None), None);
        assert_eq!(guard.debts().groups, [leader]);
        assert_eq!(guard.reap_group(leader, || Some(7)), Some(7));
        assert!(guard.debts().groups.is_empty());
    }

    #[test]
    fn after_a_signal_nothing_goes_on() {
        let guard = Guard::default();
        assert!(guard.check().is_ok());
        guard.0.signal.store(15, Ordering::SeqCst);
        assert_eq!(guard.check().unwrap_err().to_string(), "signal 15 came");
        assert_eq!(exit_code(15), 143);
    }
}
