//! From `create` to the end of the server, in order or by `kill -9`, and the array afterwards.

use crate::common::checks::{expect_clean, ledger, on_drive, scrub_finds_nothing};
use crate::common::{Bed, MIB, Mix, run};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;

/// The shapes that most tests go through: level, members, chunk, shards.
const SHAPES: [(u8, usize, Option<&str>, &str); 6] = [
    (0, 2, Some("16k"), "2"),
    (1, 2, None, "1"),
    (1, 2, None, "2"),
    (10, 4, Some("64k"), "2"),
    (5, 3, Some("64k"), "1"),
    (5, 4, Some("16k"), "2"),
];

fn chunk_option<'a>(chunk: &Option<&'a str>) -> Vec<&'a str> {
    chunk.iter().flat_map(|chunk| ["--chunk", chunk]).collect()
}

#[test]
fn every_level_keeps_what_it_acknowledged_and_ends_clean() {
    for (at, (level, members, chunk, shards)) in SHAPES.into_iter().enumerate() {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), &chunk_option(&chunk));
        let server = bed
            .serve(bed.drives())
            .option(&["--shards", shards])
            .start();
        assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
        assert_eq!(server.at_start["volumes"][0]["level"], level);
        let load = ledger(&server, 0, at as u64).load(server.clients("data", 3), Mix::Everything);
        load.wait_for(1500, 30);
        let mut ledger = load.stop();
        server.verify("data", &mut ledger);
        if level != 0 {
            scrub_finds_nothing(&server, "data");
        }
        server.stop();
        expect_clean(&bed, 0..members);

        // The order of the drives on the command line does not matter.
        let mut shuffled = bed.drives().to_vec();
        shuffled.reverse();
        let server = bed.serve(&shuffled).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
        assert_eq!(server.at_start["volumes"][0]["dirty"], false);
        assert!(
            server.at_start["volumes"][0]["job"].is_null(),
            "nothing to resync"
        );
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_scratch_array_survives_a_failed_member_and_nothing_of_it_lasts() {
    let bed = Bed::new(1, 8 * MIB);
    let members = vec![PathBuf::from("ram:48m"); 3];
    let start = || bed.serve(&members).option(&["--scratch", "5"]).start();
    let server = start();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    let load = ledger(&server, 0, 3).load(server.clients("scratch", 2), Mix::Everything);
    load.wait_for(500, 30);
    server.order(&["fail", "scratch:1"]).ok();
    let mut ledger = load.stop();
    server.verify("scratch", &mut ledger);
    server.stop();

    let server = start();
    let mut nothing = self::ledger(&server, 0, 3);
    server.verify("scratch", &mut nothing);
    server.stop();
    let said = run(&mut bed.fullstripe(&["serve", "--scratch", "0", "d0"]), 20);
    assert!(said.err.contains("would last"), "{said:?}");
}

#[test]
fn a_killed_server_loses_nothing_acknowledged() {
    for (at, (level, members, chunk, shards)) in SHAPES.into_iter().enumerate() {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), &chunk_option(&chunk));
        let start = || bed.serve(bed.drives()).option(&["--shards", shards]);
        let mut server = start().start();
        let mut ledger = ledger(&server, 0, 100 + at as u64);
        for round in 0..3 {
            let load = ledger.load(server.clients("data", 3), Mix::Everything);
            // Each round kills the server at another moment.
            load.wait_for(120 + 170 * round, 30);
            server.kill();
            ledger = load.end().0;
            for drive in 0..members {
                let dirty = on_drive(&bed, drive, 0)["dirty"] == (level != 0);
                assert!(
                    dirty,
                    "writes began before d{drive} was marked dirty, or a RAID 0 was"
                );
            }
            server = start().start();
            // The data are right at once, however far the resync has come.
            server.verify("data", &mut ledger);
        }
        server.wait_optimal(30);
        if level != 0 {
            // A RAID 5 replays its write-hole log instead of a resync.
            if level != 5 {
                server.wait_event("job-ended", "resync finished", 10);
            }
            scrub_finds_nothing(&server, "data");
        }
        server.verify("data", &mut ledger);
        server.stop();
        expect_clean(&bed, 0..members);
    }
}

#[test]
fn a_resync_that_is_killed_is_taken_up_again() {
    let bed = Bed::new(3, 64 * MIB);
    let options = ["--chunk", "64k", "--write-hole", "off"];
    bed.create("data", 5, bed.drives(), &options);
    let server = bed.serve(bed.drives()).start();
    let load = ledger(&server, 0, 7).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(400, 30);
    server.kill();
    let (mut ledger, _) = load.end();
    for _ in 0..2 {
        // So slow that the resync cannot end in this session.
        let server = bed.serve(bed.drives()).option(&["--rate", "1m"]).start();
        server.wait_event("job-started", "resync", 10);
        server.verify("data", &mut ledger);
        server.kill();
    }
    let server = bed.serve(bed.drives()).start();
    server.wait_event("job-ended", "resync finished", 30);
    server.verify("data", &mut ledger);
    scrub_finds_nothing(&server, "data");
    server.stop();
    expect_clean(&bed, 0..3);
}

#[test]
fn sigterm_under_load_loses_nothing_and_ends_clean() {
    for (level, members) in [(5, 3), (1, 2), (10, 4), (0, 2)] {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
        let load = ledger(&server, 0, 15).load(server.clients("data", 4), Mix::Everything);
        load.wait_for(300, 30);
        server.stop();
        let (mut ledger, _) = load.end();
        expect_clean(&bed, 0..members);
        let server = bed.serve(bed.drives()).start();
        assert!(server.at_start["volumes"][0]["job"].is_null());
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn signals_at_any_moment_of_the_start_leave_a_startable_array() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 10, bed.drives(), &[]);
    for delay_ms in [0, 2, 5, 10, 20, 40, 80, 160] {
        for signal in ["KILL", "TERM"] {
            let nbd = format!("unix:{}", bed.path("early").display());
            let mut command = bed.fullstripe(&["serve", "--nbd", &nbd, "--memory", "48m"]);
            command
                .arg("--socket")
                .arg(bed.path("early-api"))
                .args(bed.drives());
            command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            let mut process = crate::common::process::Guarded::start(&mut command);
            std::thread::sleep(Duration::from_millis(delay_ms));
            process.signal(if signal == "KILL" {
                Signal::KILL
            } else {
                Signal::TERM
            });
            process.wait(Duration::from_secs(30));
        }
    }
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    assert_eq!(server.client("data").read(0, 4096), Ok(vec![0; 4096]));
    server.stop();
}

/// What the server did at its start is among the events, for programs and people who look later.
#[test]
fn a_replay_at_the_start_is_among_the_events() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let load = ledger(&server, 0, 5).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(100, 30);
    server.kill();
    let (mut ledger, _) = load.end();
    bed.wait_released();
    let server = bed
        .serve(bed.drives())
        .option(&["--on-event", "cat >> heard"])
        .start();
    let words = "its write-hole log has corrected parity";
    assert!(server.words().contains(words), "{}", server.words());
    server.wait_event("start-note", words, 10);
    let told = server.order(&["events", "--json"]).ok();
    assert!(told.out.contains(words), "{told}");
    server.verify("data", &mut ledger);
    server.stop();
    let heard = std::fs::read_to_string(bed.path("heard")).expect("the hook was called");
    assert!(heard.contains(words), "{heard}");
}
