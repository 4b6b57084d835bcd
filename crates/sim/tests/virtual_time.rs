//! What background work costs clients and how long it takes, in virtual time: the real engine over drives that serve
//! a fixed number of commands at once and never fail.
//!
//! One test gives a degraded array half the load that it can serve, with and without a rebuild under a limit. The other
//! compares a drive that was away for a moment with a fresh one.

use engine::layout::Level;
use engine::options::Options;
use engine::request::{Operation, Request};
use engine::units::{MemberId, VolumeId};
use engine::world::Input;
use metadata::imsm::start::StartOptions;
use sim::container::create::{SECTOR, create, drive};
use sim::drive::timing::ParallelUnits;
use sim::history::{Access, Topology, VolumeShape};
use sim::machine::{Ending, Happening, Machine};
use sim::process::{Process, SLOTS, StartWith};
use sim::random::Stream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// A shard has 24 request slots, more than it takes to keep drives with two units busy.
const UNITS: usize = 2;
const READ_NS: u64 = 80_000;
const WRITE_NS: u64 = 20_000;
const PER_PAGE_NS: u64 = 2_500;
const REQUEST_BYTES: u32 = 4096;
/// How many of ten requests are reads.
const READS_OF_10: u64 = 7;

fn topology(level: Level, members: u8, component_bytes: u64, marked: bool) -> Topology {
    let volume = VolumeShape {
        level,
        chunk_bytes: 64 << 10,
        component_bytes,
        born_in_sync: true,
        logged: level == Level::Raid5 && !marked,
        marked,
    };
    Topology {
        volatile: vec![false; usize::from(members) + 1],
        ..Topology::plain(members, vec![volume])
    }
}

/// An array, its clients, and their latencies.
struct Bench {
    topology: Topology,
    machine: Rc<RefCell<Machine>>,
    process: Option<Process>,
    options: Options,
    random: Stream,
    free: Vec<usize>,
    /// When the request in each slot was due.
    due_ns: [u64; SLOTS],
    /// Due times of requests that have no slot yet.
    waiting: VecDeque<u64>,
    latencies_ns: Vec<u64>,
}

impl Bench {
    fn new(topology: Topology, rate_bytes_per_s: u64) -> Bench {
        let (mut drives, _) = create(1, &topology).expect("the metadata can express the array");
        for drive in &mut drives {
            let units = ParallelUnits::new(UNITS, READ_NS, WRITE_NS, PER_PAGE_NS);
            drive.timing = Box::new(units);
        }
        Bench {
            topology,
            machine: Rc::new(RefCell::new(Machine::new(1, drives, false))),
            process: None,
            options: Options {
                rate_bytes_per_s,
                ..Options::default()
            },
            random: Stream::new(1, "clients", 0),
            free: (0..SLOTS).collect(),
            due_ns: [0; SLOTS],
            waiting: VecDeque::new(),
            latencies_ns: Vec::new(),
        }
    }

    /// Starts the array on the drives in these bays.
    fn start(&mut self, bays: &[usize]) {
        let with = StartWith {
            shards: 1,
            accept: StartOptions {
                degraded: true,
                ..StartOptions::default()
            },
            engine: self.options,
            sector: SECTOR,
            scratch_times: 16,
            access: Access::Engine,
        };
        let started = Process::start(&self.machine, bays, with);
        self.process = Some(started.expect("the array starts"));
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a process runs")
    }

    fn end(&mut self) {
        self.process()
            .order(engine::control::message::Command::Stop);
        self.until(|bench| bench.process.as_ref().unwrap().controller().is_stopped());
        self.process.take().unwrap().end(Ending::Process);
    }

    fn now_ns(&self) -> u64 {
        self.machine.borrow().queue.now_ns()
    }

    fn lose(&mut self, bay: usize) {
        let mut machine = self.machine.borrow_mut();
        machine.drives[bay].faults.gone = true;
        let member = machine.bays.iter().position(|&other| other == bay);
        drop(machine);
        let member = MemberId(member.expect("the drive in this bay serves") as u8);
        self.process().report_gone(member);
        self.pass(100 * MS);
    }

    /// Adds a fresh drive, which is then filled.
    fn add(&mut self) {
        let bay = self.machine.borrow().drives.len();
        let mut fresh = drive(1, &self.topology, bay, false);
        let units = ParallelUnits::new(UNITS, READ_NS, WRITE_NS, PER_PAGE_NS);
        fresh.timing = Box::new(units);
        self.machine.borrow_mut().drives.push(fresh);
        self.process().attach(bay).expect("the drive may join");
    }

    fn is_whole(&self) -> bool {
        let controller = self.process.as_ref().unwrap().controller();
        let volume = &controller.wanted().volumes[0];
        let members = u32::from(volume.geometry.members);
        volume.current_slots().count() == members && controller.job(VolumeId(0)).is_none()
    }

    fn step(&mut self) {
        let happening = self.machine.borrow_mut().queue.take();
        match happening.expect("the array is never without a next turn") {
            Happening::Turn { life, shard } => {
                if self.machine.borrow_mut().takes_turn(life, shard) {
                    self.process().turn(shard);
                    self.take_answers();
                }
            }
            Happening::Answer { life, command } => {
                let mut machine = self.machine.borrow_mut();
                if life == machine.life {
                    machine.answer(command);
                }
            }
            Happening::Deliver { life, to, message } => {
                let mut machine = self.machine.borrow_mut();
                if life == machine.life {
                    machine.tell(to, Input::Message(message));
                }
            }
            Happening::Act | Happening::Strike { .. } => {}
        }
    }

    fn take_answers(&mut self) {
        let completions = std::mem::take(&mut self.machine.borrow_mut().completions);
        self.machine.borrow_mut().events.clear();
        let now_ns = self.now_ns();
        for completion in completions {
            assert_eq!(completion.result, Ok(()));
            let slot = completion.tag as usize;
            self.latencies_ns.push(now_ns - self.due_ns[slot]);
            self.free.push(slot);
        }
        while let Some(due_ns) = self.waiting.pop_front() {
            if !self.ask(due_ns) {
                self.waiting.push_front(due_ns);
                return;
            }
        }
    }

    /// Submits a request at a random place. Returns false if no slot is free.
    fn ask(&mut self, due_ns: u64) -> bool {
        let Some(slot) = self.free.pop() else {
            return false;
        };
        self.due_ns[slot] = due_ns;
        let places = self.topology.size_bytes(0) / u64::from(REQUEST_BYTES);
        let offset_bytes = self.random.below(places) * u64::from(REQUEST_BYTES);
        let request = Request {
            tag: slot as u64,
            volume: VolumeId(0),
            operation: if self.random.chance(READS_OF_10, 10) {
                Operation::Read
            } else {
                Operation::Write
            },
            fua: false,
            offset_bytes,
            length_bytes: REQUEST_BYTES,
            buffer: self.process().payload(slot),
        };
        self.machine.borrow_mut().tell(0, Input::Request(request));
        true
    }

    fn until(&mut self, done: impl Fn(&Bench) -> bool) {
        let deadline_ns = self.now_ns() + 60 * S;
        while !done(self) {
            assert!(
                self.now_ns() < deadline_ns,
                "the awaited state has not come within 60 s"
            );
            self.step();
        }
    }

    fn pass(&mut self, for_ns: u64) {
        let until_ns = self.now_ns() + for_ns;
        self.machine.borrow_mut().queue.at(until_ns, Happening::Act);
        self.until(|bench| bench.now_ns() >= until_ns);
    }

    fn rest(&mut self) {
        self.until(|bench| bench.free.len() == SLOTS && bench.waiting.is_empty());
    }

    /// Requests per second with `depth` requests always in flight.
    fn most_per_s(&mut self, depth: usize, for_ns: u64) -> u64 {
        self.latencies_ns.clear();
        let (from_ns, until_ns) = (self.now_ns(), self.now_ns() + for_ns);
        while self.now_ns() < until_ns {
            while SLOTS - self.free.len() < depth {
                let now_ns = self.now_ns();
                self.ask(now_ns);
            }
            self.step();
        }
        let done = self.latencies_ns.len() as u64;
        let rate = done * S / (self.now_ns() - from_ns);
        self.rest();
        rate
    }

    /// The 99th percentile of latencies at `per_s` requests per second, which come at random times.
    fn p99_ns(&mut self, per_s: u64, for_ns: u64) -> u64 {
        self.latencies_ns.clear();
        let until_ns = self.now_ns() + for_ns;
        let mut next_ns = self.now_ns();
        while next_ns < until_ns {
            next_ns += self.random.below(2 * S / per_s);
            self.machine.borrow_mut().queue.at(next_ns, Happening::Act);
            self.until(|bench| bench.now_ns() >= next_ns);
            if !self.ask(next_ns) {
                self.waiting.push_back(next_ns);
            }
        }
        self.rest();
        self.latencies_ns.sort_unstable();
        self.latencies_ns[self.latencies_ns.len() * 99 / 100]
    }
}

fn clients_hardly_notice_a_rebuild(level: Level, members: u8) {
    const RATE_BYTES_PER_S: u64 = 100 << 20;
    const MEASURED_NS: u64 = S;
    let topology = topology(level, members, 512 << 20, false);
    let mut bench = Bench::new(topology, RATE_BYTES_PER_S);
    let bays: Vec<usize> = (0..usize::from(members)).collect();
    bench.start(&bays);
    bench.lose(1);
    let half = bench.most_per_s(16, S / 4) / 2;
    let without_ns = bench.p99_ns(half, MEASURED_NS);
    bench.add();
    bench.until(|bench| {
        let job = bench
            .process
            .as_ref()
            .unwrap()
            .controller()
            .job(VolumeId(0));
        job.is_some_and(|job| job.done_bytes > 0)
    });
    let job = |bench: &Bench| {
        let controller = bench.process.as_ref().unwrap().controller();
        controller
            .job(VolumeId(0))
            .expect("the rebuild still runs")
            .done_bytes
    };
    let (before, from_ns) = (job(&bench), bench.now_ns());
    let with_ns = bench.p99_ns(half, MEASURED_NS);
    let done_bytes = job(&bench) - before;
    let per_s = done_bytes * S / (bench.now_ns() - from_ns);
    println!("{level:?}: {half}/s, p99 {without_ns} ns, {with_ns} ns while {per_s} B/s are filled");
    assert!(
        per_s > RATE_BYTES_PER_S * 8 / 10 && per_s < RATE_BYTES_PER_S * 12 / 10,
        "a rebuild of {per_s} B/s is not near its limit"
    );
    assert!(
        with_ns * 10 <= without_ns * 12,
        "{level:?}: {without_ns} ns without, {with_ns} ns with"
    );
}

#[test]
fn a_rebuild_under_a_limit_adds_at_most_a_fifth_to_clients_p99() {
    clients_hardly_notice_a_rebuild(Level::Raid1, 2);
    clients_hardly_notice_a_rebuild(Level::Raid10, 4);
    clients_hardly_notice_a_rebuild(Level::Raid5, 4);
}

/// Virtual times until an array is whole: after the return of a drive that missed some writes, and after a fresh drive
/// was added.
fn back_and_fresh_ns(level: Level, members: u8) -> (u64, u64) {
    let topology = topology(level, members, 512 << 20, true);
    let mut bench = Bench::new(topology, 0);
    let bays: Vec<usize> = (0..usize::from(members)).collect();
    let others: Vec<usize> = bays.iter().copied().filter(|bay| *bay != 1).collect();
    bench.start(&bays);
    bench.most_per_s(1, 10 * MS);
    bench.end();
    bench.start(&others);
    bench.most_per_s(1, 2 * MS);
    bench.end();
    let from_ns = bench.now_ns();
    bench.start(&bays);
    assert!(!bench.is_whole(), "the returned drive lacks nothing");
    bench.until(Bench::is_whole);
    let back_ns = bench.now_ns() - from_ns;
    assert_eq!(bench.machine.borrow().taken_back, 1);
    bench.lose(1);
    let from_ns = bench.now_ns();
    bench.add();
    bench.until(|bench| !bench.is_whole());
    bench.until(Bench::is_whole);
    (back_ns, bench.now_ns() - from_ns)
}

#[test]
fn a_drive_that_was_away_is_back_ten_times_sooner_than_a_fresh_one() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        let (back_ns, fresh_ns) = back_and_fresh_ns(level, members);
        println!("{level:?}: back {back_ns} ns, fresh {fresh_ns} ns");
        assert!(
            back_ns * 10 <= fresh_ns,
            "{level:?}: {back_ns} ns by the bitmap, {fresh_ns} ns in full"
        );
    }
}
