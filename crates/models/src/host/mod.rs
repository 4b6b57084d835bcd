//! The operating system between clients and drives: what a command costs a processor, in numbers with their
//! sources.
//!
//! A file describes one [`HostFile`]; [`HostFile::host`] checks it and gives the [`Host`]. What that costs on
//! some [`Cores`], with one [`Completion`] mode, are its [`Host::costs`]: nanoseconds by kind of work. Work is
//! given in cycles, so it scales with the clock; what waits for memory is given in time, and does not.

use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The version of the form of host files.
pub const SCHEMA: u32 = 1;

figures! {
    /// Work of one kind each.
    Work {
        /// A client's own work for a request: making it, taking and counting its answer.
        client_cycles,
        /// The kernel's way of a command from a system call to the drive's doorbell.
        submit_cycles,
        /// Each page of memory of a command after the first: found and pinned, put on the drive's list, let go of.
        page_cycles,
        /// The kernel's way of an answer from the drive's queue to the client's.
        answer_cycles,
        /// The same where it is looked for instead of announced.
        polled_answer_cycles,
        /// Entering the kernel and leaving it, once.
        entry_cycles,
        /// System calls of a client for each request, where nothing is batched.
        entries_per_request,
        /// An interrupt, whatever it brings: saving, finding the queue, ending.
        interrupt_cycles,
        /// A sleeping thread is chosen and switched to.
        switch_cycles,
        /// One look at a queue that has nothing.
        look_cycles,
        /// Memory that each command waits for, at any clock.
        memory_ns,
        /// From a drive's message to the first instruction of its handler.
        interrupt_latency_ns,
        /// Changes of a counter that each drive has one of for all cores, for each command and its answer together.
        drive_counter_changes,
    }
}

figures! {
    /// Guards against attacks on the processor.
    Mitigations {
        /// 1 if the kernel's page tables are kept apart from those of programs.
        page_table_isolation,
        /// What that adds to each way into the kernel and back.
        isolation_cycles,
    }
}

figures! {
    /// Sleeping for a part of the expected time before looking.
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
    /// Guards.
    pub mitigations: Mitigations,
    /// Hybrid completion.
    pub hybrid: Hybrid,
}

/// How a program learns that a command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The drive interrupts, and a sleeping thread is woken.
    Interrupt,
    /// A core looks all the time.
    Polled,
    /// A core sleeps for part of the expected time, then looks.
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

/// What a host costs on some processor, in nanoseconds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A client's own work for a request.
    pub client_request_ns: u64,
    /// Passing a command on.
    pub submit_command_ns: u64,
    /// Each page of memory of a command after the first, from passing it on to letting go of it.
    pub page_ns: u64,
    /// Taking an answer.
    pub answer_command_ns: u64,
    /// A system call, with what isolation adds.
    pub enter_ns: u64,
    /// System calls for a request of a client that does not batch, in thousandths.
    pub enters_per_request_per_mille: u64,
    /// An interrupt that finds a core asleep or at other work, with what isolation adds. Zero where none comes.
    pub interrupt_ns: u64,
    /// Processor time of waking a thread. Zero where none sleeps.
    pub switch_ns: u64,
    /// From a drive's answer to someone noticing who had nothing else to do, without the processor's own waking
    /// from deep sleep.
    pub notice_ns: u64,
    /// Part of the time without work that a core spends looking, in thousandths.
    pub look_per_mille: u64,
    /// Changes, for each command, of a counter that its drive has one of for all cores.
    pub drive_counter_changes: u64,
    /// What they take together on a core that is alone.
    pub drive_counter_ns: u64,
}

impl Costs {
    /// Processor time of one request that its own client passes on and takes back, with so many answers for
    /// each interrupt: all three parts of the client's, the kernel's and the interrupt's.
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

/// Smallest and largest value of a key, and whether it counts something.
fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "page_table_isolation" => (0.0, 1.0, true),
        "sleep_share" => (0.0, 1.0, false),
        "entries_per_request" => (0.0, 16.0, false),
        "drive_counter_changes" => (0.0, 16.0, true),
        "memory_ns" | "interrupt_latency_ns" => (0.0, 1e6, false),
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
    /// What it costs on these processors, with so many threads computing at once.
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
            // A hybrid core is woken by its own timer, which interrupts too.
            interrupt_ns: if wakes { interrupt_ns } else { 0 },
            switch_ns: if wakes { switch_ns } else { 0 },
            notice_ns: if looks {
                // On average half a look is over when an answer comes.
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
        }
    }
}
