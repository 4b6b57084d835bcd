//! The limits of arrays for which the first limit, and the next one behind it, are known.

use super::*;
use crate::predict::{Virtual, library::Library};
use lab::claims::predictor::Samples;
use lab::schema::configuration::read_configurations;
use lab::schema::metric::Metric;
use std::collections::BTreeSet;

/// The limits of a point on steady drives.
fn limits(setup: &str, workload: &str) -> Limits {
    let text = format!(
        "schema = 1\n[setup.s]\ndrive = \"p4510-2tb\"\n{setup}\n[points]\np = {{ setup = \"s\", state = \"steady\", \
         workload = {{ {workload} }} }}\n"
    );
    let points = read_configurations("p.toml", &text, &Library::default().catalogue());
    let points = points.expect(&text);
    let predictor = Virtual {
        limits: Depth::Behind,
        ..Virtual::default()
    };
    let answer = predictor.answer(&points["p"], &BTreeSet::from([Metric::Iops]));
    let answer = answer.expect("it is modelled");
    let limits = answer.limits.expect("it was asked");
    assert_eq!(
        answer.prediction.limited_by.as_ref(),
        Some(&limits.first.name)
    );
    let Samples::Runs(runs) = &answer.prediction.metrics[&Metric::Iops] else {
        panic!("runs have figures");
    };
    assert!(
        limits.behind_iops.is_none_or(|iops| iops > runs[0]),
        "{limits:?}"
    );
    limits
}

fn names(limits: &Limits) -> (&str, Option<&str>) {
    let behind = limits.behind.as_ref().map(|behind| behind.name.as_str());
    (&limits.first.name, behind)
}

fn array(platform: &str, host: &str) -> String {
    format!(
        "count = 4\nlevel = 0\nplatform = \"{platform}\"\nhost = \"{host}\"\nstack = \"fullstripe\""
    )
}

const ALONE: &str =
    "count = 1\nlevel = \"none\"\nplatform = \"oakgate\"\nhost = \"appliance\"\nstack = \"none\"";
const STREAMS: &str = "op = \"read\", bs = \"128k\", threads = 4, qd = 16";

#[test]
fn a_narrow_uplink_limits_streams_and_the_root_port_a_wide_one() {
    let narrow = limits(&array("s2600wft-6154-x8", "linux-6.12"), STREAMS);
    let (first, behind) = names(&narrow);
    assert_eq!(first, "uplink of \"switch\"");
    // If a link that limits alone becomes a tenth faster, so does the array.
    let gain = narrow.first.gain_percent.expect("it is a resource");
    assert!((9.0..=11.0).contains(&gain), "{gain}");
    assert_eq!(behind, Some("root port \"stack\""));
    let wide = limits(&array("s2600wft-6154-x16", "linux-6.12"), STREAMS);
    // A drive and its link limit almost equally: 3.20 and 3.22 GB/s.
    assert_eq!(
        names(&wide),
        ("root port \"stack\"", Some("drives and drives' links"))
    );
}

#[test]
fn small_reads_wait_for_the_core_that_passes_them_on() {
    let load = "op = \"randread\", bs = \"4k\", threads = 8, qd = 64";
    let limits = limits(&array("epyc-9554p-24", "linux-6.12"), load);
    assert_eq!(
        names(&limits),
        ("engine cores (mostly kernel)", Some("drives (controllers)"))
    );
}

#[test]
fn many_cores_wait_for_what_they_all_change() {
    let setup = "count = 12\nlevel = 10\nplatform = \"s2600wft-8170\"\nhost = \"linux-3.10-kpti\"\nstack = \"md-2018\"";
    let load = "op = \"randread\", bs = \"4k\", threads = 32, qd = 128";
    let first = limits(setup, load).first;
    assert_eq!(first.name, "shared counter and lock of md-2018");
    // The counter is a single server, so a tenth more speed gives about a tenth more requests.
    let gain = first.gain_percent.expect("it is a resource");
    assert!((7.0..=11.0).contains(&gain), "{gain}");
}

#[test]
fn few_requests_wait_for_what_nobody_queues_for() {
    let load = "op = \"randread\", bs = \"4k\", threads = 1, qd = 1";
    let limits = limits(ALONE, load);
    let (first, behind) = names(&limits);
    assert_eq!(first, "queue depth, waiting for the drives' latency");
    assert_eq!(limits.first.gain_percent, None);
    assert_eq!(behind, Some("queue depth, waiting for the drives' latency"));
}

#[test]
fn one_drive_is_limited_by_its_parts_or_by_what_is_demanded() {
    let load = "op = \"randread\", bs = \"4k\", threads = 1, qd = 256, demand_iops";
    let met = limits(ALONE, &format!("{load} = 100000"));
    assert_eq!(names(&met), ("demand", None));
    let missed = limits(ALONE, &format!("{load} = 2000000"));
    assert_eq!(names(&missed).0, "drives (controllers)");
    let load = "op = \"randwrite\", bs = \"4k\", threads = 1, qd = 64";
    assert_eq!(
        names(&limits(ALONE, load)).0,
        "drives (programs and collection)"
    );
}

/// The rate of random writes to an array of four QLC drives, and what limits it.
fn of_qlc(level: u8, bs: &str, map_unit_kib: f64) -> (f64, String) {
    let name = "solidigm-d5-p5336-61.44tb";
    let catalogue = catalogue::Catalogue::built_in();
    let entry = catalogue.with_id(name).expect("it is there");
    let family = catalogue::profile::family("catalogue", entry, catalogue::draw::Draw::Usual);
    let mut family = family.expect("it has all rates");
    family.media.map_unit_kib.value = map_unit_kib;
    let mut library = Library::default();
    let sheet = library.add_sheet(name, "catalogue", entry);
    sheet.expect("it has all rates");
    library.replace(&family).expect("it is a drive");
    let text = format!(
        "schema = 1\n[setup.s]\ndrive = \"{name}\"\ncount = 4\nlevel = {level}\nengine_cores = 4\nplatform = \"epyc-9554p-24\"\nhost = \
         \"linux-6.12\"\nstack = \"fullstripe\"\n[points]\np = {{ setup = \"s\", state = \"steady\", workload = \
         {{ op = \"randwrite\", bs = \"{bs}\", threads = 8, qd = 64 }} }}\n"
    );
    let points = read_configurations("p.toml", &text, &library.catalogue()).expect(&text);
    let point = Point::new(&points["p"], &library).expect("it is modelled");
    let window = Window {
        from_ns: 500_000_000,
        until_ns: 3_000_000_000,
    };
    let iops = point.measure(Start::SpentInStep, 1, window);
    let iops = iops.expect("it runs").figures.iops();
    let found = Found {
        point: &point,
        start: Start::SpentInStep,
        seed: 1,
        iops,
        commands_per_request: 4.0,
        commands: Cell::new(0),
    };
    let limits = found.limits(Depth::First).expect("it runs");
    (iops, limits.expect("it was asked").first.name)
}

#[test]
fn small_writes_to_qlc_drives_are_limited_by_their_map_units() {
    let in_part = "drives (programs of map units that writes fill in part)";
    let in_whole = "drives (programs and collection)";
    let (small, small_limit) = of_qlc(10, "4k", 16.0);
    let (whole, whole_limit) = of_qlc(10, "16k", 16.0);
    assert_eq!(
        (small_limit.as_str(), whole_limit.as_str()),
        (in_part, in_whole)
    );
    // Two copies of each, a map unit either: 38 thousand per drive, and the read of the rest.
    assert!((0.93..1.02).contains(&(whole / 76e3)), "{whole}");
    assert!((1.02..1.10).contains(&(whole / small)), "{whole} {small}");
    // Where such writes fill a map unit, and as many of those are rated, the limit has no such reason.
    let (fine, fine_limit) = of_qlc(10, "4k", 4.0);
    assert!((0.98..1.10).contains(&(fine / small)), "{fine} {small}");
    assert_eq!(fine_limit, in_whole);
    // RAID 5 writes data, parity and its log, each a map unit or more of them.
    let (parity, parity_limit) = of_qlc(5, "4k", 16.0);
    assert_eq!(parity_limit, in_part);
    assert!((0.5..0.95).contains(&(parity / small)), "{parity} {small}");
}

#[test]
fn collection_in_bursts_limits_writes_by_what_it_costs() {
    let text = format!(
        "schema = 1\n[setup.s]\ndrive = \"p4510-2tb\"\n{}\n[points]\np = {{ setup = \"s\", state = \"steady\", workload = \
         {{ op = \"randwrite\", bs = \"4k\", threads = 8, qd = 64 }} }}\n",
        array("epyc-9554p-24", "linux-6.12")
    );
    let library = Library::default();
    let points = read_configurations("p.toml", &text, &library.catalogue()).expect(&text);
    let point = Point::new(&points["p"], &library).expect("it is modelled");
    for seed in 1..=3 {
        let found = Found {
            point: &point,
            start: Start::SpentInStep,
            seed,
            iops: 315_000.0,
            commands_per_request: 1.0,
            commands: Cell::new(0),
        };
        let limits = found.limits(Depth::First).expect("it runs");
        let first = limits.expect("it was asked").first;
        assert_eq!(first.name, "drives (programs and collection)", "{seed}");
        // A tenth, although a short run contains ten periods of collection and a part of one.
        let gain = first.gain_percent.expect("it is a resource");
        assert!((9.5..=10.5).contains(&gain), "{seed}: {gain}");
    }
}
