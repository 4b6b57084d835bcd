//! Flushes of one file by several threads, and errors that none of them must miss.
//!
//! What could not be written back from a page cache, the kernel tells once: of two fdatasync at the same
//! time one gets the error, the other success, and so does every later one. The same is true of a file
//! system that passes an fsync on. So the file's flushes go one after the other, and those that wait
//! meanwhile share the next one: it begins after each of them has come, so it covers what each of them
//! means. Once one has failed, all have, for as long as the file is open: nobody knows what was lost.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    /// Flushes that have begun, by number.
    begun: u64,
    is_running: bool,
    /// The errno of the first that failed; 0 if none has.
    lost: i32,
}

/// See the module's prose.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
}

impl Flushes {
    fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes by `sync`, or shares what another thread's does; `Err` has an errno.
    pub fn flush(&self, sync: impl FnOnce() -> Result<(), i32>) -> Result<(), i32> {
        let mut state = self.hold();
        // One that runs already may have passed by what we mean.
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    /// Holds a first flush in the middle, lets `others` come meanwhile, and ends it with `result`. Returns
    /// what all were told, and how often the kernel was asked.
    fn together(others: usize, result: Result<(), i32>) -> (Vec<Result<(), i32>>, u32) {
        let flushes = Flushes::default();
        let asked = AtomicU32::new(0);
        let ((begun, has_begun), (end, may_end)) = (channel(), channel());
        let told = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                flushes.flush(|| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    begun.send(()).expect("the test waits");
                    may_end.into_iter().next();
                    result
                })
            });
            has_begun.recv().expect("the first flush begins");
            let others: Vec<_> = (0..others)
                .map(|_| {
                    scope.spawn(|| {
                        flushes.flush(|| {
                            // The kernel has told the error once.
                            asked.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        })
                    })
                })
                .collect();
            end.send(()).expect("the first flush waits");
            let mut told = vec![first.join().expect("no panic")];
            told.extend(
                others
                    .into_iter()
                    .map(|other| other.join().expect("no panic")),
            );
            told
        });
        (told, asked.into_inner())
    }

    #[test]
    fn an_error_that_the_kernel_tells_once_is_told_to_all() {
        for others in [1, 7] {
            let (told, asked) = together(others, Err(5));
            assert_eq!(told, vec![Err(5); others + 1]);
            assert_eq!(asked, 1);
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
    fn a_flush_that_comes_while_one_runs_is_not_covered_by_that() {
        let (told, asked) = together(1, Ok(()));
        assert_eq!((told, asked), (vec![Ok(()); 2], 2));
        let (told, asked) = together(7, Ok(()));
        assert_eq!(told, vec![Ok(()); 8]);
        assert!((2..=8).contains(&asked), "{asked}");
    }
}
