//! The signals that end a serving process.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::Receiver;

/// SIGTERM and SIGINT, caught from the moment this exists. If one arrives while the array is still starting, the array
/// is stopped in order as soon as it has started.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    runtime: Runtime,
}

impl Signals {
    /// Catches the two signals.
    ///
    /// # Errors
    /// The system lacks the resources for it.
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

    /// Returns when a signal has arrived, or when `stopped` becomes true.
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
