//! How a serving process is ended: the signals it hears, and what it removes when it goes.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::Receiver;

/// SIGTERM and SIGINT, caught from the moment this exists: one that comes while the array is still being
/// started ends it in order as soon as it has been.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    runtime: Runtime,
}

impl Signals {
    /// Catches them.
    ///
    /// # Errors
    /// The system has no means left for it.
    pub(super) fn catch() -> Result<Signals> {
        let what = "cannot catch signals";
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().context(what)?;
        let guard = runtime.enter();
        let terminate = signal(SignalKind::terminate()).context(what)?;
        let interrupt = signal(SignalKind::interrupt()).context(what)?;
        drop(guard);
        Ok(Signals {
            terminate,
            interrupt,
            runtime,
        })
    }

    /// Returns when one has come, or when `stopped` says so.
    pub(super) fn wait_for_end(mut self, mut stopped: Receiver<bool>) {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = stopped.wait_for(|stop| *stop) => {}
            }
        });
    }
}

/// Sockets in the file system, removed when this value goes.
#[derive(Default)]
pub(super) struct LeftBehind(Vec<PathBuf>);

impl LeftBehind {
    /// Notes one that this process has made.
    pub(super) fn add(&mut self, path: Option<&Path>) {
        self.0.extend(path.map(Path::to_owned));
    }
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
