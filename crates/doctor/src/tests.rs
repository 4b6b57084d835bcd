//! Whole reports on machines that text files beside [`machines`] describe.

mod machines;
mod md;

use super::drives::{Content, LookError, Looked};
use super::finding::Level;
use super::*;
use ::drives::holders::Holder;
use ::drives::ring::{RingMode, RingReport};
use machines::{GOOD_HOST, OLD_BOX, VMD_BOX, build, empty_drive, machine, member};

fn named(specs: &[&str]) -> Vec<Named> {
    let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
    named_drives(&specs).unwrap()
}

#[test]
fn a_machine_without_anything() {
    let root = build(&[]);
    let mut machine = machine(&root);
    machine.granted = Granted {
        ring: Err("this machine offers no usable io_uring: no such call; use another".to_owned()),
        huge_pages: false,
        locked: Err(12),
        asked_bytes: 2 << 20,
    };
    machine.instructions = "scalar";
    let report = examine(&machine, &[], &|spec| {
        panic!("this machine has no drives, but {spec} is looked at")
    });
    assert!(!report.can_serve);
    insta::assert_snapshot!(report.to_string());
}

#[test]
fn a_kernel_that_crashes_with_ublk() {
    let host = GOOD_HOST.replace("6.12.9-amd64", "6.17.0-35-generic");
    let report = examine(&machine(&build(&[&host])), &[], &|_| Ok(empty_drive()));
    assert!(report.can_serve);
    let report = report.to_string();
    let line = report.lines().find(|line| line.contains("ublk"));
    insta::assert_snapshot!(line.unwrap(), @"warning  ublk: Linux 6.17.0-35-generic crashes when a ublk device is made: fullstripe makes none; boot another kernel, such as 6.18.6 or Ubuntu's 6.17.0-41; until then `attach` uses the kernel's NBD client");
}

#[test]
fn four_drives_behind_vmd_one_with_half_its_lanes() {
    let root = build(&[GOOD_HOST, VMD_BOX]);
    let report = examine(&machine(&root), &[], &|spec| match spec {
        "/dev/nvme0n1" | "/dev/nvme1n1" => Ok(member(&["data", "scratch"], 2)),
        "/dev/nvme2n1" => Ok(Looked {
            content: Content::Spare,
            ..empty_drive()
        }),
        _ => Ok(empty_drive()),
    });
    assert!(report.can_serve);
    insta::assert_snapshot!(report.to_string());
}

#[test]
fn only_the_named_drives_are_told_of() {
    let root = build(&[GOOD_HOST, VMD_BOX]);
    let named = named(&["/dev/nvme1n1p1", "/srv/d0.img,serial=D0"]);
    let report = examine(&machine(&root), &named, &|spec| match spec {
        "/dev/nvme1n1p1" => Ok(Looked {
            holders: vec![Holder::new(
                "the file system mounted at /data",
                "umount /data",
            )],
            ..empty_drive()
        }),
        "/srv/d0.img,serial=D0" => Ok(Looked {
            size_bytes: 1 << 30,
            is_direct: false,
            ..empty_drive()
        }),
        _ => panic!("{spec} was not named"),
    });
    assert!(!report.can_serve);
    insta::assert_snapshot!(report.to_string());
}

#[test]
fn an_old_kernel_with_low_limits_and_a_user_without_rights() {
    let root = build(&[OLD_BOX]);
    let mut machine = machine(&root);
    machine.granted = Granted {
        ring: Ok(RingReport {
            mode: RingMode::Interrupting,
            no_sqarray: false,
            registered_files: true,
            registered_memory: Err(12),
            restricted: Ok(()),
        }),
        huge_pages: false,
        locked: Err(12),
        asked_bytes: 146 << 20,
    };
    machine.instructions = "SSE2";
    let report = examine(&machine, &[], &|_| Err(LookError::NotAllowed));
    assert!(report.can_serve);
    insta::assert_snapshot!(report.to_string());
}

#[test]
fn a_ring_that_may_do_everything_is_noted() {
    let root = build(&[GOOD_HOST]);
    let mut machine = machine(&root);
    let ring = machine.granted.ring.as_mut().unwrap();
    ring.restricted = Err(1);
    let text = examine(&machine, &[], &|_| Err(LookError::NotAllowed)).to_string();
    let line = text.lines().find(|line| line.contains(" io_uring: "));
    let line = line.expect("a line about io_uring");
    assert!(line.starts_with("note "), "{line}");
    let why = "not restricted to what it needs (Operation not permitted; allow the system call io_uring_register)";
    assert!(line.ends_with(why), "{line}");
}

#[test]
fn a_drive_that_two_nodes_show_is_told_once_with_both_names() {
    let root = build(&[GOOD_HOST]);
    let names = named(&["/dev/sda", "/dev/sdb", "/dev/sdc"]);
    let look = |spec: &str| {
        Ok(Looked {
            serial: if spec == "/dev/sdc" { "C" } else { "A" }.to_owned(),
            record_checksum: Some(7),
            ..member(&["data"], 2)
        })
    };
    let report = examine(&machine(&root), &names, &look).to_string();
    let twins: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("two paths"))
        .collect();
    assert_eq!(
        twins,
        [
            "problem  /dev/sdb: /dev/sda and /dev/sdb have the same serial number A and the same record, so they are \
             two paths to one drive or one is a copy of the other; name only one of them, and list the drive under \
             blacklist in /etc/multipath.conf if multipath would join the paths"
        ]
    );
}

#[test]
fn programs_that_use_drives_are_named() {
    let root = build(&[
        GOOD_HOST,
        "sys/block/dm-0/dm/uuid = CRYPT-LUKS2-0a-home\n\
         sys/block/dm-0/dm/name = home\n\
         sys/fs/btrfs/0f3d/label = pool\n\
         sys/fs/btrfs/0f3d/devices/sda/dev = 8:0\n\
         sys/fs/btrfs/0f3d/devices/sdb/dev = 8:16\n\
         sys/fs/btrfs/77aa/devices/sdc/dev = 8:32\n\
         sys/block/sdd/bcache/state = clean\n\
         sys/module/zfs/version = 2.3",
    ]);
    let findings = other_programs::check(&machine(&root).files, &[]);
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    for wanted in [
        "ok       dm-crypt: volumes: home",
        "ok       btrfs: the file system pool uses sda, sdb",
        "ok       bcache: uses sdd",
        "note     ZFS: its module is loaded, and the kernel does not list the drives of its pools; zpool status -P \
         shows them; name drives to doctor to see whether they are held",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
    }
}

#[test]
fn a_named_drive_that_may_not_be_opened_or_written_prevents_serving() {
    let root = build(&[GOOD_HOST]);
    let answers: [(&str, Result<Looked, LookError>, &str); 3] = [
        (
            "a.img",
            Err(LookError::NotAllowed),
            "this user may not open it",
        ),
        (
            "b.img",
            Err(LookError::Other("b.img is a folder".to_owned())),
            "is a folder",
        ),
        (
            "c.img",
            Ok(Looked {
                is_writable: false,
                ..empty_drive()
            }),
            "this user may not write to it",
        ),
    ];
    for (spec, answer, wanted) in answers {
        let report = examine(&machine(&root), &named(&[spec]), &|_| answer.clone());
        let mut problems = report
            .findings
            .iter()
            .filter(|one| one.level == Level::Problem);
        let problem = problems
            .next()
            .unwrap_or_else(|| panic!("{spec}: {report}"));
        assert_eq!(
            (problem.about.as_str(), problem.what.as_str()),
            (spec, wanted)
        );
        assert!(problems.next().is_none() && !report.can_serve);
    }
}

#[test]
fn memory_counts_the_limits_of_control_groups() {
    let root = build(&[
        GOOD_HOST,
        "proc/self/cgroup = 0::/system.slice/array.service\n\
         sys/fs/cgroup/system.slice/memory.max = max\n\
         sys/fs/cgroup/system.slice/array.service/memory.max = 209715200\n\
         sys/fs/cgroup/system.slice/array.service/memory.current = 104857600",
    ]);
    let machine = machine(&root);
    assert_eq!(memory::available_bytes(&machine.files), Some(100 << 20));
    let problem = memory::check(&machine).remove(0);
    assert_eq!(problem.level, Level::Problem, "{problem}");
    assert!(
        problem.to_string().contains("100 MiB available"),
        "{problem}"
    );
    assert_eq!(bytes_to_ask_for(&machine.files), 2 << 20);
}

#[test]
fn real_files_are_looked_at_and_held_ones_noticed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 20).unwrap();
    let path = file.path().display().to_string();
    let looked = drives::look(&path, true).unwrap();
    assert_eq!(looked.size_bytes, 64 << 20);
    assert!(matches!(looked.content, Content::Nothing) && looked.holders.is_empty());
    let holder =
        ::drives::drive::Drive::open(&path.parse().unwrap(), ::drives::drive::Access::Exclusive);
    let holder = holder.unwrap();
    let held = drives::look(&path, true).unwrap().holders;
    assert_eq!(
        held,
        [Holder::new(
            "another process",
            "`fuser` as root shows which"
        )]
    );
    drop(holder);
    assert!(drives::look(&path, true).unwrap().holders.is_empty());
    let missing = drives::look("/nonexistent/d0.img", true).unwrap_err();
    assert!(matches!(missing, LookError::Other(text) if text.contains("does not exist")));
}

#[test]
fn memory_of_a_process_is_no_drive() {
    let error = named_drives(&["ram:64m".to_owned()])
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        error,
        "ram:64m is no drive of this machine; name block devices or files"
    );
    assert!(named_drives(&["a,colour=red".to_owned()]).is_err());
}

#[test]
fn json_has_the_same_findings() {
    let root = build(&[GOOD_HOST]);
    let report = examine(&machine(&root), &[], &|_| Err(LookError::NotAllowed));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["can_serve"], true);
    assert_eq!(
        json["findings"].as_array().unwrap().len(),
        report.findings.len()
    );
    assert_eq!(json["findings"][0]["level"], "ok");
    assert_eq!(json["findings"][0]["about"], "kernel");
    assert_eq!(json["findings"][0]["advice"], serde_json::Value::Null);
}

#[test]
fn the_machine_that_runs_the_tests_can_be_examined() {
    let machine = Machine {
        files: Files::below("/"),
        granted: Granted::ask(2 << 20),
        instructions: engine::xor::instructions().name(),
        search_path: tools::search_path(),
    };
    let report = examine(&machine, &[], &|spec| drives::look(spec, false));
    let kernel = &report.findings[0];
    assert!(kernel.what.starts_with("Linux "), "{report}");
    assert_eq!(report.can_serve, machine.granted.ring.is_ok(), "{report}");
    assert_eq!(
        report.to_string().lines().count(),
        report.findings.len() + 1
    );
}

#[test]
fn swap_on_an_array_is_told() {
    let root = build(&[
        GOOD_HOST,
        "sys/devices/ublkb0/size = 1\nsys/class/block/ublkb0 -> ../../devices/ublkb0\ndev/ublkb0 = device\n\
         sys/devices/sda/size = 1\nsys/class/block/sda -> ../../devices/sda\ndev/sda = device\n\
         proc/swaps = Filename Type Size Used Priority\\n/dev/ublkb0 partition 1 0 -2\\n/dev/sda partition 1 0 -3\n\
         proc/cmdline = resume=/dev/ublkb0",
    ]);
    let report = examine(&machine(&root), &[], &|_| Ok(empty_drive()));
    let text = report.to_string();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" swap: "))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    warning  swap: swap on /dev/ublkb0 lies on /dev/ublkb0, which a process serves; the machine may stand still when memory runs out or when it hibernates: swapoff /dev/ublkb0
    warning  swap: the image of hibernation on /dev/ublkb0 lies on /dev/ublkb0, which a process serves; the machine may stand still when memory runs out or when it hibernates: name another device by resume= on the kernel's command line
    ");
}
