//! Advice on sample machines.

use super::{Advice, advise};
use crate::discovered::{platform, with_bays_of};
use crate::work::{Quiet, Work};
use machine::files::Files;
use machine::samples::{Reader, build, facts};
use machine::seen::Seen;
use models::platform::Machine;

const WORK: Work = Work {
    jobs: None,
    remember: false,
};

/// The machine with these drives alone.
fn sample(name: &str, drives: &[&str]) -> Machine {
    let root = tempfile::tempdir().unwrap();
    build(facts(name), root.path(), Reader::User);
    let seen = Seen::read(&Files::below(root.path()));
    with_bays_of(&platform(&seen, name, None).unwrap(), drives)
}

fn advice(machine: &Machine, drive: &str) -> Vec<Advice> {
    advise(machine, drive, WORK, &Quiet).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn narrow_slots_cost_every_drive_of_the_array() {
    let machine = sample("slow_link", &["nvme0", "nvme1", "nvme2", "nvme3"]);
    let all = advice(&machine, "p4510-2tb");
    // The chipset's four lanes carry what the three lanes behind it give, so nothing is said of it.
    let [slots] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(slots.about, "nvme2 and nvme3");
    assert_eq!(
        slots.what,
        "the slot of nvme2 has 3.0 x2 of 3.0 x4 and the slot of nvme3 has 3.0 x1 of 3.0 x4"
    );
    // One lane carries 0.87 GB/s, and the array reads four times as much. With four lanes, both share those of the chipset.
    let reads = &slots.loads[0];
    assert!((3.2e9..3.6e9).contains(&reads.now_bytes_per_s), "{reads:?}");
    assert!(
        (6.5e9..7.1e9).contains(&reads.then_bytes_per_s),
        "{reads:?}"
    );
    assert!(slots.gains() && slots.greatest().lost_percent() > 45.0);
}

#[test]
fn a_drive_that_runs_below_its_slot_is_named_so() {
    let mut machine = sample("vmd_on", &["nvme0", "nvme1", "nvme2", "nvme3"]);
    machine.bays[3].figures.lanes.value = 2.0;
    machine.drives[3].lanes = Some(2);
    let all = advice(&machine, "p4510-4tb");
    let [slow] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(slow.what, "nvme3 runs at 3.0 x2 of 3.0 x4");
    assert_eq!(slow.change, "PCIe 3.0 x4 for it");
    assert!(slow.gains());
}

#[test]
fn drives_that_share_an_uplink_gain_by_lanes_of_their_own() {
    let machine = sample("dual_socket_switch", &["nvme0", "nvme1"]);
    let all = advice(&machine, "p4510-2tb");
    let [shared] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(
        shared.what,
        "nvme0 and nvme1 share the chipset's link of 3.0 x4"
    );
    let reads = &shared.loads[0];
    assert!((95.0..105.0).contains(&reads.gain_percent), "{reads:?}");
}

#[test]
fn switches_that_are_wide_enough_are_no_matter_and_sockets_are_weighed() {
    let machine = sample("dual_socket_switch", &["nvme2", "nvme3", "nvme6"]);
    let all = advice(&machine, "p4510-2tb");
    let [far] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(far.about, "nvme6");
    assert_eq!(
        far.what,
        "1 of 3 drives on another socket than the rest, with the engine's memory on socket 0"
    );
    assert_eq!(far.loads.len(), 3);
    // One drive's 3.2 GB/s pass between the sockets, which carry 34.
    assert!(far.greatest().gain_percent < 5.0, "{far:?}");
}

#[test]
fn a_wide_slot_with_one_drive_has_room_for_more() {
    let root = tempfile::tempdir().unwrap();
    // The card with four drives is replaced by one drive alone.
    let removed = ["e2:00.0", "e3:00.0", "e4:00.0"];
    let is_left = |line: &&str| !removed.iter().any(|address| line.contains(address));
    let lines: Vec<&str> = facts("epyc_single").lines().filter(is_left).collect();
    build(&lines.join("\n"), root.path(), Reader::Root);
    let seen = Seen::read(&Files::below(root.path()));
    let machine = with_bays_of(&platform(&seen, "box", None).unwrap(), &["nvme0", "nvme1"]);
    let all = advice(&machine, "p4510-2tb");
    let [wide] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(wide.about, "PCIE_3");
    assert_eq!(
        wide.what,
        "the slot has 16 lanes and one drive, nvme1, which uses 4"
    );
    assert!(
        wide.change.starts_with("a card for 4 drives in it"),
        "{}",
        wide.change
    );
    assert_eq!(wide.more_drives, 3);
    // Five drives instead of two.
    let reads = &wide.loads[0];
    assert!((140.0..160.0).contains(&reads.gain_percent), "{reads:?}");
}

#[test]
fn a_machine_without_a_fault_gets_no_advice() {
    let machine = sample("epyc_single", &["nvme2", "nvme3"]);
    assert_eq!(advice(&machine, "samsung-pm9a3-3.84tb"), Vec::new());
    let error = advise(&machine, "p4510-3tb", WORK, &Quiet).unwrap_err();
    assert!(
        error.to_string().contains("no profile of the drive"),
        "{error}"
    );
}

#[test]
fn links_that_are_not_shown_are_no_fault() {
    let mut machine = sample("virtual_machine", &["nvme0", "nvme1"]);
    machine.drives[0].queues = None;
    assert_eq!(advice(&machine, "samsung-980-pro-1tb"), Vec::new());
}

#[test]
fn what_a_switch_costs_is_not_laid_to_the_socket() {
    let mut machine = sample(
        "dual_socket_switch",
        &["nvme2", "nvme4", "nvme5", "nvme6", "nvme7"],
    );
    let switch = machine
        .nodes
        .iter_mut()
        .find(|node| node.name == "switch-0000:af:00.0");
    switch
        .expect("two drives are behind it")
        .figures
        .lanes
        .value = 4.0;
    let all = advice(&machine, "p4510-2tb");
    let [switch, socket] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(
        switch.what,
        "nvme6 and nvme7 share the switch's link of 3.0 x4"
    );
    assert!(switch.gains());
    assert_eq!(socket.about, "nvme6 and nvme7");
    assert!(!socket.gains(), "{socket:?}");
}

#[test]
fn fewer_queues_than_cores_are_weighed_and_nothing_else_is() {
    // A virtual machine of four cores whose volumes have two queues each.
    let mut machine = sample("virtual_machine", &["nvme0", "nvme1"]);
    for drive in &mut machine.drives {
        drive.queues = Some(2);
    }
    let all = advice(&machine, "samsung-980-pro-1tb");
    let [few] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(few.about, "nvme0 and nvme1");
    assert_eq!(
        few.what,
        "nvme0 and nvme1 have 2 queues for 8 processors; if 4 cores submit commands, they share them"
    );
    assert_eq!(few.more_drives, 0);
    for load in &few.loads {
        assert!(load.gain_percent > -1.0, "{load:?}");
    }
    let random = &few.loads[2];
    assert_eq!(random.load, "random reads of 4 KiB");
    assert!((0.0..40.0).contains(&random.gain_percent), "{random:?}");
    // With a queue for each core, and where the kernel shows none, there is nothing to say.
    for queues in [Some(4), Some(8), None] {
        for drive in &mut machine.drives {
            drive.queues = queues;
        }
        assert_eq!(advice(&machine, "samsung-980-pro-1tb"), Vec::new());
    }
}

#[test]
fn the_queues_of_the_drive_that_has_fewest_are_named() {
    let mut machine = sample("virtual_machine", &["nvme0", "nvme1"]);
    machine.drives[1].queues = Some(8);
    let all = advice(&machine, "samsung-980-pro-1tb");
    let [few] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(few.about, "nvme0");
    assert!(
        few.what.starts_with("nvme0 has 2 queues for 8 processors"),
        "{}",
        few.what
    );
    machine.drives[1].queues = Some(1);
    let all = advice(&machine, "samsung-980-pro-1tb");
    assert!(
        all[0]
            .what
            .starts_with("nvme0 and nvme1 have as few as 1 queue for 8 processors"),
        "{}",
        all[0].what
    );
}

#[test]
fn more_drives_than_an_array_has_are_refused() {
    let one = sample("vmd_on", &["nvme0"]);
    let mut many = one.clone();
    many.bays = vec![one.bays[0].clone(); 65];
    let error = advise(&many, "p4510-2tb", WORK, &Quiet)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "there are 65 drives, and an array has at most 64: name those of one array"
    );
}
