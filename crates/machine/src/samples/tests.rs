//! What is seen of each sample.

use super::{ALL, Reader, build, facts};
use crate::files::Files;
use crate::seen::Seen;
use crate::tree::{Kind, Place};
use std::fmt::Write as _;
use std::sync::OnceLock;

fn seen(name: &str, reader: Reader) -> Seen {
    let root = tempfile::tempdir().unwrap();
    build(facts(name), root.path(), reader);
    Seen::read(&Files::below(root.path()))
}

/// Each drive with the way to it, from the socket: `socket 0 > host 0000:16 > port 16:00.0 > nvme0`.
fn ways(seen: &Seen) -> String {
    let mut text = String::new();
    for drive in &seen.tree.drives {
        let socket = seen.processors.socket_of(drive.node);
        let mut way: Vec<String> = seen
            .tree
            .upwards(drive.above)
            .map(|at| {
                let place = &seen.tree.places[at];
                let what = match place.kind {
                    Kind::Host => "host",
                    Kind::RootPort => "port",
                    Kind::ChipsetPort => "chipset",
                    Kind::Vmd => "vmd",
                    Kind::SwitchUp => "up",
                    Kind::SwitchDown => "down",
                    Kind::Unknown => "unknown",
                };
                format!("{what} {}", place.address)
            })
            .collect();
        way.push(socket.map_or("socket ?".to_owned(), |socket| format!("socket {socket}")));
        way.reverse();
        let link = drive.now.map_or("?".to_owned(), |link| link.to_string());
        let possible = drive
            .possible()
            .map_or("?".to_owned(), |link| link.to_string());
        let link = if link == possible {
            link
        } else {
            format!("{link} of {possible}")
        };
        let _ = writeln!(text, "{} > {}: {link}", way.join(" > "), drive.name);
    }
    text
}

/// All samples, as a user sees them.
fn all() -> &'static [(&'static str, Seen)] {
    static SEEN: OnceLock<Vec<(&str, Seen)>> = OnceLock::new();
    SEEN.get_or_init(|| ALL.map(|(name, _)| (name, seen(name, Reader::User))).into())
}

fn as_user(name: &str) -> &'static Seen {
    let found = all().iter().find(|(known, _)| *known == name);
    &found.expect("there is such a sample").1
}

#[test]
fn every_sample_is_seen_whole() {
    for ((name, facts), (_, seen)) in ALL.iter().zip(all()) {
        let drives = facts.lines().map(str::trim_start);
        let drives = drives.filter(|line| line.starts_with("nvme ")).count();
        assert_eq!(seen.tree.drives.len(), drives, "{name}");
        assert!(drives > 0, "{name}");
        let is_unknown = |place: &&Place| place.kind == Kind::Unknown;
        assert_eq!(seen.tree.places.iter().find(is_unknown), None, "{name}");
        // Links of all, or of none, as in a virtual machine.
        let has_links = !name.starts_with("virtual");
        let linked = seen.tree.drives.iter();
        let linked = linked.filter(|drive| drive.now.is_some()).count();
        assert_eq!(linked, if has_links { drives } else { 0 }, "{name}");
        let is_virtual = !has_links || *name == "emulator";
        assert_eq!(seen.processors.is_virtual, is_virtual, "{name}");
    }
}

#[test]
fn the_way_to_each_drive_is_known() {
    let all = all().iter();
    let all: Vec<String> = all
        .map(|(name, seen)| format!("{name}\n{}", ways(seen)))
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn what_only_root_may_read_is_missed_by_others() {
    let root = seen("far_socket", Reader::Root);
    let tables = root.tables.expect("root reads the tables");
    assert_eq!(tables.modules.len(), 12);
    assert_eq!(
        (tables.modules[0].width_bits, tables.modules[0].mt_per_s),
        (64, Some(2666))
    );
    assert_eq!(root.not_seen, Vec::<String>::new());
    let user = as_user("far_socket");
    assert_eq!(user.tables, None);
    assert_eq!(
        user.not_seen,
        [
            "memory modules and slots: the firmware's tables in /sys/firmware/dmi/tables are absent, or only root may read them",
            "retimers and packet sizes of nvme0, nvme1, nvme2: only root may read the configuration space, or it is cut short",
        ]
    );
    assert_eq!(
        root.tree.drives[0]
            .express
            .map(|express| express.payload_bytes),
        Some(256)
    );
}

#[test]
fn modules_of_32_gib_and_slots_are_read() {
    let seen = seen("workstation_x16_carrier", Reader::Root);
    let tables = seen.tables.expect("root reads the tables");
    assert_eq!(tables.modules.len(), 8);
    assert_eq!(tables.slots.len(), 7);
    let slot = &tables.slots[2];
    assert_eq!((slot.name.as_str(), slot.lanes), ("PCIEX16_3", 16));
    assert_eq!(slot.address.as_deref(), Some("0000:2c:00.0"));
}

#[test]
fn processors_are_counted() {
    let processors = &as_user("far_socket").processors;
    assert_eq!(
        (
            processors.sockets,
            processors.cores_per_socket,
            processors.threads_per_core
        ),
        (2, 28, 2)
    );
    assert_eq!(
        (processors.rated_mhz, processors.highest_mhz),
        (Some(2500), Some(3800))
    );
    let idle = processors
        .deepest_idle
        .as_ref()
        .expect("it has idle states");
    assert_eq!(
        (idle.name.as_str(), idle.exit_us, idle.residency_us),
        ("C6", 133, 600)
    );
}

/// The sample, with a text in place of another.
fn changed(name: &str, old: &str, new: &str) -> Seen {
    let root = tempfile::tempdir().unwrap();
    let text = facts(name);
    assert!(text.contains(old), "{name} has no {old}");
    build(&text.replace(old, new), root.path(), Reader::Root);
    Seen::read(&Files::below(root.path()))
}

#[test]
fn only_cores_for_performance_count() {
    let processors = &as_user("slow_link").processors;
    assert_eq!((processors.sockets, processors.cores_per_socket), (1, 2));
}

#[test]
fn sockets_of_a_virtual_machine_without_nodes_are_one() {
    let seen = changed("virtual_machine", "sockets=1 cores=4", "sockets=12 cores=1");
    assert_eq!(
        (seen.processors.sockets, seen.processors.cores_per_socket),
        (1, 12)
    );
    assert_eq!(seen.processors.socket_of(None), Some(0));
}

#[test]
fn a_node_of_two_sockets_says_nothing_of_the_socket() {
    let seen = changed("far_socket", "nodes count=2", "nodes count=1");
    let drives = &seen.tree.drives;
    assert_eq!(
        drives
            .iter()
            .find_map(|drive| seen.processors.socket_of(drive.node)),
        None
    );
    let gap = "the socket of nvme0, nvme1, nvme2: it is not known";
    assert!(
        seen.not_seen.iter().any(|one| one.starts_with(gap)),
        "{:?}",
        seen.not_seen
    );
}

#[test]
fn retimers_and_channels_are_counted() {
    let seen = changed("epyc_single", "2646:5019 now", "2646:5019 retimers=2 now");
    let retimers = seen
        .tree
        .drives
        .iter()
        .map(|drive| drive.express.map(|express| express.retimers));
    assert_eq!(retimers.collect::<Vec<_>>(), [0, 0, 0, 2, 0].map(Some));
    let seen = changed("far_socket", "dimms=12", "dimms=12 channels=6");
    assert_eq!(seen.memory_channels, Some(6));
}
