//! Whether the data threads work, for a watchdog that has the process started again when they do not.
//!
//! A data thread never waits for a drive, so one that makes no turn for long is lost: in an endless loop, or in a system call
//! that does not return. A thread that has nothing to do sleeps; it is woken to show that it still can.

use crate::runtime::Shared;
use std::sync::Arc;

/// See the module's documentation.
pub struct Pulse {
    shared: Arc<Shared>,
    beats: Vec<u64>,
}

impl Pulse {
    /// Of an array that is being served.
    pub(super) fn of(shared: Arc<Shared>) -> Pulse {
        let beats = shared.beats();
        Pulse { shared, beats }
    }

    /// Whether all data threads have worked since this was asked last, or since the pulse exists; leave them at least a second.
    /// True when the array has ended, since then there are none.
    pub fn is_felt(&mut self) -> bool {
        let before = std::mem::replace(&mut self.beats, self.shared.beats());
        all_have_worked(&before, &self.beats) || self.shared.has_quit()
    }
}

fn all_have_worked(before: &[u64], now: &[u64]) -> bool {
    before.iter().zip(now).all(|(before, now)| before != now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PATIENCE, Served};
    use metadata::imsm::Level;
    use std::time::{Duration, Instant};

    #[test]
    fn one_data_thread_that_does_not_work_is_enough() {
        assert!(all_have_worked(&[1, 7], &[2, 9]));
        assert!(!all_have_worked(&[1, 7], &[2, 7]));
        assert!(!all_have_worked(&[1, 7], &[1, 8]));
    }

    #[test]
    fn data_threads_that_have_nothing_to_do_are_felt_too() {
        let served = Served::new(Level::Raid1, 2);
        let mut pulse = Pulse::of(served.shared.clone());
        let give_up = Instant::now() + PATIENCE;
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            while !pulse.is_felt() {
                assert!(Instant::now() < give_up, "a data thread does not work");
                std::thread::sleep(Duration::from_millis(300));
            }
        }
    }
}
