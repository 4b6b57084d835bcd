//! What a server knows from the one before: events, their numbers, and the limit of background work.

use crate::common::serve::Server;
use crate::common::{Bed, MIB, run};
use serde_json::Value;
use std::path::PathBuf;

/// What `events --json` prints.
#[track_caller]
fn events(server: &Server<'_>, since: u64) -> Vec<Value> {
    let said = server
        .order(&["events", "--json", "--since", &since.to_string()])
        .ok();
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
    said.out.lines().map(parse).collect()
}

fn number(event: &Value) -> u64 {
    event["number"].as_u64().expect("a number")
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kind = |event: &Value| event["kind"] != "dirty-mark";
    let events = events.iter().filter(|event| kind(event));
    events.filter_map(|event| event["kind"].as_str()).collect()
}

/// The folder of the only array.
#[track_caller]
fn array_folder(bed: &Bed) -> PathBuf {
    let folder = bed.path("fullstripe/arrays");
    let mut arrays = std::fs::read_dir(folder).expect("the state folder");
    let array = arrays.next().expect("an array's folder").expect("its name");
    assert!(arrays.next().is_none(), "there is one array");
    array.path()
}

#[test]
fn events_and_their_numbers_outlast_the_server() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["fail", "data:1"]).ok();
    server.wait_event("failure-recorded", "", 20);
    let first = events(&server, 0);
    assert_eq!(
        kinds(&first),
        ["server-started", "member-failed", "failure-recorded"]
    );
    server.stop();

    // After an orderly end no number is left out, and there is no warning.
    let server = bed.serve(bed.drives()).start();
    let all = events(&server, 0);
    assert_eq!(all[..first.len()], first, "the old events are unchanged");
    let numbers: Vec<u64> = all.iter().map(number).collect();
    let count = numbers.len() as u64;
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
    let started = server.wait_event("server-started", "serves the array", 5);
    assert_eq!(started["warning"], false, "{started}");
    assert_eq!(kinds(&all)[3..5], ["volume-stopped", "stopped"]);
    server.kill();
    bed.wait_released();

    // After a crash, a reader that saw a number which is not on file still receives all new events.
    let server = bed.serve(bed.drives()).start();
    let started = server.wait_event("server-started", "recorded no end", 5);
    assert_eq!(started["warning"], true, "{started}");
    let new = events(&server, count + 100);
    assert_eq!(kinds(&new)[0], "server-started", "{new:#?}");
    // The last events shown may not be on file. Numbers are skipped, so that none is used twice.
    assert!(number(&new[0]) > count, "{new:#?}");
    assert_eq!(events(&server, 0)[..first.len()], first);
    let people = server.order(&["events"]).ok();
    assert!(people.out.contains("d1 is failed"), "{people}");
    server.stop();
}

#[test]
fn what_a_newer_version_wrote_is_shown_and_kept() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    bed.serve(bed.drives()).start().stop();
    let path = array_folder(&bed).join("events");
    let before = std::fs::read_to_string(&path).expect("the events");
    let newer = r#"{"number":50,"time_s":1700000000,"kind":"drive-feels-warm","volume":null,"member":"d1","text":"d1 feels warm","warning":true,"celsius":61}
{"number":51,"sort":"another"}
{"number":52,"time_s":17"#;
    std::fs::write(&path, before + newer).expect("room for more");
    let server = bed.serve(bed.drives()).start();
    let people = server.order(&["events"]).ok();
    assert!(people.out.contains("d1 feels warm"), "{people}");
    assert!(number(&events(&server, 50)[0]) > 51);
    server.stop();
    let after = std::fs::read_to_string(&path).expect("the events");
    let torn = format!("{newer}\n{{\"number\":");
    assert!(after.contains(&torn), "{after}");
}

#[test]
fn a_rate_outlasts_the_server_unless_the_option_says_otherwise() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let said = server.order(&["rate", "7m"]).ok();
    assert!(said.out.contains("also after a restart"), "{said}");
    server.kill();
    bed.wait_released();

    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["rate_bytes_per_s"], 7 << 20);
    server.wait_event(
        "start-note",
        "7 MiB/s of each drive, as `fullstripe rate",
        5,
    );
    let said = server.order(&["status"]).ok();
    let words = "background work limited to 7 MiB/s (also after a restart)";
    assert!(said.out.contains(words), "{said}");
    server.stop();

    let server = bed.serve(bed.drives()).option(&["--rate", "1m"]).start();
    assert_eq!(server.at_start["rate_bytes_per_s"], 1 << 20);
    assert_eq!(server.at_start["remembered_rate_bytes_per_s"], 7 << 20);
    server.wait_event("start-note", "--rate takes precedence", 5);
    let said = server.order(&["status"]).ok();
    let words = "limited to 1 MiB/s (after a restart limited to 7 MiB/s)";
    assert!(said.out.contains(words), "{said}");
    server.order(&["rate", "unlimited"]).ok();
    server.stop();

    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["rate_bytes_per_s"], 0);
    server.stop();
}

#[test]
fn an_array_is_served_without_a_place_for_its_memory() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    // A file takes the place of the state folder.
    bed.file("fullstripe", 0);
    let server = bed.serve(bed.drives()).start();
    let words = "events and the rate are forgotten when this process ends";
    let told = server.wait_event("not-remembered", words, 5);
    assert_eq!(told["warning"], true, "{told}");
    server.order(&["rate", "7m"]).ok();
    let kinds_now = events(&server, 0);
    assert_eq!(kinds(&kinds_now)[..2], ["server-started", "not-remembered"]);
    assert_eq!(server.volume_state(0), "optimal");
    server.stop();
    // An array in memory needs no state folder.
    let members = vec![PathBuf::from("ram:48m"); 2];
    let server = bed.serve(&members).option(&["--scratch", "1"]).start();
    assert_eq!(kinds(&events(&server, 0)), ["server-started"]);
    server.stop();
}

#[test]
fn destroy_says_what_is_still_known_of_the_array() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["rate", "7m"]).ok();
    server.stop();
    let folder = array_folder(&bed);
    let mut command = bed.fullstripe(&["destroy", "data", "--yes"]);
    let said = run(command.args(bed.drives()), 60).ok();
    assert!(said.out.contains(&folder.display().to_string()), "{said}");
    assert!(folder.join("settings.json").is_file(), "settings stay");

    // After the undo the array has its settings again.
    let backup = said
        .out
        .lines()
        .find_map(|line| line.split_once("metadata: "));
    let backup = backup.expect("the path of the backup").1;
    let mut command = bed.fullstripe(&["metadata", "restore", backup, "--yes"]);
    run(command.args(bed.drives()), 60).ok();
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["rate_bytes_per_s"], 7 << 20);
    server.stop();
}
