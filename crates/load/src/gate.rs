//! Where the threads of a run wait until all are ready, so that they begin in the same moment.
//!
//! A thread that cannot take part gives up for all: the others must not wait for it.

use engine::units::Nanos;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Time between the last arrival and the start, in which threads wake.
const WAKING: Nanos = Nanos(5_000_000);

#[derive(Default)]
struct State {
    ready: u32,
    start: Option<Nanos>,
    is_given_up: bool,
}

/// See the module's prose.
pub(crate) struct Gate {
    threads: u32,
    state: Mutex<State>,
    changed: Condvar,
}

/// A thread's right to pass. Dropped before it has arrived, it gives up for all.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    has_arrived: bool,
}

impl Gate {
    /// For so many threads.
    pub fn new(threads: u32) -> Gate {
        Gate {
            threads,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// A pass for one of the threads.
    pub fn pass(&self) -> Pass<'_> {
        Pass {
            gate: self,
            has_arrived: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Waits for all threads; returns when they start, or `None` if one has given up. `now` reads the clock.
    pub fn arrive(mut self, now: impl Fn() -> Nanos) -> Option<Nanos> {
        self.has_arrived = true;
        let gate = self.gate;
        let mut state = gate.state();
        state.ready += 1;
        if state.ready == gate.threads {
            state.start = Some(now().after(WAKING));
            gate.changed.notify_all();
        }
        while state.start.is_none() && !state.is_given_up {
            state = gate
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.start.filter(|_| !state.is_given_up)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.has_arrived {
            self.gate.state().is_given_up = true;
            self.gate.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_at_once_or_none() {
        let starts = |give_up: bool| -> Vec<Option<Nanos>> {
            let gate = Gate::new(3);
            std::thread::scope(|scope| {
                let begin = |thread: u32| {
                    let pass = gate.pass();
                    match give_up && thread == 1 {
                        true => None,
                        false => pass.arrive(|| Nanos(7)),
                    }
                };
                let threads = [0, 1, 2].map(|thread| scope.spawn(move || begin(thread)));
                threads.map(|thread| thread.join().expect("it ends")).into()
            })
        };
        assert_eq!(starts(false), [Some(Nanos(7).after(WAKING)); 3]);
        assert_eq!(starts(true), [None; 3]);
    }
}
