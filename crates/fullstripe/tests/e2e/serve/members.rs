//! Drives that fail, are rebuilt and replaced, under load and through crashes.

use crate::common::checks::{expect_clean, ledger, on_drive, scrub_finds_nothing};
use crate::common::{Bed, MIB, Mix, run};
use std::path::PathBuf;

#[test]
fn a_failed_member_is_rebuilt_onto_a_spare_under_load() {
    let shapes = [
        (1, 2, "1", 0),
        (10, 4, "2", 3),
        (5, 3, "1", 1),
        (5, 4, "2", 2),
    ];
    for (at, (level, members, shards, victim)) in shapes.into_iter().enumerate() {
        let bed = Bed::new(members + 1, 64 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--shards", shards])
            .start();
        let load =
            ledger(&server, 0, 200 + at as u64).load(server.clients("data", 2), Mix::Everything);
        load.wait_for(200, 30);
        let name = bed.drive(victim).display().to_string();
        server.order(&["fail", &name]).ok();
        server.wait_event("failure-recorded", &name, 10);
        load.wait_for(200, 30);
        assert_eq!(server.volume_state(0), "degraded");
        let spare = bed.drive(members).display().to_string();
        server.order(&["add-spare", &spare]).ok();
        server.wait_event("job-ended", "rebuild finished", 60);
        load.wait_for(100, 30);
        let mut ledger = load.stop();
        server.wait_optimal(20);
        server.verify("data", &mut ledger);
        scrub_finds_nothing(&server, "data");
        server.order(&["remove", &name]).ok();
        server.stop();

        // The failed drive is no longer a member, even if it is named on the command line again.
        let server = bed.serve(bed.drives()).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
        server.verify("data", &mut ledger);
        server.stop();
        let left: Vec<PathBuf> = (0..=members)
            .filter(|at| *at != victim)
            .map(|at| bed.drive(at).to_owned())
            .collect();
        let server = bed.serve(&left).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_spare_named_at_the_start_takes_over_by_itself() {
    let bed = Bed::new(5, 48 * MIB);
    bed.create("data", 10, bed.first(4), &[]);
    let spare = bed.drive(4).display().to_string();
    let server = bed.serve(bed.first(4)).option(&["--spare", &spare]).start();
    let load = ledger(&server, 0, 8).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(100, 30);
    server
        .order(&["fail", &bed.drive(0).display().to_string()])
        .ok();
    server.wait_event("spare-activated", &spare, 10);
    server.wait_event("job-ended", "rebuild finished", 60);
    let mut ledger = load.stop();
    server.wait_optimal(20);
    server.verify("data", &mut ledger);
    scrub_finds_nothing(&server, "data");
    server.stop();
}

/// As in the unit file of a service: the command line stays the same whatever has happened to the drives.
#[test]
fn the_same_command_line_serves_the_array_when_its_spare_has_become_a_member() {
    let bed = Bed::new(5, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let [first, second] = [3, 4].map(|at| bed.drive(at).display().to_string());
    let serve = || {
        let words = ["--spare", &first, "--spare", &second];
        bed.serve(bed.first(3)).option(&words).start()
    };
    let server = serve();
    server.stop();
    // Both are spares on record now.
    let server = serve();
    server
        .order(&["fail", &bed.drive(1).display().to_string()])
        .ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    server.stop();
    let server = serve();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    let count = |state: &str| {
        let members = server.at_start["members"].as_array().expect("drives");
        members
            .iter()
            .filter(|member| member["state"] == state)
            .count()
    };
    assert_eq!(
        (count("active"), count("spare")),
        (3, 1),
        "{}",
        server.at_start
    );
    server.stop();
    // A spare that holds something is not taken, nor one that does not exist. The array starts without them.
    let other = bed.file("other", 48 * MIB);
    std::fs::write(&other, [b"XFSB".as_slice(), &vec![0; 48 << 20]].concat()).expect("a file");
    let other = other.display().to_string();
    let gone = bed.drive(4).with_file_name("gone").display().to_string();
    let words = ["--spare", &first, "--spare", &other, "--spare", &gone];
    let server = bed.serve(bed.first(3)).option(&words).start();
    server.wait_event("spare-refused", "holds an XFS file system", 10);
    server.wait_event("spare-refused", "gone does not exist", 10);
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    server.stop();
}

/// Else a command that is typed as it is printed reaches another server of the machine.
#[test]
fn printed_commands_name_the_socket_of_the_server() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    let name = bed.drive(1).display().to_string();
    server.order(&["fail", &name]).ok();
    let socket = format!("--socket {}", server.socket.display());
    let panel = server.order(&["status"]).ok().out;
    let advice = format!("`fullstripe add-spare DRIVE {socket}` adds one");
    assert!(panel.replace('\n', " ").contains(&advice), "{panel}");
    let mut doctor = bed.fullstripe(&["doctor", &bed.drive(0).display().to_string()]);
    let said = run(&mut doctor, 60).out;
    let advice = format!("`fullstripe stop {socket}` ends a server");
    assert!(said.contains(&advice), "{said}");
    server.stop();
}

#[test]
fn a_member_is_replaced_under_load_without_losing_redundancy() {
    for (level, members) in [(1, 2), (5, 3), (10, 4)] {
        let bed = Bed::new(members + 1, 64 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--shards", "2"])
            .start();
        let load = ledger(&server, 0, 9).load(server.clients("data", 2), Mix::Everything);
        load.wait_for(100, 30);
        let with = bed.drive(members).display().to_string();
        server.order(&["replace", "data:1", "--with", &with]).ok();
        server.wait_event("job-ended", "replace finished", 60);
        load.wait_for(100, 30);
        let mut ledger = load.stop();
        let status = server.wait_optimal(20);
        assert_eq!(status["volumes"][0]["slots"][1]["member"], members as u64);
        server.verify("data", &mut ledger);
        scrub_finds_nothing(&server, "data");
        server.stop();

        let left: Vec<PathBuf> = (0..=members)
            .filter(|at| *at != 1)
            .map(|at| bed.drive(at).to_owned())
            .collect();
        let server = bed.serve(&left).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_rebuild_that_is_killed_resumes_at_its_checkpoint() {
    let bed = Bed::new(4, 128 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    let mut ledger = ledger(&server, 0, 11);
    ledger.fill(&mut server.client("data"));
    // After a crash, a checkpoint counts only if the volume is clean on record, so that no write was under way.
    server.wait_event("dirty-mark", "clean", 20);
    server.order(&["fail", "data:1"]).ok();
    // 126 MiB at 12 MiB/s take ten seconds. The checkpoint is written after five.
    server.order(&["rate", "12m"]).ok();
    let spare = bed.drive(3).display().to_string();
    server.order(&["add-spare", &spare]).ok();
    server.wait_status("beyond a checkpoint", 30, |status| {
        status["volumes"][0]["job"]["done_bytes"].as_u64() > Some(80 * MIB)
    });
    server.kill();
    let left = [0, 2, 3].map(|at| bed.drive(at).to_owned());
    let migration = on_drive(&bed, 0, 0)["migration"].clone();
    assert!(!migration.is_null(), "the rebuild is on record");
    let server = bed.serve(&left).option(&["--rate", "12m"]).start();
    let job = &server.at_start["volumes"][0]["job"];
    assert_eq!(job["kind"], "rebuild");
    let done_bytes = job["done_bytes"].as_u64().expect("progress");
    assert!(
        done_bytes >= 30 * MIB,
        "the rebuild resumed at only {done_bytes} bytes"
    );
    server.verify("data", &mut ledger);
    server.order(&["rate", "0"]).ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    server.wait_optimal(30);
    server.verify("data", &mut ledger);
    scrub_finds_nothing(&server, "data");
    server.stop();
    expect_clean(&bed, [0, 2, 3]);
}

#[test]
fn a_rebuild_under_load_that_is_killed_is_done_again() {
    for (level, members) in [(1, 2), (10, 4)] {
        let bed = Bed::new(members + 1, 64 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--rate", "8m"])
            .start();
        let mut ledger = ledger(&server, 0, 20);
        ledger.fill(&mut server.client("data"));
        server.order(&["fail", "data:1"]).ok();
        let spare = bed.drive(members).display().to_string();
        server.order(&["add-spare", &spare]).ok();
        let load = ledger.load(server.clients("data", 2), Mix::Everything);
        server.wait_status("rebuilding", 30, |status| {
            status["volumes"][0]["job"]["done_bytes"].as_u64() > Some(8 * MIB)
        });
        server.kill();
        let (mut ledger, _) = load.end();
        let left: Vec<PathBuf> = (0..=members)
            .filter(|at| *at != 1)
            .map(|at| bed.drive(at).to_owned())
            .collect();
        let server = bed.serve(&left).start();
        server.verify("data", &mut ledger);
        let load = ledger.load(server.clients("data", 2), Mix::Everything);
        load.wait_for(100, 30);
        server.wait_event("job-ended", "rebuild finished", 60);
        let mut ledger = load.stop();
        server.wait_optimal(30);
        server.verify("data", &mut ledger);
        scrub_finds_nothing(&server, "data");
        server.stop();
        let members = (0..=members).filter(|at| *at != 1);
        expect_clean(&bed, members);
    }
}

/// The engine's limit on members of a volume is accepted, and more are refused.
#[test]
fn the_widest_array_serves_and_a_wider_one_is_not_made() {
    const WIDEST: usize = engine::limits::VOLUME_MEMBERS_MAX;
    for level in [0, 5, 10] {
        let bed = Bed::new(WIDEST + 2, 24 * MIB);
        let before = std::fs::read(bed.drive(0)).expect("it is there");
        bed.try_create("data", level, bed.drives(), &["--wide"])
            .refused(&format!("to {WIDEST}"));
        let now = std::fs::read(bed.drive(0)).expect("it is there");
        assert!(now == before, "it was written to");
        bed.create("data", level, bed.first(WIDEST), &["--wide"]);
        let server = bed
            .serve(bed.first(WIDEST))
            .option(&["--shards", "2"])
            .start();
        let load = ledger(&server, 0, 30).load(server.clients("data", 2), Mix::Everything);
        load.wait_for(300, 60);
        if level != 0 {
            let last = bed.drive(WIDEST - 1).display().to_string();
            server.order(&["fail", &last]).ok();
            load.wait_for(100, 60);
            let spare = bed.drive(WIDEST).display().to_string();
            server.order(&["add-spare", &spare]).ok();
            server.wait_event("job-ended", "rebuild finished", 60);
        }
        let mut ledger = load.stop();
        server.wait_optimal(60);
        server.verify("data", &mut ledger);
        if level != 0 {
            scrub_finds_nothing(&server, "data");
        }
        server.stop();
    }
}
