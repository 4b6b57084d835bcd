//! Two volumes on the same drives.

use crate::common::checks::{ledger, scrub_finds_nothing};
use crate::common::{Bed, Ledger, Load, MIB, Mix, Server};
use serde_json::Value;

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
    server.order(&["fail", "fast:2"]).ok();
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
        "each volume is rebuilt once, one after the other"
    );
    let first_end = server
        .events()
        .iter()
        .position(|line| line.contains("rebuild finished"));
    let second_start = server
        .events()
        .iter()
        .rposition(|line| line.contains(": rebuild of slot"));
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

/// Both volumes change to the new drive, or neither does, even if the process dies after copying only one of them.
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
    let order = ["replace", "fast:1", "--with", &with];
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
    // The new drive is now a spare of this container.
    let spare = ["replace", "fast:1", "--with", "d4"];
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

/// A drive is lost that one volume survives and the other does not.
#[test]
fn the_end_says_of_each_volume_how_it_was_left() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("fast", 0, bed.drives(), &["--size", "16m"]);
    bed.create("safe", 1, bed.drives(), &[]);
    let end = |server: Server<'_>| {
        server.signal(rustix::process::Signal::TERM);
        let safe = server.wait_event("volume-stopped", "volume safe", 20);
        assert_eq!(safe["text"], "volume safe: is flushed and marked clean");
        let fast = server.wait_event("volume-stopped", "volume fast", 20);
        server.wait_event("stopped", "no request is served any more", 20);
        let (status, words) = server.end();
        (
            fast["text"].as_str().unwrap_or_default().to_owned(),
            status,
            words,
        )
    };
    let server = bed.serve(bed.drives()).start();
    for name in ["fast", "safe"] {
        server
            .client(name)
            .write(0, &[1; 4096])
            .expect("it is written");
    }
    let (fast, status, words) = end(server);
    assert_eq!(fast, "volume fast: is flushed");
    assert!(status.success(), "{words}");

    let server = bed.serve(bed.drives()).start();
    for name in ["fast", "safe"] {
        server
            .client(name)
            .write(0, &[2; 4096])
            .expect("it is written");
    }
    bed.set_length(1, MIB);
    server.wait_event("volume-failed", "fast", 20);
    let (fast, status, words) = end(server);
    assert!(fast.contains("neither flushed nor marked clean"), "{fast}");
    assert_eq!(status.code(), Some(1), "{words}");
    assert!(words.contains("volume fast had failed"), "{words}");
}
