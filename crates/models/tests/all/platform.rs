//! Platforms and hosts: shared links, sources of numbers, and the messages about wrong numbers.

mod hosts;
mod rules;

use crate::support::claims::{claims, wrong_rows};
use crate::support::family;
use models::host::{Completion, HostFile};
use models::md::MdFile;
use models::platform::fabric::CommandWay;
use models::platform::{Buffers, DriveLink, Graph, Machine, Platform};
use models::port::Port;
use models::raid_driver::DriverFile;
use models::tables::Tables;
use std::path::Path;

const PLATFORMS: [&str; 13] = [
    "s2600wft-6154-x16",
    "s2600wft-6154-x8",
    "s2600wft-8170",
    "s2600wft-6154-optane",
    "x299-7960x",
    "z270-7700k-pch",
    "z270-7700k-cpu",
    "oakgate",
    "epyc-9554p-24",
    "sys221h-8592-24",
    "r7725xd-9575f-24",
    "wrx90-7965wx-4",
    "z790-14900k-5",
];
const HOSTS: [&str; 5] = [
    "linux-3.10-kpti",
    "linux-4.13",
    "appliance",
    "linux-6.12",
    "windows-2017",
];
const RAID_DRIVERS: [&str; 2] = ["vroc-windows-2017", "rst-z270"];
const X4: DriveLink = DriveLink {
    lanes: 4,
    generation: 3,
};
const BYTES: u64 = 128 << 10;
const S: u64 = 1_000_000_000;

fn text(folder: &str, name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let path = root.join(folder).join(name).with_extension("toml");
    // `with_extension` replaces what follows a dot in the name itself.
    let path = if path.exists() {
        path
    } else {
        root.join(folder).join(format!("{name}.toml"))
    };
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn machine(name: &str) -> Machine {
    toml::from_str(&text("platforms", name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn host(name: &str) -> HostFile {
    toml::from_str(&text("hosts", name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn md() -> MdFile {
    toml::from_str(&text("stacks", "md-2018")).unwrap_or_else(|error| panic!("{error}"))
}

fn raid_driver(name: &str) -> DriverFile {
    toml::from_str(&text("stacks", name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn graph(name: &str) -> Graph {
    machine(name)
        .graph()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn with_drives(graph: &Graph, drives: usize, buffers: Buffers) -> Platform {
    Platform::new(graph, &vec![X4; drives], buffers).unwrap_or_else(|error| panic!("{error}"))
}

#[derive(Clone, Copy, PartialEq)]
enum To {
    Host,
    Drive,
}

/// Bytes that each drive has moved until `until_ns`, with `depth` transfers under way per drive and direction.
fn moved(
    platform: &mut Platform,
    drives: usize,
    to: &[To],
    depth: usize,
    until_ns: u64,
) -> Vec<u64> {
    let mut flows: Vec<(u64, usize, To)> = Vec::new();
    for drive in 0..drives {
        for &to in to {
            flows.extend(vec![(0, drive, to); depth]);
        }
    }
    let mut bytes = vec![0; drives];
    loop {
        let next = flows.iter_mut().min_by_key(|flow| flow.0);
        let (at_ns, drive, to) = next.expect("there are flows");
        if *at_ns >= until_ns {
            return bytes;
        }
        let socket = platform.next_socket(*drive);
        let done_ns = match to {
            To::Host => platform.to_host_ns(*drive, socket, *at_ns, *at_ns, BYTES, 0),
            To::Drive => platform.to_drive_ns(*drive, socket, *at_ns, *at_ns, BYTES),
        };
        if done_ns <= until_ns {
            bytes[*drive] += BYTES;
        }
        *at_ns = done_ns;
    }
}

fn gb_per_s(bytes: &[u64], for_ns: u64) -> f64 {
    bytes.iter().sum::<u64>() as f64 / for_ns as f64
}

#[test]
fn an_uplink_is_saturated_by_four_drives_and_shared_fairly() {
    let graph = graph("s2600wft-6154-x8");
    for (to, share) in [(To::Host, 128.0 / 152.0), (To::Drive, 64.0 / 84.0)] {
        let mut platform = with_drives(&graph, 4, Buffers::Local);
        let bytes = moved(&mut platform, 4, &[to], 8, S / 50);
        let rate = gb_per_s(&bytes, S / 50);
        let expected = 8.0 * 0.984_615_384 * share * 0.97;
        assert!((rate / expected - 1.0).abs() < 0.02, "{rate} {expected}");
        let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
        assert!(*least as f64 / *most as f64 > 0.95, "{bytes:?}");
    }
    // The uplink does not limit a single drive, which is as fast as its own link.
    let mut platform = with_drives(&graph, 1, Buffers::Local);
    let alone = gb_per_s(&moved(&mut platform, 1, &[To::Host], 8, S / 50), S / 50);
    assert!((alone / 3.217 - 1.0).abs() < 0.02, "{alone}");
}

#[test]
fn drives_behind_a_chipset_share_its_link_and_take_no_lanes_of_the_socket() {
    let mut machine = machine("z790-14900k-5");
    // Two drives on the processor's lanes and three behind the chipset, each four lanes of generation 4 there.
    let drives = [DriveLink {
        lanes: 4,
        generation: 4,
    }; 5];
    let rates = |machine: &Machine| {
        let graph = machine.graph().unwrap_or_else(|error| panic!("{error}"));
        let mut platform = Platform::new(&graph, &drives, Buffers::Local).unwrap();
        let bytes = moved(&mut platform, 5, &[To::Host], 8, S / 50);
        [&bytes[..2], &bytes[2..]].map(|bytes| gb_per_s(bytes, S / 50))
    };
    let [own, shared] = rates(&machine);
    let lane = 1.969_230_768 * (256.0 / 280.0) * 0.97;
    assert!((own / (8.0 * lane) - 1.0).abs() < 0.02, "{own}");
    assert!((shared / (8.0 * lane) - 1.0).abs() < 0.02, "{shared}");
    // Half of the chipset's link halves what is behind it, and nothing else.
    machine.figure_mut("chipset.lanes").unwrap().value = 4.0;
    let [still_own, halved] = rates(&machine);
    assert!((still_own / own - 1.0).abs() < 0.01, "{still_own}");
    assert!((halved / shared - 0.5).abs() < 0.02, "{halved}");
    let mut lost = machine.clone();
    lost.nodes[2].parent = "socket-1".to_string();
    assert_eq!(
        lost.graph().unwrap_err().to_string(),
        "z790-14900k-5: chipset.parent is \"socket-1\", which is no socket; nearest: \"socket-0\""
    );
}

#[test]
fn four_drives_on_their_own_lanes_reach_what_the_root_port_moves() {
    let mut platform = with_drives(&graph("s2600wft-6154-x16"), 4, Buffers::Local);
    let rate = gb_per_s(&moved(&mut platform, 4, &[To::Host], 8, S / 50), S / 50);
    assert!((rate / 11.6 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn directions_do_not_disturb_each_other() {
    let graph = graph("s2600wft-6154-x8");
    let alone = [To::Host, To::Drive].map(|to| {
        let mut platform = with_drives(&graph, 4, Buffers::Local);
        gb_per_s(&moved(&mut platform, 4, &[to], 8, S / 100), S / 100)
    });
    let mut platform = with_drives(&graph, 4, Buffers::Local);
    let both = moved(&mut platform, 4, &[To::Host, To::Drive], 8, S / 100);
    let both = gb_per_s(&both, S / 100);
    assert!(
        (both / (alone[0] + alone[1]) - 1.0).abs() < 0.01,
        "{both} {alone:?}"
    );
}

#[test]
fn memory_is_shared_by_both_directions() {
    let mut machine = machine("s2600wft-6154-x16");
    machine.figure_mut("memory.socket_gb_s").unwrap().value = 5.0;
    let graph = machine.graph().unwrap();
    let mut platform = with_drives(&graph, 4, Buffers::Local);
    let both = moved(&mut platform, 4, &[To::Host, To::Drive], 8, S / 100);
    let rate = gb_per_s(&both, S / 100);
    assert!((rate / 5.0 - 1.0).abs() < 0.03, "{rate}");
    // A processor's work uses the same memory: 5 MB take a millisecond, and a transfer waits for them.
    let mut platform = with_drives(&graph, 1, Buffers::Local);
    let done_ns = platform.touch_ns(0, 0, 5_000_000);
    assert!(done_ns.abs_diff(1_000_000) <= 1_000, "{done_ns}");
    assert!(platform.to_host_ns(0, 0, 0, 0, 4096, 0) > done_ns);
}

#[test]
fn the_way_to_another_socket_costs_its_latency_and_shares_its_link() {
    let graph = graph("s2600wft-8170");
    let time = |socket| {
        let mut platform = with_drives(&graph, 12, Buffers::Local);
        platform.to_host_ns(0, socket, 0, 0, BYTES, 0)
    };
    assert_eq!(time(1), time(0) + 70);
    // Eight drives on one socket, with buffers there, on the other socket or on both, and 8 GB/s between the sockets.
    let mut narrow = machine("s2600wft-8170");
    narrow
        .figure_mut("interconnect.direction_gb_s")
        .unwrap()
        .value = 8.0;
    let narrow = narrow.graph().unwrap();
    for (buffers, expected) in [
        (Buffers::Local, 23.2),
        (Buffers::On(1), 8.0),
        (Buffers::Spread, 16.0),
    ] {
        let mut platform = with_drives(&narrow, 8, buffers);
        let rate = gb_per_s(&moved(&mut platform, 8, &[To::Host], 16, S / 50), S / 50);
        assert!((rate / expected - 1.0).abs() < 0.05, "{buffers:?}: {rate}");
    }
}

#[test]
fn a_switch_costs_its_hops_and_nothing_is_sent_twice() {
    let near = with_drives(&graph("s2600wft-6154-x16"), 1, Buffers::Local).latency_ns(0, 0);
    let far = with_drives(&graph("s2600wft-6154-x8"), 1, Buffers::Local).latency_ns(0, 0);
    assert_eq!((near, far), (30, 150));
    // A transfer over several links takes the time of the slowest, not the sum.
    let mut platform = with_drives(&graph("s2600wft-6154-x8"), 4, Buffers::Local);
    let done_ns = platform.to_host_ns(0, 0, 0, 0, BYTES, 0);
    let slowest_ns = BYTES as f64 / 3.217;
    assert!(
        (done_ns as f64 - 150.0 - slowest_ns).abs() < 50.0,
        "{done_ns}"
    );
}

#[test]
fn bytes_are_conserved() {
    let graph = graph("s2600wft-6154-x8");
    let mut platform = with_drives(&graph, 4, Buffers::Local);
    let transfers = 1000;
    for at in 0..transfers {
        platform.to_host_ns(at % 4, 0, at as u64 * 1000, at as u64 * 1000, BYTES, 0);
    }
    let uses = platform.uses();
    let busy = |name: &str| {
        let found = uses.iter().find(|link| link.name == name);
        found
            .unwrap_or_else(|| panic!("{name}: {uses:?}"))
            .to_host_busy_ns
    };
    let bays: u64 = (0..4).map(|bay| busy(&format!("bay-{bay}"))).sum();
    let sent = |gb_s: f64| transfers as f64 * BYTES as f64 / gb_s;
    assert!((bays as f64 / sent(3.2170) - 1.0).abs() < 0.001, "{bays}");
    assert!((busy("switch") as f64 / sent(6.4340) - 1.0).abs() < 0.001);
    assert!((busy("stack") as f64 / sent(11.6) - 1.0).abs() < 0.001);
    assert!((platform.memory_busy_ns() as f64 / sent(112.0) - 1.0).abs() < 0.001);
    assert!(uses.iter().all(|link| link.to_drive_busy_ns == 0));
}

#[test]
fn a_drive_behind_the_appliance_is_as_it_is_alone() {
    use models::drive::{Command, Drive, Operation, State};
    let profile = family().member("p4510-8tb").unwrap();
    for (operation, length_bytes) in [
        (Operation::Read, 4096),
        (Operation::Write, 4096),
        (Operation::Read, BYTES),
    ] {
        let mut alone = Drive::new(&profile, State::Filled, profile.port, 1, 0);
        let mut behind = Drive::new(&profile, State::Filled, Port::unlimited(), 1, 0);
        let mut platform = with_drives(&graph("oakgate"), 1, Buffers::Local);
        let command = Command {
            operation,
            offset_bytes: 0,
            length_bytes,
        };
        let mut way = CommandWay {
            platform: &mut platform,
            drive: 0,
            socket: 0,
        };
        let there_ns = behind.submit_by(command, 0, &mut way).done_ns;
        let here_ns = alone.submit(command, 0).done_ns;
        assert!(
            there_ns.abs_diff(here_ns) <= 100,
            "{operation:?}: {there_ns} {here_ns}"
        );
    }
}

#[test]
fn every_constant_of_a_platform_pulls_the_way_it_should() {
    // For each constant, the direction that is measured, and whether a greater constant means a greater rate.
    let rate = |machine: &Machine, drives: usize, to: To| {
        let graph = machine.graph().unwrap();
        let mut platform = with_drives(&graph, drives, Buffers::On(1));
        gb_per_s(&moved(&mut platform, drives, &[to], 1, S / 20), S / 20)
    };
    for (platform, name, to, grows) in [
        (
            "s2600wft-6154-x8",
            "packets.payload_to_host_bytes",
            To::Host,
            true,
        ),
        (
            "s2600wft-6154-x8",
            "packets.payload_to_drive_bytes",
            To::Drive,
            true,
        ),
        (
            "s2600wft-6154-x8",
            "packets.header_to_host_bytes",
            To::Host,
            false,
        ),
        (
            "s2600wft-6154-x8",
            "packets.header_to_drive_bytes",
            To::Drive,
            false,
        ),
        (
            "s2600wft-6154-x8",
            "packets.link_layer_share",
            To::Host,
            false,
        ),
        ("s2600wft-6154-x8", "switch.latency_ns", To::Drive, false),
        ("s2600wft-8170", "root.port_to_host_gb_s", To::Host, true),
        ("s2600wft-8170", "interconnect.latency_ns", To::Drive, false),
        ("s2600wft-8170", "retimer-0.latency_ns", To::Drive, false),
    ] {
        let [less, more] = [0.8, 1.25].map(|factor| {
            let mut machine = machine(platform);
            let figure = machine.figure_mut(name).unwrap_or_else(|| panic!("{name}"));
            // Latencies are made ten times as long, so that they show beside the 40 us of a transfer by one drive.
            let is_latency = name.ends_with("latency_ns");
            let factor = if is_latency { factor * 10.0 } else { factor };
            figure.value *= factor;
            if name.ends_with("bytes") {
                figure.value = figure.value.round();
            }
            rate(&machine, if is_latency { 1 } else { 8 }, to)
        });
        assert!(
            if grows { more > less } else { more < less },
            "{name}: {less} {more}"
        );
    }
}

#[test]
fn exports_cost_both_sides_and_more_with_more_bytes() {
    for name in ["nbd", "ublk"] {
        let file: models::export::ExportFile = toml::from_str(&text("exports", name)).expect(name);
        file.each_figure(&mut |table, key, figure| {
            assert!(!figure.source.is_empty(), "{name}: {table}.{key}");
            assert_eq!(
                wrong_rows(figure, &claims()).next(),
                None,
                "{name}: {table}.{key}"
            );
        });
        let export = file.export().expect(name);
        let cores = graph("epyc-9554p-24").cores;
        let [small, large] = [4096, 131_072].map(|bytes| export.costs(&cores, 1, bytes));
        assert!(
            small.server_read_ns > 100 && small.client_ns > 100,
            "{small:?}"
        );
        assert!(
            large.server_write_ns > 2 * small.server_write_ns,
            "{large:?}"
        );
        let mut negative = file.clone();
        negative.server.request_cycles.value = -1.0;
        assert_eq!(
            negative.export().expect_err("no such work").to_string(),
            format!("{name}: server.request_cycles is -1, but has to be from 0 to 10000000")
        );
    }
}
