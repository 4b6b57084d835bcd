//! Scrubs across several processes: interrupted and resumed, on a schedule, and what they report.

use crate::common::{Bed, MIB, Server, run};
use serde_json::Value;
use std::time::{Duration, Instant};

const CHUNK_BYTES: u64 = 64 << 10;

/// What `scrub data --report --json` says.
fn report(server: &Server<'_>) -> Value {
    let said = server.order(&["scrub", "data", "--report", "--json"]);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The unfinished scrub in the notes on the first drive.
fn kept(bed: &Bed) -> Value {
    let bytes = std::fs::read(bed.drive(0)).expect("the drive is there");
    let notes = &bytes[bytes.len() - 2608 * 512..][..256 * 512];
    let number =
        |copy: &[u8], at: usize| u64::from_le_bytes(copy[at..at + 8].try_into().expect("8"));
    let whole = |copy: &&[u8]| copy.starts_with(b"fullstripe notes");
    let copies = notes.chunks(128 * 512).filter(whole);
    let Some(newest) = copies.max_by_key(|copy| number(copy, 32)) else {
        return Value::Null;
    };
    let length = number(newest, 24) as u32 as usize;
    // The notes may just be being written.
    let text: Value = serde_json::from_slice(&newest[64..64 + length]).unwrap_or_default();
    text[0]["unfinished"].clone()
}

fn wait_kept(bed: &Bed, wanted: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !wanted(&kept(bed)) {
        assert!(
            Instant::now() < deadline,
            "the notes do not contain it: {:#}",
            kept(bed)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stripes(report: &Value) -> Vec<u64> {
    let findings = report["findings"].as_array().expect("a list");
    findings
        .iter()
        .filter_map(|one| one["stripe"].as_u64())
        .collect()
}

/// An array of 64 MiB drives, with wrong bytes on the second drive in the stripes `rows`.
fn spoiled(level: u8, members: usize, rows: &[u64]) -> Bed {
    let bed = Bed::new(members, 64 * MIB);
    let options = ["--chunk", "64k"];
    bed.create(
        "data",
        level,
        bed.drives(),
        if level == 1 { &[] } else { &options },
    );
    for &row in rows {
        bed.scribble(1, row * CHUNK_BYTES + 4096, 100, 0x5A);
    }
    bed
}

#[test]
fn a_scrub_that_is_killed_or_stopped_goes_on_where_it_was() {
    for (repair, shards, kill) in [(false, "1", true), (true, "2", true), (false, "2", false)] {
        // The last of these stripes lies beyond every position that the interrupted scrubs can reach.
        let bed = spoiled(5, 3, &[3, 70, 800]);
        let serve = |rate| {
            let start = bed.serve(bed.drives());
            start.option(&["--shards", shards, "--rate", rate]).start()
        };
        let server = serve("3m");
        let order = ["scrub", "data", "--repair"];
        server.order(if repair { &order } else { &order[..2] }).ok();
        wait_kept(&bed, |kept| kept["kept_bytes"].as_u64() >= Some(8 * MIB));
        if kill {
            server.kill();
            bed.wait_released();
        } else {
            server.stop();
        }

        let server = serve("1m");
        let status = server.wait_status("taken up again", 20, |status| {
            status["volumes"][0]["job"]["running"] == true
        });
        let job = &status["volumes"][0]["job"];
        assert_eq!(job["kind"], if repair { "repair" } else { "check" });
        assert!(job["done_bytes"].as_u64() >= Some(8 * MIB), "{status:#}");
        assert!(job["mismatches"].as_u64() >= Some(2), "{status:#}");
        // A pause also survives the process.
        server.order(&["pause", "data"]).ok();
        wait_kept(&bed, |kept| kept["paused"] == true);
        server.kill();
        bed.wait_released();

        let server = serve("0");
        server.wait_status("paused", 20, |status| {
            status["volumes"][0]["job"]["paused"] == true
        });
        server.order(&["resume", "data"]).ok();
        server.wait_event("job-ended", "finished, 3 stripes did not match", 60);
        let report = report(&server);
        assert_eq!(stripes(&report), [3, 70, 800], "{report:#}");
        assert_eq!(report["continued"], 2);
        assert_eq!(report["complete"], true);
        server.order(&["scrub", "data", "--repair", "--wait"]);
        server.order(&["scrub", "data", "--wait"]).ok();
        server.stop();
        // The scrub is over, for every later process too.
        let server = serve("0");
        assert_eq!(server.count_events("job-started"), 0);
        assert_eq!(self::report(&server)["mismatches"], 0);
        server.stop();
    }
}

#[test]
fn a_scheduled_scrub_comes_again_and_again_in_later_processes_too() {
    let bed = spoiled(5, 3, &[5]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["scrub", "data", "--every", "1s"]).ok();
    server.wait_events("job-ended", "check finished, 1 stripe did not match", 2, 30);
    server.kill();
    bed.wait_released();

    let server = bed.serve(bed.drives()).start();
    server.wait_event("job-ended", "check finished", 30);
    server
        .order(&["scrub", "data", "--every", "2s", "--repair"])
        .ok();
    server.wait_event("job-ended", "repair finished, 1 stripe did not match", 30);
    server.wait_event("job-ended", "repair finished", 30);
    // No scheduled scrub begins while the volume is degraded.
    server.order(&["fail", "d2"]).ok();
    server.wait_status("idle", 20, |status| status["volumes"][0]["job"].is_null());
    let before = server.count_events("job-started");
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(server.count_events("job-started"), before);
    let status = server.order(&["status"]).ok();
    assert!(status.out.contains("scrub: last"), "{status}");
    assert!(status.out.contains("next is due"), "{status}");
    server.order(&["scrub", "data", "--every", "off"]).ok();
    assert!(server.status()["volumes"][0]["scrub"]["every_s"].is_null());
    server.stop();
}

#[test]
fn a_report_names_every_place_and_an_explanation_every_byte() {
    let bed = spoiled(5, 3, &[2, 7]);
    let server = bed.serve(bed.drives()).start();
    server
        .order(&["scrub", "data", "--report"])
        .refused("has not been scrubbed");
    server.order(&["scrub", "data", "--wait"]);
    let found = report(&server);
    assert_eq!(stripes(&found), [2, 7]);
    assert_eq!(found["left_out"], 0);
    let first = &found["findings"][0];
    assert_eq!(first["outcome"], "mismatch");
    assert_eq!(first["lbas"][0]["first"], 512);
    assert_eq!(first["lbas"][0]["last"], 767);
    assert_eq!(first["members"].as_array().map(Vec::len), Some(3));
    assert_eq!(first["members"][1]["member_lba"], 256);
    let text = server.order(&["scrub", "data", "--report"]);
    assert!(
        !text.status.success() && text.out.contains("512-767"),
        "{text}"
    );

    let explain = |lba: &str| server.order(&["scrub", "data", "--explain", lba, "--json"]);
    let said = explain("600");
    assert!(!said.status.success(), "{said}");
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(found["stripe"], 2);
    assert_eq!(found["comparisons"][0]["agree"], false);
    assert_eq!(found["comparisons"][0]["differing"][0]["first"], 4096);
    assert_eq!(found["comparisons"][0]["differing"][0]["last"], 4195);
    assert_eq!(found["comparisons"][0]["differing_bytes"], 100);
    let verdict = found["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("cannot be known"), "{verdict}");
    let said = explain("0").ok();
    assert!(said.out.contains("all members agree"), "{said}");
    explain("99999999").refused("has no LBA 99999999");
    // Clients are served while a range is explained.
    let mut client = server.client("data");
    client.write(600 * 512, &[1; 4096]).expect("a write");
    explain("600");
    client.write(600 * 512, &[2; 4096]).expect("a write");
    server.order(&["fail", "d2"]).ok();
    explain("600").refused("nothing to compare with");
    server.stop();
}

#[test]
fn an_explanation_of_mirrors_names_the_copies_that_differ() {
    let bed = spoiled(1, 2, &[16]);
    let server = bed.serve(bed.drives()).start();
    // Row 16 of 64 KiB begins at 1 MiB. The wrong bytes are 4 KiB further.
    let lba = (MIB / 512).to_string();
    let said = server.order(&["scrub", "data", "--explain", &lba]);
    assert!(
        said.out
            .contains("slots 0, 1 do not agree: 100 bytes differ"),
        "{said}"
    );
    assert!(
        said.out.contains("which of them is right cannot be known"),
        "{said}"
    );
    server.stop();

    let bed = spoiled(10, 4, &[9]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["scrub", "data", "--wait"]);
    let found = report(&server);
    let members = found["findings"][0]["members"].as_array().expect("a list");
    let slots: Vec<u64> = members
        .iter()
        .filter_map(|one| one["slot"].as_u64())
        .collect();
    assert_eq!(slots, [0, 1], "only one pair differs: {found:#}");
    server.stop();
}

#[test]
fn scrubs_and_notes_are_refused_where_they_make_no_sense_and_go_with_the_array() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 0, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    for order in [["--every", "1d"], ["--explain", "0"]] {
        let words = [&["scrub", "data"], &order[..]].concat();
        server.order(&words).refused("RAID 0");
    }
    server.stop();

    let bed = spoiled(5, 3, &[]);
    let server = bed.serve(bed.drives()).option(&["--read-only"]).start();
    server
        .order(&["scrub", "data", "--every", "1d"])
        .refused("read-only");
    server.stop();
    let server = bed.serve(bed.drives()).start();
    server
        .order(&["scrub", "data", "--every", "never"])
        .refused("is no period");
    server.order(&["scrub", "data", "--every", "1d"]).ok();
    server.stop();
    let marks = |bed: &Bed| {
        let holds = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).expect("the drive is there");
            let from = bytes.len() - 2608 * 512;
            bytes[from..]
                .windows(16)
                .any(|word| word == b"fullstripe notes")
        };
        bed.drives().iter().filter(|path| holds(path)).count()
    };
    assert_eq!(marks(&bed), 3);
    let mut destroy = bed.fullstripe(&["destroy", "data", "--yes"]);
    run(destroy.args(bed.drives()), 30).ok();
    assert_eq!(marks(&bed), 0);
}

/// The areas in front of the record on a drive: notes and shadow.
fn kept_areas(bed: &Bed, at: usize) -> Vec<u8> {
    let bytes = std::fs::read(bed.drive(at)).expect("the drive is there");
    bytes[bytes.len() - 2608 * 512..][..(256 + 136) * 512].to_vec()
}

#[test]
fn what_a_newer_version_wrote_beside_the_record_is_left_as_it_is() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let put = |at: usize, from_end: u64, bytes: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(bed.drive(at));
        let file = file.expect("the drive is there");
        file.write_all_at(bytes, 64 * MIB - from_end * 512)
            .expect("it can be written");
    };
    let serve_and_scrub = || {
        let server = bed.serve(bed.drives()).start();
        let mut client = server.client("data");
        client.write(0, &[7; 4096]).expect("it is written");
        server.order(&["scrub", "data", "--wait"]).ok();
        let every = server.order(&["scrub", "data", "--every", "1d"]);
        let words = server.words();
        server.stop();
        (every, words)
    };
    // On the first drive both shadow and notes are newer. On the second only the notes are, in the copy that is
    // written next.
    put(0, 2352, b"fullstripeShadow\x02\0\0\0something else");
    for from_end in [2608, 2480] {
        put(0, from_end, b"fullstripe notes\x02\0\0\0something else");
    }
    put(1, 2480, b"fullstripe notes\x03\0\0\0something else");
    let before = [0, 1, 2].map(|at| kept_areas(&bed, at));
    let (every, words) = serve_and_scrub();
    every.ok();
    let after = [0, 1, 2].map(|at| kept_areas(&bed, at));
    const NOTES: usize = 256 * 512;
    assert!(after[0] == before[0], "d0: notes and shadow stay");
    assert!(after[1][..NOTES] == before[1][..NOTES], "d1: notes stay");
    assert!(after[1][NOTES..] != before[1][NOTES..], "shadow is ours");
    assert!(after[2][..NOTES] != before[2][..NOTES], "notes are ours");
    for (at, shadow, notes) in [(0, 1, 1), (1, 0, 1), (2, 0, 0)] {
        let count = |what: &str| {
            let about = |line: &&str| line.contains(&format!("d{at}: ")) && line.contains(what);
            words.lines().filter(about).count()
        };
        let newer = "a newer version of this program wrote the ";
        assert_eq!(count(&format!("{newer}shadow")), shadow, "d{at}: {words}");
        assert_eq!(count(&format!("{newer}notes")), notes, "d{at}: {words}");
    }

    // If no drive can store notes, no order waits for them.
    for at in [1, 2] {
        put(at, 2608, b"fullstripe notes\x02\0\0\0something else");
    }
    let before = [0, 1, 2].map(|at| kept_areas(&bed, at)[..NOTES].to_vec());
    serve_and_scrub().0.ok();
    let after = [0, 1, 2].map(|at| kept_areas(&bed, at)[..NOTES].to_vec());
    assert!(after == before, "notes stay");
}

/// When `scrub --wait` has returned, the next order is accepted at once.
#[test]
fn when_a_scrub_that_was_waited_for_has_ended_nothing_is_busy() {
    const TIMES: usize = 5;
    let bed = Bed::new(3 + TIMES, 64 * MIB);
    bed.create("data", 5, bed.first(3), &["--chunk", "64k"]);
    let server = bed.serve(bed.first(3)).start();
    for at in 0..TIMES {
        let slot = format!("data:{}", at % 3);
        let drive = bed.drive(3 + at).display().to_string();
        server.order(&["scrub", "data", "--wait"]).ok();
        server.order(&["replace", &slot, "--with", &drive]).ok();
        server.wait_status("replaced", 60, |status| {
            let volume = &status["volumes"][0];
            volume["job"].is_null() && volume["state"] == "optimal"
        });
    }
    server.stop();
}

#[test]
fn the_scrub_before_is_told_while_another_one_runs() {
    let bed = spoiled(5, 3, &[]);
    let server = bed.serve(bed.drives()).start();
    server.order(&["scrub", "data", "--wait"]).ok();
    server.order(&["rate", "1m"]).ok();
    server.order(&["scrub", "data"]).ok();
    let status = server.order(&["status"]).ok();
    assert!(status.out.contains("scrub: last finished"), "{status}");
    assert!(status.out.contains("; one is unfinished at"), "{status}");
    server.stop();
}
