//! Detects a history that does not end. A bug of the engine can keep a core busy for ever within one turn.
//! Virtual time does not advance then, so no limit in virtual time helps.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// A history takes milliseconds, or seconds in a debug build on a busy machine. One that takes this long never
/// ends.
pub const ENDLESS_AFTER: Duration = Duration::from_secs(300);
/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends the process with a message that bypasses a test's output capture. A panic would wait for the thread that
/// never ends.
pub fn end_process(seed: u64) {
    let _ = writeln!(std::io::stderr(), "seed {seed} does not end");
    std::process::exit(1);
}

/// The seeds that threads are running, and when each began.
pub struct Watch {
    running: Vec<Mutex<Option<(u64, Instant)>>>,
    is_over: AtomicBool,
}

impl Watch {
    /// A watch over this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Watch {
        Watch {
            running: (0..threads).map(|_| Mutex::new(None)).collect(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Notes that a thread begins with a seed, or has none any more.
    pub fn begins(&self, thread: usize, seed: Option<u64>, now: Instant) {
        let entry = seed.map(|seed| (seed, now));
        *self.running[thread]
            .lock()
            .expect("no thread panics while it holds the lock") = entry;
    }

    /// A seed that has been running for too long.
    #[must_use]
    pub fn endless(&self, now: Instant) -> Option<u64> {
        self.running.iter().find_map(|running| {
            let (seed, since) = (*running
                .lock()
                .expect("no thread panics while it holds the lock"))?;
            (now.duration_since(since) >= ENDLESS_AFTER).then_some(seed)
        })
    }

    /// Checks in a thread of its own until [`Watch::is_over`] is called, and calls `tell` with the first seed
    /// that does not end.
    pub fn look<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        tell: impl FnOnce(u64) + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, ()> {
        scope.spawn(move || {
            while !self.is_over.load(Ordering::Acquire) {
                if let Some(seed) = self.endless(Instant::now()) {
                    return tell(seed);
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
        })
    }

    /// Ends the checks, because all threads have ended.
    pub fn is_over(&self, looks: &ScopedJoinHandle<'_, ()>) {
        self.is_over.store(true, Ordering::Release);
        looks.thread().unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_runs_for_too_long_is_named_and_one_that_ended_is_not() {
        let (watch, start) = (Watch::new(2), Instant::now());
        watch.begins(0, Some(7), start);
        watch.begins(1, Some(8), start + ENDLESS_AFTER / 2);
        assert_eq!(watch.endless(start + ENDLESS_AFTER / 2), None);
        assert_eq!(watch.endless(start + ENDLESS_AFTER), Some(7));
        watch.begins(0, Some(9), start + ENDLESS_AFTER);
        assert_eq!(watch.endless(start + ENDLESS_AFTER), None);
        watch.begins(1, None, start + ENDLESS_AFTER);
        assert_eq!(watch.endless(start + ENDLESS_AFTER * 3 / 2), None);
        assert_eq!(watch.endless(start + ENDLESS_AFTER * 2), Some(9));
    }

    #[test]
    fn who_looks_tells_at_once_and_stops_when_it_is_over() {
        let told = Mutex::new(None);
        let watch = Watch::new(1);
        std::thread::scope(|scope| {
            let long_ago = Instant::now().checked_sub(ENDLESS_AFTER);
            watch.begins(0, Some(5), long_ago.expect("the clock goes back that far"));
            let looks = watch.look(scope, |seed| *told.lock().unwrap() = Some(seed));
            looks.join().unwrap();
        });
        assert_eq!(*told.lock().unwrap(), Some(5));
        let watch = Watch::new(1);
        std::thread::scope(|scope| {
            let looks = watch.look(scope, |_| panic!("nothing runs"));
            watch.is_over(&looks);
        });
    }
}
