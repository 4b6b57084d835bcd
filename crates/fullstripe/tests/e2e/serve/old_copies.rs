//! A copy of a drive, made before the array was last started, is later put in the drive's place. It is recognised
//! as old, and nothing acknowledged is lost.

use crate::common::{Bed, MIB, Server};
use std::fs;

static OLD: [u8; 65536] = [0xA1; 65536];
static NEW: [u8; 65536] = [0xB2; 65536];

/// How the session ends that the copy has missed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    Stopped,
}

fn members(level: u8) -> usize {
    match level {
        1 => 2,
        10 => 4,
        _ => 3,
    }
}

/// An array in which member `copied` is replaced by its copy from before the last session. In that session the first
/// 64 KiB were written and flushed.
fn with_old_copy(level: u8, options: &[&str], copied: usize, end: End) -> Bed {
    let bed = Bed::new(members(level), 48 * MIB);
    bed.create("data", level, bed.drives(), options);
    let server = bed.serve(bed.drives()).start();
    server.wait_optimal(60);
    write(&server, &OLD);
    server.stop();
    let copy = bed.path("copy");
    fs::copy(bed.drive(copied), &copy).unwrap();
    let server = bed.serve(bed.drives()).start();
    write(&server, &NEW);
    match end {
        End::Killed => server.kill(),
        End::Stopped => server.stop(),
    }
    bed.wait_released();
    fs::copy(copy, bed.drive(copied)).unwrap();
    bed
}

fn write(server: &Server<'_>, bytes: &[u8]) {
    let mut client = server.client("data");
    client.write(0, bytes).unwrap();
    client.flush().unwrap();
}

fn expect_new(server: &Server<'_>, what: &str) {
    let found = server.client("data").read(0, NEW.len() as u32).unwrap();
    assert!(found == NEW, "{what}: an acknowledged write is lost");
}

#[test]
fn an_old_copy_of_a_drive_does_not_serve() {
    for end in [End::Killed, End::Stopped] {
        for (level, options) in [
            (1, &[][..]),
            (10, &[]),
            (5, &[]),
            (1, &["--write-hole", "bitmap", "--wide"]),
            (5, &["--write-hole", "bitmap", "--wide"]),
        ] {
            for copied in [0, 1] {
                let what = format!("RAID {level} {options:?}, member {copied}, {end:?}");
                let bed = with_old_copy(level, options, copied, end);
                bed.serve(bed.drives()).refused("--degraded");
                if level == 5 && options.len() > 1 && end == End::Killed {
                    // Without a log, a crash while a member is missing leaves data in doubt.
                    bed.serve(bed.drives())
                        .option(&["--degraded"])
                        .refused("--accept-write-hole");
                    continue;
                }
                for _ in 0..2 {
                    let server = bed.serve(bed.drives()).option(&["--degraded"]).start();
                    assert!(!server.words().contains("comes back"), "{what}");
                    assert_eq!(server.volume_state(0), "degraded", "{what}");
                    expect_new(&server, &what);
                    server.stop();
                }
            }
        }
    }
}

/// After a crash the volume is already dirty, so the first write needs no update of the record.
#[test]
fn an_old_copy_from_before_a_start_after_a_crash_does_not_serve() {
    for level in [1, 10, 5] {
        let bed = Bed::new(members(level), 48 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        // So slow that no resync ends, and nothing else updates the record.
        let serve = || bed.serve(bed.drives()).option(&["--rate", "4k"]).start();
        let server = serve();
        write(&server, &OLD);
        server.kill();
        bed.wait_released();
        // Starts and kills it once more: now the resync is on record as well.
        let server = serve();
        server.kill();
        bed.wait_released();
        let copy = bed.path("copy");
        fs::copy(bed.drive(0), &copy).unwrap();
        let server = serve();
        write(&server, &NEW);
        server.kill();
        bed.wait_released();
        fs::copy(copy, bed.drive(0)).unwrap();
        bed.serve(bed.drives()).refused("--degraded");
        let server = bed.serve(bed.drives()).option(&["--degraded"]).start();
        expect_new(&server, &format!("RAID {level}"));
        server.stop();
    }
}

#[test]
fn a_raid_0_with_an_old_copy_of_a_drive_is_refused() {
    for end in [End::Killed, End::Stopped] {
        let bed = with_old_copy(0, &[], 1, end);
        for flag in [&[][..], &["--degraded"]] {
            let said = bed
                .serve(bed.drives())
                .option(flag)
                .refused("volume data is not started");
            assert!(said.err.contains("its record is outdated"), "{said}");
        }
    }
}

/// A copy made during a session is only one update behind at the session's end. It need not be recognised as old, but
/// mirrors are synchronised from the members that are not.
#[test]
fn a_mirror_is_synchronised_from_the_newest_record() {
    for (level, members) in [(1, 2), (10, 4)] {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        let server = bed.serve(bed.drives()).start();
        server.wait_optimal(60);
        write(&server, &OLD);
        let copy = bed.path("copy");
        fs::copy(bed.drive(0), &copy).unwrap();
        write(&server, &NEW);
        server.stop();
        fs::copy(copy, bed.drive(0)).unwrap();
        let server = bed.serve(bed.drives()).start();
        expect_new(&server, "before the resync has ended");
        server.wait_optimal(60);
        expect_new(&server, "after it");
        server.stop();
        // Both copies hold the new data.
        for without in [0, 1] {
            let mut left = bed.drives().to_vec();
            left.remove(without);
            let options = ["--read-only", "--degraded"];
            let server = bed.serve(&left).option(&options).start();
            expect_new(&server, &format!("without member {without}"));
            server.stop();
        }
    }
}
