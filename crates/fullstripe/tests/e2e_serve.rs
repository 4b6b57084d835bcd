//! An array's life with the built binary on files: every level served, loaded, ended in order and by
//! `kill -9`, degraded, rebuilt, replaced, scrubbed. What was acknowledged is compared sector by sector.

mod common;

use common::nbd::{EINVAL, EPERM, FLAG_FUA, WRITE};
use common::{Bed, Ledger, Load, MIB, Mix, Server, run};
use rustix::process::Signal;
use serde_json::Value;
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

fn ledger(server: &Server<'_>, volume: usize, seed: u64) -> Ledger {
    let size_bytes = server.at_start["volumes"][volume]["size_bytes"].as_u64();
    Ledger::new(size_bytes.expect("a size"), seed)
}

/// The volume with this number in the record on a drive, by `examine`.
fn on_drive(bed: &Bed, drive: usize, volume: usize) -> Value {
    let path = bed.drive(drive).display().to_string();
    let said = run(&mut bed.fullstripe(&["examine", "--json", &path]), 20).ok();
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    found["drives"][0]["record"]["volumes"][volume].clone()
}

#[track_caller]
fn expect_clean(bed: &Bed, drives: impl IntoIterator<Item = usize>) {
    for drive in drives {
        let volume = on_drive(bed, drive, 0);
        assert_eq!(volume["dirty"], false, "d{drive}: {volume:#}");
        assert_eq!(volume["state"], "normal", "d{drive}: {volume:#}");
    }
}

#[track_caller]
fn scrub_finds_nothing(server: &Server<'_>, volume: &str) {
    server.order(&["scrub", volume, "--wait"]).ok();
    assert_eq!(server.count_events("mismatch"), 0, "{:#?}", server.events());
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

        // The order of the drives on the command line means nothing.
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
    server.order(&["fail", "1"]).ok();
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
            // Every round dies at another moment.
            load.wait_for(120 + 170 * round, 30);
            server.kill();
            ledger = load.end().0;
            for drive in 0..members {
                let dirty = on_drive(&bed, drive, 0)["dirty"] == (level != 0);
                assert!(
                    dirty,
                    "writes began before d{drive} said dirty, or RAID 0 did"
                );
            }
            server = start().start();
            // Served and right at once, whether or not the resync has got there.
            server.verify("data", &mut ledger);
        }
        server.wait_optimal(30);
        if level != 0 {
            // A RAID 5 has its log instead.
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
        // So slow that it can't end here.
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

        // The failed drive is no part of it any more, even when it is named again.
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

/// As a service's unit file would have it: the same words whatever has happened.
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
    // One that holds something is not taken, and nothing is served.
    let other = bed.file("other", 48 * MIB);
    std::fs::write(&other, [b"XFSB".as_slice(), &vec![0; 48 << 20]].concat()).expect("a file");
    let other = other.display().to_string();
    let said = bed
        .serve(bed.first(3))
        .option(&["--spare", &first, "--spare", &other]);
    said.refused("holds an XFS file system");
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
        server
            .order(&["replace", "data", "1", "--with", &with])
            .ok();
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
fn two_volumes_on_the_same_drives_fail_and_return_together() {
    let bed = Bed::new(5, 96 * MIB);
    bed.create("fast", 10, bed.first(4), &["--size", "64m"]);
    bed.create("big", 5, bed.first(4), &[]);
    let server = bed.serve(bed.first(4)).option(&["--shards", "2"]).start();
    let names = ["fast", "big"];
    let loads = names.map(|name| {
        let volume = names
            .iter()
            .position(|other| *other == name)
            .expect("it is there");
        ledger(&server, volume, volume as u64).load(server.clients(name, 2), Mix::Everything)
    });
    loads.iter().for_each(|load| load.wait_for(100, 30));
    server.order(&["fail", "2"]).ok();
    let both = |status: &Value, state: &str| {
        status["volumes"]
            .as_array()
            .expect("volumes")
            .iter()
            .all(|one| one["state"] == state)
    };
    server.wait_status("both degraded", 10, |status| both(status, "degraded"));
    loads.iter().for_each(|load| load.wait_for(100, 30));
    server
        .order(&["add-spare", &bed.drive(4).display().to_string()])
        .ok();
    let ended = server.wait_events("job-ended", "rebuild finished", 2, 60);
    assert_ne!(
        ended[0]["volume"], ended[1]["volume"],
        "one after the other, each volume once"
    );
    let first_end = server
        .events()
        .iter()
        .position(|line| line.contains("rebuild finished"));
    let second_start = server
        .events()
        .iter()
        .rposition(|line| line.contains("rebuild started"));
    assert!(
        first_end < second_start,
        "one rebuild at a time: {:#?}",
        server.events()
    );
    let mut ledgers = loads.map(Load::stop);
    server.wait_optimal(20);
    for (name, ledger) in names.iter().zip(&mut ledgers) {
        server.verify(name, ledger);
        scrub_finds_nothing(&server, name);
    }
    server.stop();
    let left = [0, 1, 3, 4].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    for (name, ledger) in names.iter().zip(&mut ledgers) {
        server.verify(name, ledger);
    }
    server.stop();
}

/// Both volumes change drives, or neither does: also when the process dies between their copies.
#[test]
fn two_volumes_change_a_drive_together() {
    let bed = Bed::new(5, 96 * MIB);
    bed.create("fast", 10, bed.first(4), &["--size", "64m"]);
    bed.create("big", 5, bed.first(4), &[]);
    let server = bed.serve(bed.first(4)).option(&["--rate", "20m"]).start();
    let names = ["fast", "big"];
    let mut ledgers = [0, 1].map(|at| ledger(&server, at, at as u64));
    for (name, ledger) in names.iter().zip(&mut ledgers) {
        ledger.fill(&mut server.client(name));
    }
    let load = |server: &Server<'_>, ledgers: [Ledger; 2]| {
        let mut names = names.iter();
        ledgers.map(|ledger| {
            let name = names.next().expect("one for each");
            ledger.load(server.clients(name, 2), Mix::Everything)
        })
    };
    let loads = load(&server, ledgers);
    let with = bed.drive(4).display().to_string();
    let order = ["replace", "fast", "1", "--with", &with];
    server.order(&order).ok();
    server.wait_status("the first volume copied, the second not", 60, |status| {
        let job = |at: usize| &status["volumes"][at]["job"];
        job(0)["done_bytes"] == job(0)["total_bytes"] && job(1)["running"] == true
    });
    loads.iter().for_each(|load| load.wait_for(50, 30));
    assert_eq!(server.count_events("job-ended"), 0);
    server.kill();
    let mut ledgers = loads.map(|load| load.end().0);

    let server = bed.serve(bed.drives()).start();
    for volume in [0, 1] {
        let slots = &server.at_start["volumes"][volume]["slots"];
        assert_eq!(slots[1]["member"], 1, "{slots:#}");
    }
    for (name, ledger) in names.iter().zip(&mut ledgers) {
        server.verify(name, ledger);
    }
    server.wait_optimal(60);
    let loads = load(&server, ledgers);
    // The drive is a spare of this container now.
    let spare = ["replace", "fast", "1", "--with", "4"];
    server.order(&spare).ok();
    server.wait_events("job-ended", "replace finished", 2, 60);
    loads.iter().for_each(|load| load.wait_for(50, 30));
    let mut ledgers = loads.map(Load::stop);
    server.wait_optimal(20);
    server.stop();
    let left = [0, 2, 3, 4].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    for (volume, (name, ledger)) in names.iter().zip(&mut ledgers).enumerate() {
        assert_eq!(server.at_start["volumes"][volume]["state"], "optimal");
        server.verify(name, ledger);
        scrub_finds_nothing(&server, name);
    }
    server.stop();
}

#[test]
fn a_rebuild_that_is_killed_resumes_at_its_checkpoint() {
    let bed = Bed::new(4, 128 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    let mut ledger = ledger(&server, 0, 11);
    ledger.fill(&mut server.client("data"));
    // Only where nothing was being written does the checkpoint say enough.
    server.wait_event("dirty-mark", "clean", 20);
    server.order(&["fail", "1"]).ok();
    // 126 MiB at 12 MiB/s take ten seconds; the checkpoint comes after five.
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
        "it began again at {done_bytes} bytes"
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
        server.order(&["fail", "1"]).ok();
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

#[test]
fn a_degraded_start_needs_the_flag_once() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 0, 12);
    ledger.fill(&mut server.client("data"));
    server.stop();
    bed.serve(bed.first(2)).refused("--degraded");
    bed.serve(bed.first(1))
        .refused("volume data is not started");
    let before: Vec<_> = bed
        .drives()
        .iter()
        .map(std::fs::read)
        .map(Result::unwrap)
        .collect();
    bed.serve(bed.first(2)).refused("--degraded");
    for (path, before) in bed.drives().iter().zip(before) {
        assert!(
            std::fs::read(path).unwrap() == before,
            "a refusal writes nothing"
        );
    }

    let server = bed.serve(bed.first(2)).option(&["--degraded"]).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
    // Now it is on record that the member is gone; when it comes back, it is known to be outdated.
    for drives in [bed.first(2), bed.drives()] {
        let server = bed.serve(drives).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_crash_while_degraded_is_survived_or_refused_until_the_operator_accepts_it() {
    let without_log: &[&str] = &["--write-hole", "off"];
    for (level, members, options) in [
        (5, 3, without_log),
        (5, 3, &[]),
        (5, 5, &["--chunk", "4k"]),
        (1, 2, &[]),
        (10, 4, &[]),
    ] {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), options);
        let server = bed.serve(bed.drives()).start();
        let load = ledger(&server, 0, 13).load(server.clients("data", 2), Mix::Small);
        load.wait_for(100, 30);
        server.order(&["fail", "0"]).ok();
        load.wait_for(100, 30);
        server.kill();
        let (mut ledger, _) = load.end();
        let left = &bed.drives()[1..];
        let in_doubt = options == without_log;
        if in_doubt {
            bed.serve(left).refused("--accept-write-hole");
        }
        let flag: &[&str] = if in_doubt {
            &["--accept-write-hole"]
        } else {
            &[]
        };
        let server = bed.serve(left).option(flag).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
        if !in_doubt {
            server.verify("data", &mut ledger);
        }
        server.stop();
    }
}

#[test]
fn read_only_writes_nothing_at_all() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let load = ledger(&server, 0, 14).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(200, 30);
    // Dirty, so that a writing start would resync.
    server.kill();
    let (mut ledger, _) = load.end();
    bed.wait_released();
    let before: Vec<_> = bed
        .drives()
        .iter()
        .map(std::fs::read)
        .map(Result::unwrap)
        .collect();
    let server = bed.serve(bed.drives()).option(&["--read-only"]).start();
    assert_eq!(server.at_start["volumes"][0]["read_only"], true);
    server.verify("data", &mut ledger);
    let mut client = server.client("data");
    assert_eq!(client.write(0, &[1; 4096]), Err(EPERM));
    assert_eq!(
        client.simple((WRITE, FLAG_FUA), 0, 512, &[1; 512]),
        Err(EPERM)
    );
    server.verify("data", &mut ledger);
    server.stop();
    for (path, before) in bed.drives().iter().zip(before) {
        assert!(
            std::fs::read(path).unwrap() == before,
            "{} has changed",
            path.display()
        );
    }
}

#[test]
fn an_array_is_served_once() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    bed.serve(bed.first(3)).refused("is in use by");
    bed.serve(bed.first(3))
        .option(&["--read-only"])
        .refused("is in use by");
    bed.try_create("other", 1, bed.first(2), &["--force"])
        .refused("is in use by");
    let drive = bed.drive(0).display().to_string();
    server.order(&["add-spare", &drive]).refused(&drive);
    assert_eq!(server.client("data").write(0, &[7; 4096]), Ok(()));
    server.stop();
    // The same address twice is refused by name as well.
    let server = bed.serve(bed.first(3)).start();
    let address = format!("unix:{}", server.nbd_socket().display());
    bed.create("other", 0, &bed.drives()[3..], &["--wide"]);
    bed.serve(&bed.drives()[3..])
        .option(&["--nbd", &address])
        .refused("another process answers");
    assert_eq!(server.client("data").read(0, 4096), Ok(vec![7; 4096]));
    server.stop();
}

#[test]
fn orders_that_would_lose_data_or_name_nothing_are_refused() {
    let bed = Bed::new(5, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    server
        .order(&["fail", "nothing"])
        .refused("there is no drive \"nothing\"");
    server.order(&["fail", "7"]).refused("there is no drive");
    server.order(&["remove", "1"]).refused("in use");
    server.order(&["scrub", "nothing"]).refused("nothing");
    server.order(&["rebuild", "nothing"]).refused("nothing");
    server.order(&["cancel", "data"]).refused("data");
    server.order(&["pause", "data"]).refused("data");
    server.order(&["rate", "quick"]).refused("quick");
    server
        .order(&[
            "replace",
            "data",
            "9",
            "--with",
            &bed.drive(3).display().to_string(),
        ])
        .refused("slot");
    server
        .order(&["replace", "data", "0", "--with", "/nowhere"])
        .refused("/nowhere");
    let small = bed.file("small", 16 * MIB).display().to_string();
    server
        .order(&["add-spare", &small])
        .refused("small has 16 MiB, and a drive of this array needs");
    server.order(&["add-spare", "/nowhere"]).refused("/nowhere");
    assert_eq!(
        server.volume_state(0),
        "optimal",
        "nothing of this changed anything"
    );

    server.order(&["fail", "0"]).ok();
    server.order(&["fail", "1"]).refused("lose data");
    server.order(&["fail", "0"]).refused("");
    server.order(&["scrub", "data"]).refused("data");
    assert_eq!(server.volume_state(0), "degraded");
    assert_eq!(server.client("data").write(4096, &[7; 4096]), Ok(()));
    assert_eq!(server.client("data").read(4096, 4096), Ok(vec![7; 4096]));
    server.order(&["stop"]).ok();
    server.wait_end();

    let bed = Bed::new(2, 48 * MIB);
    bed.create("fast", 0, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["fail", "0"]).refused("lose data");
    server.order(&["scrub", "fast"]).refused("no redundancy");
    server
        .order(&["add-spare", &bed.file("d2", 48 * MIB).display().to_string()])
        .ok();
    server.stop();
}

#[test]
fn requests_outside_the_rules_are_answered_and_the_connection_lives_on() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    let size = client.size_bytes;
    for (offset, length) in [
        (size, 512),
        (size - 512, 1024),
        (u64::MAX - 511, 512),
        (1, 512),
    ] {
        assert_eq!(
            client.read(offset, length),
            Err(EINVAL),
            "read {length} at {offset}"
        );
    }
    for (offset, length) in [(size, 512), (size - 512, 1024), (u64::MAX - 511, 512)] {
        let found = client.write(offset, &vec![1; length]);
        assert!(found.is_err(), "write {length} at {offset}: {found:?}");
    }
    assert_eq!(
        client.write(1, &[1; 512]),
        Err(EINVAL),
        "not aligned to sectors"
    );
    assert_eq!(
        client.write(0, &[1; 100]),
        Err(EINVAL),
        "not a whole number of sectors"
    );
    assert_eq!(
        client.simple((99, 0), 0, 0, &[]),
        Err(EINVAL),
        "an unknown command"
    );
    assert_eq!(client.read(size - 512, 512), Ok(vec![0; 512]));
    assert_eq!(client.write(size - 512, &[3; 512]), Ok(()));
    assert_eq!(client.flush(), Ok(()));
    assert!(
        common::Client::connect(server.nbd_socket(), "other").is_err(),
        "no such export"
    );
    server.stop();
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
            let mut process = common::process::Guarded::start(&mut command);
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
