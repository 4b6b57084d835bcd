//! A modelled machine around modelled drives: shared parts are limits, and completion modes have their stated costs.

use engine::layout::Level;
use lab::workload::Workload;
use models::drive::{Drive, State};
use models::host::{Completion, HostFile};
use models::platform::{Buffers, DriveLink, Graph, Machine};
use models::port::Port;
use models::profile::Family;
use timed::array::Array;
use timed::host::Host;
use timed::machine::{drives_in_bays, host};
use timed::prices::Prices;
use timed::run::{RunOutcome, Setup, Window, run};
use timed::stacks::Stack;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::none::NoRaid;

const MS: u64 = 1_000_000;
const DRIVE: &str = include_str!("../../../../profiles/drives/p4510.toml");
const X16: &str = include_str!("../../../../profiles/platforms/s2600wft-6154-x16.toml");
const X8: &str = include_str!("../../../../profiles/platforms/s2600wft-6154-x8.toml");
const LINUX_4_13: &str = include_str!("../../../../profiles/hosts/linux-4.13.toml");

fn graph(text: &str) -> Graph {
    let machine: Machine = toml::from_str(text).expect("a platform");
    machine.graph().expect("a sound platform")
}

struct Case {
    graph: Graph,
    /// The number of drives; one is a drive without RAID.
    drives: u8,
    level: Level,
    prices: Prices,
    state: State,
    host: Host,
    workload: String,
}

impl Case {
    fn run(&self, for_ns: u64) -> RunOutcome {
        let family: Family = toml::from_str(DRIVE).expect("a family");
        let profile = family.member("p4510-2tb").expect("a drive");
        let drive = |index| Drive::new(&profile, self.state, Port::unlimited(), 1, index);
        let drives = (0..u64::from(self.drives)).map(drive).collect();
        let link = DriveLink {
            lanes: 4,
            generation: 3,
        };
        let links = vec![link; usize::from(self.drives)];
        let (drives, platform) = drives_in_bays(drives, &links, &self.graph, Buffers::Local)
            .expect("bays for all of them");
        let workload: Workload = toml::from_str(&self.workload).expect("a workload");
        let stack: Box<dyn Stack> = if self.drives == 1 {
            Box::new(NoRaid::new(1 << 40, workload.threads))
        } else {
            let array = Array {
                level: self.level,
                members: self.drives,
                chunk_bytes: 128 << 10,
                component_bytes: 1 << 40,
                logged: false,
                volatile_cache: false,
                missing: None,
                rebuilding: None,
                shards: 1,
            };
            let mut stack = Fullstripe::new(&array, &self.prices).expect("an array");
            stack.work_in(platform.clone());
            Box::new(stack)
        };
        let setup = Setup {
            stack,
            drives,
            queues: Vec::new(),
            host: self.host,
            workload,
            seed: 1,
        };
        let window = Window {
            from_ns: for_ns / 4,
            until_ns: for_ns,
        };
        let outcome = run(setup, window).expect("a run that obeys its laws");
        // All data that the drives moved have passed their bays.
        let busy = |to_host: bool| -> u64 {
            let uses = platform.borrow().uses();
            let bays = uses.iter().filter(|link| link.name.starts_with("bay-"));
            bays.map(|bay| {
                if to_host {
                    bay.to_host_busy_ns
                } else {
                    bay.to_drive_busy_ns
                }
            })
            .sum()
        };
        let moved = outcome.counters.member_read_bytes + outcome.counters.member_write_bytes;
        let gb_s = moved as f64 / (busy(true) + busy(false)) as f64;
        assert!((2.7..3.3).contains(&gb_s), "{gb_s}");
        outcome
    }

    fn gb_per_s(&self, block_bytes: f64) -> f64 {
        self.run(60 * MS).figures.iops() * block_bytes / 1e9
    }
}

fn striped(platform: &str, operation: &str) -> Case {
    Case {
        graph: graph(platform),
        drives: 4,
        level: Level::Raid0,
        prices: Prices::nothing(),
        state: State::Filled,
        host: Host::default(),
        workload: format!("op = \"{operation}\"\nbs = \"128k\"\nthreads = 4\nqd = 32\n"),
    }
}

#[test]
fn four_drives_share_the_uplink_of_their_switch() {
    for (operation, x8, x16) in [("randread", 6.43, 11.6), ("randwrite", 5.82, 8.0)] {
        let behind_x8 = striped(X8, operation).gb_per_s(131_072.0);
        let behind_x16 = striped(X16, operation).gb_per_s(131_072.0);
        assert!(
            (behind_x8 / x8 - 1.0).abs() < 0.06,
            "{operation}: {behind_x8}"
        );
        assert!(
            (behind_x16 / x16 - 1.0).abs() < 0.12,
            "{operation}: {behind_x16}"
        );
    }
}

#[test]
fn completion_modes_differ_by_wake_up_and_by_busy_cores() {
    let file: HostFile = toml::from_str(LINUX_4_13).expect("a host");
    let profile = file.host().expect("a sound host");
    let graph = graph(X16);
    let [interrupt, hybrid, polled] = [
        Completion::Interrupt,
        Completion::Hybrid,
        Completion::Polled,
    ]
    .map(|completion| {
        let case = Case {
            graph: graph.clone(),
            drives: 1,
            level: Level::Raid0,
            prices: Prices::nothing(),
            state: State::Filled,
            host: host(&profile, &graph, 1, completion),
            workload: "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 1\n".to_string(),
        };
        let outcome = case.run(40 * MS);
        let mean_ns = outcome.figures.response.mean_ns().unwrap();
        (mean_ns, outcome.books.cores(30 * MS))
    });
    let saved_ns = interrupt.0 - polled.0;
    assert!((900.0..2_600.0).contains(&saved_ns), "{saved_ns}");
    assert!((polled.1 - 1.0).abs() < 0.02, "{polled:?}");
    assert!(interrupt.1 < 0.1, "{interrupt:?}");
    assert!((0.4..0.7).contains(&hybrid.1), "{hybrid:?}");
    assert!(
        hybrid.0 <= interrupt.0 && hybrid.0 >= polled.0,
        "{hybrid:?}"
    );
}

#[test]
fn a_run_on_a_machine_is_repeated_to_the_nanosecond() {
    let case = Case {
        workload: "op = \"randread\"\nbs = \"4k\"\nthreads = 2\nqd = 16\n".to_string(),
        ..striped(X8, "randread")
    };
    assert_eq!(case.run(4 * MS).digest, case.run(4 * MS).digest);
    let elsewhere = Case {
        graph: graph(X16),
        ..striped(X16, "randread")
    };
    assert_ne!(case.run(4 * MS).digest, elsewhere.run(4 * MS).digest);
}

/// With full stripes each byte of data is read from memory twice, by a drive and to compute parity. Parity, a third
/// as much, is written once and read once.
#[test]
fn parity_loads_the_memory_that_drives_use() {
    const TOUCHED: f64 = 2.0 + 2.0 / 3.0;
    const MOVED_BY_DRIVES: f64 = 1.0 + 1.0 / 3.0;
    let written = |memory_bytes_per_s, touching: bool| {
        let mut graph = graph(X16);
        graph.memory_bytes_per_s = memory_bytes_per_s;
        let bytes = [("xor_bytes", 1), ("xor_written_bytes", 1)];
        let prices = Prices::nothing();
        let case = Case {
            graph,
            level: Level::Raid5,
            prices: if touching {
                prices.touching(bytes).expect("two counters")
            } else {
                prices
            },
            workload: "op = \"write\"\nbs = \"384k\"\nthreads = 4\nqd = 8\n".to_owned(),
            ..striped(X16, "write")
        };
        // A long run, because the requests queued at its beginning take long with so slow a memory.
        let outcome = case.run(1000 * MS);
        outcome.figures.iops() * 3.0 * 131_072.0 / 1e9
    };
    let small = 1_000_000_000;
    for (touching, bytes) in [(true, TOUCHED), (false, MOVED_BY_DRIVES)] {
        let found = written(small, touching) * bytes;
        assert!((0.95..1.02).contains(&found), "{found} GB/s, {touching}");
    }
    let normal = graph(X16).memory_bytes_per_s;
    let (with, without) = (written(normal, true), written(normal, false));
    assert!((with / without - 1.0).abs() < 0.01, "{with} {without}");
}
