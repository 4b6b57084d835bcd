//! The model of Linux md against facts that do not depend on the model's code: how many commands a request takes,
//! where they go, and what limits the rate when only one thing can.

use engine::layout::Level;
use engine::plan::StepKind;
use lab::workload::Workload;
use models::md::{MdCosts, MdFile};
use models::platform::Machine;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use timed::array::Array;
use timed::host::Host;
use timed::prices::Prices;
use timed::run::{RunOutcome, Setup, Window, run};
use timed::stacks::Stack;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::md_2018::Md2018;
use virtual_time::timing::{Place, Timing};

const MS: u64 = 1_000_000;
const CHUNK_BYTES: u64 = 128 << 10;
const PROFILE: &str = include_str!("../../../../profiles/stacks/md-2018.toml");
const PLATFORM: &str = include_str!("../../../../profiles/platforms/s2600wft-8170.toml");

/// A command to a member: the member, whether it is a write, its first byte, its length in bytes.
type Command = (usize, bool, u64, u64);
type Tape = Rc<RefCell<Vec<Command>>>;

/// A drive that takes the same time for every command, serves any number at once, and records them.
struct Recorder {
    member: usize,
    takes_ns: u64,
    tape: Tape,
}

impl Timing for Recorder {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        let is_write = kind != StepKind::Read;
        let command = (
            self.member,
            is_write,
            place.offset_bytes,
            place.length_bytes,
        );
        self.tape.borrow_mut().push(command);
        now_ns + self.takes_ns
    }
}

/// The costs of processors that take no time, with the default stripe cache.
fn no_costs() -> MdCosts {
    let file: MdFile = toml::from_str(PROFILE).expect("md's profile");
    let machine: Machine = toml::from_str(PLATFORM).expect("a platform");
    let costs = file.costs(&machine.graph().expect("a sound platform").cores, 1);
    let costs = costs.expect("sound numbers");
    MdCosts {
        map_ns: 0,
        command_ns: 0,
        page_add_ns: 0,
        stripe_pass_ns: 0,
        page_ns: 0,
        line_ns: [0; 3],
        ..costs
    }
}

struct Case {
    level: Level,
    members: u8,
    costs: MdCosts,
    workload: String,
    client_ns: u64,
    wake_ns: u64,
    pinned_page_ns: u64,
    drive_ns: u64,
}

impl Case {
    fn new(level: Level, members: u8, workload: &str) -> Case {
        Case {
            level,
            members,
            costs: no_costs(),
            workload: workload.to_owned(),
            client_ns: 0,
            wake_ns: 0,
            pinned_page_ns: 0,
            drive_ns: 10_000,
        }
    }

    fn array(&self) -> Array {
        Array {
            level: self.level,
            members: self.members,
            chunk_bytes: CHUNK_BYTES as u32,
            component_bytes: 64 << 30,
            logged: false,
            volatile_cache: false,
            missing: None,
            rebuilding: None,
            shards: 1,
        }
    }

    fn load(&self) -> Workload {
        toml::from_str(&self.workload).expect("a workload")
    }

    fn md(&self) -> Box<dyn Stack> {
        let stack = Md2018::new(&self.array(), self.costs, self.load().threads);
        Box::new(stack.expect("an array"))
    }

    fn run_on(
        &self,
        stack: Box<dyn Stack>,
        from_ns: u64,
        for_ns: u64,
    ) -> (RunOutcome, Vec<Command>) {
        let tape = Tape::default();
        let drive = |member| -> Box<dyn Timing> {
            Box::new(Recorder {
                member,
                takes_ns: self.drive_ns,
                tape: tape.clone(),
            })
        };
        let setup = Setup {
            drives: (0..usize::from(self.members)).map(drive).collect(),
            queues: Vec::new(),
            stack,
            host: Host {
                client_request_ns: self.client_ns,
                wake_ns: self.wake_ns,
                page_ns: self.pinned_page_ns,
                ..Host::default()
            },
            workload: self.load(),
            seed: 1,
        };
        let until_ns = from_ns + for_ns;
        let outcome = run(setup, Window { from_ns, until_ns });
        (outcome.expect("a run that obeys its laws"), tape.take())
    }

    fn run(&self, for_ns: u64) -> (RunOutcome, Vec<Command>) {
        self.run_on(self.md(), 0, for_ns)
    }

    /// The rate in the long run.
    fn iops(&self) -> f64 {
        self.run_on(self.md(), 20 * MS, 60 * MS).0.figures.iops()
    }
}

#[test]
fn a_full_stripe_is_written_without_reading() {
    for members in [3_u8, 4, 12] {
        let row_kib = (u64::from(members) - 1) * CHUNK_BYTES / 1024;
        let load = format!("op = \"write\"\nbs = \"{row_kib}k\"\nthreads = 1\nqd = 2");
        let stats = Case::new(Level::Raid5, members, &load)
            .run(5 * MS)
            .0
            .counters;
        assert!(stats.writes > 20);
        assert_eq!(stats.member_reads, 0, "{members}");
        let bytes = stats.write_bytes / (u64::from(members) - 1) * u64::from(members);
        assert_eq!(stats.member_write_bytes, bytes, "{members}");
    }
}

#[test]
fn a_small_write_reads_what_is_least() {
    let load = "op = \"randwrite\"\nbs = \"4k\"\nthreads = 1\nqd = 1";
    // With three members the other data chunk is read; with four the other two, which are as many as old data and
    // parity; with more, old data and parity.
    for (members, reads) in [(3, 1), (4, 2), (5, 2), (12, 2)] {
        let (outcome, tape) = Case::new(Level::Raid5, members, load).run(10 * MS);
        let stats = outcome.counters;
        assert!(stats.writes > 100);
        assert_eq!(stats.member_reads, reads * stats.writes, "{members}");
        assert_eq!(stats.member_writes, 2 * stats.writes, "{members}");
        for commands in tape.chunks(reads as usize + 2) {
            let members_of = |wanted| -> BTreeSet<usize> {
                let some = commands
                    .iter()
                    .filter(|(_, is_write, ..)| *is_write == wanted);
                some.map(|(member, ..)| *member).collect()
            };
            let (read, written) = (members_of(false), members_of(true));
            assert_eq!(written.len(), 2);
            assert_eq!(read == written, members > 4, "{commands:?}");
            assert_eq!(read.is_disjoint(&written), members <= 4, "{commands:?}");
            assert!(commands.iter().all(|command| command.2 == commands[0].2));
        }
    }
}

#[test]
fn the_stripe_cache_remembers() {
    // A row is written in pieces of 1 KiB. For the first chunk its old data and parity are read, a page each; for the
    // second its old data; for the third the fourth chunk, which is as much; for the fourth everything is in the cache.
    let load = "op = \"write\"\nbs = \"1k\"\nthreads = 1\nqd = 1";
    let (_, tape) = Case::new(Level::Raid5, 5, load).run(10 * MS);
    let row_writes = 4 * CHUNK_BYTES / 1024;
    let mut writes = 0;
    let row = tape.iter().take_while(|(_, is_write, ..)| {
        writes += u64::from(*is_write);
        writes < 2 * row_writes
    });
    let reads = row.filter(|(_, is_write, ..)| !is_write).count() as u64;
    assert_eq!(reads, (2 + 1 + 1) * CHUNK_BYTES / 4096);
}

#[test]
fn requests_go_where_the_engine_puts_them() {
    // md and the engine place the same bytes on the same members: both have IMSM's layout, by different arithmetic.
    let cases = [
        (Level::Raid0, 4, "randread", "64k"),
        (Level::Raid0, 3, "randwrite", "4k"),
        (Level::Raid0, 4, "read", "512k"),
        (Level::Raid5, 4, "randread", "4k"),
        (Level::Raid5, 5, "read", "128k"),
        (Level::Raid10, 4, "randwrite", "16k"),
        (Level::Raid1, 2, "randwrite", "4k"),
    ];
    for (level, members, operation, size) in cases {
        let load = format!("op = \"{operation}\"\nbs = \"{size}\"\nthreads = 1\nqd = 1");
        let case = Case::new(level, members, &load);
        let engine = Fullstripe::new(&case.array(), &Prices::nothing()).expect("an array");
        let (_, by_engine) = case.run_on(Box::new(engine), 0, 8 * MS);
        let (_, by_md) = case.run(8 * MS);
        // The engine marks an array dirty first, which does not matter here.
        let count = by_engine.len().min(by_md.len()).min(600);
        assert!(
            count > 500,
            "{level:?}: {} {}",
            by_engine.len(),
            by_md.len()
        );
        let sorted = |tape: &[Command]| {
            let mut some: Vec<Command> =
                tape.iter().copied().filter(|io| io.2 < 64 << 30).collect();
            some.truncate(count / 8 * 8 - 8);
            some.sort_unstable();
            some
        };
        assert_eq!(sorted(&by_engine), sorted(&by_md), "{level:?} {operation}");
    }
}

#[test]
fn parity_goes_round_from_the_last_member() {
    // Each pair of writes is a page of data and its parity, which must lie where the engine would place it.
    let load = "op = \"write\"\nbs = \"4k\"\nthreads = 1\nqd = 1";
    let case = Case {
        drive_ns: 100,
        ..Case::new(Level::Raid5, 4, load)
    };
    let (_, tape) = case.run(4 * MS);
    let mut parities = BTreeSet::new();
    for writes in tape
        .chunks(2)
        .filter(|pair| pair.iter().all(|command| command.1))
    {
        let row = writes[0].2 / CHUNK_BYTES;
        // The other two data chunks may be read, but parity is always written, so it is in all pairs of its row.
        let parity = 3 - (row % 4) as usize;
        assert!(
            writes.iter().any(|write| write.0 == parity),
            "{row}: {writes:?}"
        );
        parities.insert(parity);
    }
    assert_eq!(parities.len(), 4);
}

#[test]
fn an_idle_mirror_reads_from_the_first_copy_and_a_busy_one_from_both() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        let share = |depth: u32| {
            let load = format!("op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = {depth}");
            let (_, tape) = Case::new(level, members, &load).run(10 * MS);
            let second = tape.iter().filter(|command| command.0 % 2 == 1).count();
            second as f64 / tape.len() as f64
        };
        assert_eq!(share(1), 0.0, "{level:?}");
        assert!((0.4..0.6).contains(&share(64)), "{level:?}: {}", share(64));
    }
}

#[test]
fn raid_10_knows_where_answers_ended_and_raid_1_where_commands_will() {
    let load = "op = \"read\"\nbs = \"4k\"\nthreads = 1\nqd = 4";
    let first = |level, members| {
        let (_, tape) = Case::new(level, members, load).run(MS);
        tape[..4]
            .iter()
            .map(|command| command.0)
            .collect::<Vec<_>>()
    };
    // Each copy gets a read while it is idle. The others go to the first copy: no answer has moved a head yet, so both
    // are equally near.
    assert_eq!(first(Level::Raid10, 4), [0, 1, 0, 0]);
    // Each read continues where the one before it will end, so all go to the same copy.
    assert_eq!(first(Level::Raid1, 2), [0, 0, 0, 0]);
}

#[test]
fn threads_add_up_until_the_shared_counter_binds() {
    let iops = |threads: u32| {
        let load = format!("op = \"randread\"\nbs = \"4k\"\nthreads = {threads}\nqd = 32");
        let mut case = Case::new(Level::Raid0, 4, &load);
        case.costs.line_ns = [100; 3];
        case.client_ns = 1_800;
        case.iops()
    };
    // A request takes 1.8 us in its client, and two changes of the counter of 100 ns each.
    let one = iops(1);
    assert!((one * 2_000e-9 - 1.0).abs() < 0.02, "{one}");
    let four = iops(4);
    assert!((four / one - 4.0).abs() < 0.1, "{four} {one}");
    let many = iops(16);
    assert!((many * 200e-9 - 1.0).abs() < 0.02, "{many}");
}

#[test]
fn a_request_pins_its_pages_once_however_many_commands_it_becomes() {
    for (level, members) in [(Level::Raid0, 4), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let load = "op = \"randwrite\"\nbs = \"128k\"\nthreads = 1\nqd = 1";
        let mut case = Case::new(level, members, load);
        case.pinned_page_ns = 1_000;
        let (outcome, _) = case.run(20 * MS);
        let spent_ns = outcome.books.kernel_ns / outcome.figures.requests;
        // A little more than 31 us, because the last request is counted in the kernel's time but not as done.
        assert!(
            (31_000..=31_500).contains(&spent_ns),
            "{level:?}: {spent_ns}"
        );
    }
}

#[test]
fn the_thread_of_raid_5_binds_at_what_a_page_costs_it() {
    for size_kib in [4_u64, 64] {
        let load = format!("op = \"randwrite\"\nbs = \"{size_kib}k\"\nthreads = 8\nqd = 32");
        let mut case = Case::new(Level::Raid5, 12, &load);
        case.costs.stripe_pass_ns = 700;
        case.costs.command_ns = 400;
        case.costs.page_ns = 300;
        // A page takes four passes over its stripe, four commands, and three pages copied or XORed.
        let pages_per_s = case.iops() * (size_kib / 4) as f64;
        let expected = 1e9 / (4.0 * 700.0 + 4.0 * 400.0 + 3.0 * 300.0);
        assert!(
            (pages_per_s / expected - 1.0).abs() < 0.03,
            "{size_kib}: {pages_per_s}"
        );
    }
}

#[test]
fn the_stripe_cache_bounds_what_is_under_way() {
    for heads in [64, 256] {
        let load = "op = \"randwrite\"\nbs = \"4k\"\nthreads = 8\nqd = 128";
        let mut case = Case::new(Level::Raid5, 12, load);
        case.costs.stripe_cache_heads = heads;
        case.drive_ns = MS;
        // A stripe head is in use for a read and a write. Up to a quarter of the heads may be free before waiting
        // requests continue.
        let most = heads as f64 / (2.0 * MS as f64) * 1e9;
        let iops = case.iops();
        assert!(
            (0.7 * most..1.01 * most).contains(&iops),
            "{heads}: {iops} {most}"
        );
    }
}

#[test]
fn who_waits_for_the_thread_of_raid_5_is_woken() {
    let wakes = |size_kib: u32, heads: usize| {
        let load = format!("op = \"randwrite\"\nbs = \"{size_kib}k\"\nthreads = 1\nqd = 1");
        let mut case = Case::new(Level::Raid5, 12, &load);
        case.costs.stripe_cache_heads = heads;
        case.wake_ns = 100;
        let outcome = case.run(20 * MS).0;
        outcome.books.kernel_ns as f64 / (100 * outcome.figures.requests) as f64
    };
    // The thread is woken for the request, after its reads and after its writes, and the client for its answer.
    let small = wakes(4, 256);
    assert!((small - 4.0).abs() < 0.02, "{small}");
    let large = wakes(128, 256);
    assert!((small..small + 1.0).contains(&large), "{large}");
    // The request has 32 pages, but only 17 heads exist, so the client sleeps in between.
    let starved = wakes(128, 17);
    assert!(starved > large + 2.0, "{starved} {large}");
}

#[test]
fn a_run_is_repeated_to_the_nanosecond_and_mixed_loads_keep_the_laws() {
    for (level, members) in [
        (Level::Raid0, 2),
        (Level::Raid1, 2),
        (Level::Raid5, 4),
        (Level::Raid10, 4),
    ] {
        let load =
            "op = \"randmix\"\nread_pct = 50\nbs = \"12k\"\nthreads = 4\nqd = 16\nalign = \"512\"";
        let mut case = Case::new(level, members, load);
        let file: MdFile = toml::from_str(PROFILE).expect("md's profile");
        let machine: Machine = toml::from_str(PLATFORM).expect("a platform");
        case.costs = file.costs(&machine.graph().unwrap().cores, 5).unwrap();
        let [(one, _), (two, _)] = [case.run(4 * MS), case.run(4 * MS)];
        assert!(one.counters.reads > 100 && one.counters.writes > 100);
        assert!(one.books.raid_ns > 0);
        assert_eq!(one.digest, two.digest);
    }
}
