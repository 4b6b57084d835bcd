//! `platform` and `plan --here`, as a user runs them on machines of public reports.

use crate::common::{Said, run};
use machine::samples::{Reader, build, facts};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// The files of a sample machine.
struct Sample {
    folder: TempDir,
}

impl Sample {
    fn new(name: &str) -> Sample {
        let folder = tempfile::tempdir().unwrap();
        build(facts(name), folder.path(), Reader::User);
        Sample { folder }
    }

    /// Runs a command that looks at this machine.
    fn fullstripe(&self, line: &str) -> Said {
        let root = self.folder.path().to_str().unwrap();
        let words = line.split(' ').chain(["--root", root]);
        run(
            Command::new(env!("CARGO_BIN_EXE_fullstripe")).args(words),
            120,
        )
    }
}

fn fullstripe(arguments: &[&str]) -> Said {
    run(
        Command::new(env!("CARGO_BIN_EXE_fullstripe")).args(arguments),
        120,
    )
}

#[test]
fn a_machine_is_described_and_its_file_can_be_planned() {
    let sample = Sample::new("slow_link");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("box.toml");
    let file = file.to_str().unwrap();
    let said = sample.fullstripe(&format!("platform discover -o {file}"));
    assert!(said.status.success(), "{said}");
    for line in [
        "root-0000:00: root port, PCIe 4.0 x8",
        "chipset: chipset, PCIe 3.0 x4",
        "bays-1: 1 bay, PCIe 3.0 x2 each",
        "nvme2: INTEL SSDPEKNU020TZ, 2048 GB",
    ] {
        assert!(said.out.contains(line), "{said}");
    }
    let said = sample.fullstripe(&format!("platform discover -o {file}"));
    assert!(said.err.contains("exists already"), "{said}");
    let shown = fullstripe(&["platform", "show", file]);
    assert!(
        shown.out.contains("bays-2: 1 bay, PCIe 3.0 x1 each"),
        "{shown}"
    );
    let line = format!(
        "plan --drive p4510-2tb --count 4 --level 0 --op read --bs 128k --threads 1 --qd 16 --platform {file} --json"
    );
    let words: Vec<&str> = line.split(' ').collect();
    let said = fullstripe(&words);
    assert!(said.status.success(), "{said}");
    // Four equal parts, of which one comes through a single lane.
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let rate = report
        .pointer("/points/0/metrics/bytes_per_s/value")
        .and_then(Value::as_f64);
    let rate = rate.unwrap_or_else(|| panic!("{report}"));
    assert!((2.5e9..4.0e9).contains(&rate), "{rate}");
}

#[test]
fn what_is_read_and_what_is_usual_is_told_in_json() {
    let said = Sample::new("vmd_on").fullstripe("platform discover --json");
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let machine = &report["platforms"][0];
    assert_eq!(machine["processor"]["sockets"]["use"], "measured");
    assert_eq!(machine["processor"]["two_threads_gain"]["use"], "prior");
    assert_eq!(machine["drive"].as_array().map(Vec::len), Some(4));
    assert_eq!(machine["drive"][0]["queues"], 40);
    assert_eq!(machine["not_seen"].as_array().map(Vec::len), Some(2));
    assert_eq!(machine["drive"][0]["namespaces"][0], "nvme0n1");
}

#[test]
fn the_drives_of_a_machine_are_planned_where_they_are() {
    let sample = Sample::new("far_socket");
    let line = "plan --here --level 0 --op read --bs 128k --threads 1 --qd 16";
    let said = sample.fullstripe(line);
    assert!(said.status.success(), "{said}");
    assert!(
        said.err
            .contains("nvme0, nvme1 and nvme2, intel-p3700-1.6tb"),
        "{said}"
    );
    assert!(
        said.out
            .contains("RAID 0: 3 x intel-p3700-1.6tb on this-machine"),
        "{said}"
    );
    let said = sample.fullstripe(&format!("{line} --drive p4510-2tb --count 4"));
    let refused = "--count must be at most 3, which is what this-machine has bays and lanes for";
    assert!(said.err.contains(refused), "{said}");
}

#[test]
fn drives_here_have_the_queues_that_the_kernel_shows_and_others_have_their_own() {
    let sample = Sample::new("far_socket");
    // One of the three is for administration.
    let shown = "sys/class/nvme/nvme1/queue_count";
    std::fs::write(sample.folder.path().join(shown), "3\n").expect("it is there");
    let line = "plan --here --level 0 --op randread --engine-cores 4 --threads 4 --qd 1";
    let note = "4 cores submit to drives that have as few as 2 queues: up to 2 of them share a queue's lock and interrupts";
    let said = sample.fullstripe(line);
    assert!(said.status.success() && said.out.contains(note), "{said}");
    let said = sample.fullstripe(&format!("{line} --completion polled"));
    let note = "up to 2 of them share a queue's locks\n";
    assert!(said.status.success() && said.out.contains(note), "{said}");
    // Drives that could be put in their places.
    for drive in ["p4510-2tb", "p3700-1600gb"] {
        let said = sample.fullstripe(&format!("{line} --drive {drive}"));
        assert!(said.status.success(), "{said}");
        assert!(!said.out.contains("share a queue"), "{said}");
    }
}

#[test]
fn a_spare_and_prices_go_with_the_machine_at_hand() {
    let sample = Sample::new("far_socket");
    let place = tempfile::tempdir().expect("a folder");
    let prices = place.path().join("prices.toml");
    let line = format!(
        "plan --here --level 1 --spares 1 --prices {} --op randread --threads 1 --qd 1",
        prices.display()
    );
    let text = "schema = 1\ncurrency = \"EUR\"\n[drive]\n\"intel-p3700-1.6tb\" = 500\n[platform]\nthis-machine = 1500\n";
    std::fs::write(&prices, text).expect("it is written");
    let said = sample.fullstripe(&line);
    assert!(said.status.success(), "{said}");
    for part in [
        // Two of the three drives are the mirror.
        "RAID 1: 2 x intel-p3700-1.6tb on this-machine",
        "2 drives and 1 spare, 1.600 TB usable: 3000 EUR, 1875 EUR for each usable TB",
        "and meanwhile its partner fails: 1 in ",
    ] {
        assert!(said.out.contains(part), "{part}\n{said}");
    }
    std::fs::write(&prices, text.replace("1.6tb", "400gb")).expect("it is written");
    let said = sample.fullstripe(&line);
    assert!(
        said.err.contains("is no drive that plans know; nearest: "),
        "{said}"
    );
}

#[test]
fn a_machine_that_cannot_be_planned_says_so_in_one_sentence() {
    let said = Sample::new("virtual_machine").fullstripe("plan --here --op read");
    assert!(said.err.contains("the catalogue knows none of the drives here (Amazon EC2 NVMe Instance Storage, Amazon Elastic Block Store): give one like them with --drive"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let said = fullstripe(&["platform", "discover", "--root", empty]);
    assert!(said.err.contains("has no folder \"sys\""), "{said}");
    let said = Sample::new("epyc_single").fullstripe("platform discover --like epyc");
    let refused = "--like does not know \"epyc\"; nearest: \"oakgate\", \"epyc-9554p-24\"";
    assert!(said.err.contains(refused), "{said}");
    let said = fullstripe(&["platform", "discover", "-o", "box"]);
    assert!(said.err.contains("ends with .toml"), "{said}");
}

#[test]
fn advice_has_the_figures_of_two_plans() {
    let sample = Sample::new("dual_socket_switch");
    let said = sample.fullstripe("doctor --advise --drive p4510-2tb");
    let line = |about: &str| {
        let found = said.out.lines().find(|line| line.contains(about));
        found.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let chipset = line("chipset: ");
    assert!(chipset.starts_with("warning"), "{chipset}");
    assert!(chipset.contains("nvme0 and nvme1 share the chipset's link of 3.0 x4: a RAID 0 of 10 x p4510-2tb loses 50 % of its sequential reads of 128 KiB (16.1 instead of 32.0 GB/s)"), "{chipset}");
    assert!(line("on another socket").starts_with("ok"), "{said}");
    let said =
        Sample::new("far_socket").fullstripe("doctor --advise --json /dev/nvme1n1 /dev/nvme2n1");
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(report["advice"].as_array().map(Vec::len), Some(0), "{said}");
    let said = Sample::new("virtual_machine").fullstripe("doctor --advise");
    assert!(
        said.err
            .contains("the catalogue knows none of the drives here"),
        "{said}"
    );
    assert!(!said.status.success(), "{said}");
}

#[test]
fn advice_is_for_the_drives_that_are_named() {
    let sample = Sample::new("dual_socket_switch");
    let said = sample.fullstripe("doctor --advise --drive p4510-2tb /dev/nvme2n1 /dev/nvme3n1p1");
    let links = "no link, switch or socket holds back a RAID 0 of 2 x p4510-2tb";
    assert!(said.out.contains(links), "{said}");
    let said = sample.fullstripe("doctor --advise --drive p4510-2tb /dev/nvme2n1 /dev/sda");
    let refused = "/dev/sda is no NVMe drive on PCIe of this machine";
    assert!(said.err.contains(refused), "{said}");
    let said = Sample::new("virtual_machine").fullstripe("doctor --advise --drive p4510-2tb");
    assert!(
        said.out
            .contains("links: the kernel does not show those of nvme0 and nvme1"),
        "{said}"
    );
}

#[test]
fn a_slot_of_the_users_file_proves_its_wiring() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("box.toml");
    let path = file.to_str().unwrap();
    let said = Sample::new("slow_link").fullstripe(&format!("platform discover -o {path}"));
    assert!(said.status.success(), "{said}");
    let asked = [
        "doctor",
        "--advise",
        "--platform",
        path,
        "--drive",
        "p4510-2tb",
    ];
    // Without the firmware's table of slots, nothing is said of them.
    let without = fullstripe(&asked);
    assert!(without.out.contains("3.0 x2 of 3.0 x4"), "{without}");
    assert!(!without.out.contains("bifurcated"), "{without}");
    let slot = "\n[[slot]]\nname = \"PCIE_2\"\nlanes = 16\nsplit = \"by-setting\"\nsource = \"the board's manual\"\ndrives = [\"nvme2\"]\n";
    let mut text = std::fs::read_to_string(&file).unwrap();
    text += slot;
    std::fs::write(&file, &text).unwrap();
    let said = fullstripe(&asked);
    let advice = "PCIE_2: the slot has 16 lanes and one drive, nvme2, which uses 2: 3 drives more would raise";
    assert!(said.out.contains(advice), "{said}");
    let change = "a card for 4 drives in it, and the slot bifurcated in the firmware's setup\n";
    assert!(said.out.contains(change), "{said}");
    // A slot that does not split takes no further drive.
    std::fs::write(&file, text.replace("by-setting", "no")).unwrap();
    let said = fullstripe(&asked);
    assert!(!said.out.contains("PCIE_2"), "{said}");
    let built_in = "profiles/platforms/s2600wft-6154-x8.toml";
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let said = fullstripe(&[
        "doctor",
        "--advise",
        "--platform",
        &format!("{root}{built_in}"),
    ]);
    assert!(
        said.err.contains("lists no drives of the machine"),
        "{said}"
    );
}

#[test]
fn drives_behind_a_vmd_are_grouped_by_its_pci_domain() {
    let sample = Sample::new("vmd_on");
    let said = sample.fullstripe("platform discover --json");
    let report: Value = serde_json::from_str(&said.out).expect("it is JSON");
    let platform = &report["platforms"][0];
    let domains = platform["vmd_domains"].as_array().expect("a list");
    let all = platform["drive"].as_array().expect("a list").len();
    let behind = domains
        .iter()
        .flat_map(|domain| domain["drives"].as_array().expect("a list"));
    let behind: std::collections::BTreeSet<&str> = behind.filter_map(Value::as_str).collect();
    assert!(!behind.is_empty() && behind.len() <= all, "{said}");
    let shown = sample.fullstripe("platform discover");
    for domain in domains {
        let (vmd, number) = (domain["vmd"].as_str(), domain["pci_domain"].as_str());
        let line = format!(
            "    {} (PCI domain {}): ",
            vmd.expect("a name"),
            number.expect("a domain")
        );
        assert!(shown.out.contains(&line), "{line}\n{shown}");
        assert!(number.is_some_and(|number| number.len() == 5), "{said}");
    }
    assert!(
        shown
            .out
            .contains("software without a driver for VMD lack these"),
        "{shown}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("box.toml");
    let file = file.to_str().unwrap();
    sample.fullstripe(&format!("platform discover -o {file}"));
    let again = fullstripe(&["platform", "show", file, "--json"]);
    let again: Value = serde_json::from_str(&again.out).expect("it is JSON");
    assert_eq!(
        again["platforms"][0]["vmd_domains"],
        platform["vmd_domains"]
    );
}
