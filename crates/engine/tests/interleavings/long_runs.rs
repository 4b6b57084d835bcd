//! A scheduler that lets a thread run for long.
//!
//! A bug between two steps of one shard may need dozens of turns of the other in between. A scheduler that draws at each
//! point hardly ever gives so many, and those that honour `yield_now`, which turns end with, never do. So each history
//! draws how often threads change, from every second access to every thousandth.

use crate::memory::Random;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Histories by number, each of which is a schedule and whatever else the test draws from the same number.
pub struct LongRuns {
    random: Random,
    /// One in so many points changes to another thread.
    length: u64,
    next: u64,
    end: u64,
    current: Arc<AtomicU64>,
}

impl LongRuns {
    /// Histories `first` to `first + count - 1`; the number of the one that runs is in `current`.
    pub fn new(first: u64, count: u64, current: Arc<AtomicU64>) -> LongRuns {
        LongRuns {
            random: Random(0),
            length: 1,
            next: first,
            end: first + count,
            current,
        }
    }
}

impl Scheduler for LongRuns {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.next == self.end {
            return None;
        }
        self.current.store(self.next, Ordering::Relaxed);
        // The array and its requests draw from the number itself.
        self.random = Random(!self.next);
        self.length = 2 << self.random.below(10);
        self.next += 1;
        Some(Schedule::new(self.next - 1))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        _is_yielding: bool,
    ) -> Option<TaskId> {
        let stays = self.random.below(self.length) > 0;
        let same = runnable
            .iter()
            .map(|task| task.id())
            .find(|&id| stays && Some(id) == current);
        let others = runnable.len() as u64;
        same.or_else(|| Some(runnable[self.random.below(others) as usize].id()))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}

impl Drop for LongRuns {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let number = self.current.load(Ordering::Relaxed);
            eprintln!("history {number} has failed; INTERLEAVINGS_SEED={number} repeats it alone");
        }
    }
}
