//! Members that do not answer.

use crate::common::checks::ledger;
use crate::common::faulty::{specs, with_faulty, with_faulty_device};
use crate::common::{MIB, Mix, has_fuse, is_root, run};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whether a descriptor in the folder `descriptors` of a process is one of `path`.
fn has_open(descriptors: &Path, path: &Path) -> bool {
    let all = std::fs::read_dir(descriptors).expect("the process runs");
    let mut targets = all.flatten().map(|entry| std::fs::read_link(entry.path()));
    targets.any(|target| target.is_ok_and(|target| target == path))
}

#[test]
fn a_file_whose_file_system_hangs_is_failed_at_its_deadline() {
    if !has_fuse("a_file_whose_file_system_hangs_is_failed_at_its_deadline") {
        return;
    }
    for (level, members) in [(1, 2), (5, 3)] {
        let (bed, faulty) = with_faulty(members, 1, 48 * MIB);
        let drives = specs(&bed, members);
        bed.create("data", level, &drives, &[]);
        let server = bed
            .serve(&drives)
            .option(&[
                "--deadline",
                // Long enough that the other members are not failed on a busy machine.
                "8",
                "--shards",
                "2",
                "--completion",
                "hybrid:20",
            ])
            .start();
        assert!(server.words().contains("is on FUSE"), "{}", server.words());
        assert_eq!(server.at_start["completion"], "hybrid:20");
        assert_eq!(server.at_start["members"][0]["io_path"], "ring");
        assert_eq!(server.at_start["members"][1]["io_path"], "helpers");
        let ring = server.at_start["ring"].as_str().unwrap_or_default();
        assert!(ring.starts_with("io_uring with"), "{ring}");
        server.wait_optimal(60);
        let mut ledger = ledger(&server, 0, 50);
        ledger.fill(&mut server.client("data"));
        let load = ledger.load(server.clients("data", 2), Mix::Small);
        load.wait_for(100, 30);
        let since = Instant::now();
        let frozen = faulty.freeze();
        server.wait_event("member-overdue", "faulty1", 20);
        server.wait_event("failure-recorded", "faulty1", 20);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(20), "it took {took:?}");
        // No client waits for commands that hang in the file system, and orders are carried out.
        load.wait_for(100, 30);
        let mut other = server.client("data");
        let free = other.size_bytes - 4096;
        for _ in 0..50 {
            assert!(other.read(free, 4096).is_ok());
        }
        server.wait_status("degraded", 10, |status| {
            status["volumes"][0]["state"] == "degraded"
        });
        server.wait_event("member-silent", "faulty1", 20);
        drop(frozen);
        server.wait_event("member-answers", "faulty1", 20);
        load.wait_for(100, 30);
        let mut ledger = load.stop();
        server.verify("data", &mut ledger);
        server.stop();
        let server = bed.serve(&drives).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded", "stale");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_drive_that_hangs_before_it_is_served_is_named() {
    if !has_fuse("a_drive_that_hangs_before_it_is_served_is_named") {
        return;
    }
    let (bed, faulty) = with_faulty(3, 1, 48 * MIB);
    let drives = specs(&bed, 3);
    bed.create("data", 5, &drives, &[]);
    let frozen = faulty.freeze();
    std::thread::scope(|scope| {
        for command in ["assemble", "list", "examine", "doctor"] {
            let mut line = bed.fullstripe(&[command]);
            line.args(&drives);
            scope.spawn(move || {
                let said = run(&mut line, 40);
                let all = format!("{}{}", said.out, said.err);
                assert!(!said.status.success(), "{said}");
                let named = all.lines().any(|line| {
                    line.contains("faulty1/disk") && line.contains("has not answered for")
                });
                assert!(named, "{said}");
            });
        }
        bed.serve(&drives).refused("has not answered for");
    });
    drop(frozen);
    let server = bed.serve(&drives).start();
    server.wait_optimal(60);
    server.stop();
}

#[test]
fn an_idle_file_whose_file_system_hangs_is_told_of_and_kept() {
    if !has_fuse("an_idle_file_whose_file_system_hangs_is_told_of_and_kept") {
        return;
    }
    let (bed, faulty) = with_faulty(3, 1, 48 * MIB);
    let drives = specs(&bed, 3);
    bed.create("data", 5, &drives, &[]);
    let server = bed.serve(&drives).start();
    server.wait_optimal(60);
    let frozen = faulty.freeze();
    server.wait_event("member-silent", "faulty1", 20);
    assert_eq!(server.volume_state(0), "optimal");
    drop(frozen);
    server.wait_event("member-answers", "faulty1", 20);
    assert_eq!(server.count_events("member-failed"), 0);
    server.stop();
}

#[test]
fn a_hung_member_is_failed_at_its_deadline_and_nobody_waits_for_it() {
    if !is_root("a_hung_member_is_failed_at_its_deadline_and_nobody_waits_for_it") {
        return;
    }
    let (bed, faulty, device) = with_faulty_device();
    bed.create("data", 5, bed.drives(), &[]);
    let mut server = bed
        .serve(bed.drives())
        .option(&["--deadline", "2", "--shards", "2"])
        .start();
    server.wait_optimal(60);
    let descriptors = PathBuf::from(format!("/proc/{}/fd", server.pid()));
    assert!(has_open(&descriptors, device.device()));
    let mut ledger = ledger(&server, 0, 5);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 4), Mix::Everything);
    let since = Instant::now();
    server.wait_event("member-overdue", "loop", 10);
    server.wait_event("failure-recorded", "loop", 10);
    // Requests with a command on the hung drive are answered as well, and later requests are served.
    load.wait_for(200, 20);
    let mut ledger = load.stop();
    let took = since.elapsed();
    assert!(
        took < Duration::from_secs(8),
        "all are answered in {took:?}"
    );
    let counters = &server.status()["counters"];
    let held = counters["abandoned"].as_u64().unwrap() - counters["returned"].as_u64().unwrap();
    assert!(held > 0, "the drive still holds commands: {counters}");
    server.verify("data", &mut ledger);
    assert_eq!(server.volume_state(0), "degraded");
    // The drive cannot come back while it holds commands, because it could carry them out at any time.
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        has_open(&descriptors, device.device()),
        "the kernel still uses the descriptor"
    );
    server.order(&["remove", "data:1"]).ok();
    let name = device.device().display().to_string();
    server
        .order(&["add-spare", "--force", &name])
        .refused("in use");
    // It carries them out now, under load, and no data is harmed.
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    faulty.set(|faults| faults.hung = false);
    server.wait_status("given back", 20, |status| {
        status["counters"]["abandoned"] == status["counters"]["returned"]
    });
    let until = Instant::now() + Duration::from_secs(10);
    while has_open(&descriptors, device.device()) {
        assert!(Instant::now() < until, "the drive is closed by now");
        std::thread::sleep(Duration::from_millis(50));
    }
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    // With no commands left, the drive is accepted and rebuilt.
    server.order(&["add-spare", "--force", &name]).ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    server.order(&["scrub", "data", "--wait"]).ok();
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn an_array_ends_although_a_member_hangs() {
    if !is_root("an_array_ends_although_a_member_hangs") {
        return;
    }
    let (bed, faulty, _device) = with_faulty_device();
    // No log: it would be flushed, and a process cannot end before the kernel has completed its flush.
    bed.create("data", 5, bed.drives(), &["--write-hole", "off"]);
    let server = bed.serve(bed.drives()).option(&["--deadline", "2"]).start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 0, 6);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 2), Mix::Small);
    std::thread::sleep(Duration::from_millis(200));
    // Stops the server before the deadline, when the member is not known to hang yet.
    let since = Instant::now();
    let (status, words) = server.end();
    let took = since.elapsed();
    assert!(status.success(), "{status}: {words}");
    assert!(took < Duration::from_secs(25), "it took {took:?}");
    assert!(
        words.contains("commands are still with /dev/loop"),
        "{words}"
    );
    let (mut ledger, _) = load.end();
    let left = [0, 2].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.verify("data", &mut ledger);
    server.stop();
    faulty.set(|faults| faults.hung = false);
    // The writes that the member carried out late are outdated, and the member is known to be.
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}
