//! Copies of one thread's state, for other threads to read.
//!
//! A data thread must never wait for readers, however long one of them is interrupted while reading. So there are
//! three copies. The one thread that owns the state fills a copy that is neither the newest nor being read, and then
//! declares it the newest; all other threads read the newest. Both sides only ever try a lock: if both older copies
//! are being read, the publishing thread tries again in its next turn, and a reader that finds a copy locked looks
//! again which one is the newest. So no thread ever sleeps on one of the locks, and unlocking never needs a system
//! call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, TryLockError};

/// One to be read, one to be filled, and one for readers that began earlier.
const COPIES: usize = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Published<T> {
    copies: [RwLock<T>; COPIES],
    newest: AtomicUsize,
}

impl<T> Published<T> {
    /// Copies that are all in the state that `make` returns.
    pub fn new(make: impl Fn() -> T) -> Published<T> {
        Published {
            copies: std::array::from_fn(|_| RwLock::new(make())),
            newest: AtomicUsize::new(0),
        }
    }

    /// Has `fill` bring a copy up to date, from whatever older state it is in, and declares it the newest. Returns
    /// false, without calling `fill`, when all older copies are being read. Only one thread may publish.
    pub fn publish(&self, fill: impl FnOnce(&mut T)) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        for step in 1..COPIES {
            let at = (newest + step) % COPIES;
            let mut copy = match self.copies[at].try_write() {
                Ok(copy) => copy,
                // The thread panicked while it filled this copy; `fill` sets all of it now.
                Err(TryLockError::Poisoned(copy)) => copy.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            fill(&mut copy);
            drop(copy);
            self.newest.store(at, Ordering::Release);
            return true;
        }
        false
    }

    /// Calls `look` with the newest copy.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        loop {
            if let Some(copy) = self.copy_if_newest(self.newest.load(Ordering::Acquire)) {
                return look(&copy);
            }
            std::hint::spin_loop();
        }
    }

    /// The copy with this index, if it is still the newest once it is locked. It may have been filled again in the
    /// meantime without having been declared the newest yet: a thread that read it then would read an older copy next
    /// time. While the lock is held, the copy is not filled.
    fn copy_if_newest(&self, at: usize) -> Option<RwLockReadGuard<'_, T>> {
        let copy = match self.copies[at].try_read() {
            Ok(copy) => copy,
            Err(TryLockError::Poisoned(copy)) => copy.into_inner(),
            // It is being filled.
            Err(TryLockError::WouldBlock) => return None,
        };
        (self.newest.load(Ordering::Acquire) == at).then_some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn whoever_reads_for_ever_holds_nobody_up() {
        let published = Published::new(|| 0);
        published.read(|first| {
            for number in 1..100 {
                assert!(published.publish(|copy| {
                    let newest = published.read(|copy| *copy);
                    assert_eq!(newest, number - 1, "read a copy that is not filled yet");
                    *copy = number;
                }));
                assert_eq!(published.read(|copy| *copy), number);
            }
            assert_eq!(*first, 0, "the copy changed while it was read");
        });
    }

    #[test]
    fn what_finds_no_copy_is_left_for_the_next_turn() {
        let published = Published::new(|| 0);
        published.read(|_| {
            assert!(published.publish(|copy| *copy = 1));
            published.read(|_| {
                assert!(published.publish(|copy| *copy = 2));
                assert!(!published.publish(|_| panic!("wrote to a copy that is being read")));
                assert_eq!(published.read(|copy| *copy), 2);
            });
            assert!(published.publish(|copy| *copy = 3));
        });
        assert_eq!(published.read(|copy| *copy), 3);
    }

    #[test]
    fn who_comes_late_does_not_read_what_is_not_the_newest_yet() {
        let published = Published::new(|| 0);
        let then = published.newest.load(Ordering::Acquire);
        for number in 1..=2 {
            assert!(published.publish(|copy| *copy = number));
        }
        // The writer has filled the copy but has not yet marked it as the newest.
        *published.copies[then].write().unwrap() = 3;
        assert!(published.copy_if_newest(then).is_none());
        assert_eq!(published.read(|copy| *copy), 2);
        published.newest.store(then, Ordering::Release);
        assert_eq!(published.read(|copy| *copy), 3);
    }

    #[test]
    fn a_copy_is_always_whole_and_never_older_than_the_last() {
        const ROUNDS: u64 = 20_000;
        let published = Published::new(|| [0u64; 64]);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !ended.load(Ordering::Acquire) {
                        let copy = published.read(|copy| *copy);
                        assert!(copy.iter().all(|&number| number == copy[0]), "{copy:?}");
                        assert!(copy[0] >= last, "{} after {last}", copy[0]);
                        last = copy[0];
                    }
                });
            }
            for round in 1..=ROUNDS {
                while !published.publish(|copy| copy.fill(round)) {}
            }
            ended.store(true, Ordering::Release);
        });
        assert_eq!(published.read(|copy| copy[63]), ROUNDS);
    }
}
