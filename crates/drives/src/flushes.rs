//! Shares flushes of one file between threads, so that none of them misses an error.
//!
//! The kernel reports a failed writeback of the page cache only once: of two concurrent fdatasync calls one gets the
//! error and the other success, and so does every later call. The same is true of a file system that passes an fsync
//! on. So flushes of the file run one after the other, and all threads that wait meanwhile share the next one. It
//! begins after each of them has called, so it covers the writes of each. Once a flush has failed, all later ones fail
//! for as long as the file is open, because nobody knows what was lost.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    /// Number of flushes that have begun.
    begun: u64,
    is_running: bool,
    /// The errno of the first flush that failed; 0 if none has.
    lost: i32,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
}

impl Flushes {
    fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes by calling `sync`, or shares another thread's flush; `Err` has an errno.
    pub fn flush(&self, sync: impl FnOnce() -> Result<(), i32>) -> Result<(), i32> {
        let mut state = self.hold();
        // A flush that is already running may not cover the caller's latest writes.
        let wanted = state.begun + 1;
        while state.is_running && state.lost == 0 {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        let is_covered = state.begun >= wanted;
        if state.lost != 0 {
            return Err(state.lost);
        }
        if is_covered {
            return Ok(());
        }
        state.begun += 1;
        state.is_running = true;
        drop(state);
        let result = sync();
        let mut state = self.hold();
        state.is_running = false;
        if let Err(errno) = result {
            state.lost = errno;
        }
        drop(state);
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    /// Waits until the thread with this number sleeps or has ended. The number is 0 until the thread has stored it.
    fn is_asleep(thread: &AtomicI32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let number = thread.load(Ordering::Acquire);
            if number != 0 {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{number}/stat"));
                // The state follows the name, which is in parentheses.
                let is_running = |stat: String| !stat.contains(") S ");
                if !stat.is_ok_and(is_running) {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "the thread never sleeps");
            std::thread::yield_now();
        }
    }

    /// Runs a first flush, starts `others` while the kernel works on it, and lets it end with `result` when they all
    /// sleep. Each later call of the kernel returns `later`. Returns the result of each flush, first one first, and
    /// how often the kernel was called.
    fn together(
        others: usize,
        result: Result<(), i32>,
        later: Result<(), i32>,
    ) -> (Vec<Result<(), i32>>, u32) {
        let flushes = Flushes::default();
        let asked = AtomicU32::new(0);
        let threads: Vec<AtomicI32> = (0..others).map(|_| AtomicI32::new(0)).collect();
        let mut alone = false;
        let told = std::thread::scope(|scope| {
            let mut handles = Vec::new();
            let first = flushes.flush(|| {
                asked.fetch_add(1, Ordering::Relaxed);
                let start = |thread| {
                    let (flushes, asked) = (&flushes, &asked);
                    scope.spawn(move || {
                        let number = rustix::thread::gettid().as_raw_nonzero().get();
                        AtomicI32::store(thread, number, Ordering::Release);
                        flushes.flush(|| {
                            asked.fetch_add(1, Ordering::Relaxed);
                            later
                        })
                    })
                };
                handles.extend(threads.iter().map(start));
                threads.iter().for_each(is_asleep);
                alone = asked.load(Ordering::Relaxed) == 1;
                result
            });
            let others = handles.into_iter().map(|other| other.join());
            let others = others.map(|told| told.expect("no flush panics"));
            std::iter::once(first).chain(others).collect()
        });
        assert!(alone, "another flush ran at the same time");
        (told, asked.into_inner())
    }

    #[test]
    fn an_error_that_the_kernel_tells_once_is_told_to_all() {
        for others in [1, 7] {
            let (told, asked) = together(others, Err(5), Ok(()));
            assert_eq!(told, vec![Err(5); others + 1]);
            assert_eq!(asked, 1);
        }
    }

    /// A flush that arrives meanwhile relies on this state, so it has to be set before the kernel is called.
    #[test]
    fn a_flush_has_begun_before_the_kernel_is_asked_and_runs_until_it_has_answered() {
        let flushes = Flushes::default();
        for number in 1..=3 {
            let result = flushes.flush(|| {
                let state = flushes.hold();
                assert_eq!((state.begun, state.is_running), (number, true));
                Ok(())
            });
            assert_eq!(result, Ok(()));
            assert!(!flushes.hold().is_running);
        }
    }

    #[test]
    fn after_an_error_no_flush_succeeds_any_more() {
        let flushes = Flushes::default();
        assert_eq!(flushes.flush(|| Ok(())), Ok(()));
        assert_eq!(flushes.flush(|| Err(28)), Err(28));
        assert_eq!(flushes.flush(|| Ok(())), Err(28));
    }

    #[test]
    fn those_that_share_a_flush_share_its_error() {
        for others in [1, 7] {
            let (told, asked) = together(others, Ok(()), Err(5));
            assert_eq!(told[0], Ok(()));
            assert_eq!(told[1..], vec![Err(5); others]);
            assert_eq!(asked, 2);
        }
    }

    #[test]
    fn a_flush_that_comes_while_one_runs_is_not_covered_by_that() {
        let (told, asked) = together(1, Ok(()), Ok(()));
        assert_eq!((told, asked), (vec![Ok(()); 2], 2));
        let (told, asked) = together(7, Ok(()), Ok(()));
        assert_eq!(told, vec![Ok(()); 8]);
        // Usually 2. A thread that slept for the lock may come after the second flush and need another.
        assert!((2..=8).contains(&asked), "{asked}");
    }
}
