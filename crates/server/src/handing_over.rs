//! Whether the end of this process is the beginning of the next one, so that clients are handed over instead of being
//! disconnected.
//!
//! A service manager ends a process in the same way whether it starts another one or not. So whoever has it restarted says
//! so before ([`HandOver::ask`]), through the API. What was said is forgotten after a while: if the restart does not come,
//! a later end is one like any other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long after it was announced the end is that of a hand-over.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(30);

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Whether somebody keeps sockets for the next process.
    is_possible: bool,
    asked: Arc<Mutex<Option<Instant>>>,
}

impl HandOver {
    /// Nobody has asked yet. It `is_possible` if somebody keeps sockets while no process runs.
    #[must_use]
    pub fn new(is_possible: bool) -> HandOver {
        HandOver {
            is_possible,
            asked: Arc::default(),
        }
    }

    /// Announces that this process will be ended, and that another one follows. False if nobody keeps its sockets.
    #[must_use]
    pub fn ask(&self, now: Instant) -> bool {
        if self.is_possible {
            *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        self.is_possible
    }

    /// Takes the announcement back: no other process follows.
    pub fn withdraw(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the end that begins `now` was announced.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|asked| now.saturating_duration_since(asked) < ANNOUNCED_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_counts_for_a_while() {
        let now = Instant::now();
        let hand_over = HandOver::new(true);
        assert!(!hand_over.is_due(now));
        assert!(hand_over.clone().ask(now));
        assert!(hand_over.is_due(now));
        assert!(hand_over.is_due(now + Duration::from_secs(29)));
        assert!(!hand_over.is_due(now + Duration::from_secs(30)));
        hand_over.withdraw();
        assert!(!hand_over.is_due(now));
    }

    #[test]
    fn without_a_keeper_nothing_is_handed_over() {
        let now = Instant::now();
        let hand_over = HandOver::new(false);
        assert!(!hand_over.ask(now));
        assert!(!hand_over.is_due(now));
    }
}
