//! Sectors that cannot be read or written, or hold wrong bytes; more failures than the level survives.

use crate::common::checks::{ledger, load};
use crate::common::faulty::{specs, with_faulty};
use crate::common::nbd::EIO;
use crate::common::{Bed, FaultyDrive, MIB, Mix, has_fuse};
use rustix::process::Signal;
use std::time::{Duration, Instant};

#[test]
fn an_unreadable_sector_is_reconstructed_and_healed() {
    if !has_fuse("an_unreadable_sector_is_reconstructed_and_healed") {
        return;
    }
    for (level, members) in [(5, 3), (1, 2), (10, 4)] {
        let (bed, faulty) = with_faulty(members, 0, 48 * MIB);
        let drives = specs(&bed, members);
        bed.create("data", level, &drives, &[]);
        let server = bed.serve(&drives).start();
        server.wait_optimal(60);
        let mut ledger = ledger(&server, 0, 6);
        ledger.fill(&mut server.client("data"));
        let sectors = [0, 4096, 777 * 512, 5 * MIB, 20 * MIB + 512];
        let bad = sectors.map(|from| from..from + 512);
        faulty.set(|faults| faults.unreadable = bad.to_vec());
        // Reads of a mirror choose one copy, so only the scrub is sure to meet all bad sectors.
        server.verify("data", &mut ledger);
        server.order(&["scrub", "data", "--wait"]).ok();
        assert!(
            faulty.faults().unreadable.is_empty(),
            "{:?}",
            faulty.faults()
        );
        assert_eq!(
            server.count_events("member-failed"),
            0,
            "{:#?}",
            server.events()
        );
        server.verify("data", &mut ledger);
        server.order(&["scrub", "data", "--wait"]).ok();
        // Under load, too.
        let load = ledger.load(server.clients("data", 2), Mix::Everything);
        let worse = (0..40u64).map(|at| at * MIB + 8192..at * MIB + 8704);
        faulty.set(|faults| faults.unreadable = worse.collect());
        load.wait_for(300, 30);
        let mut ledger = load.stop();
        server.verify("data", &mut ledger);
        assert_eq!(server.volume_state(0), "optimal");
        server.stop();
    }
}

#[test]
fn without_redundancy_a_bad_sector_is_an_error_of_its_reader_only() {
    if !has_fuse("without_redundancy_a_bad_sector_is_an_error_of_its_reader_only") {
        return;
    }
    let (bed, faulty) = with_faulty(2, 0, 48 * MIB);
    let drives = specs(&bed, 2);
    bed.create("data", 0, &drives, &["--chunk", "64k"]);
    let server = bed.serve(&drives).start();
    let mut ledger = ledger(&server, 0, 7);
    let mut client = server.client("data");
    ledger.fill(&mut client);
    faulty.set(|faults| faults.unreadable = vec![8192..8704]);
    assert_eq!(client.read(0, 64 << 10), Err(EIO));
    assert!(client.read(4096, 4096).is_ok());
    assert!(client.read(64 << 10, 1 << 20).is_ok());
    faulty.set(|faults| faults.unreadable.clear());
    server.verify("data", &mut ledger);
    assert_eq!(
        server.count_events("member-failed"),
        0,
        "{:#?}",
        server.events()
    );
    server.stop();
}

#[test]
fn a_member_that_cannot_write_or_flush_is_failed_and_nothing_is_lost() {
    if !has_fuse("a_member_that_cannot_write_or_flush_is_failed_and_nothing_is_lost") {
        return;
    }
    // Data, the metadata at the end, and flushes.
    let end = 48 * MIB;
    for fault in ["data", "metadata", "flush"] {
        let (bed, faulty) = with_faulty(3, 2, end);
        let drives = specs(&bed, 3);
        bed.create("data", 5, &drives, &[]);
        let server = bed.serve(&drives).option(&["--shards", "2"]).start();
        server.wait_optimal(60);
        faulty.set(|faults| match fault {
            "data" => faults.unwritable = vec![10 * MIB..11 * MIB],
            "metadata" => faults.unwritable = vec![end - MIB..end],
            _ => faults.no_flush = true,
        });
        let load = load(&server, 8, Mix::Everything);
        server.wait_event("failure-recorded", "", 30);
        load.wait_for(200, 30);
        let mut ledger = load.stop();
        server.verify("data", &mut ledger);
        assert_eq!(server.volume_state(0), "degraded");
        server.stop();
        faulty.set(|faults| *faults = crate::common::faulty::Faults::default());
        // The record of the failed member is older than the others', which contain its failed mark.
        let server = bed.serve(&drives).start();
        assert_eq!(
            server.at_start["volumes"][0]["state"], "degraded",
            "{fault}"
        );
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_volume_that_lost_too_much_gives_errors_and_comes_back_with_its_drives() {
    if !has_fuse("a_volume_that_lost_too_much_gives_errors_and_comes_back_with_its_drives") {
        return;
    }
    for (level, members) in [(1, 2), (10, 4), (5, 3)] {
        let mut bed = Bed::new(members, 48 * MIB);
        let faulty =
            [0, 1].map(|at| FaultyDrive::new(bed.drive(at), &bed.path(&format!("faulty{at}"))));
        (0..2).for_each(|at| bed.replace_drive(at, faulty[at].path()));
        let drives = specs(&bed, members);
        bed.create("data", level, &drives, &[]);
        let server = bed.serve(&drives).start();
        server.wait_optimal(60);
        let load = load(&server, 9, Mix::Everything);
        load.wait_for(200, 30);
        faulty[0].set(|faults| faults.unwritable = vec![0..48 * MIB]);
        server.wait_event("failure-recorded", "", 10);
        load.wait_for(200, 30);
        faulty[1].set(|faults| faults.unwritable = vec![0..48 * MIB]);
        server.wait_event("volume-failed", "data", 10);
        let (mut ledger, errors) = load.end();
        assert!(errors > 0, "writes to a failed volume cannot succeed");
        assert!(server.client("data").write(0, &[9; 4096]).is_err());
        server.wait_status("failed", 10, |status| {
            status["volumes"][0]["state"] == "failed"
        });
        let since = Instant::now();
        server.end();
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "it took {:?}",
            since.elapsed()
        );

        // The second loss is not on record, so the volume is served again when that drive returns.
        faulty[1].set(|faults| faults.unwritable.clear());
        let left = &drives[1..];
        let server = bed.serve(left).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_spare_that_dies_during_its_rebuild_leaves_the_volume_as_it_was() {
    if !has_fuse("a_spare_that_dies_during_its_rebuild_leaves_the_volume_as_it_was") {
        return;
    }
    let (bed, faulty) = with_faulty(5, 3, 64 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).option(&["--rate", "10m"]).start();
    let load = load(&server, 10, Mix::Everything);
    server.order(&["fail", "data:0"]).ok();
    let spare = format!("{},serial=D3", faulty.path().display());
    server.order(&["add-spare", &spare]).ok();
    server.wait_status("rebuilding", 20, |status| {
        status["volumes"][0]["job"]["done_bytes"].as_u64() > Some(10 * MIB)
    });
    faulty.set(|faults| faults.unwritable = vec![0..64 * MIB]);
    server.wait_event("member-failed", "faulty3", 10);
    server.wait_event("job-ended", "ended early", 10);
    load.wait_for(100, 30);
    assert_eq!(server.volume_state(0), "degraded");
    server.order(&["rate", "0"]).ok();
    server
        .order(&["add-spare", &bed.drive(4).display().to_string()])
        .ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    let mut ledger = load.stop();
    server.wait_optimal(20);
    server.verify("data", &mut ledger);
    server.order(&["scrub", "data", "--wait"]).ok();
    server.stop();
}

#[test]
fn wrong_bytes_on_a_member_are_found_and_repaired_by_a_scrub() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &["--chunk", "64k"]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 0, 11);
    ledger.fill(&mut server.client("data"));
    server.stop();
    // The first row's parity lies on the last drive.
    bed.scribble(2, 4096, 4096, 0x5A);
    let server = bed.serve(bed.drives()).start();
    let found = server.order(&["scrub", "data", "--wait"]);
    assert!(
        !found.status.success() && !found.err.contains("panicked"),
        "{found}"
    );
    server.wait_event("mismatch", "left as it is", 10);
    server.order(&["scrub", "data", "--repair", "--wait"]);
    server.wait_event("mismatch", "corrected", 10);
    server.order(&["scrub", "data", "--wait"]).ok();
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn signals_during_a_rebuild_leave_it_to_be_finished() {
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let bed = Bed::new(5, 64 * MIB);
        bed.create("data", 10, bed.first(4), &[]);
        let mut server = bed.serve(bed.first(4)).option(&["--rate", "8m"]).start();
        let load = load(&server, 15, Mix::Everything);
        load.wait_for(100, 30);
        server.order(&["fail", "data:2"]).ok();
        server
            .order(&["add-spare", &bed.drive(4).display().to_string()])
            .ok();
        server.wait_event("job-started", "rebuild", 10);
        load.wait_for(100, 30);
        server.signal(signal);
        let since = Instant::now();
        while server.runs() {
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "{signal:?} does not end the server"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server.expect_calm();
        drop(server);
        let (mut ledger, _) = load.end();
        let left = [0, 1, 3, 4].map(|at| bed.drive(at).to_owned());
        let server = bed.serve(&left).start();
        server.verify("data", &mut ledger);
        server.wait_event("job-ended", "rebuild finished", 60);
        server.wait_optimal(30);
        server.verify("data", &mut ledger);
        server.order(&["scrub", "data", "--wait"]).ok();
        server.stop();
    }
}
