//! Members that do not answer.

use crate::common::checks::ledger;
use crate::common::faulty::{specs, with_faulty, with_faulty_device};
use crate::common::{MIB, Mix, has_fuse, is_root, run};
use std::time::{Duration, Instant};

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
                // Long enough for the other members on a machine that is busy with something else.
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
        // Nobody waits for what the file system holds, and orders are carried out.
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
    let server = bed
        .serve(bed.drives())
        .option(&["--deadline", "2", "--shards", "2"])
        .start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 0, 5);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 4), Mix::Everything);
    let since = Instant::now();
    server.wait_event("member-overdue", "loop", 10);
    server.wait_event("failure-recorded", "loop", 10);
    // Requests of which the drive holds a part are answered as well, and others follow them.
    load.wait_for(200, 20);
    let mut ledger = load.stop();
    let took = since.elapsed();
    assert!(
        took < Duration::from_secs(8),
        "all are answered in {took:?}"
    );
    let counters = &server.status()["counters"];
    let held = counters["abandoned"].as_u64().unwrap() - counters["returned"].as_u64().unwrap();
    assert!(held > 0, "the drive holds commands: {counters}");
    server.verify("data", &mut ledger);
    assert_eq!(server.volume_state(0), "degraded");
    // While it has commands it cannot come back: they could be carried out any time.
    server.order(&["remove", "data:1"]).ok();
    let name = device.device().display().to_string();
    server
        .order(&["add-spare", "--force", &name])
        .refused("in use");
    // They are, under load, and harm nobody.
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    faulty.set(|faults| faults.hung = false);
    server.wait_status("given back", 20, |status| {
        status["counters"]["abandoned"] == status["counters"]["returned"]
    });
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    // Now it can be filled anew.
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
    // A log is flushed, and a process cannot end before the kernel has a flush back.
    bed.create("data", 5, bed.drives(), &["--write-hole", "off"]);
    let server = bed.serve(bed.drives()).option(&["--deadline", "2"]).start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 0, 6);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 2), Mix::Small);
    std::thread::sleep(Duration::from_millis(200));
    // In the middle of what nobody knows yet to be in vain.
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
    // What it has done late is outdated, and known to be.
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}
