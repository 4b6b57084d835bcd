//! Virtual time against queueing theory: where a formula predicts a result, the run must have it. The formulas do
//! not depend on the code.

use engine::layout::Level;
use engine::plan::StepKind;
use lab::statistics::replications::{estimate, seeds};
use lab::workload::size::Size;
use lab::workload::{Arrivals, Operation, Workload};
use repeatable::random::Stream;
use timed::array::Array;
use timed::host::Host;
use timed::prices::Prices;
use timed::run::{RunOutcome, Setup, Window, run};
use timed::stacks::Stack;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::none::NoRaid;
use virtual_time::timing::{Place, Timing};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Mean service time of a drive.
const SERVICE_NS: f64 = 100_000.0;

/// The distribution of a drive's service times.
#[derive(Clone, Copy)]
enum Law {
    Exponential,
    Constant,
}

/// A drive that serves one command at a time, in order.
struct Server {
    law: Law,
    random: Stream,
    free_at_ns: u64,
}

impl Timing for Server {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, _: Place) -> u64 {
        if kind == StepKind::Flush {
            return now_ns;
        }
        let service_ns = match self.law {
            Law::Constant => SERVICE_NS,
            Law::Exponential => self.random.exponential() * SERVICE_NS,
        };
        self.free_at_ns = self.free_at_ns.max(now_ns) + service_ns.round() as u64;
        self.free_at_ns
    }
}

/// Random 4 KiB requests of one operation.
fn workload(op: Operation, threads: u32, depth: u32) -> Workload {
    let text = format!("op = \"randread\"\nbs = \"4k\"\nthreads = {threads}\nqd = {depth}\n");
    Workload {
        op,
        ..toml::from_str(&text).expect("a workload")
    }
}

struct Case {
    /// The engine's level; `None` is a drive without RAID.
    level: Option<Level>,
    members: u8,
    law: Law,
    workload: Workload,
    host: Host,
}

impl Case {
    fn stack(&self) -> Box<dyn Stack> {
        let component_bytes = 64 << 30;
        let Some(level) = self.level else {
            return Box::new(NoRaid::new(component_bytes, self.workload.threads));
        };
        let array = Array {
            level,
            members: self.members,
            chunk_bytes: 64 << 10,
            component_bytes,
            logged: false,
            volatile_cache: false,
            missing: None,
            rebuilding: None,
            shards: 1,
        };
        Box::new(Fullstripe::new(&array, &Prices::nothing()).expect("an array"))
    }

    fn run(&self, seed: u64, for_ns: u64) -> RunOutcome {
        let drive = |index| -> Box<dyn Timing> {
            Box::new(Server {
                law: self.law,
                random: Stream::new(seed, "server", u64::from(index)),
                free_at_ns: 0,
            })
        };
        let setup = Setup {
            stack: self.stack(),
            drives: (0..self.members).map(drive).collect(),
            queues: Vec::new(),
            host: self.host,
            workload: self.workload.clone(),
            seed,
        };
        let window = Window {
            from_ns: S,
            until_ns: S + for_ns,
        };
        run(setup, window).expect("a run that obeys its laws")
    }

    /// Asserts that a figure's mean over ten seeds is `expected`, within three half-widths of its interval, which
    /// must be narrow.
    fn assert(&self, expected: f64, figure: impl Fn(&RunOutcome) -> f64) {
        let runs: Vec<f64> = seeds(1, 10)
            .map(|seed| figure(&self.run(seed, 4 * S)))
            .collect();
        let found = estimate(&runs).expect("an estimate");
        let half_width = found.interval.half_width();
        let off = (found.mean - expected).abs();
        assert!(
            off <= 3.0 * half_width && half_width <= 0.03 * expected,
            "{expected} is expected and {found:?} was found"
        );
    }
}

fn mean_response_ns(outcome: &RunOutcome) -> f64 {
    outcome.figures.response.mean_ns().unwrap()
}

fn iops(outcome: &RunOutcome) -> f64 {
    outcome.figures.iops()
}

fn open(level: Option<Level>, law: Law, busy: f64) -> Case {
    Case {
        level,
        members: 1,
        law,
        workload: Workload {
            demand_iops: Some((busy * 1e9 / SERVICE_NS) as u64),
            arrivals: Some(Arrivals::Poisson),
            ..workload(Operation::RandRead, 1, 1000)
        },
        host: Host::default(),
    }
}

#[test]
fn one_exponential_server_in_an_open_loop_is_m_m_1() {
    for (level, busy) in [
        (Some(Level::Raid0), 0.3),
        (Some(Level::Raid0), 0.7),
        (None, 0.7),
    ] {
        let case = open(level, Law::Exponential, busy);
        case.assert(SERVICE_NS / (1.0 - busy), mean_response_ns);
    }
}

#[test]
fn one_constant_server_in_an_open_loop_is_m_d_1() {
    for (level, busy) in [
        (Some(Level::Raid0), 0.3),
        (Some(Level::Raid0), 0.8),
        (None, 0.8),
    ] {
        let waiting = busy * SERVICE_NS / (2.0 * (1.0 - busy));
        let case = open(level, Law::Constant, busy);
        case.assert(SERVICE_NS + waiting, mean_response_ns);
    }
}

/// Exact mean value analysis of equal exponential stations and a delay: requests per second.
fn closed_network(stations: f64, depth: u32, delay_ns: f64) -> f64 {
    let (mut queue, mut rate) = (0.0, 0.0);
    for customers in 1..=depth {
        let residence_ns = SERVICE_NS * (1.0 + queue);
        rate = f64::from(customers) / (delay_ns + stations * residence_ns / stations);
        queue = rate * residence_ns / stations;
    }
    rate * 1e9
}

#[test]
fn striped_reads_in_a_closed_loop_are_a_closed_network() {
    for (members, depth) in [(1, 4), (4, 1), (4, 16), (12, 32)] {
        let case = Case {
            level: Some(Level::Raid0),
            members,
            law: Law::Exponential,
            workload: workload(Operation::RandRead, 1, depth),
            host: Host::default(),
        };
        case.assert(closed_network(f64::from(members), depth, 0.0), iops);
    }
}

#[test]
fn threads_that_think_are_the_machine_repairman() {
    for (level, threads) in [
        (Some(Level::Raid0), 1),
        (Some(Level::Raid0), 4),
        (Some(Level::Raid0), 8),
        (None, 1),
        (None, 8),
    ] {
        let case = Case {
            level,
            members: 1,
            law: Law::Exponential,
            workload: workload(Operation::RandRead, threads, 1),
            host: Host {
                client_request_ns: 3 * SERVICE_NS as u64,
                ..Host::default()
            },
        };
        case.assert(closed_network(1.0, threads, 3.0 * SERVICE_NS), iops);
    }
}

#[test]
fn a_mirrored_write_waits_for_the_slowest_copy() {
    // The greatest of n exponential times is, on average, the n-th harmonic number times their mean.
    for (members, factor) in [(2, 1.5), (3, 11.0 / 6.0)] {
        let case = Case {
            level: Some(Level::Raid1),
            members,
            law: Law::Exponential,
            workload: workload(Operation::RandWrite, 1, 1),
            host: Host::default(),
        };
        case.assert(factor * SERVICE_NS, mean_response_ns);
    }
}

#[test]
fn parity_takes_two_reads_and_then_two_writes() {
    let case = Case {
        level: Some(Level::Raid5),
        members: 4,
        law: Law::Exponential,
        workload: workload(Operation::RandWrite, 1, 1),
        host: Host::default(),
    };
    case.assert(3.0 * SERVICE_NS, mean_response_ns);
}

#[test]
fn without_raid_client_and_kernel_share_a_core() {
    // The drive takes little time compared with the processor, so each thread's core works on one request after the
    // other, in the client or in the kernel.
    let host = Host {
        client_request_ns: 1_000_000,
        submit_command_ns: 300_000,
        answer_command_ns: 200_000,
        enter_ns: 500_000,
        notice_ns: 0,
        ..Host::default()
    };
    let case = Case {
        level: None,
        members: 1,
        law: Law::Constant,
        workload: workload(Operation::RandRead, 4, 1),
        host,
    };
    let outcome = case.run(1, 4 * S);
    // At the drive a request waits for at most three others.
    let least_ns = 2_000_000.0 + SERVICE_NS;
    let (least, most) = (4e9 / (least_ns + 3.0 * SERVICE_NS), 4e9 / least_ns);
    assert!(
        (least..=most).contains(&iops(&outcome)),
        "{}",
        iops(&outcome)
    );
    let deep = Case {
        workload: workload(Operation::RandRead, 1, 64),
        ..case
    };
    let outcome = deep.run(1, 4 * S);
    let window_ns = outcome.figures.window_ns;
    let cores = outcome.books.cores(window_ns);
    assert!((0.99..=1.01).contains(&cores), "one core is busy: {cores}");
    // Requests that are submitted together share the cost of entering the kernel.
    assert!(
        (1e9 / 2e6..=1e9 / 1.5e6).contains(&iops(&outcome)),
        "{}",
        iops(&outcome)
    );
}

#[test]
fn large_requests_cost_their_pages() {
    let host = Host {
        submit_command_ns: 40_000,
        page_ns: 5_000,
        ..Host::default()
    };
    // Without RAID, and with an engine whose chunks split each request in two.
    for (level, members, commands) in [(None, 1, 1.0), (Some(Level::Raid0), 4, 2.0)] {
        let mut case = Case {
            level,
            members,
            law: Law::Constant,
            workload: workload(Operation::RandRead, 1, 1),
            host,
        };
        case.workload.bs = Size::try_from("128k".to_owned()).ok();
        let outcome = case.run(1, 4 * S);
        let kernel_ns = commands * 40_000.0 + (32.0 - commands) * 5_000.0;
        let spent_ns = outcome.books.kernel_ns as f64 / outcome.figures.requests as f64;
        assert!(
            (spent_ns / kernel_ns - 1.0).abs() < 0.001,
            "{level:?}: {spent_ns}"
        );
    }
}

#[test]
fn a_seed_says_it_all() {
    for (level, members) in [
        (None, 1),
        (Some(Level::Raid0), 4),
        (Some(Level::Raid5), 5),
        (Some(Level::Raid10), 4),
    ] {
        let case = Case {
            level,
            members,
            law: Law::Exponential,
            workload: workload(Operation::RandWrite, 2, 16),
            host: Host {
                client_request_ns: 900,
                submit_command_ns: 300,
                answer_command_ns: 200,
                enter_ns: 500,
                notice_ns: 1500,
                ..Host::default()
            },
        };
        let [first, again] = [(); 2].map(|()| case.run(7, S));
        assert_eq!(first.digest, again.digest);
        let other = case.run(8, S);
        assert_ne!(first.digest, other.digest, "{level:?}");
        assert_eq!(first.counters, again.counters);
        assert_eq!(
            first.figures.service.merged().sum_ns(),
            again.figures.service.merged().sum_ns()
        );
        assert_eq!(first.books, again.books);
    }
}
