//! Processors as storage software uses them: the time of a cycle or an instruction, cores shared by two threads, and
//! sleep states.

/// The processors of a machine, in checked numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Sockets.
    pub sockets: u64,
    /// Cores of all sockets.
    pub cores: u64,
    /// Clock under load.
    pub clock_ghz: f64,
    /// Instructions per clock.
    pub instructions_per_clock: f64,
    /// Whether each core runs two threads at once.
    pub hyper_threading: bool,
    /// What two threads on a core achieve together, as a multiple of one thread.
    pub two_threads_gain: f64,
    /// Idle time before a core enters the deep sleep state.
    pub deep_idle_after_ns: u64,
    /// Time to wake from it.
    pub deep_idle_exit_ns: u64,
    /// Time to change a cache line that was last changed by this core, by another core of its socket, or by one of
    /// another socket: see [`crate::shared_line`].
    pub line_ns: [u64; 3],
}

impl Cores {
    /// The processors that an operating system sees: two on a core that runs two threads at once.
    #[must_use]
    pub fn processors(&self) -> u64 {
        self.cores * if self.hyper_threading { 2 } else { 1 }
    }

    /// Time of one instruction.
    #[must_use]
    pub fn instruction_ns(&self) -> f64 {
        1.0 / (self.clock_ghz * self.instructions_per_clock)
    }

    /// Time for so many cycles on a core that runs one thread.
    #[must_use]
    pub fn cycles_ns(&self, cycles: f64) -> f64 {
        cycles / self.clock_ghz
    }

    /// The factor by which each of `threads` computing threads is slower than one alone. If there are more threads than
    /// cores, two threads on a core achieve `two_threads_gain` together. Beyond two threads per core, or beyond one
    /// without hyper-threading, threads take turns.
    #[must_use]
    pub fn slowdown(&self, threads: u64) -> f64 {
        if threads <= self.cores {
            return 1.0;
        }
        let paired = if self.hyper_threading {
            (threads - self.cores).min(self.cores)
        } else {
            0
        };
        let power = self.cores as f64 + paired as f64 * (self.two_threads_gain - 1.0);
        threads as f64 / power
    }

    /// Additional time to wake a core that was idle for `idle_ns`, apart from the operating system's work: nothing
    /// before a core enters the deep sleep state.
    #[must_use]
    pub fn wake_ns(&self, idle_ns: u64) -> u64 {
        if idle_ns >= self.deep_idle_after_ns {
            self.deep_idle_exit_ns
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: Cores = Cores {
        sockets: 2,
        cores: 36,
        clock_ghz: 3.0,
        instructions_per_clock: 1.5,
        hyper_threading: true,
        two_threads_gain: 1.25,
        deep_idle_after_ns: 600_000,
        deep_idle_exit_ns: 133_000,
        line_ns: [8, 60, 200],
    };

    #[test]
    fn threads_share_cores_when_there_are_more_of_them() {
        assert!((CORES.slowdown(36) - 1.0).abs() < 1e-12);
        assert!((CORES.slowdown(72) - 2.0 / 1.25).abs() < 1e-12);
        assert!((CORES.slowdown(144) - 4.0 / 1.25).abs() < 1e-12);
        let single = Cores {
            hyper_threading: false,
            ..CORES
        };
        assert!((single.slowdown(72) - 2.0).abs() < 1e-12);
        for threads in 1..200 {
            assert!(CORES.slowdown(threads) <= CORES.slowdown(threads + 1));
            assert!(CORES.slowdown(threads) <= single.slowdown(threads));
        }
    }

    #[test]
    fn clocks_and_sleep() {
        assert!((CORES.cycles_ns(300.0) - 100.0).abs() < 1e-9);
        assert!((CORES.instruction_ns() - 1.0 / 4.5).abs() < 1e-12);
        assert_eq!(
            [0, 599_999, 600_000].map(|idle| CORES.wake_ns(idle)),
            [0, 0, 133_000]
        );
    }
}
