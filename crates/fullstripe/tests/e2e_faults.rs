//! Everything that goes wrong while an array is served: members that vanish, fill up, hang or have bad
//! sectors, more failures than the level survives, clients that misbehave. The rule: one clear sentence,
//! nothing lost, no panic.
// One bad range in a list of bad ranges is what is meant.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::nbd::{self, EIO};
use common::{
    Bed, FaultyDrive, Ledger, Load, Loop, MIB, Mix, Mount, Server, has_fuse, is_root, run,
};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn load(server: &Server<'_>, seed: u64, mix: Mix) -> Load {
    ledger(server, seed).load(server.clients("data", 2), mix)
}

fn ledger(server: &Server<'_>, seed: u64) -> Ledger {
    let size_bytes = server.at_start["volumes"][0]["size_bytes"].as_u64();
    Ledger::new(size_bytes.expect("a size"), seed)
}

/// A bed whose drive `at` is one that can be made to fail.
fn with_faulty(count: usize, at: usize, size_bytes: u64) -> (Bed, FaultyDrive) {
    let mut bed = Bed::new(count, size_bytes);
    let drive = FaultyDrive::new(bed.drive(at), &bed.path(&format!("faulty{at}")));
    bed.replace_drive(at, drive.path());
    (bed, drive)
}

/// All drives as the command line takes them; files that are called alike get serials.
fn specs(bed: &Bed, count: usize) -> Vec<PathBuf> {
    let spec = |at: usize| PathBuf::from(format!("{},serial=D{at}", bed.drive(at).display()));
    (0..count).map(spec).collect()
}

#[test]
fn a_file_that_is_cut_short_is_a_failed_member() {
    for (level, members) in [(1, 2), (5, 3), (10, 4)] {
        let bed = Bed::new(members + 1, 48 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--shards", "2"])
            .start();
        let mut ledger = ledger(&server, 1);
        ledger.fill(&mut server.client("data"));
        let load = ledger.load(server.clients("data", 2), Mix::Reads);
        load.wait_for(100, 30);
        bed.set_length(1, MIB);
        server.wait_event("member-failed", "d1", 10);
        server.wait_event("failure-recorded", "d1", 10);
        load.wait_for(100, 30);
        let load = load.stop().load(server.clients("data", 2), Mix::Everything);
        load.wait_for(200, 30);
        let spare = bed.drive(members).display().to_string();
        server.order(&["add-spare", &spare]).ok();
        server.wait_event("job-ended", "rebuild finished", 60);
        let mut ledger = load.stop();
        server.wait_optimal(20);
        server.verify("data", &mut ledger);
        server.order(&["scrub", "data", "--wait"]).ok();
        server.stop();
    }
}

/// Writes make the file grow again, with zeros for what was cut off; they must never be read.
#[test]
fn a_file_that_is_cut_under_writes_gives_no_wrong_byte() {
    const ROUNDS: u64 = 3;
    let folders = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for (level, members) in [(1, 2), (5, 3), (10, 4)] {
            for round in 0..ROUNDS {
                let bed = Bed::within(folder, members, 24 * MIB);
                let drives = bed.first(members);
                bed.create("data", level, drives, &[]);
                let server = bed.serve(drives).option(&["--shards", "2"]).start();
                let mut ledger = ledger(&server, 40 + round);
                ledger.fill(&mut server.client("data"));
                // Each read is compared with what was written.
                let load = ledger.load(server.clients("data", 3), Mix::Everything);
                load.wait_for(50 + 37 * round, 30);
                bed.set_length(1, round * 5 * MIB);
                load.wait_for(100, 30);
                server.wait_event("failure-recorded", "d1", 10);
                load.wait_for(100, 30);
                let mut ledger = load.stop();
                server.verify("data", &mut ledger);
                server.stop();
                let left = [&drives[..1], &drives[2..]].concat();
                let server = bed.serve(&left).start();
                assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
                server.verify("data", &mut ledger);
                server.stop();
            }
        }
    }
}

#[test]
fn a_file_whose_file_system_hangs_is_failed_at_its_deadline() {
    if !has_fuse("a_file_whose_file_system_hangs_is_failed_at_its_deadline") {
        return;
    }
    for (level, members) in [(1, 2), (5, 3)] {
        let (bed, faulty) = with_faulty(members, 1, 48 * MIB);
        let drives = specs(&bed, members);
        bed.create("data", level, &drives, &[]);
        let server = bed
            .serve(&drives)
            .option(&[
                "--deadline",
                "2",
                "--shards",
                "2",
                "--completion",
                "hybrid:20",
            ])
            .start();
        assert!(server.words().contains("is on FUSE"), "{}", server.words());
        assert_eq!(server.at_start["completion"], "hybrid:20");
        assert_eq!(server.at_start["members"][0]["io_path"], "ring");
        assert_eq!(server.at_start["members"][1]["io_path"], "helpers");
        let ring = server.at_start["ring"].as_str().unwrap_or_default();
        assert!(ring.starts_with("io_uring with"), "{ring}");
        server.wait_optimal(60);
        let mut ledger = ledger(&server, 50);
        ledger.fill(&mut server.client("data"));
        let load = ledger.load(server.clients("data", 2), Mix::Small);
        load.wait_for(100, 30);
        let since = Instant::now();
        let frozen = faulty.freeze();
        server.wait_event("member-overdue", "faulty1", 10);
        server.wait_event("failure-recorded", "faulty1", 10);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(8), "it took {took:?}");
        // Nobody waits for what the file system holds, and orders are carried out.
        load.wait_for(100, 30);
        let mut other = server.client("data");
        let free = other.size_bytes - 4096;
        for _ in 0..50 {
            assert!(other.read(free, 4096).is_ok());
        }
        server.wait_status("degraded", 10, |status| {
            status["volumes"][0]["state"] == "degraded"
        });
        server.wait_event("member-silent", "faulty1", 20);
        drop(frozen);
        server.wait_event("member-answers", "faulty1", 20);
        load.wait_for(100, 30);
        let mut ledger = load.stop();
        server.verify("data", &mut ledger);
        server.stop();
        let server = bed.serve(&drives).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded", "stale");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn a_drive_that_hangs_before_it_is_served_is_named() {
    if !has_fuse("a_drive_that_hangs_before_it_is_served_is_named") {
        return;
    }
    let (bed, faulty) = with_faulty(3, 1, 48 * MIB);
    let drives = specs(&bed, 3);
    bed.create("data", 5, &drives, &[]);
    let frozen = faulty.freeze();
    std::thread::scope(|scope| {
        for command in ["assemble", "list", "examine", "doctor"] {
            let mut line = bed.fullstripe(&[command]);
            line.args(&drives);
            scope.spawn(move || {
                let said = run(&mut line, 40);
                let all = format!("{}{}", said.out, said.err);
                assert!(!said.status.success(), "{said}");
                let named = all.lines().any(|line| {
                    line.contains("faulty1/disk") && line.contains("does not answer for")
                });
                assert!(named, "{said}");
            });
        }
        bed.serve(&drives).refused("does not answer for");
    });
    drop(frozen);
    let server = bed.serve(&drives).start();
    server.wait_optimal(60);
    server.stop();
}

#[test]
fn an_idle_file_whose_file_system_hangs_is_told_of_and_kept() {
    if !has_fuse("an_idle_file_whose_file_system_hangs_is_told_of_and_kept") {
        return;
    }
    let (bed, faulty) = with_faulty(3, 1, 48 * MIB);
    let drives = specs(&bed, 3);
    bed.create("data", 5, &drives, &[]);
    let server = bed.serve(&drives).start();
    server.wait_optimal(60);
    let frozen = faulty.freeze();
    server.wait_event("member-silent", "faulty1", 20);
    assert_eq!(server.volume_state(0), "optimal");
    drop(frozen);
    server.wait_event("member-answers", "faulty1", 20);
    assert_eq!(server.count_events("member-failed"), 0);
    server.stop();
}

/// Three drives of which the second is a block device that can be made to fail.
fn with_faulty_device() -> (Bed, FaultyDrive, Loop) {
    let mut bed = Bed::new(3, 48 * MIB);
    let faulty = FaultyDrive::new(bed.drive(1), &bed.path("faulty"));
    let device = Loop::over(&faulty.path(), &["--direct-io=on"]);
    bed.replace_drive(1, device.device().to_owned());
    (bed, faulty, device)
}

#[test]
fn a_block_device_that_only_gives_errors_is_a_failed_member() {
    if !is_root("a_block_device_that_only_gives_errors_is_a_failed_member") {
        return;
    }
    let (bed, faulty, _device) = with_faulty_device();
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.wait_optimal(60);
    bed.serve(bed.drives()).refused("in use");
    let load = load(&server, 2, Mix::Everything);
    load.wait_for(200, 30);
    faulty.set(|faults| {
        faults.unreadable = vec![0..48 * MIB];
        faults.unwritable = vec![0..48 * MIB];
        faults.no_flush = true;
    });
    server.wait_event("failure-recorded", "loop", 20);
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
    let left = [0, 2].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}

/// The kernel lets go of a loop device when its last user does, which is the array.
#[test]
fn a_loop_device_that_is_detached_under_load_serves_until_the_end() {
    if !is_root("a_loop_device_that_is_detached_under_load_serves_until_the_end") {
        return;
    }
    let mut bed = Bed::new(3, 48 * MIB);
    let files = bed.drives().to_vec();
    let device = Loop::over(&files[1], &["--direct-io=on"]);
    bed.replace_drive(1, device.device().to_owned());
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.wait_optimal(60);
    let load = load(&server, 3, Mix::Everything);
    load.wait_for(100, 30);
    device.detach();
    load.wait_for(200, 30);
    assert_eq!(server.volume_state(0), "optimal");
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
    bed.serve(bed.drives()).refused("loop");
    let server = bed.serve(&files).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    server.verify("data", &mut ledger);
    server.order(&["scrub", "data", "--wait"]).ok();
    server.stop();
}

#[test]
fn drives_with_sectors_of_4_kib_live_and_crash_like_others() {
    if !is_root("drives_with_sectors_of_4_kib_live_and_crash_like_others") {
        return;
    }
    let mut bed = Bed::new(4, 48 * MIB);
    let files = bed.drives().to_vec();
    let options = ["--sector-size", "4096", "--direct-io=on"];
    let loops: Vec<Loop> = files
        .iter()
        .map(|file| Loop::over(file, &options))
        .collect();
    for (at, device) in loops.iter().enumerate() {
        bed.replace_drive(at, device.device().to_owned());
    }
    bed.create("data", 5, bed.first(3), &["--chunk", "64k"]);
    let server = bed.serve(bed.first(3)).option(&["--shards", "2"]).start();
    let load = load(&server, 3, Mix::Small);
    load.wait_for(300, 30);
    server.kill();
    let (mut ledger, _) = load.end();
    let server = bed.serve(bed.first(3)).start();
    server.verify("data", &mut ledger);
    server.wait_optimal(30);
    server.order(&["fail", "0"]).ok();
    let load = ledger.load(server.clients("data", 2), Mix::Small);
    server
        .order(&["add-spare", &bed.drive(3).display().to_string()])
        .ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    assert!(
        server.client("data").write(512, &[1; 512]).is_err(),
        "half a sector"
    );
    server.order(&["scrub", "data", "--wait"]).ok();
    server.stop();
}

#[test]
fn a_member_without_room_fails_and_loses_nothing() {
    if !is_root("a_member_without_room_fails_and_loses_nothing") {
        return;
    }
    let mut bed = Bed::new(3, 64 * MIB);
    let small = Mount::new(
        &["-t", "tmpfs", "-o", "size=24m", "none"],
        &bed.path("small"),
    );
    let file = small.place().join("d1");
    std::fs::File::create(&file)
        .and_then(|file| file.set_len(64 * MIB))
        .expect("a sparse file");
    bed.replace_drive(1, file);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 4);
    ledger.fill(&mut server.client("data"));
    server.wait_event("member-failed", "No space left", 10);
    server.wait_event("failure-recorded", "d1", 10);
    server.verify("data", &mut ledger);
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn without_redundancy_no_room_is_the_clients_error_and_no_more() {
    if !is_root("without_redundancy_no_room_is_the_clients_error_and_no_more") {
        return;
    }
    let mut bed = Bed::new(2, 64 * MIB);
    let small = Mount::new(
        &["-t", "tmpfs", "-o", "size=24m", "none"],
        &bed.path("small"),
    );
    let file = small.place().join("d1");
    std::fs::File::create(&file)
        .and_then(|file| file.set_len(64 * MIB))
        .expect("a sparse file");
    bed.replace_drive(1, file.clone());
    bed.create("data", 0, bed.drives(), &["--chunk", "64k"]);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    let block = vec![5; 1 << 20];
    let written = (0..)
        .find(|at| client.write(at * MIB, &block).is_err())
        .expect("room ends");
    assert!(
        written >= 40,
        "24 MiB of each drive fit, but only {written} MiB were taken"
    );
    assert!(
        client.write(0, &block).is_ok(),
        "what has its room can be written"
    );
    for at in 0..written {
        assert!(
            client.read(at * MIB, 1 << 20).as_ref() == Ok(&block),
            "MiB {at}"
        );
    }
    assert_eq!(
        server.count_events("member-failed"),
        0,
        "{:#?}",
        server.events()
    );
    server.stop();
}

#[test]
fn a_hung_member_is_failed_at_its_deadline_and_nobody_waits_for_it() {
    if !is_root("a_hung_member_is_failed_at_its_deadline_and_nobody_waits_for_it") {
        return;
    }
    let (bed, faulty, device) = with_faulty_device();
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed
        .serve(bed.drives())
        .option(&["--deadline", "2", "--shards", "2"])
        .start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 5);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 4), Mix::Everything);
    let since = Instant::now();
    server.wait_event("member-overdue", "loop", 10);
    server.wait_event("failure-recorded", "loop", 10);
    // Requests of which the drive holds a part are answered as well, and others follow them.
    load.wait_for(200, 20);
    let mut ledger = load.stop();
    let took = since.elapsed();
    assert!(
        took < Duration::from_secs(8),
        "all are answered in {took:?}"
    );
    let counters = &server.status()["counters"];
    let held = counters["abandoned"].as_u64().unwrap() - counters["returned"].as_u64().unwrap();
    assert!(held > 0, "the drive holds commands: {counters}");
    server.verify("data", &mut ledger);
    assert_eq!(server.volume_state(0), "degraded");
    // While it has commands it cannot come back: they could be carried out any time.
    server.order(&["remove", "1"]).ok();
    let name = device.device().display().to_string();
    server
        .order(&["add-spare", "--force", &name])
        .refused("in use");
    // They are, under load, and harm nobody.
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    faulty.set(|faults| faults.hung = false);
    server.wait_status("given back", 20, |status| {
        status["counters"]["abandoned"] == status["counters"]["returned"]
    });
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    // Now it can be filled anew.
    server.order(&["add-spare", "--force", &name]).ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    server.order(&["scrub", "data", "--wait"]).ok();
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn an_array_ends_although_a_member_hangs() {
    if !is_root("an_array_ends_although_a_member_hangs") {
        return;
    }
    let (bed, faulty, _device) = with_faulty_device();
    // A log is flushed, and a process cannot end before the kernel has a flush back.
    bed.create("data", 5, bed.drives(), &["--write-hole", "off"]);
    let server = bed.serve(bed.drives()).option(&["--deadline", "2"]).start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 6);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.hung = true);
    let load = ledger.load(server.clients("data", 2), Mix::Small);
    std::thread::sleep(Duration::from_millis(200));
    // In the middle of what nobody knows yet to be in vain.
    let since = Instant::now();
    let (status, words) = server.end();
    let took = since.elapsed();
    assert!(status.success(), "{status}: {words}");
    assert!(took < Duration::from_secs(25), "it took {took:?}");
    assert!(
        words.contains("commands are still with /dev/loop"),
        "{words}"
    );
    let (mut ledger, _) = load.end();
    let left = [0, 2].map(|at| bed.drive(at).to_owned());
    let server = bed.serve(&left).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.verify("data", &mut ledger);
    server.stop();
    faulty.set(|faults| faults.hung = false);
    // What it has done late is outdated, and known to be.
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    server.verify("data", &mut ledger);
    server.stop();
}

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
        let mut ledger = ledger(&server, 6);
        ledger.fill(&mut server.client("data"));
        let sectors = [0, 4096, 777 * 512, 5 * MIB, 20 * MIB + 512];
        let bad = sectors.map(|from| from..from + 512);
        faulty.set(|faults| faults.unreadable = bad.to_vec());
        // Mirrors choose whom to read from; the scrub reads everything.
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
    let mut ledger = ledger(&server, 7);
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
        faulty.set(|faults| *faults = common::faulty::Faults::default());
        // Its record is older than the others', which say that it has failed.
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

        // The second loss is not on record, so its return brings the volume back.
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
    server.order(&["fail", "0"]).ok();
    let spare = format!("{},serial=D3", faulty.path().display());
    server.order(&["add-spare", &spare]).ok();
    server.wait_status("rebuilding", 20, |status| {
        status["volumes"][0]["job"]["done_bytes"].as_u64() > Some(10 * MIB)
    });
    faulty.set(|faults| faults.unwritable = vec![0..64 * MIB]);
    server.wait_event("member-failed", "faulty3", 10);
    server.wait_event("job-ended", "before its time", 10);
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
    let mut ledger = ledger(&server, 11);
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
fn garbage_and_half_closed_connections_hurt_nobody_else() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    let load = load(&server, 12, Mix::Everything);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..60 {
        let mut stream = UnixStream::connect(server.nbd_socket()).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let mut bytes = vec![0; 64 + round * 37];
        bytes.iter_mut().for_each(|byte| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        });
        // The server may have hung up before everything is written.
        let _ = stream.write_all(if round % 3 == 0 { b"" } else { &bytes });
        if round % 2 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    for cut in [0, 1, 27, 28, 29, 2000] {
        let mut client = server.client("data");
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        request.extend(0u64.to_be_bytes());
        request.extend(4096u32.to_be_bytes());
        request.extend([1; 4096]);
        client
            .stream
            .write_all(&request[..cut])
            .expect("the server takes it");
        client.half_close();
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty(),
            "an answer to a request cut at {cut}: {rest:?}"
        );
    }
    // Wrong magic in the middle of a session ends that session only.
    let mut client = server.client("data");
    assert!(client.read(0, 4096).is_ok());
    client
        .stream
        .write_all(&[0xEE; 280])
        .expect("the server takes it");
    let _ = client.stream.read_to_end(&mut Vec::new());
    // Everything that was asked before a half-close is answered.
    let mut client = server.client("data");
    for at in 0..20 {
        client
            .submit((nbd::READ, 0), at * 4096, 4096, &[])
            .expect("the server takes requests");
    }
    client.half_close();
    for _ in 0..20 {
        assert_eq!(client.receive().expect("an answer").error, 0);
    }
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn a_client_that_never_reads_its_replies_starves_only_itself() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut deaf: Vec<_> = (0..3).map(|_| server.client("data")).collect();
    for client in &mut deaf {
        let timeout = Some(Duration::from_millis(500));
        client.stream.set_write_timeout(timeout).expect("a timeout");
        // Far more than the memory for payload; the server stops to take them at some point.
        for at in 0..2000u64 {
            if client
                .submit((nbd::READ, 0), at % 32 * MIB, 1 << 20, &[])
                .is_err()
            {
                break;
            }
        }
    }
    let load = load(&server, 13, Mix::Everything);
    load.wait_for(500, 40);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    // Nor do they keep the server from ending.
    let since = Instant::now();
    server.stop();
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "it took {:?}",
        since.elapsed()
    );
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn clients_that_vanish_with_writes_in_flight_leave_whole_sectors() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    let mut ledger = ledger(&server, 14);
    for _ in 0..5 {
        let clients = server.clients("data", 4);
        let sockets: Vec<UnixStream> = clients
            .iter()
            .map(|client| client.stream.try_clone().expect("a handle"))
            .collect();
        let load = ledger.load(clients, Mix::Everything);
        load.wait_for(50, 30);
        for socket in sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        ledger = load.end().0;
        // Writes that had arrived may still be under way.
        server.client("data").flush().expect("it flushes");
        std::thread::sleep(Duration::from_millis(100));
        server.verify("data", &mut ledger);
    }
    server.order(&["scrub", "data", "--wait"]).ok();
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
        server.order(&["fail", "2"]).ok();
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
                "{signal:?} does not end it"
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

#[test]
fn a_server_that_nobody_listens_to_goes_on() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let nbd = bed.path("nbd");
    let address = format!("unix:{}", nbd.display());
    let mut command = bed.fullstripe(&["serve", "--memory", "48m", "--nbd", &address, "--socket"]);
    command.arg(bed.path("api")).args(bed.drives());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = common::process::Guarded::start(&mut command);
    // Whoever started it is gone before it says its first word.
    drop(process.child().stdout.take());
    drop(process.child().stderr.take());
    let since = Instant::now();
    let mut client = loop {
        match common::Client::connect(&nbd, "data") {
            Ok(client) => break client,
            Err(error) => assert!(
                process.runs() && since.elapsed() < Duration::from_secs(20),
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(client.write(0, &[1; 4096]), Ok(()));
    let api = bed.path("api").display().to_string();
    run(&mut bed.fullstripe(&["fail", "1", "--socket", &api]), 20).ok();
    assert_eq!(client.write(4096, &[2; 4096]), Ok(()));
    assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
    process.signal(Signal::TERM);
    assert!(process.wait(Duration::from_secs(30)).success());
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.stop();
}
