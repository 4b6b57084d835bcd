//! Drives that have fewer queues than cores submit to them, against plain arithmetic.

use engine::layout::Level;
use engine::plan::StepKind;
use repeatable::random::Stream;
use timed::array::Array;
use timed::host::{Host, QueueCosts};
use timed::prices::Prices;
use timed::run::{RunOutcome, Setup, Window, run};
use timed::stacks::Stack;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::none::NoRaid;
use virtual_time::timing::{Place, Timing};

const MS: u64 = 1_000_000;
const DRIVE_NS: u64 = 80_000;

/// A drive that takes as long for a command as if it had no others: the same time for each, or between half and one and a half
/// times that. With the same time, requests that are submitted together are answered together, and a core works on all of them
/// before it submits again; whatever breaks that step up makes the array faster.
struct Unlimited {
    random: Option<Stream>,
}

impl Timing for Unlimited {
    fn finish_ns(&mut self, now_ns: u64, _: StepKind, _: Place) -> u64 {
        let extra_ns = self.random.as_mut().map(|random| random.below(DRIVE_NS));
        now_ns + extra_ns.map_or(DRIVE_NS, |extra_ns| DRIVE_NS / 2 + extra_ns)
    }
}

const HOST: Host = Host {
    client_request_ns: 160,
    submit_command_ns: 380,
    page_ns: 0,
    answer_command_ns: 320,
    enter_ns: 100,
    notice_ns: 600,
    wake_ns: 1_100,
    look_per_mille: 0,
    serve_read_ns: 0,
    serve_write_ns: 0,
    deep_idle_after_ns: u64::MAX,
    deep_idle_exit_ns: 0,
    drive_counter_changes: 0,
    line_ns: [8, 60, 200],
    sockets: 1,
    queues: QueueCosts {
        processors: 16,
        lock_changes: 2,
        locks_per_turn: true,
        held_ns: 100,
        line_ns: [8, 60, 200],
        has_handlers: true,
        spreads_handlers: true,
        handed_lines: 4,
        interrupt_ns: 400,
        kick_ns: 110,
    },
};

/// Reads of 4 KiB by clients or, of an array of two, by shards of the engine.
#[derive(Clone, Copy)]
struct Case {
    host: Host,
    threads: u32,
    depth: u32,
    is_array: bool,
    varies: bool,
}

impl Case {
    /// Long enough for thousands of requests.
    fn for_ns(&self) -> u64 {
        if self.depth > 8 { 10 * MS } else { 50 * MS }
    }

    fn run(&self, queues: &[u64]) -> RunOutcome {
        let component_bytes = 64 << 30;
        let Case { threads, depth, .. } = *self;
        let drive = |member| -> Box<dyn Timing> {
            let random = Stream::new(1, "queues", member as u64);
            Box::new(Unlimited {
                random: self.varies.then_some(random),
            })
        };
        let array = Array {
            level: Level::Raid0,
            members: 2,
            chunk_bytes: 64 << 10,
            component_bytes,
            logged: false,
            volatile_cache: false,
            missing: None,
            rebuilding: None,
            shards: threads as u8,
        };
        let stack: Box<dyn Stack> = match self.is_array {
            true => Box::new(Fullstripe::new(&array, &Prices::nothing()).expect("an array")),
            false => Box::new(NoRaid::new(component_bytes, threads)),
        };
        let load = format!("op = \"randread\"\nbs = \"4k\"\nthreads = {threads}\nqd = {depth}\n");
        let setup = Setup {
            drives: (0..stack.drives()).map(drive).collect(),
            queues: queues.to_vec(),
            stack,
            host: self.host,
            workload: toml::from_str(&load).expect("a workload"),
            seed: 1,
        };
        let window = Window {
            from_ns: 2 * MS,
            until_ns: 2 * MS + self.for_ns(),
        };
        // A run that loses a request or a byte fails.
        let outcome = run(setup, window).expect("a run that obeys its laws");
        assert_eq!(outcome.commands, outcome.counters.member_reads);
        assert_eq!(outcome.commands, outcome.counters.reads);
        outcome
    }
}

const ALONE: Case = Case {
    host: HOST,
    threads: 2,
    depth: 1,
    is_array: false,
    varies: false,
};

fn mean_ns(outcome: &RunOutcome) -> f64 {
    outcome
        .figures
        .service
        .mean_ns()
        .expect("there are answers")
}

#[test]
fn half_of_the_requests_take_two_interrupts_if_two_cores_share_a_queue() {
    let own = mean_ns(&ALONE.run(&[2]));
    // Client, call, command, drive, interrupt and switch of threads, answer.
    let expected = 160.0 + 100.0 + 380.0 + 80_000.0 + 600.0 + 1_100.0 + 320.0;
    assert!((own / expected - 1.0).abs() < 0.001, "{own}");
    // If all commands took the same time, both cores would always be interrupted at the same times.
    let varies = Case {
        varies: true,
        ..ALONE
    };
    let [own, shared] = [2, 1].map(|queues| mean_ns(&varies.run(&[queues])));
    // Of the core that does not handle interrupts: the other's interrupt before its own, the lines there and back, and the
    // message that wakes it. Both change the lines of the lock, each of which the other had in half of the cases.
    let handed = 600.0 + 400.0 + 2.0 * 4.0 * 60.0 + 110.0;
    let more = handed / 2.0 + 2.0 * f64::midpoint(8.0, 60.0);
    let found = shared - own;
    // Now and then one is delayed by the other's work.
    assert!((0.9 * more..1.2 * more).contains(&found), "{found} {more}");
}

#[test]
fn busy_cores_lose_the_lines_that_move_between_them() {
    let busy = Case {
        depth: 256,
        varies: true,
        ..ALONE
    };
    let [own, shared] = [2, 1].map(|queues| busy.run(&[queues]));
    let core_ns = |outcome: &RunOutcome| {
        let books = outcome.books;
        let sum_ns = books.client_ns + books.kernel_ns + books.raid_ns;
        sum_ns as f64 / outcome.figures.requests as f64
    };
    let more = core_ns(&shared) - core_ns(&own);
    // Nobody sleeps. The handler's own requests wait for it to have time, so more than half of all requests are the other's,
    // whose four lines move there and back. The lock costs little, because a turn takes it once.
    assert!((240.0..500.0).contains(&more), "{more}");
    let lost = 1.0 - shared.figures.iops() / own.figures.iops();
    assert!((0.2..0.4).contains(&lost), "{lost}");
}

#[test]
fn fewer_queues_are_never_faster() {
    let mut polled = HOST;
    polled.notice_ns = 50;
    polled.wake_ns = 0;
    polled.look_per_mille = 1000;
    polled.queues.has_handlers = false;
    polled.queues.lock_changes = 4;
    for host in [HOST, polled] {
        for is_array in [false, true] {
            for depth in [1, 8, 256] {
                let case = Case {
                    host,
                    threads: 8,
                    depth,
                    is_array,
                    varies: true,
                };
                let rates: Vec<f64> = (1..=8)
                    .map(|queues| case.run(&[queues; 2]).figures.iops())
                    .collect();
                let is_sorted = rates.windows(2).all(|pair| pair[0] <= pair[1] * 1.002);
                assert!(is_sorted, "{is_array} {depth}: {rates:?}");
                assert!(rates[0] < rates[7] * 0.999, "{is_array} {depth}: {rates:?}");
            }
        }
    }
}

#[test]
fn enough_queues_change_nothing() {
    for is_array in [false, true] {
        let case = Case {
            threads: 8,
            depth: 4,
            is_array,
            ..ALONE
        };
        let digest = |queues: &[u64]| case.run(queues).digest;
        let unlimited = digest(&[]);
        assert_eq!(digest(&[8, 8]), unlimited);
        assert_eq!(digest(&[127, 9]), unlimited);
        assert_ne!(digest(&[7, 7]), unlimited);
        // The kernel makes no more queues than there are processors, and threads that take turns do not meet.
        let mut few = case;
        few.host.queues.processors = 4;
        assert_eq!(few.run(&[4, 4]).digest, unlimited);
    }
}
