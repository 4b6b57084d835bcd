//! The operating system between clients and drives: what a command costs a processor, in numbers with their sources.
//!
//! A file describes one [`HostFile`]; [`HostFile::host`] checks it and gives the [`Host`]. Its [`Host::costs`] on some
//! [`Cores`], with one [`Completion`] mode, are nanoseconds by kind of work. Work is given in cycles, so it scales with
//! the clock; waiting for memory is given in time and does not scale.

use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The version of the form of host files.
pub const SCHEMA: u32 = 1;

figures! {
    /// Work of the host, by kind.
    Work {
        /// A client's own work for a request: making it, receiving and counting its completion.
        client_cycles,
        /// The kernel's work for a command from the system call to the drive's doorbell.
        submit_cycles,
        /// Each page of a command after the first: finding and pinning it, putting it on the drive's list, releasing
        /// it.
        page_cycles,
        /// The kernel's work for a completion from the drive's queue to the client's.
        answer_cycles,
        /// The same if the completion is polled for.
        polled_answer_cycles,
        /// Entering and leaving the kernel, once.
        entry_cycles,
        /// System calls of a client per request, if nothing is batched.
        entries_per_request,
        /// An interrupt without its completions: saving registers, finding the queue, returning.
        interrupt_cycles,
        /// Choosing a sleeping thread and switching to it.
        switch_cycles,
        /// One poll of an empty queue.
        look_cycles,
        /// Waiting for memory per command, at any clock.
        memory_ns,
        /// From a drive's message to the first instruction of its handler.
        interrupt_latency_ns,
        /// Changes of the drive's counter per command and its completion. Each drive has one counter for all cores.
        drive_counter_changes,
        /// Cache lines that each core changes that takes the lock of a drive's submission queue: the lock's, and that of the
        /// state that it protects.
        queue_lock_changes,
        /// 1 if a system call takes that lock once for all its commands for a drive; 0 if each command takes it.
        queue_lock_per_call,
        /// How long the lock is held after that, for the queue's entries and the doorbell.
        queue_held_ns,
        /// Cache lines of a request that move to the core that handles its completion, if that is not the one that submitted
        /// it, and back.
        handed_lines,
        /// 1 if the interrupts of several drives go round among the processors that share a queue of each; 0 if the first of
        /// these handles all.
        handlers_spread,
        /// Waking a thread that sleeps on another core: the message to that core.
        kick_cycles,
    }
}

figures! {
    /// Protections against attacks on the processor.
    Mitigations {
        /// 1 if the kernel's page tables are separate from those of programs.
        page_table_isolation,
        /// Additional cycles of each entry into the kernel and return.
        isolation_cycles,
    }
}

figures! {
    /// Hybrid polling: sleeping for a part of the expected time before polling.
    Hybrid {
        /// That part.
        sleep_share,
    }
}

/// A host: one host file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Version of the form: [`SCHEMA`].
    pub schema: u32,
    /// Name by which plans call it.
    pub host: String,
    /// Full name, for people.
    pub title: String,
    /// Work.
    pub work: Work,
    /// Protections.
    pub mitigations: Mitigations,
    /// Hybrid completion.
    pub hybrid: Hybrid,
}

/// How a program notices that a command has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The drive interrupts, and a sleeping thread is woken.
    Interrupt,
    /// A core polls all the time.
    Polled,
    /// A core sleeps for part of the expected time, then polls.
    Hybrid,
}

/// A host in checked numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: String,
    work: Work,
    isolation_cycles: f64,
    sleep_share: f64,
}

/// The costs of a host on a given processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A client's own work for a request.
    pub client_request_ns: u64,
    /// Submitting a command.
    pub submit_command_ns: u64,
    /// Each page of a command after the first, from its submission to its release.
    pub page_ns: u64,
    /// Handling a completion.
    pub answer_command_ns: u64,
    /// A system call, including the isolation of page tables.
    pub enter_ns: u64,
    /// System calls per request of a client that does not batch, in thousandths.
    pub enters_per_request_per_mille: u64,
    /// An interrupt of a sleeping or busy core, including the isolation of page tables. 0 if there are no interrupts.
    pub interrupt_ns: u64,
    /// Processor time to wake a thread. 0 if no thread sleeps.
    pub switch_ns: u64,
    /// From a drive's completion until an idle core notices it, without the processor's own wake-up from deep sleep.
    pub notice_ns: u64,
    /// Share of its idle time that a core spends polling, in thousandths.
    pub look_per_mille: u64,
    /// Changes per command of the drive's counter, of which there is one for all cores.
    pub drive_counter_changes: u64,
    /// Time of these changes if no other core changes the counter.
    pub drive_counter_ns: u64,
    /// Changes of shared lines each time that the lock of a queue is taken. If completions are polled for, those of
    /// the lock of the completion queue are included.
    pub queue_lock_changes: u64,
    /// Whether a system call takes the lock once for all its commands for a drive.
    pub queue_lock_per_call: bool,
    /// How long the lock is held after these changes.
    pub queue_held_ns: u64,
    /// Lines of a request that move to the core that handles its completion and back. 0 if completions are polled for: then the
    /// core that submitted a request finds its completion.
    pub handed_lines: u64,
    /// Whether the interrupts of several drives go round among the processors that share queues.
    pub spreads_handlers: bool,
    /// Processor time to have another core wake a thread.
    pub kick_ns: u64,
}

impl Costs {
    /// Processor time of one request whose client submits it and handles its completion itself, with
    /// `answers_per_interrupt` completions per interrupt: the client's, the kernel's and the interrupt's part together.
    #[must_use]
    pub fn direct_request_ns(&self, answers_per_interrupt: u64) -> u64 {
        let enters_ns = self.enter_ns * self.enters_per_request_per_mille / 1000;
        self.client_request_ns
            + self.submit_command_ns
            + self.answer_command_ns
            + enters_ns
            + self.drive_counter_ns
            + (self.interrupt_ns + self.switch_ns) / answers_per_interrupt.max(1)
    }
}

/// Smallest and largest value of a key, and whether it must be a whole number.
fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "page_table_isolation" => (0.0, 1.0, true),
        "sleep_share" => (0.0, 1.0, false),
        "entries_per_request" => (0.0, 16.0, false),
        "drive_counter_changes" | "queue_lock_changes" | "handed_lines" => (0.0, 16.0, true),
        "queue_lock_per_call" | "handlers_spread" => (0.0, 1.0, true),
        "memory_ns" | "interrupt_latency_ns" | "queue_held_ns" => (0.0, 1e6, false),
        _ => (0.0, 1e7, false),
    }
}

impl HostFile {
    /// The host's numbers, checked.
    ///
    /// # Errors
    /// The first number that breaks a rule.
    pub fn host(&self) -> Result<Host, FigureError> {
        check(self, &self.host, [self.schema, SCHEMA], range)?;
        let isolated = self.mitigations.page_table_isolation.value >= 0.5;
        Ok(Host {
            name: self.host.clone(),
            work: self.work.clone(),
            isolation_cycles: if isolated {
                self.mitigations.isolation_cycles.value
            } else {
                0.0
            },
            sleep_share: self.hybrid.sleep_share.value,
        })
    }
}

tables!(HostFile: work, mitigations, hybrid);

impl Host {
    /// The costs on these processors while `threads` threads compute at once.
    #[must_use]
    pub fn costs(&self, cores: &Cores, threads: u64, completion: Completion) -> Costs {
        let work = &self.work;
        let slowdown = cores.slowdown(threads);
        let ns = |cycles: f64| (cores.cycles_ns(cycles) * slowdown + 0.5) as u64;
        let waits_ns = |figure: &Figure| (figure.value + 0.5) as u64;
        let looks = completion != Completion::Interrupt;
        let answer = if looks {
            &work.polled_answer_cycles
        } else {
            &work.answer_cycles
        };
        let wakes = completion != Completion::Polled;
        let interrupt_ns = ns(work.interrupt_cycles.value + self.isolation_cycles);
        let switch_ns = ns(work.switch_cycles.value);
        let interrupt_latency_ns = waits_ns(&work.interrupt_latency_ns);
        Costs {
            client_request_ns: ns(work.client_cycles.value),
            submit_command_ns: ns(work.submit_cycles.value) + waits_ns(&work.memory_ns),
            page_ns: ns(work.page_cycles.value),
            answer_command_ns: ns(answer.value),
            enter_ns: ns(work.entry_cycles.value + self.isolation_cycles),
            enters_per_request_per_mille: (work.entries_per_request.value * 1e3 + 0.5) as u64,
            // In hybrid mode a core is woken by its own timer, which is an interrupt too.
            interrupt_ns: if wakes { interrupt_ns } else { 0 },
            switch_ns: if wakes { switch_ns } else { 0 },
            notice_ns: if looks {
                // A completion comes in the middle of a poll on average.
                ns(work.look_cycles.value / 2.0)
            } else {
                interrupt_latency_ns
            },
            look_per_mille: match completion {
                Completion::Interrupt => 0,
                Completion::Polled => 1000,
                Completion::Hybrid => ((1.0 - self.sleep_share) * 1e3 + 0.5) as u64,
            },
            drive_counter_changes: work.drive_counter_changes.value as u64,
            drive_counter_ns: work.drive_counter_changes.value as u64 * cores.line_ns[0],
            queue_lock_changes: work.queue_lock_changes.value as u64 * if looks { 2 } else { 1 },
            queue_lock_per_call: work.queue_lock_per_call.value >= 0.5,
            queue_held_ns: waits_ns(&work.queue_held_ns),
            handed_lines: if looks {
                0
            } else {
                work.handed_lines.value as u64
            },
            spreads_handlers: work.handlers_spread.value >= 0.5,
            kick_ns: ns(work.kick_cycles.value),
        }
    }
}
