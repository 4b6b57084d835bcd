//! Each switch changes what it names, in the right direction.

use super::*;
use crate::predict::library::Library;
use crate::predict::point::{Point, Start};
use engine::plan::StepKind;
use lab::schema::configuration::read_configurations;
use lab::schema::metric::{Metric, Statistic};
use models::drive::{self, Drive};
use models::platform::{Buffers, DriveLink};
use models::port::Port;
use std::collections::BTreeSet;
use timed::machine::drives_in_bays;
use timed::run::Window;
use virtual_time::timing::Place;

const MEAN: Metric = Metric::Latency(Statistic::Mean);
const ALONE: &str =
    "count = 1\nlevel = \"none\"\nplatform = \"oakgate\"\nhost = \"appliance\"\nstack = \"none\"";
const OLD_HOST: &str = "count = 1\nlevel = \"none\"\nplatform = \"s2600wft-6154-x8\"\nhost = \"linux-3.10-kpti\"\n\
     stack = \"none\"";
const MD: &str =
    "platform = \"s2600wft-6154-x16\"\nhost = \"linux-3.10-kpti\"\nstack = \"md-2018\"\ncount = 4";
const FEW_QUEUES: &str = "count = 1\nlevel = \"none\"\nplatform = \"x299-7960x\"\nhost = \"linux-6.12\"\n\
     stack = \"none\"\ndrive = \"960pro-512gb\"";
const NARROW: &str = "count = 4\nlevel = 0\nplatform = \"s2600wft-6154-x8\"\nhost = \"linux-6.12\"\n\
     stack = \"fullstripe\"";

/// The figure of a case, from a short run without these mechanisms.
fn figure(off: &[Mechanism], case: &Case) -> f64 {
    let Case {
        setup, state, load, ..
    } = case;
    let drive = match setup.contains("drive = ") {
        true => "",
        false => "drive = \"p4510-2tb\"",
    };
    let text = format!(
        "schema = 1\n[setup.s]\n{drive}\n{setup}\n[points]\np = {{ setup = \"s\", state = \"{state}\", \
         workload = {{ {load} }} }}\n"
    );
    let library = Library::default();
    let points = read_configurations("p.toml", &text, &library.catalogue()).expect(&text);
    let point = Point::new(&points["p"], &library).expect("it is modelled");
    let point = point.without(&Mechanisms::without(off));
    let window = Window {
        from_ns: 10_000_000,
        until_ns: 60_000_000,
    };
    let start = if case.is_spent {
        Start::Spent
    } else {
        Start::AsPut
    };
    let outcome = point.run(start, 1, window).expect("it runs");
    case.metric.of(&outcome.figures).expect("a figure")
}

/// A load, and what it loses or gains without a mechanism.
struct Case {
    off: Mechanism,
    setup: &'static str,
    state: &'static str,
    load: &'static str,
    is_spent: bool,
    metric: Metric,
    /// The figure without the mechanism, as a multiple of that with it: at least, and at most.
    ratio: (f64, f64),
}

fn case(
    off: Mechanism,
    setup: &'static str,
    state: &'static str,
    load: &'static str,
    metric: Metric,
    ratio: (f64, f64),
) -> Case {
    Case {
        off,
        setup,
        state,
        load,
        is_spent: false,
        metric,
        ratio,
    }
}

fn of_drives() -> Vec<Case> {
    let rr = "op = \"randread\", bs = \"4k\", threads = 8, qd = 8";
    let deep = "op = \"randread\", bs = \"4k\", threads = 8, qd = 64";
    let few = "op = \"randwrite\", bs = \"4k\", threads = 1, qd = 1";
    let many = "op = \"randwrite\", bs = \"4k\", threads = 8, qd = 8";
    let mix = "op = \"randmix\", read_pct = 70, bs = \"4k\", threads = 8, qd = 2";
    let stream = "op = \"read\", bs = \"128k\", threads = 1, qd = 1";
    let writes = "op = \"write\", bs = \"128k\", threads = 8, qd = 4";
    let spent = |case: Case| Case {
        is_spent: true,
        ..case
    };
    let bytes = Metric::BytesPerSecond;
    vec![
        case(Collisions, ALONE, "steady", rr, Metric::Iops, (1.03, 1.5)),
        case(FlashReads, ALONE, "steady", rr, Metric::Iops, (1.03, 1.5)),
        case(
            ControllerCap,
            ALONE,
            "steady",
            deep,
            Metric::Iops,
            (1.05, 9.0),
        ),
        case(ReadsMeetPrograms, ALONE, "steady", mix, MEAN, (0.5, 0.99)),
        case(Stalls, ALONE, "filled", few, MEAN, (0.8, 0.99)),
        case(WriteBuffer, ALONE, "filled", few, MEAN, (20.0, 200.0)),
        spent(case(
            Collection,
            ALONE,
            "steady",
            many,
            Metric::Iops,
            (2.0, 8.0),
        )),
        spent(case(
            Episodes,
            ALONE,
            "steady",
            few,
            Metric::Iops,
            (1.02, 8.0),
        )),
        case(ReadAhead, ALONE, "filled", stream, bytes, (0.1, 0.9)),
        case(DataPath, ALONE, "filled", stream, MEAN, (0.5, 0.98)),
        case(FlashPrograms, ALONE, "filled", writes, bytes, (1.2, 2.0)),
    ]
}

fn of_machines() -> Vec<Case> {
    let one = "op = \"randread\", bs = \"4k\", threads = 1, qd = 1";
    let busy = "op = \"randread\", bs = \"4k\", threads = 1, qd = 64";
    let rare = "op = \"randread\", bs = \"4k\", threads = 1, qd = 1, demand_iops = 1000";
    let large = "op = \"write\", bs = \"128k\", threads = 1, qd = 1, demand_iops = 1000";
    let streams = "op = \"read\", bs = \"128k\", threads = 4, qd = 16";
    let many = "op = \"randread\", bs = \"4k\", threads = 16, qd = 1";
    let polled = "op = \"randread\", bs = \"4k\", threads = 8, qd = 64, completion = \"polled\"";
    let (iops, bytes) = (Metric::Iops, Metric::BytesPerSecond);
    vec![
        case(LinkSharing, NARROW, "filled", streams, bytes, (1.3, 2.5)),
        case(DriveLinks, OLD_HOST, "filled", large, MEAN, (0.5, 0.99)),
        case(Hops, OLD_HOST, "steady", one, MEAN, (0.9, 0.999)),
        case(ClientWork, OLD_HOST, "steady", busy, iops, (1.05, 3.0)),
        case(KernelWork, OLD_HOST, "steady", busy, iops, (1.2, 9.0)),
        case(DeepSleep, NARROW, "steady", rare, MEAN, (0.2, 0.8)),
        case(SharedQueues, FEW_QUEUES, "steady", many, MEAN, (0.9, 0.998)),
        case(RaidWork, NARROW, "steady", polled, iops, (1.01, 3.0)),
    ]
}

fn of_md() -> Vec<Case> {
    let [striped, mirrored, parity] = [0, 10, 5].map(|level| -> &'static str {
        Box::leak(format!("{MD}\nlevel = {level}").into_boxed_str())
    });
    let reads = "op = \"randread\", bs = \"4k\", threads = 8, qd = 64";
    let writes = "op = \"randwrite\", bs = \"4k\", threads = 8, qd = 64";
    let read = "op = \"read\", bs = \"128k\", threads = 8, qd = 8";
    let write = "op = \"write\", bs = \"128k\", threads = 8, qd = 8";
    let (iops, bytes) = (Metric::Iops, Metric::BytesPerSecond);
    let of_lines = (1.02, 1.3);
    vec![
        case(DriveCounters, striped, "steady", reads, iops, of_lines),
        case(
            LinesBetweenSockets,
            striped,
            "steady",
            reads,
            iops,
            of_lines,
        ),
        case(ArrayLines, striped, "steady", reads, iops, of_lines),
        case(StripeThread, parity, "filled", writes, iops, (1.2, 9.0)),
        case(ReadBalance, mirrored, "filled", read, bytes, (0.4, 0.8)),
        case(Copies, mirrored, "filled", write, bytes, (1.5, 2.1)),
    ]
}

/// When the last of many reads on four drives ends. Their ports are unlimited, so all wait for the machine.
fn last_ns(graph: &Graph, library: &Library, buffers: Buffers) -> u64 {
    let profile = library.profile(&"p4510-2tb".to_owned().into());
    let profile = profile.expect("it is modelled");
    let drive = |index| {
        let port = Port::unlimited();
        Drive::new(profile, drive::State::Filled, port, 1, index)
    };
    let links: [DriveLink; 4] = [profile.link; 4];
    let drives = drives_in_bays((0..4).map(drive).collect(), &links, graph, buffers);
    let (mut drives, _) = drives.expect("there are bays");
    let mut last_ns = 0;
    for number in 0..256 {
        for drive in &mut drives {
            let place = Place {
                offset_bytes: number << 17,
                length_bytes: 1 << 17,
            };
            last_ns = last_ns.max(drive.finish_ns(0, StepKind::Read, place));
        }
    }
    last_ns
}

#[test]
fn every_switch_changes_what_it_names() {
    let mut tried = BTreeSet::new();
    for case in of_drives().into_iter().chain(of_machines()).chain(of_md()) {
        let ratio = figure(&[case.off], &case) / figure(&[], &case);
        let (least, most) = case.ratio;
        let name = case.off.name();
        assert!((least..=most).contains(&ratio), "{name}: {ratio}");
        tried.insert(case.off);
    }
    // Memory and the link between sockets limit no machine here, so they are made slow.
    let library = Library::default();
    let graph = library.platform(&"s2600wft-6154-x16".to_owned().into());
    let mut graph = graph.expect("it is modelled").clone();
    graph.memory_bytes_per_s = 1_000_000_000;
    graph.crossing_bytes_per_s = 500_000_000;
    for (off, buffers) in [
        (SharedMemory, Buffers::Local),
        (SocketCrossing, Buffers::On(1)),
    ] {
        let mut without = graph.clone();
        Mechanisms::without(&[off]).apply_to_platform(&mut without);
        let [with, without] = [&graph, &without].map(|graph| last_ns(graph, &library, buffers));
        let name = off.name();
        assert!(without < with * 9 / 10, "{name}: {without} {with}");
        tried.insert(off);
    }
    let untried: Vec<&str> = ALL
        .iter()
        .filter(|(mechanism, _)| !tried.contains(mechanism))
        .map(|(_, name)| *name)
        .collect();
    assert_eq!(untried, Vec::<&str>::new());
}

#[test]
fn nothing_off_is_as_it_is_and_names_are_told_apart() {
    let names: BTreeSet<&str> = ALL.iter().map(|(_, name)| *name).collect();
    assert_eq!(names.len(), ALL.len());
    let case = &of_drives()[0];
    let none = figure(&[], case);
    // Mechanisms that a load does not use change nothing of its figure when they are off.
    assert_eq!(figure(&[Collection, ReadAhead, Hops], case), none);
}
