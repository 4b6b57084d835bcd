//! Copies of what one thread knows, for others to look at.
//!
//! A data thread must never wait for those who look, however long they stand still in the middle of it. So there
//! are three copies. The one thread that knows fills a copy that is neither the newest nor being read, and then
//! calls it the newest; everybody else reads the newest. Both sides only ever try a lock: who publishes leaves it for
//! its next turn when both older copies are being read, and who reads looks again which copy is the newest.
//! So nobody is ever asleep before one of the locks, and giving one back is never a system call either.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, TryLockError};

/// One to be read, one to be filled, and one for those who began to read before.
const COPIES: usize = 3;

/// See the module's prose.
#[derive(Debug)]
pub(super) struct Published<T> {
    copies: [RwLock<T>; COPIES],
    newest: AtomicUsize,
}

impl<T> Published<T> {
    /// Copies that are all as `make` makes them.
    pub fn new(make: impl Fn() -> T) -> Published<T> {
        Published {
            copies: std::array::from_fn(|_| RwLock::new(make())),
            newest: AtomicUsize::new(0),
        }
    }

    /// Has `fill` bring a copy up to date, whatever older state it is in, and calls it the newest. False, and nothing
    /// is filled, when all older copies are being read. Only one thread may publish.
    pub fn publish(&self, fill: impl FnOnce(&mut T)) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        for step in 1..COPIES {
            let at = (newest + step) % COPIES;
            let mut copy = match self.copies[at].try_write() {
                Ok(copy) => copy,
                // Whoever panicked in the middle of filling it: it is filled as a whole now.
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

    /// Lets `look` see the newest copy.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        loop {
            if let Some(copy) = self.copy_if_newest(self.newest.load(Ordering::Acquire)) {
                return look(&copy);
            }
            std::hint::spin_loop();
        }
    }

    /// The copy that was the newest a moment ago, if it still is. It may have been filled again since, without being
    /// called the newest yet: who read it then would read an older one next time. As long as it is held it is filled no
    /// more.
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
                    assert_eq!(newest, number - 1, "one that is not filled yet");
                    *copy = number;
                }));
                assert_eq!(published.read(|copy| *copy), number);
            }
            assert_eq!(*first, 0, "changed while it was read");
        });
    }

    #[test]
    fn what_finds_no_copy_is_left_for_the_next_turn() {
        let published = Published::new(|| 0);
        published.read(|_| {
            assert!(published.publish(|copy| *copy = 1));
            published.read(|_| {
                assert!(published.publish(|copy| *copy = 2));
                assert!(!published.publish(|_| panic!("it is being read")));
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
        // Whoever publishes has filled the copy, and not called it the newest yet.
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
