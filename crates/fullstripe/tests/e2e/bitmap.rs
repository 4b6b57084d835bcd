//! Volumes with a write-intent bitmap: after a crash only marked regions are synchronised, and a drive that returns
//! receives only what was written while it was away.

use crate::common::{Bed, Ledger, MIB, Mix, Server, run};
use serde_json::Value;

const DRIVE_BYTES: u64 = 80 * MIB;
const OPTIONS: &[&str] = &["--write-hole", "bitmap", "--wide", "--bitmap-region", "1m"];

fn ledger(server: &Server<'_>, seed: u64) -> Ledger {
    let size_bytes = server.at_start["volumes"][0]["size_bytes"].as_u64();
    Ledger::new(size_bytes.expect("a size"), seed)
}

/// The bitmap stored on a drive, as `examine` reports it.
fn bitmap(bed: &Bed, at: usize) -> Value {
    let drive = bed.drive(at).display().to_string();
    let said = run(&mut bed.fullstripe(&["examine", "--json", &drive]), 20);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    report["drives"][0]["record"]["volumes"][0]["bitmap"].clone()
}

fn marked(bed: &Bed, at: usize) -> u64 {
    bitmap(bed, at)["marked"].as_u64().expect("a count")
}

/// Scrubs the volume, which fails if copies or parity do not match.
fn expect_consistent(server: &Server<'_>) {
    server.order(&["scrub", "data", "--wait"]).ok();
}

fn members(level: u8) -> usize {
    if level == 1 { 2 } else { 4 }
}

#[test]
fn a_killed_server_leaves_doubt_in_few_regions() {
    for level in [1, 10, 5] {
        let bed = Bed::new(members(level), DRIVE_BYTES);
        bed.create("data", level, bed.drives(), OPTIONS);
        assert_eq!(marked(&bed, 1), 0);
        let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
        let mut client = server.client("data");
        client.write(3 * MIB, &[7; 4096]).unwrap();
        server.kill();
        bed.wait_released();
        let regions = bitmap(&bed, 1)["regions"].as_u64().unwrap();
        assert!(regions >= 60 && marked(&bed, 1) == 1, "{}", bitmap(&bed, 1));
        // Corrupts member 1 in a marked and in an unmarked region: only the marked one should be synchronised.
        let (doubtful, settled) = match level {
            5 => (MIB + 8192, 40 * MIB),
            10 => (MIB + 512 * 1024 + 8192, 40 * MIB),
            _ => (3 * MIB + 8192, 40 * MIB),
        };
        bed.scribble(1, doubtful, 4096, 0xEE);
        bed.scribble(1, settled, 4096, 0xEE);
        let server = bed.serve(bed.drives()).start();
        assert!(
            server.words().contains("bitmap marks 1 of"),
            "{}",
            server.words()
        );
        server.wait_optimal(60);
        server.stop();
        let bytes = std::fs::read(bed.drive(1)).unwrap();
        let at = |offset: u64| bytes[offset as usize];
        if level != 5 {
            assert_eq!(at(doubtful), 0, "RAID {level}: synchronised");
        }
        assert_eq!(at(settled), 0xEE, "RAID {level}: left alone");
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_a_bitmap() {
    for level in [1, 10, 5] {
        let bed = Bed::new(members(level), DRIVE_BYTES);
        bed.create("data", level, bed.drives(), OPTIONS);
        let mut shadow: Option<Ledger> = None;
        for round in 0..3 {
            let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
            let mut known = shadow
                .take()
                .unwrap_or_else(|| ledger(&server, u64::from(level)));
            server.verify("data", &mut known);
            let load = known.load(server.clients("data", 2), Mix::Everything);
            load.wait_for(100 + 150 * round, 30);
            server.kill();
            shadow = Some(load.end().0);
            bed.wait_released();
            assert!(marked(&bed, 0) > 0);
        }
        let server = bed.serve(bed.drives()).start();
        server.wait_optimal(60);
        server.verify("data", &mut shadow.expect("it was written"));
        expect_consistent(&server);
        server.stop();
        let server = bed.serve(bed.drives()).start();
        server.stop();
        assert_eq!(marked(&bed, 1), 0, "clean, whole and at rest");
    }
}

#[test]
fn a_drive_comes_back_to_a_volume_that_was_never_written() {
    for level in [1, 10, 5] {
        let bed = Bed::new(members(level), DRIVE_BYTES);
        bed.create("data", level, bed.drives(), OPTIONS);
        let server = bed.serve(bed.drives()).start();
        let drive = bed.drive(1).display().to_string();
        let away = |server: &Server<'_>| {
            server.order(&["fail", &drive]).ok();
            server.order(&["remove", &drive]).ok();
        };
        away(&server);
        server.order(&["add-spare", &drive]).ok();
        server.wait_optimal(60);
        // From the first write on, the bitmap marks what is written while the drive is away.
        away(&server);
        let load = ledger(&server, 7).load(server.clients("data", 1), Mix::Small);
        load.wait_for(50, 30);
        let mut known = load.stop();
        server.order(&["add-spare", &drive]).ok();
        server.wait_optimal(60);
        server.verify("data", &mut known);
        expect_consistent(&server);
        server.stop();
    }
}

/// The first session already clears bits, so a copy of a drive from before that session lacks more than is marked.
#[test]
fn a_copy_from_before_the_first_write_does_not_come_back() {
    let bed = Bed::new(2, DRIVE_BYTES);
    bed.create("data", 1, bed.drives(), OPTIONS);
    let before = std::fs::read(bed.drive(1)).unwrap();
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    client.write(3 * MIB, &[7; 4096]).unwrap();
    drop(client);
    let drive = bed.drive(1).display().to_string();
    server.order(&["fail", &drive]).ok();
    server.order(&["remove", &drive]).ok();
    std::fs::write(bed.drive(1), before).unwrap();
    server
        .order(&["add-spare", &drive])
        .refused("more may have been written without it than the bitmap marks");
    server.stop();
}

#[test]
fn a_drive_that_was_away_comes_back_also_to_another_process() {
    for level in [1, 10, 5] {
        let bed = Bed::new(members(level), DRIVE_BYTES);
        bed.create("data", level, bed.drives(), OPTIONS);
        let server = bed.serve(bed.drives()).start();
        let load = ledger(&server, 9).load(server.clients("data", 2), Mix::Small);
        load.wait_for(300, 30);
        server.order(&["fail", "d1"]).ok();
        load.wait_for(400, 30);
        let known = load.stop();
        server.stop();
        // A whole session without the drive.
        let others: Vec<_> = (0..members(level))
            .filter(|&at| at != 1)
            .map(|at| bed.drive(at).to_owned())
            .collect();
        let server = bed.serve(&others).start();
        let load = known.load(server.clients("data", 1), Mix::Small);
        load.wait_for(50, 30);
        let mut known = load.stop();
        server.stop();
        assert!(marked(&bed, 0) > 0, "bits are kept while a drive is away");
        let server = bed.serve(bed.drives()).start();
        assert!(server.words().contains("comes back"), "{}", server.words());
        server.wait_optimal(60);
        expect_consistent(&server);
        server.verify("data", &mut known);
        // A drive also comes back to the same process, without a restart.
        let again = server.status()["members"]
            .as_array()
            .unwrap()
            .iter()
            .find(|member| member["name"].as_str().unwrap().ends_with(&name(&bed, 0)))
            .map(|member| member["name"].as_str().expect("a name").to_owned())
            .expect("it serves");
        server.order(&["fail", &again]).ok();
        let load = known.load(server.clients("data", 1), Mix::Small);
        load.wait_for(50, 30);
        let mut known = load.stop();
        server.order(&["remove", &again]).ok();
        let drive = bed.drive(0).display().to_string();
        server.order(&["add-spare", &drive]).ok();
        server.wait_optimal(60);
        expect_consistent(&server);
        server.verify("data", &mut known);
        server.stop();
    }
}

fn name(bed: &Bed, at: usize) -> String {
    bed.drive(at)
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_drive_from_before_a_replacement_is_not_trusted() {
    let bed = Bed::new(3, DRIVE_BYTES);
    bed.create("data", 1, bed.first(2), OPTIONS);
    let spare = bed.drive(2).display().to_string();
    let server = bed.serve(bed.first(2)).start();
    server.client("data").write(0, &[1; 65536]).unwrap();
    server.order(&["fail", "d1"]).ok();
    server.order(&["add-spare", &spare]).ok();
    server.wait_optimal(60);
    server.client("data").write(8 * MIB, &[2; 65536]).unwrap();
    server.order(&["fail", "d2"]).ok();
    server.stop();
    let server = bed
        .serve(&[bed.drive(0).to_owned(), bed.drive(1).to_owned()])
        .start();
    assert!(!server.words().contains("comes back"), "{}", server.words());
    let old = bed.drive(1).display().to_string();
    server
        .order(&["add-spare", &old])
        .refused("more may have been written without it than the bitmap marks");
    server.order(&["add-spare", &old, "--force"]).ok();
    server.wait_optimal(60);
    expect_consistent(&server);
    server.stop();
}

/// Two volumes, one of them with a write-hole log whose entries lie on the old drive.
#[test]
fn a_drive_that_is_refused_keeps_every_byte() {
    let bed = Bed::new(4, 96 * MIB);
    let marked = ["--size", "16m", "--write-hole", "bitmap"];
    bed.create("marked", 5, bed.first(3), &marked);
    bed.create("logged", 5, bed.first(3), &["--write-hole", "log"]);
    let server = bed.serve(bed.first(3)).start();
    for volume in ["marked", "logged"] {
        for at in 0..48 {
            let offset = at * 65_536;
            server.client(volume).write(offset, &[1; 4096]).unwrap();
        }
    }
    server.order(&["fail", "d1"]).ok();
    let spare = bed.drive(3).display().to_string();
    server.order(&["add-spare", &spare]).ok();
    server.wait_optimal(60);
    server.order(&["remove", "d1"]).ok();
    server.order(&["fail", "d3"]).ok();
    let before = std::fs::read(bed.drive(1)).unwrap();
    let old = bed.drive(1).display().to_string();
    server
        .order(&["add-spare", &old])
        .refused("more may have been written without it than the bitmap marks");
    assert!(
        std::fs::read(bed.drive(1)).unwrap() == before,
        "the refused drive was written to"
    );
    // The server has released the refused drive.
    std::fs::File::open(bed.drive(1)).unwrap().lock().unwrap();
    server.stop();
}
