//! How long the end of a server waits for those who are told of events: the hook, the alerts, and the file of events.

use crate::alerting::Alerter;
use crate::api::Hook;
use crate::hearer::Hearer;
use crate::state_folder::keeper::Keeper;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end waits until events are written to their file.
const KEEP_WITHIN: Duration = Duration::from_secs(2);
/// How long the end waits until alerts are sent; the next process sends those that are left.
const ALERT_WITHIN: Duration = Duration::from_secs(10);
/// How long it waits for hook and alerts together while programs wait for the next process.
const SOON: Duration = Duration::from_secs(1);

/// Who is told, as far as there is somebody.
pub(super) struct LastWords {
    pub hook: Option<Arc<Hook>>,
    pub alerter: Option<Arc<Alerter>>,
    pub keeper: Option<Arc<Keeper>>,
}

impl LastWords {
    /// Those of a start that has failed before alerts are sent.
    pub fn of_start(hook: &Option<Arc<Hook>>, keeper: &Option<Arc<Keeper>>) -> LastWords {
        LastWords {
            hook: hook.clone(),
            alerter: None,
            keeper: keeper.clone(),
        }
    }

    /// Waits until the hook has run for all events, for at most `hook_within`, until all events are in their file, and until each
    /// alert has been tried.
    pub fn finish(self, hook_within: Duration) {
        if let Some(hook) = &self.hook {
            hook.finish(hook_within);
        }
        self.keep();
        if let Some(alerter) = &self.alerter {
            alerter.finish(ALERT_WITHIN);
        }
    }

    /// Waits only a little for hook and alerts, because programs wait for the next process. That process sends the alerts that are
    /// left. It does not repeat events: a call of the hook that is under way goes on by itself, and no other is begun.
    pub fn finish_soon(self, hearer: &dyn Hearer) {
        let deadline = Instant::now() + SOON;
        if let Some(hook) = &self.hook
            && !hook.finish(SOON)
        {
            hearer.say(
                &"programs wait for the next server, so on_event is not run for the last events; `fullstripe events` has them",
            );
        }
        if let Some(alerter) = &self.alerter {
            alerter.finish(deadline.saturating_duration_since(Instant::now()));
        }
        self.keep();
    }

    fn keep(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.finish(KEEP_WITHIN);
        }
    }
}
