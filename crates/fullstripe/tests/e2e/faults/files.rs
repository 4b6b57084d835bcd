//! Files and devices that are cut short, give errors, or have no room.

use crate::common::checks::{ledger, load};
use crate::common::faulty::with_faulty_device;
use crate::common::process::run;
use crate::common::{Bed, Loop, MIB, Mix, Mount, is_root};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::PathBuf;

#[test]
fn a_file_that_is_cut_short_is_a_failed_member() {
    for (level, members) in [(1, 2), (5, 3), (10, 4)] {
        let bed = Bed::new(members + 1, 48 * MIB);
        bed.create("data", level, bed.first(members), &[]);
        let server = bed
            .serve(bed.first(members))
            .option(&["--shards", "2"])
            .start();
        let mut ledger = ledger(&server, 0, 1);
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

/// Writes make the file grow again, with zeros in place of what was cut off. Those zeros must never be returned.
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
                let mut ledger = ledger(&server, 0, 40 + round);
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

/// The kernel detaches a loop device only when its last user, here the array, closes it.
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
    server.order(&["fail", "data:0"]).ok();
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
    let mut ledger = ledger(&server, 0, 4);
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
        .expect("the space ends");
    assert!(
        written >= 40,
        "24 MiB of each drive fit, but only {written} MiB were taken"
    );
    assert!(
        client.write(0, &block).is_ok(),
        "blocks that already have space can be overwritten"
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

/// Switches on the write cache of a drive that had none when it was opened.
#[test]
fn a_cache_that_is_switched_on_is_told_of() {
    if !is_root("a_cache_that_is_switched_on_is_told_of") {
        return;
    }
    let mut bed = Bed::new(2, 48 * MIB);
    let device = Loop::over(bed.drive(1), &["--direct-io=on"]);
    bed.replace_drive(1, device.device().to_owned());
    let name = device.device().file_name().expect("a device").to_owned();
    let cache = PathBuf::from("/sys/block")
        .join(name)
        .join("queue/write_cache");
    std::fs::write(&cache, "write through").expect("the kernel takes it");
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.count_events("cache-turned-volatile"), 0);
    std::fs::write(&cache, "write back").expect("the kernel takes it");
    server.wait_event("cache-turned-volatile", "is flushed from now on", 20);
    server.stop();
}

/// The process reaches its file size limit (RLIMIT_FSIZE, `ulimit -f`), for which the kernel sends SIGXFSZ.
#[test]
fn a_file_that_the_process_may_not_write_so_far_is_a_failed_member() {
    let bed = Bed::new(2, 48 * MIB);
    // The metadata lies at the end of each file. Only in the longer file is that beyond the limit.
    bed.set_length(1, 64 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let mut server = bed.serve(bed.drives()).start();
    let limit = Rlimit {
        current: Some(56 * MIB),
        maximum: Some(56 * MIB),
    };
    let pid = Pid::from_raw(server.pid().cast_signed());
    prlimit(pid, Resource::Fsize, limit).expect("a limit of one's own child");
    let load = load(&server, 4, Mix::Everything);
    let event = server.wait_event("member-failed", "d1", 20);
    let text = event["text"].as_str().unwrap_or_default();
    assert!(text.contains("File too large"), "{text}");
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    assert_eq!(server.volume_state(0), "degraded");
    server.stop();

    // A command that reaches the limit reports the reason as well.
    let limit = "ulimit -f 1024; exec \"$0\" \"$@\"";
    let mut command = crate::common::process::tied(std::path::Path::new("/bin/sh"));
    command.args(["-c", limit, env!("CARGO_BIN_EXE_fullstripe")]);
    command.args(["create", "more", "--level", "1"]);
    let other = [bed.file("e0", 48 * MIB), bed.file("e1", 48 * MIB)];
    command.args(other).current_dir(bed.path("."));
    run(&mut command, 40).refused("File too large");
}
