//! The cost of a request outside the engine and the drives, and the account that is charged.

/// Processor time of clients and of the kernel. All figures are times of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The client's own time for a request, from preparing it to handling its answer.
    pub client_request_ns: u64,
    /// The kernel's time to pass a command on to a drive.
    pub submit_command_ns: u64,
    /// The kernel's time for each page of a request's memory after the first.
    pub page_ns: u64,
    /// The kernel's time to handle a drive's answer.
    pub answer_command_ns: u64,
    /// The time of a system call, once per turn that passes commands on.
    pub enter_ns: u64,
    /// From a drive's answer, or a client's request, until a sleeping shard notices it: an interrupt and a
    /// wake-up. Zero if the shard polls.
    pub notice_ns: u64,
    /// The kernel's processor time for that interrupt and wake-up, before the shard continues.
    pub wake_ns: u64,
    /// The share of a shard's idle time that it spends polling, in thousandths.
    pub look_per_mille: u64,
    /// Time of the kernel and the server, on a core of the stack, for a read by a client in another process.
    pub serve_read_ns: u64,
    /// The same time for a write.
    pub serve_write_ns: u64,
    /// Idle time after which a core enters a deep sleep state.
    pub deep_idle_after_ns: u64,
    /// Time to leave that state, before anything is noticed.
    pub deep_idle_exit_ns: u64,
    /// How often each command and its answer change the drive's counter that all cores share.
    pub drive_counter_changes: u64,
    /// Time of such a change if the line was last changed by the same core, by another core of its socket, or by
    /// a core of another socket.
    pub line_ns: [u64; 3],
    /// Number of sockets; cores are assigned to them in turn.
    pub sockets: usize,
    /// What it costs that cores share the queues of drives.
    pub queues: QueueCosts,
}

/// The costs of queues that several processors share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCosts {
    /// The machine's processors: the kernel creates no more queues than that. 0 if none are modelled, and so no queues.
    pub processors: usize,
    /// Changes of shared lines each time that the lock of a queue is taken.
    pub lock_changes: u64,
    /// Whether a turn takes the lock once for all its commands for a drive, and not once for each.
    pub locks_per_turn: bool,
    /// How long the lock is held after these changes. This is part of [`Host::submit_command_ns`] and delays only others.
    pub held_ns: u64,
    /// Time of a change, as [`Host::line_ns`].
    pub line_ns: [u64; 3],
    /// Whether a core of each queue handles the completions of all, as with interrupts.
    pub has_handlers: bool,
    /// Whether the interrupts of several drives go round among the processors of a group, instead of all going to the first.
    pub spreads_handlers: bool,
    /// Lines of a request that move to that core and back if another has submitted it.
    pub handed_lines: u64,
    /// An interrupt of a core that sleeps, without a switch of threads.
    pub interrupt_ns: u64,
    /// Having another core wake a thread that sleeps.
    pub kick_ns: u64,
}

impl Host {
    /// How long it takes to notice something after this much idle time.
    #[must_use]
    pub fn notice_after_ns(&self, idle_ns: u64) -> u64 {
        if idle_ns >= self.deep_idle_after_ns {
            self.notice_ns + self.deep_idle_exit_ns
        } else {
            self.notice_ns
        }
    }

    /// Processor time spent polling during this much idle time.
    #[must_use]
    pub fn looking_ns(&self, idle_ns: u64) -> u64 {
        idle_ns / 1000 * self.look_per_mille + idle_ns % 1000 * self.look_per_mille / 1000
    }
}

/// Processor time spent, by account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Preparing requests and handling answers.
    pub client_ns: u64,
    /// Passing commands on, handling drives' answers, waking up, polling without result.
    pub kernel_ns: u64,
    /// The engine.
    pub raid_ns: u64,
}

impl Books {
    /// The time spent since `before`.
    #[must_use]
    pub fn since(self, before: Books) -> Books {
        Books {
            client_ns: self.client_ns - before.client_ns,
            kernel_ns: self.kernel_ns - before.kernel_ns,
            raid_ns: self.raid_ns - before.raid_ns,
        }
    }

    /// Cores that were busy on average over a window.
    #[must_use]
    pub fn cores(self, window_ns: u64) -> f64 {
        let sum_ns = self.client_ns + self.kernel_ns + self.raid_ns;
        if window_ns == 0 {
            return 0.0;
        }
        sum_ns as f64 / window_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_sleep_takes_longer_to_wake_from_and_looking_is_charged() {
        let host = Host {
            notice_ns: 600,
            look_per_mille: 500,
            deep_idle_after_ns: 600_000,
            deep_idle_exit_ns: 133_000,
            ..Host::default()
        };
        assert_eq!(host.notice_after_ns(599_999), 600);
        assert_eq!(host.notice_after_ns(600_000), 133_600);
        assert_eq!(host.looking_ns(2_001), 1_000);
        assert_eq!(Host::default().notice_after_ns(u64::MAX), 0);
    }
}
