//! What systemd is told of a serving process, if systemd has started it: see sd_notify(3).
//!
//! It learns when the array is served, what the process waits for, and that the data threads work. When it has not heard the
//! last for the time that `WatchdogSec=` of the unit says, it ends the process and starts it again.

use anyhow::{Context, Result};
use sd_notify::NotifyState;
use server::Pulse;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many times the data threads are asked in the time after which the watchdog ends the process.
const ASKED_TIMES: u32 = 4;

/// See the module's documentation. Without systemd nothing happens.
#[derive(Clone, Default)]
pub(super) struct Notifier {
    /// `None` while no array is served.
    pulse: Arc<Mutex<Option<Pulse>>>,
}

impl Notifier {
    /// Begins to answer the watchdog, if there is one.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> Result<Notifier> {
        let notifier = Notifier::default();
        if let Some(limit) = sd_notify::watchdog_enabled() {
            let (every, own) = (limit / ASKED_TIMES, notifier.clone());
            let thread = std::thread::Builder::new().name("watchdog".to_owned());
            thread
                .spawn(move || own.answer(every))
                .context("cannot start the thread that answers systemd's watchdog")?;
        }
        Ok(notifier)
    }

    fn answer(&self, every: Duration) {
        loop {
            if self.is_well() {
                tell(&[NotifyState::Watchdog]);
            }
            std::thread::sleep(every);
        }
    }

    /// Whether the data threads work; true while there are none.
    fn is_well(&self) -> bool {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.as_mut().is_none_or(Pulse::is_felt)
    }

    /// The array is being served.
    pub fn serves(&self, pulse: Pulse) {
        *self.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(pulse);
        tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
    }

    /// The array is not served yet, and what depends on nothing else may go on.
    pub fn waits(&self, for_what: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(for_what)]);
    }

    /// The array is being stopped, and that may take so long.
    pub fn stops(&self, within: Duration) {
        let microseconds = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        tell(&[
            NotifyState::Stopping,
            NotifyState::Status("stopping"),
            NotifyState::ExtendTimeoutUsec(microseconds),
        ]);
    }
}

fn tell(state: &[NotifyState]) {
    // systemd notices what it is not told: it gives up a start that is not announced, and a watchdog that is not answered.
    let _ = sd_notify::notify(state);
}
