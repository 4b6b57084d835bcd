//! Samples of machines as platforms.

use super::{platform, written};
use machine::files::Files;
use machine::samples::{ALL, Reader, build, facts};
use machine::seen::Seen;
use models::document::read;
use models::platform::{Kind, Machine};
use models::profile::Use;
use models::tables::Tables;

fn discovered(name: &str, reader: Reader) -> Machine {
    let root = tempfile::tempdir().unwrap();
    build(facts(name), root.path(), reader);
    let seen = Seen::read(&Files::below(root.path()));
    platform(&seen, name, None).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn node<'a>(machine: &'a Machine, name: &str) -> &'a models::platform::Node {
    let found = machine.nodes.iter().find(|node| node.name == name);
    found.unwrap_or_else(|| panic!("{name} is not in {:?}", machine.nodes))
}

#[test]
fn every_sample_is_a_platform_that_its_file_gives_back() {
    let as_root = [("epyc_single", Reader::Root)];
    let as_user = ALL.map(|(name, _)| (name, Reader::User));
    for (name, reader) in as_user.into_iter().chain(as_root) {
        let machine = discovered(name, reader);
        assert_eq!(machine.slots.is_empty(), reader == Reader::User, "{name}");
        let graph = machine.graph().expect("it has been checked");
        assert_eq!(graph.bays.len(), machine.drives.len(), "{name}");
        for drive in &machine.drives {
            let bay = graph.bays.iter().find(|bay| bay.name == drive.bay);
            let bay = bay.unwrap_or_else(|| panic!("{name}: {} is not there", drive.bay));
            // A plan of the drive that is there has its link of now.
            if let (Some(lanes), Some(possible)) = (drive.lanes, drive.possible_lanes) {
                assert_eq!(bay.lanes.min(possible), lanes, "{name}: {}", drive.name);
            }
        }
        let text = written::text(&machine);
        assert_eq!(
            read::<Machine>("box.toml", &text),
            Ok(machine),
            "{name}\n{text}"
        );
    }
}

#[test]
fn a_switch_shares_its_uplink_and_a_gap_is_told() {
    let machine = discovered("dual_socket_switch", Reader::User);
    let switch = node(&machine, "switch-0000:2c:00.0");
    assert_eq!(
        (switch.kind, switch.parent.as_str()),
        (Kind::Switch, "root-0000:2b")
    );
    assert_eq!(switch.figures.lanes.value, 16.0);
    assert_eq!(node(&machine, "root-0000:d7").parent, "socket-1");
    // The two drives of the chipset.
    let chipset = &node(&machine, "chipset").figures;
    assert_eq!((chipset.lanes.value, chipset.generation.value), (4.0, 3.0));
    assert_eq!(chipset.lanes.r#use, Use::Prior);
    assert_eq!(machine.not_seen.len(), 3);
    assert_eq!(
        discovered("dual_socket_switch", Reader::Root).not_seen,
        ["the link between chipset and processor: no file of the kernel shows it"]
    );
}

#[test]
fn the_ports_of_a_host_bridge_are_one_root() {
    let machine = discovered("workstation_x16_carrier", Reader::Root);
    let root = node(&machine, "root-0000:00");
    assert_eq!(
        (root.figures.lanes.value, root.figures.generation.value),
        (32.0, 4.0)
    );
    assert_eq!(machine.root.socket_lanes.value, 32.0 + 32.0 + 32.0 + 32.0);
    // Eight modules of DDR4-3200 with 25.6 GB/s each.
    let memory = &machine.memory.socket_gb_s;
    assert_eq!((memory.value, memory.r#use), (170.7, Use::Prior));
    assert!(
        memory.source.starts_with("8 modules of 3200 MT/s"),
        "{}",
        memory.source
    );
}

#[test]
fn drives_behind_a_volume_management_device_belong_to_it() {
    let machine = discovered("vmd_on", Reader::User);
    let vmd = node(&machine, "vmd-0000:d7:05.5");
    assert_eq!(
        (vmd.parent.as_str(), vmd.figures.lanes.value),
        ("root-0000:d7", 16.0)
    );
    assert_eq!(node(&machine, "root-0000:d7").parent, "socket-1");
    assert_eq!(machine.bays.len(), 1);
    assert_eq!(machine.bays[0].figures.count.value, 4.0);
    assert_eq!(machine.drives[0].queues, Some(40));
}

#[test]
fn a_volume_management_device_of_socket_and_chipset_is_one_of_each() {
    let machine = discovered("vmd_client", Reader::User);
    let of_chipset = node(&machine, "vmd-0000:00:0e.0-chipset");
    assert_eq!(
        (of_chipset.kind, of_chipset.parent.as_str()),
        (Kind::Vmd, "chipset")
    );
    assert_eq!(node(&machine, "vmd-0000:00:0e.0").parent, "root-0000:00");
    let parents: Vec<&str> = machine.bays.iter().map(|row| row.parent.as_str()).collect();
    assert_eq!(parents, ["vmd-0000:00:0e.0", "vmd-0000:00:0e.0-chipset"]);
}

#[test]
fn a_slow_slot_is_a_narrow_bay() {
    let machine = discovered("slow_link", Reader::User);
    let lanes: Vec<f64> = machine
        .bays
        .iter()
        .map(|row| row.figures.lanes.value)
        .collect();
    assert_eq!(lanes, [4.0, 2.0, 1.0]);
    assert_eq!(machine.bays[1].parent, "chipset");
}

#[test]
fn what_a_virtual_machine_does_not_show_is_usual() {
    let machine = discovered("virtual_machine", Reader::User);
    let row = &machine.bays[0].figures;
    assert_eq!((row.lanes.value, row.lanes.r#use), (4.0, Use::Prior));
    let root = &node(&machine, "root-0000:00").figures;
    assert_eq!((root.lanes.value, root.lanes.r#use), (8.0, Use::Prior));
    let links = "the links of nvme0, nvme1: ";
    assert!(
        machine.not_seen.iter().any(|gap| gap.starts_with(links)),
        "{:?}",
        machine.not_seen
    );
    assert_eq!(machine.drives[0].lanes, None);
}

#[test]
fn each_figure_is_read_or_says_which_platform_it_is_like() {
    for (name, like) in [
        ("far_socket", "s2600wft-6154-x16"),
        ("epyc_single", "epyc-9554p-24"),
        ("workstation_x16_carrier", "wrx90-7965wx-4"),
        ("laptop_chipset", "z790-14900k-5"),
    ] {
        let machine = discovered(name, Reader::User);
        let source = &machine.processor.instructions_per_clock.source;
        assert!(
            source.starts_with(&format!("as {like}: ")),
            "{name}: {source}"
        );
        let (mut read, mut usual) = (0, 0);
        machine.each_figure(&mut |table, key, figure| match figure.r#use {
            Use::Measured => read += 1,
            Use::Prior => usual += 1,
            other => panic!("{name}: {table}.{key} is {other:?}"),
        });
        assert!(read > 5 && usual > 5, "{name}: {read} {usual}");
    }
}

#[test]
fn a_machine_without_drives_and_an_unknown_likeness_are_told() {
    let error = platform(&Seen::default(), "box", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("this machine has no NVMe drive on PCIe"),
        "{error}"
    );
    let root = tempfile::tempdir().unwrap();
    build(facts("epyc_single"), root.path(), Reader::User);
    let seen = Seen::read(&Files::below(root.path()));
    let error = platform(&seen, "box", Some("epyc"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("--like does not know \"epyc\"; nearest: \""),
        "{error}"
    );
}

/// The sample, with a text in place of another.
fn changed(name: &str, old: &str, new: &str) -> Machine {
    let root = tempfile::tempdir().unwrap();
    let text = facts(name);
    assert!(text.contains(old), "{name} has no {old}");
    build(&text.replace(old, new), root.path(), Reader::Root);
    platform(&Seen::read(&Files::below(root.path())), "box", None).unwrap()
}

#[test]
fn retimers_tunnels_and_channels_are_in_the_platform() {
    let machine = changed("epyc_single", "2646:5019 now", "2646:5019 retimers=1 now");
    let retimer = node(&machine, "retimer-nvme3");
    assert_eq!(
        (retimer.kind, retimer.parent.as_str()),
        (Kind::Retimer, "root-0000:e0")
    );
    assert!(machine.bays.iter().any(|row| row.parent == "retimer-nvme3"));
    let machine = discovered("laptop_thunderbolt", Reader::User);
    let tunnel = &node(&machine, "switch-0000:06:00.0").figures;
    assert_eq!((tunnel.lanes.value, tunnel.generation.value), (4.0, 3.0));
    assert_eq!(tunnel.lanes.r#use, Use::Prior);
    // Twelve modules of DDR4-2666 in two sockets: 106.6 GB/s, and half of that on six channels.
    assert_eq!(
        discovered("far_socket", Reader::Root)
            .memory
            .socket_gb_s
            .value,
        106.6
    );
    let machine = changed("far_socket", "dimms=12", "dimms=12 channels=6");
    assert_eq!(machine.memory.socket_gb_s.value, 53.3);
}

#[test]
fn many_drives_of_one_bus_have_roots_of_their_own() {
    let lines: Vec<String> = (0x40..0x54)
        .map(|number| {
            format!(
                "  nvme 0000:00:{number:02x}.0 1d0f:8061 gb=100 model=Amazon Elastic Block Store"
            )
        })
        .collect();
    let machine = changed(
        "virtual_machine",
        "  device 0000:00:05.0",
        &format!("{}\n  device 0000:00:05.0", lines.join("\n")),
    );
    assert_eq!(machine.drives.len(), 22);
    assert_eq!(machine.nodes.len(), 22);
    assert_eq!(node(&machine, "root-0000:00:4a.0").figures.lanes.value, 4.0);
}

#[test]
fn the_generation_of_the_drives_is_not_the_machines() {
    let machine = changed("far_socket", "max=8.0x4 gb", "max=16.0x4 gb");
    let source = &machine.processor.instructions_per_clock.source;
    assert!(source.starts_with("as s2600wft-6154-x16: "), "{source}");
}
