//! The signals that end a serving process, and the one that has it read its settings anew.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::Receiver;

/// The signals that are caught, each from a moment of its own.
pub(super) struct Signals {
    /// SIGHUP, for an array of the settings file. It is caught from the beginning, because it must not end a process that
    /// waits for drives; it takes effect once the array is served.
    reload: Option<Signal>,
    /// SIGTERM and SIGINT. If one arrives while the array is still starting, the array is stopped in order as soon as it has
    /// started.
    end: Vec<Signal>,
    runtime: Runtime,
}

impl Signals {
    /// Catches SIGHUP if the process `has_settings`.
    ///
    /// # Errors
    /// The system lacks the resources for it.
    pub fn new(has_settings: bool) -> Result<Signals> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder
            .enable_all()
            .build()
            .context("cannot catch signals")?;
        let mut signals = Signals {
            reload: None,
            end: Vec::new(),
            runtime,
        };
        if has_settings {
            signals.reload = Some(signals.caught(SignalKind::hangup())?);
        }
        Ok(signals)
    }

    /// Catches SIGTERM and SIGINT from now on. Until then each of them ends the process at once.
    ///
    /// # Errors
    /// The system lacks the resources for it.
    pub fn catch_end(&mut self) -> Result<()> {
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let caught = self.caught(kind)?;
            self.end.push(caught);
        }
        Ok(())
    }

    fn caught(&self, kind: SignalKind) -> Result<Signal> {
        let _guard = self.runtime.enter();
        signal(kind).context("cannot catch signals")
    }

    /// Returns when a signal has arrived that ends the process, or when `stopped` becomes true. Calls `reload` for each
    /// SIGHUP.
    pub fn wait_for_end(mut self, mut stopped: Receiver<bool>, reload: impl Fn()) {
        let [terminate, interrupt] = &mut self.end[..] else {
            unreachable!("both have been caught");
        };
        let hangup = &mut self.reload;
        self.runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = stopped.wait_for(|stop| *stop) => return,
                    () = arrives(hangup) => reload(),
                }
            }
        });
    }
}

/// Returns when the signal arrives; never if it is not caught.
async fn arrives(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
