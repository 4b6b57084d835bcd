//! What a serving process reports without being asked: to the event command, to a watching client, and
//! about drives that vanish while no request uses them.

use crate::common::checks::ledger;
use crate::common::process::Guarded;
use crate::common::{Bed, MIB, Mix, run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn the_event_command_hears_of_everything() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let hook = "{ echo \"$FULLSTRIPE_EVENT $FULLSTRIPE_VOLUME $FULLSTRIPE_MEMBER $FULLSTRIPE_TIME\"; cat; echo; } >> heard";
    let server = bed
        .serve(bed.first(3))
        .option(&["--on-event", hook])
        .start();
    server.order(&["fail", "data:1"]).ok();
    let spare = bed.drive(3).display().to_string();
    server.order(&["add-spare", &spare]).ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    let told = server.order(&["events", "--json"]).ok();
    server.stop();
    // No event is lost at the end, because the server waits for the last call of the command.
    let heard = std::fs::read_to_string(bed.path("heard")).expect("the command was called");
    let events = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(Value::is_object)
            .collect()
    };
    let all = events(&heard);
    let told = events(&told.out);
    assert!(told.len() >= 5, "{told:?}");
    for event in &told {
        let same = |heard: &&Value| {
            ["kind", "text", "time_s"]
                .iter()
                .all(|key| heard[*key] == event[*key])
        };
        assert!(
            all.iter().any(|one| same(&one)),
            "{event} is not in {heard}"
        );
    }
    let failed = heard
        .lines()
        .find(|line| line.starts_with("member-failed "));
    let words: Vec<&str> = failed.expect("a drive failed").split(' ').collect();
    assert!(
        words[1].is_empty() && words[2].ends_with("/d1"),
        "{words:?}"
    );
    assert!(
        words[3]
            .parse::<u64>()
            .is_ok_and(|time| time > 1_700_000_000),
        "{words:?}"
    );
    let ended = heard
        .lines()
        .find(|line| line.starts_with("job-ended data "));
    assert!(ended.is_some(), "{heard}");
}

#[test]
fn whoever_watches_sees_each_change() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let api = server.api_socket().display().to_string();
    let mut watch = bed.fullstripe(&["status", "--watch", "--socket", &api]);
    watch.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watcher = Guarded::start(&mut watch);
    let (sender, lines) = mpsc::channel();
    let out = watcher.child().stdout.take().expect("it is piped");
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    let mut seen: Vec<String> = Vec::new();
    let mut wait_for = |wanted: &str| {
        while seen.last().is_none_or(|last| last != wanted) {
            let line = lines.recv_timeout(Duration::from_secs(20));
            let line = line.unwrap_or_else(|_| panic!("no line \"{wanted}\": {seen:?}"));
            let (date, said) = line.split_once(" UTC  ").expect("lines have a date");
            assert_eq!(date.len(), "2026-11-25 01:49:18".len(), "{line}");
            seen.push(said.to_owned());
        }
    };
    wait_for("volume data: optimal");
    server.order(&["fail", "data:2"]).ok();
    wait_for("volume data: degraded");
    wait_for("volume data slot 2: failed");
    server.stop();
    let rest = lines.iter();
    seen.extend(rest.filter_map(|line| Some(line.split_once(" UTC  ")?.1.to_owned())));
    for line in ["volume data: optimal", "volume data: degraded"] {
        let count = seen.iter().filter(|found| *found == line).count();
        assert_eq!(count, 1, "{line}: {seen:?}");
    }
    watcher.wait(Duration::from_secs(20));
}

/// The output of a command with these options for colours.
fn said_in(bed: &Bed, words: &[&str], colours: &[&str]) -> String {
    let mut command = bed.fullstripe(words);
    command.args(colours).env_remove("NO_COLOR");
    run(&mut command, 20).out
}

#[test]
fn colours_repeat_what_words_say_and_are_for_terminals() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["fail", "data:1"]).ok();
    let api = server.api_socket().display().to_string();
    let drive = bed.drive(0).display().to_string();
    for (words, painted) in [
        (
            vec!["status", "--socket", &api],
            "\u{1b}[33mdegraded\u{1b}[0m",
        ),
        (vec!["list", &drive], "\u{1b}["),
        (vec!["doctor", &drive], "\u{1b}[32mok\u{1b}[0m  "),
    ] {
        let plain = said_in(&bed, &words, &["--color", "never"]);
        let coloured = said_in(&bed, &words, &["--color", "always"]);
        assert!(coloured.contains(painted), "{words:?}: {coloured:?}");
        let plain = without_figures(&plain);
        let bare = without_figures(&without_codes(&coloured));
        assert_eq!(bare, plain, "{words:?}");
        // Standard output is a pipe here, so there are no colours.
        let piped = without_figures(&said_in(&bed, &words, &[]));
        assert_eq!(piped, plain, "{words:?}");
        let json = [&words[..], &["--json"]].concat();
        let json = said_in(&bed, &json, &["--color", "always"]);
        assert!(!json.contains('\u{1b}') && json.starts_with('{'), "{json}");
    }
    server.stop();
}

/// The text without digits and dots, because numbers such as the free memory change between runs.
fn without_figures(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit() || c == '.', "")
}

/// The text without colour codes, which begin with an escape and end with an `m`.
fn without_codes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest));
    first + &rest.collect::<String>()
}

#[test]
fn a_drive_that_vanishes_while_nothing_is_asked_of_it_is_failed() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 10, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    bed.set_length(3, MIB);
    server.wait_event("member-failed", "d3", 20);
    server.wait_event("failure-recorded", "d3", 10);
    server.wait_status("degraded", 10, |status| {
        status["volumes"][0]["state"] == "degraded"
    });
    server.stop();
    let said = run(bed.fullstripe(&["assemble"]).args(bed.first(3)), 20);
    assert!(
        said.out.contains("degraded"),
        "the failure is not on record: {said}"
    );
}

#[test]
fn json_lines_go_to_a_reader_that_comes_and_goes() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let api = server.api_socket().display().to_string();
    let mut follow = bed.fullstripe(&["events", "--follow", "--json", "--socket", &api]);
    follow.stdout(Stdio::piped()).stderr(Stdio::piped());
    drop(Guarded::start(&mut follow));
    server.order(&["fail", "data:0"]).ok();
    server.wait_event("failure-recorded", "d0", 10);
    let said = server.order(&["events", "--json"]).ok();
    let kinds: Vec<String> = said
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["kind"].to_string())
        .collect();
    assert!(kinds.contains(&"\"member-failed\"".to_owned()), "{kinds:?}");
    server.stop();
}

/// A deleted file can be used until the process ends. Failing the member would give up redundancy for nothing.
#[test]
fn a_file_that_is_deleted_is_told_of_and_served_until_it_is_replaced() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    server.wait_optimal(60);
    let load = ledger(&server, 0, 4).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(50, 30);
    std::fs::remove_file(bed.drive(1)).expect("it is there");
    let event = server.wait_event("member-deleted", "d1", 20);
    assert_eq!(event["warning"], true, "{event}");
    load.wait_for(100, 30);
    let status = server.status();
    assert_eq!(status["volumes"][0]["state"], "optimal");
    let deleted = |status: &Value| {
        let members = status["members"].as_array().expect("drives");
        let of = |member: &Value| member["deleted"].as_bool().expect("it is said");
        members.iter().map(of).collect::<Vec<bool>>()
    };
    assert_eq!(deleted(&status), [false, true, false]);
    let panel = server.order(&["status"]).ok().out;
    assert!(panel.contains("its file is deleted"), "{panel}");
    let with = bed.drive(3).display().to_string();
    server.order(&["replace", "data:1", "--with", &with]).ok();
    server.wait_event("job-ended", "replace finished", 60);
    load.wait_for(50, 30);
    let mut ledger = load.stop();
    // The deletion is reported only once.
    assert_eq!(server.count_events("member-deleted"), 1);
    server.stop();
    let left = [0, 2, 3].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    server.verify("data", &mut ledger);
    server.stop();
}

/// A drive whose loss fails the volume keeps its place on record, so that the volume can be started with it again.
/// `status` reports the present state.
#[test]
fn a_dead_array_says_first_which_drives_died_and_what_to_do() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    client.write(0, &[7; 65536]).unwrap();
    client.flush().unwrap();
    let check = |code: i32| {
        let said = server.order(&["status", "--check"]);
        assert_eq!(said.status.code(), Some(code), "{said}");
        assert_eq!(said.out.lines().count(), 1, "{said}");
        said.out
    };
    assert_eq!(check(0), "data is optimal\n");
    // `1` may mean slot 1 or member 1, so the order is refused.
    let asked = "1 may mean slot 1 of data (";
    server.order(&["fail", "1"]).refused(asked);
    server.order(&["fail", "data:0"]).ok();
    let lost = check(3);
    assert!(lost.starts_with("data is degraded: slot 0 ("), "{lost}");
    bed.set_length(2, 0);
    // Blocks on the drive that is left can still be read.
    let unread = (0..20).filter(|at| client.read(at * 65536, 65536).is_err());
    assert!(unread.count() > 5);
    server.wait_status("failed", 20, |status| {
        status["volumes"][0]["state"] == "failed"
    });
    let dead = check(5);
    let (d0, d2) = (bed.drive(0).display(), bed.drive(2).display());
    let start = format!(
        "data has failed: it has lost {d0} (an operator asked for it) and {d2} (it is gone"
    );
    assert!(dead.starts_with(&start), "{dead}");
    let socket = server.socket.display();
    let end =
        format!("; bring {d2} back, then `fullstripe stop --socket {socket}` and serve again\n");
    assert!(dead.ends_with(&end), "{dead}");
    let panel = server.order(&["status"]).ok().out;
    assert!(panel.starts_with(&dead), "{panel}");
    let status = server.status();
    let slots = status["volumes"][0]["slots"].as_array().expect("slots");
    let states: Vec<&str> = slots
        .iter()
        .filter_map(|slot| slot["state"].as_str())
        .collect();
    assert_eq!(states, ["failed", "in sync", "failed"]);
    // One line stands for all reads that failed before the volume's failure was known, and one for those after.
    let events = server.order(&["events"]).ok().out;
    let unread = events
        .lines()
        .filter(|line| line.contains("can be neither read nor"));
    assert!((1..=2).contains(&unread.count()), "{events}");
    assert!(events.contains(" more like it up to number "), "{events}");
    let (status, said) = server.end();
    assert_eq!(status.code(), Some(1), "{said}");
}
