//! The signals that end a serving process.

use anyhow::{Context, Result};
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
    pub fn catch() -> Result<Signals> {
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
    pub fn wait_for_end(mut self, mut stopped: Receiver<bool>) {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = stopped.wait_for(|stop| *stop) => {}
            }
        });
    }
}
