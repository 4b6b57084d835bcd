//! Loads for a single drive: the smallest closed and open loops that fitting and tests need. A command reaches the
//! drive at once, and its completion is seen at once.

use crate::drive::{Command, Drive, Operation};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use repeatable::random::Stream;

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Reads per hundred commands.
    pub read_pct: u64,
    /// Length of a command.
    pub length_bytes: u64,
    /// Whether each thread goes sequentially through a region of its own; otherwise offsets are random over the whole
    /// span.
    pub in_order: bool,
    /// Distance by which commands are misaligned.
    pub misaligned_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Outstanding commands of each thread.
    pub depth: u64,
    /// Time that the host spends between a completion and the next command.
    pub think_ns: u64,
    /// Seed of the load's random numbers.
    pub seed: u64,
}

impl Load {
    /// Commands of 4 KiB at random.
    #[must_use]
    pub fn random(read_pct: u64, threads: u64, depth: u64) -> Load {
        Load {
            read_pct,
            length_bytes: 4096,
            in_order: false,
            misaligned_bytes: 0,
            threads,
            depth,
            think_ns: 0,
            seed: 1,
        }
    }

    /// Sequential commands of 128 KiB.
    #[must_use]
    pub fn in_order(read_pct: u64, threads: u64, depth: u64) -> Load {
        Load {
            length_bytes: 131_072,
            in_order: true,
            ..Load::random(read_pct, threads, depth)
        }
    }
}

/// The results of the window after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct LoadResult {
    /// Commands completed in the window.
    pub completed: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// Bytes of a command.
    pub length_bytes: u64,
    /// Latencies of the commands that were submitted in the window, sorted.
    pub latencies_ns: Vec<u64>,
    /// Completions by second since the start.
    pub by_second: Vec<u64>,
    /// Mean power over the window.
    pub watts: f64,
    /// Sum of all latencies of the whole run, and integral of outstanding commands over time. By Little's law both are
    /// equal.
    pub little: (u128, u128),
    /// Digest of all completion times.
    pub digest: u64,
}

impl LoadResult {
    /// Completed commands per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.completed as f64 * 1e9 / self.window_ns as f64
    }

    /// Their bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.iops() * self.length_bytes as f64
    }

    /// Mean latency.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        let sum: u64 = self.latencies_ns.iter().sum();
        sum as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    /// The latency that `of_100k` out of a hundred thousand commands stay within.
    ///
    /// # Panics
    /// If no command was measured.
    #[must_use]
    pub fn percentile_us(&self, of_100k: usize) -> f64 {
        let at = (self.latencies_ns.len() * of_100k).div_ceil(100_000).max(1) - 1;
        self.latencies_ns[at] as f64 / 1e3
    }
}

/// Makes the commands of a load.
struct Generator {
    load: Load,
    stream: Stream,
    next: Vec<u64>,
    slots: u64,
}

impl Generator {
    fn new(drive: &Drive, load: Load) -> Generator {
        let slots = drive.profile().capacity_bytes / load.length_bytes - 1;
        Generator {
            load,
            stream: Stream::new(load.seed, "load", 0),
            next: (0..load.threads)
                .map(|thread| slots / load.threads * thread)
                .collect(),
            slots,
        }
    }

    fn command(&mut self, thread: u64) -> Command {
        let load = self.load;
        let is_read = self.stream.below(100) < load.read_pct;
        let slot = if load.in_order {
            let next = &mut self.next[thread as usize];
            *next += 1;
            *next % self.slots
        } else {
            self.stream.below(self.slots)
        };
        Command {
            operation: if is_read {
                Operation::Read
            } else {
                Operation::Write
            },
            offset_bytes: slot * load.length_bytes + load.misaligned_bytes,
            length_bytes: load.length_bytes,
        }
    }
}

/// Records completions.
struct Recorder {
    warm_ns: u64,
    end_ns: u64,
    outcome: LoadResult,
    warm_energy_nj: u64,
    outstanding: u64,
    last_ns: u64,
}

impl Recorder {
    fn new(load: &Load, warm_ns: u64, end_ns: u64) -> Recorder {
        Recorder {
            warm_ns,
            end_ns,
            outcome: LoadResult {
                length_bytes: load.length_bytes,
                window_ns: end_ns - warm_ns,
                by_second: alloc::vec![0; end_ns.div_ceil(1_000_000_000) as usize + 1],
                ..LoadResult::default()
            },
            warm_energy_nj: 0,
            outstanding: 0,
            last_ns: 0,
        }
    }

    fn pass(&mut self, now_ns: u64) {
        let step_ns = now_ns - self.last_ns;
        self.outcome.little.1 += u128::from(step_ns) * u128::from(self.outstanding);
        self.last_ns = now_ns;
    }

    fn submitted(&mut self, now_ns: u64, done_ns: u64) {
        self.pass(now_ns);
        self.outstanding += 1;
        self.outcome.little.0 += u128::from(done_ns - now_ns);
        self.outcome.digest = repeatable::random::mix(self.outcome.digest ^ done_ns);
        if now_ns >= self.warm_ns && now_ns < self.end_ns {
            self.outcome.latencies_ns.push(done_ns - now_ns);
        }
    }

    fn completed(&mut self, done_ns: u64) {
        self.pass(done_ns);
        self.outstanding -= 1;
        if done_ns >= self.warm_ns && done_ns < self.end_ns {
            self.outcome.completed += 1;
        }
        if let Some(second) = self
            .outcome
            .by_second
            .get_mut((done_ns / 1_000_000_000) as usize)
        {
            *second += 1;
        }
    }

    fn finish(mut self, drive: &mut Drive) -> LoadResult {
        let used_nj = drive.energy_nj(self.end_ns) - self.warm_energy_nj;
        self.outcome.watts = used_nj as f64 / self.outcome.window_ns as f64;
        self.outcome.latencies_ns.sort_unstable();
        self.outcome
    }
}

/// A closed loop: each completion leads to the next command.
pub fn closed_loop(drive: &mut Drive, load: Load, warm_ms: u64, window_ms: u64) -> LoadResult {
    let warm_ns = warm_ms * 1_000_000;
    let end_ns = warm_ns + window_ms * 1_000_000;
    let mut recorder = Recorder::new(&load, warm_ns, end_ns);
    let mut generator = Generator::new(drive, load);
    // Ordered by time, then by number, so that equal times have the same order on every machine.
    let mut pending = BinaryHeap::new();
    let mut number = 0;
    for slot in 0..load.threads * load.depth {
        pending.push(Reverse((0, number, slot / load.depth, false)));
        number += 1;
    }
    let mut warm = false;
    while let Some(Reverse((now_ns, _, thread, is_answer))) = pending.pop() {
        if !warm && now_ns >= warm_ns {
            warm = true;
            recorder.warm_energy_nj = drive.energy_nj(warm_ns);
        }
        if is_answer {
            recorder.completed(now_ns);
        }
        number += 1;
        if is_answer && load.think_ns > 0 {
            pending.push(Reverse((now_ns + load.think_ns, number, thread, false)));
            continue;
        }
        if now_ns >= end_ns {
            continue;
        }
        let done_ns = drive.submit(generator.command(thread), now_ns).done_ns;
        recorder.submitted(now_ns, done_ns);
        pending.push(Reverse((done_ns, number, thread, true)));
    }
    recorder.finish(drive)
}

/// How the commands of an open loop are spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At even distances.
    Paced,
    /// At exponential distances.
    Poisson,
}

/// An open loop: commands are demanded at a fixed rate. At most `load.depth` are outstanding; the others wait outside.
/// Latency counts from submission.
pub fn open_loop(
    drive: &mut Drive,
    load: Load,
    demand_iops: u64,
    arrivals: Arrivals,
    warm_ms: u64,
    window_ms: u64,
) -> LoadResult {
    let warm_ns = warm_ms * 1_000_000;
    let end_ns = warm_ns + window_ms * 1_000_000;
    let mut recorder = Recorder::new(&load, warm_ns, end_ns);
    let mut generator = Generator::new(drive, load);
    let mut gaps = Stream::new(load.seed, "gaps", 0);
    let mut outstanding = BinaryHeap::new();
    let (mut demanded, mut demand_ns, mut now_ns, mut warm) = (0_u64, 0_u64, 0_u64, false);
    loop {
        let full = outstanding.len() as u64 >= load.depth;
        match outstanding.peek() {
            Some(&Reverse(done_ns)) if full || done_ns <= demand_ns.max(now_ns) => {
                outstanding.pop();
                now_ns = now_ns.max(done_ns);
                recorder.completed(done_ns);
                continue;
            }
            _ => {}
        }
        now_ns = now_ns.max(demand_ns);
        if now_ns >= end_ns {
            break;
        }
        if !warm && now_ns >= warm_ns {
            warm = true;
            recorder.warm_energy_nj = drive.energy_nj(warm_ns);
        }
        let done_ns = drive.submit(generator.command(0), now_ns).done_ns;
        recorder.submitted(now_ns, done_ns);
        outstanding.push(Reverse(done_ns));
        demanded += 1;
        demand_ns = match arrivals {
            Arrivals::Paced => {
                (u128::from(demanded) * 1_000_000_000 / u128::from(demand_iops)) as u64
            }
            Arrivals::Poisson => {
                demand_ns + (gaps.exponential() * (1e9 / demand_iops as f64)) as u64
            }
        };
    }
    while let Some(Reverse(done_ns)) = outstanding.pop() {
        recorder.completed(done_ns);
    }
    recorder.finish(drive)
}
