//! Arrays whose records are torn on every member after a crash: the shadow copies bring them back, and
//! what was acknowledged is compared sector by sector.

use crate::common::{Bed, Ledger, Loop, MIB, Mix, Server, is_root, run};
use serde_json::Value;

const DRIVE_BYTES: u64 = 48 * MIB;

fn ledger(server: &Server<'_>, seed: u64) -> Ledger {
    let size_bytes = server.at_start["volumes"][0]["size_bytes"].as_u64();
    Ledger::new(size_bytes.expect("a size"), seed)
}

/// Damages a drive's own record behind its header.
fn tear(bed: &Bed, at: usize, sector_bytes: u64) {
    bed.scribble(at, DRIVE_BYTES - 2 * sector_bytes + 300, 8, 0xFF);
}

fn examined(bed: &Bed, at: usize) -> Value {
    let drive = bed.drive(at).display().to_string();
    let said = run(&mut bed.fullstripe(&["examine", "--json", &drive]), 20);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    report["drives"][0].clone()
}

/// Load, `kill -9`, tearing every record, and a start from the shadows.
fn crash_and_tear(bed: &Bed, level: u8, members: usize, sector_bytes: u64) {
    bed.create("data", level, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    // On sectors of 4 KiB, requests of 512 bytes are errors.
    let mix = if sector_bytes == 512 {
        Mix::Everything
    } else {
        Mix::Small
    };
    let load = ledger(&server, u64::from(level)).load(server.clients("data", 2), mix);
    load.wait_for(300, 30);
    server.kill();
    let mut ledger = load.end().0;
    bed.wait_released();
    for at in 0..members {
        tear(bed, at, sector_bytes);
        let drive = examined(bed, at);
        assert!(drive["record"].is_null() && drive["shadow"]["state"] == "whole");
    }
    let said = run(bed.fullstripe(&["assemble"]).args(bed.drives()), 20);
    let sentence = "every member's record is torn: the shadow copy of generation";
    assert!(said.out.contains(sentence), "{said}");

    let server = bed.serve(bed.drives()).start();
    assert!(server.words().contains(sentence), "{}", server.words());
    server.verify("data", &mut ledger);
    let load = ledger.load(server.clients("data", 2), mix);
    load.wait_for(100, 30);
    let mut ledger = load.stop();
    server.wait_optimal(60);
    server.stop();
    for at in 0..members {
        let drive = examined(bed, at);
        assert_eq!(drive["shadow"]["same_as_record"], true, "{drive:#}");
    }
    let server = bed.serve(bed.drives()).start();
    assert!(!server.words().contains("shadow"), "{}", server.words());
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn torn_records_everywhere_lose_nothing() {
    for (level, members) in [(0, 2), (1, 2), (10, 4), (5, 3)] {
        crash_and_tear(&Bed::new(members, DRIVE_BYTES), level, members, 512);
    }
}

#[test]
fn nor_on_sectors_of_4_kib() {
    if !is_root("nor_on_sectors_of_4_kib") {
        return;
    }
    let mut bed = Bed::new(3, DRIVE_BYTES);
    let files = bed.drives().to_vec();
    let options = ["--sector-size", "4096", "--direct-io=on"];
    let loops: Vec<Loop> = files
        .iter()
        .map(|file| Loop::over(file, &options))
        .collect();
    for (at, device) in loops.iter().enumerate() {
        bed.replace_drive(at, device.device().to_owned());
    }
    crash_and_tear(&bed, 5, 3, 4096);
}

/// A mirror has one drive left, and its record is torn. The lost drive, which is still plugged in and has
/// an intact record, must not be served with its old data.
#[test]
fn a_lost_drive_does_not_come_back_with_old_data() {
    let bed = Bed::new(2, DRIVE_BYTES);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 9);
    ledger.fill(&mut server.client("data"));
    server.order(&["fail", "d1"]).ok();
    server.wait_event("failure-recorded", "d1", 10);
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    load.wait_for(300, 30);
    server.kill();
    let mut ledger = load.end().0;
    bed.wait_released();
    tear(&bed, 0, 512);
    assert!(examined(&bed, 1)["damaged"].is_null());
    let server = bed.serve(bed.drives()).start();
    assert!(
        server
            .words()
            .contains("d1 (serial d1) does not serve: it is marked failed"),
        "{}",
        server.words()
    );
    assert_eq!(server.volume_state(0), "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}
