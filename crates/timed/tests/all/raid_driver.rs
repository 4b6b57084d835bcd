//! The model of RAID drivers of Windows against facts that do not depend on the model's code: where pieces go, what a
//! request takes, and what limits the rate when only one thing can.

use engine::layout::Level;
use engine::plan::StepKind;
use models::raid_driver::DriverCosts;
use std::cell::RefCell;
use std::rc::Rc;
use timed::host::Host;
use timed::run::{RunOutcome, Setup, Window, run};
use timed::stacks::raid_driver::RaidDriver;
use virtual_time::timing::{Place, Timing};

const MS: u64 = 1_000_000;
const CHUNK_BYTES: u64 = 64 << 10;
const DRIVE_NS: u64 = 10_000;
const MEMBERS: usize = 4;

/// By member: offset and length of each of its commands.
type Tape = Rc<RefCell<Vec<(usize, u64, u64)>>>;

/// A drive that takes the same time for every command and serves any number at once.
struct Recorder {
    member: usize,
    tape: Tape,
}

impl Timing for Recorder {
    fn finish_ns(&mut self, now_ns: u64, _: StepKind, place: Place) -> u64 {
        let command = (self.member, place.offset_bytes, place.length_bytes);
        self.tape.borrow_mut().push(command);
        now_ns + DRIVE_NS
    }
}

fn costs() -> DriverCosts {
    DriverCosts {
        chunk_bytes: CHUNK_BYTES as u32,
        ..DriverCosts::default()
    }
}

fn run_on(costs: DriverCosts, workload: &str) -> (RunOutcome, Vec<(usize, u64, u64)>) {
    let tape = Tape::default();
    let drive = |member| -> Box<dyn Timing> {
        Box::new(Recorder {
            member,
            tape: tape.clone(),
        })
    };
    let workload: lab::workload::Workload = toml::from_str(workload).expect("a workload");
    let (members, threads) = (MEMBERS as u8, workload.threads);
    let stack = RaidDriver::new(Level::Raid0, members, 1 << 30, costs, threads);
    let setup = Setup {
        drives: (0..MEMBERS).map(drive).collect(),
        queues: Vec::new(),
        stack: Box::new(stack.expect("an array")),
        host: Host::default(),
        workload,
        seed: 1,
    };
    let window = Window {
        from_ns: 0,
        until_ns: 20 * MS,
    };
    let outcome = run(setup, window).expect("a run that obeys its laws");
    (outcome, tape.take())
}

fn mean_ns(outcome: &RunOutcome) -> u64 {
    outcome
        .figures
        .service
        .mean_ns()
        .expect("there are answers") as u64
}

#[test]
fn a_request_is_cut_at_chunks_which_go_to_all_drives_in_turn() {
    let (outcome, tape) = run_on(costs(), "op = \"read\"\nbs = \"256k\"\nthreads = 1\nqd = 1");
    assert_eq!(mean_ns(&outcome), DRIVE_NS);
    for (row, pieces) in tape.chunks_exact(MEMBERS).enumerate() {
        let offset_bytes = row as u64 * CHUNK_BYTES;
        for (member, piece) in pieces.iter().enumerate() {
            assert_eq!(*piece, (member, offset_bytes, CHUNK_BYTES));
        }
    }
    // The engine's own account of commands and bytes is audited in every run.
    assert_eq!(outcome.counters.member_reads, 4 * outcome.counters.reads);
}

#[test]
fn the_delay_holds_up_a_request_and_no_core() {
    let delayed = DriverCosts {
        delay_ns: 4_000,
        ..costs()
    };
    let one = "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 1";
    let (outcome, _) = run_on(delayed, one);
    assert_eq!(mean_ns(&outcome), DRIVE_NS + 4_000);
    assert_eq!(outcome.books.raid_ns, 0);
    // Many at once wait for the delay side by side.
    let (outcome, _) = run_on(delayed, &one.replace("qd = 1", "qd = 64"));
    assert_eq!(mean_ns(&outcome), DRIVE_NS + 4_000);
}

#[test]
fn one_core_at_a_time_limits_the_whole_array() {
    let serial = DriverCosts {
        request_ns: 500,
        serial_ns: 1_000,
        ..costs()
    };
    let load = |threads| format!("op = \"randread\"\nbs = \"4k\"\nthreads = {threads}\nqd = 32");
    let rate = |threads| run_on(serial, &load(threads)).0.figures.iops() / 1e6;
    // One thread needs 1.5 us for a request; many share the part that only one does at a time.
    assert!((0.64..0.67).contains(&rate(1)), "{}", rate(1));
    assert!((0.97..1.01).contains(&rate(8)), "{}", rate(8));
}

#[test]
fn what_is_not_modelled_is_refused() {
    let refused = |level, costs| {
        let driver = RaidDriver::new(level, 4, 1 << 30, costs, 1);
        driver.err().map(|error| error.to_string())
    };
    assert_eq!(
        refused(Level::Raid5, costs()).as_deref(),
        Some("RAID drivers of Windows are modelled as RAID 0 only")
    );
    assert_eq!(
        refused(Level::Raid0, DriverCosts::default()).as_deref(),
        Some("a chunk of 0 bytes does not fit a drive of 1073741824")
    );
    assert_eq!(refused(Level::Raid0, costs()), None);
}
