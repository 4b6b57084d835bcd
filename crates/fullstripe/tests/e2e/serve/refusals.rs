//! Starts, orders and requests that are refused, or need a flag.

use crate::common::checks::ledger;
use crate::common::nbd::{EINVAL, EPERM, FLAG_FUA, WRITE};
use crate::common::process::{run, tool};
use crate::common::{Bed, Loop, MIB, Mix, Mount, is_root};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[test]
fn a_degraded_start_needs_the_flag_once() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 0, 12);
    ledger.fill(&mut server.client("data"));
    server.stop();
    bed.serve(bed.first(2)).refused("--degraded");
    bed.serve(bed.first(1))
        .refused("volume data is not started");
    let before: Vec<_> = bed
        .drives()
        .iter()
        .map(std::fs::read)
        .map(Result::unwrap)
        .collect();
    bed.serve(bed.first(2)).refused("--degraded");
    for (path, before) in bed.drives().iter().zip(before) {
        assert!(
            std::fs::read(path).unwrap() == before,
            "a refused start wrote to {path:?}"
        );
    }

    let server = bed.serve(bed.first(2)).option(&["--degraded"]).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
    let load = ledger.load(server.clients("data", 2), Mix::Everything);
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
    // The loss of the member is now on record. When it comes back, it is recognised as outdated.
    for drives in [bed.first(2), bed.drives()] {
        let server = bed.serve(drives).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
        server.verify("data", &mut ledger);
        server.stop();
    }
}

/// A file's name is its serial. A renamed file is not the missing member, and the refusal has to say so.
#[test]
fn a_file_with_a_new_name_is_named_where_its_volume_is_refused() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let mut drives = bed.drives().to_vec();
    drives[1] = bed.drive(1).with_file_name("renamed");
    std::fs::rename(bed.drive(1), &drives[1]).expect("a new name");
    let said = bed
        .serve(&drives)
        .refused("renamed does not serve: its own record does not list its serial");
    assert!(said.err.contains("slot 1"), "{said}");
    let old = format!("{},serial=d1", drives[1].display());
    drives[1] = PathBuf::from(old);
    let server = bed.serve(&drives).start();
    assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
    server.stop();
}

/// While an array is served its record says little about it, and "dirty" would only alarm.
#[test]
fn whoever_lists_a_served_array_is_told_who_serves_it() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let mut server = bed.serve(bed.drives()).start();
    let process = server.pid();
    server.client("data").write(0, &[1; 512]).expect("a write");
    for command in ["list", "assemble"] {
        let said = run(bed.fullstripe(&[command]).args(bed.drives()), 20);
        let first = format!("in use by process {process} (");
        assert!(said.out.contains(&first), "{said}");
        assert!(
            said.out.contains(", in use") && !said.out.contains("dirty"),
            "{said}"
        );
    }
    server.stop();
    let said = run(bed.fullstripe(&["list"]).args(bed.drives()), 20);
    assert!(!said.out.contains("in use"), "{said}");
}

/// The kernel reports only that a block device is busy, not by which process.
#[test]
fn who_serves_a_block_device_is_named() {
    if !is_root("who_serves_a_block_device_is_named") {
        return;
    }
    let bed = Bed::new(2, 48 * MIB);
    let loops = [0, 1].map(|at| Loop::over(bed.drive(at), &[]));
    let specs = [0, 1].map(|at| format!("{},serial=L{at}", loops[at].device().display()));
    let drives = specs.map(PathBuf::from);
    bed.create("data", 1, &drives, &[]);
    let mut server = bed.serve(&drives).start();
    let wanted = format!("is in use by process {} (", server.pid());
    bed.serve(&drives).refused(&wanted);
    let said = run(bed.fullstripe(&["list"]).args(&drives), 20);
    let wanted = format!("in use by process {} (", server.pid());
    assert!(said.out.contains(&wanted), "{said}");
    server.stop();
}

/// `status` ends soon with an error when the server does not answer.
#[test]
fn a_server_that_stands_still_is_not_waited_for() {
    let bed = Bed::new(2, 48 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server.signal(Signal::STOP);
    let since = Instant::now();
    let said = server.order(&["status", "--check"]);
    let took = since.elapsed();
    server.signal(Signal::CONT);
    assert_eq!(said.status.code(), Some(1), "{said}");
    let wanted = "has not answered within 8 s: it is stopped, or the machine is overloaded";
    assert!(said.err.contains(wanted), "{said}");
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    server.stop();
}

#[test]
fn a_crash_while_degraded_is_survived_or_refused_until_the_operator_accepts_it() {
    let without_log: &[&str] = &["--write-hole", "off"];
    for (level, members, options) in [
        (5, 3, without_log),
        (5, 3, &[]),
        (5, 5, &["--chunk", "4k"]),
        (1, 2, &[]),
        (10, 4, &[]),
    ] {
        let bed = Bed::new(members, 48 * MIB);
        bed.create("data", level, bed.drives(), options);
        let server = bed.serve(bed.drives()).start();
        let load = ledger(&server, 0, 13).load(server.clients("data", 2), Mix::Small);
        load.wait_for(100, 30);
        server.order(&["fail", "data:0"]).ok();
        load.wait_for(100, 30);
        server.kill();
        let (mut ledger, _) = load.end();
        let left = &bed.drives()[1..];
        let in_doubt = options == without_log;
        if in_doubt {
            bed.serve(left).refused("--accept-write-hole");
        }
        let flag: &[&str] = if in_doubt {
            &["--accept-write-hole"]
        } else {
            &[]
        };
        let server = bed.serve(left).option(flag).start();
        assert_eq!(server.at_start["volumes"][0]["state"], "degraded");
        if !in_doubt {
            server.verify("data", &mut ledger);
        }
        server.stop();
    }
}

#[test]
fn read_only_writes_nothing_at_all() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let load = ledger(&server, 0, 14).load(server.clients("data", 2), Mix::Everything);
    load.wait_for(200, 30);
    // The array is left dirty, so that a start without --read-only would resync.
    server.kill();
    let (mut ledger, _) = load.end();
    bed.wait_released();
    let before: Vec<_> = bed
        .drives()
        .iter()
        .map(std::fs::read)
        .map(Result::unwrap)
        .collect();
    let server = bed.serve(bed.drives()).option(&["--read-only"]).start();
    assert_eq!(server.at_start["volumes"][0]["read_only"], true);
    server.verify("data", &mut ledger);
    let mut client = server.client("data");
    assert_eq!(client.write(0, &[1; 4096]), Err(EPERM));
    assert_eq!(
        client.simple((WRITE, FLAG_FUA), 0, 512, &[1; 512]),
        Err(EPERM)
    );
    server.verify("data", &mut ledger);
    server.stop();
    for (path, before) in bed.drives().iter().zip(before) {
        assert!(
            std::fs::read(path).unwrap() == before,
            "{} has changed",
            path.display()
        );
    }
}

#[test]
fn an_array_is_served_once() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    bed.serve(bed.first(3)).refused("is in use by");
    bed.serve(bed.first(3))
        .option(&["--read-only"])
        .refused("is in use by");
    bed.try_create("other", 1, bed.first(2), &["--force"])
        .refused("is in use by");
    let drive = bed.drive(0).display().to_string();
    server.order(&["add-spare", &drive]).refused(&drive);
    assert_eq!(server.client("data").write(0, &[7; 4096]), Ok(()));
    server.stop();
    // An address that another process uses is refused with a clear reason as well.
    let server = bed.serve(bed.first(3)).start();
    let address = format!("unix:{}", server.nbd_socket().display());
    bed.create("other", 0, &bed.drives()[3..], &["--wide"]);
    bed.serve(&bed.drives()[3..])
        .option(&["--nbd", &address])
        .refused("another process answers");
    assert_eq!(server.client("data").read(0, 4096), Ok(vec![7; 4096]));
    server.stop();
}

#[test]
fn orders_that_would_lose_data_or_name_nothing_are_refused() {
    let bed = Bed::new(5, 48 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    server
        .order(&["fail", "nothing"])
        .refused("there is no drive \"nothing\"");
    server
        .order(&["fail", "data:7"])
        .refused("volume data has no slot 7; it has 0 to");
    server
        .order(&["fail", "1"])
        .refused("1 may mean slot 1 of data (");
    server.order(&["remove", "data:1"]).refused("in use");
    server.order(&["scrub", "nothing"]).refused("nothing");
    server.order(&["rebuild", "nothing"]).refused("nothing");
    server.order(&["cancel", "data"]).refused("data");
    server.order(&["pause", "data"]).refused("data");
    server.order(&["rate", "quick"]).refused("quick");
    server
        .order(&[
            "replace",
            "data:9",
            "--with",
            &bed.drive(3).display().to_string(),
        ])
        .refused("slot");
    server
        .order(&["replace", "data:0", "--with", "/nowhere"])
        .refused("/nowhere");
    let small = bed.file("small", 16 * MIB).display().to_string();
    server
        .order(&["add-spare", &small])
        .refused("small has 16 MiB, and a drive of this array needs");
    server.order(&["add-spare", "/nowhere"]).refused("/nowhere");
    assert_eq!(
        server.volume_state(0),
        "optimal",
        "a refused order changed the volume"
    );

    let failed = server.order(&["fail", "data:0"]).ok();
    assert!(
        failed.err.contains("degraded until it is rebuilt"),
        "{failed:?}"
    );
    // There is no terminal to ask for consent.
    let ends = server.order(&["fail", "data:1"]);
    ends.refused("it fails, and every read and write ends with an error");
    server
        .order(&["fail", "data:0"])
        .refused("is failed already");
    server.order(&["scrub", "data"]).refused("data");
    assert_eq!(server.volume_state(0), "degraded");
    assert_eq!(server.client("data").write(4096, &[7; 4096]), Ok(()));
    assert_eq!(server.client("data").read(4096, 4096), Ok(vec![7; 4096]));
    server.order(&["stop"]).ok();
    server.wait_end();

    let bed = Bed::new(2, 48 * MIB);
    bed.create("fast", 0, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    server
        .order(&["fail", "fast:0"])
        .refused("cannot do without slot 0");
    server.order(&["scrub", "fast"]).refused("no redundancy");
    server
        .order(&["add-spare", &bed.file("d2", 48 * MIB).display().to_string()])
        .ok();
    server.stop();
}

#[test]
fn requests_outside_the_rules_are_answered_and_the_connection_lives_on() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    let size = client.size_bytes;
    for (offset, length) in [
        (size, 512),
        (size - 512, 1024),
        (u64::MAX - 511, 512),
        (1, 512),
    ] {
        assert_eq!(
            client.read(offset, length),
            Err(EINVAL),
            "read {length} at {offset}"
        );
    }
    for (offset, length) in [(size, 512), (size - 512, 1024), (u64::MAX - 511, 512)] {
        let found = client.write(offset, &vec![1; length]);
        assert!(found.is_err(), "write {length} at {offset}: {found:?}");
    }
    assert_eq!(
        client.write(1, &[1; 512]),
        Err(EINVAL),
        "not aligned to sectors"
    );
    assert_eq!(
        client.write(0, &[1; 100]),
        Err(EINVAL),
        "not a whole number of sectors"
    );
    assert_eq!(
        client.simple((99, 0), 0, 0, &[]),
        Err(EINVAL),
        "an unknown command"
    );
    assert_eq!(client.read(size - 512, 512), Ok(vec![0; 512]));
    assert_eq!(client.write(size - 512, &[3; 512]), Ok(()));
    assert_eq!(client.flush(), Ok(()));
    assert!(
        crate::common::Client::connect(server.nbd_socket(), "other").is_err(),
        "no such export"
    );
    server.stop();
}

#[test]
fn drives_that_nothing_can_be_written_to_can_be_read() {
    if !is_root("drives_that_nothing_can_be_written_to_can_be_read") {
        return;
    }
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut ledger = ledger(&server, 0, 6);
    ledger.fill(&mut server.client("data"));
    server.stop();
    let folder = bed.drive(0).parent().expect("a folder").to_owned();
    let place = bed.path("sealed");
    let from = folder.display().to_string();
    let mount = Mount::new(&["--bind", &from], &place);
    let mut seal = tool("mount");
    run(seal.args(["-o", "remount,bind,ro"]).arg(&place), 30).ok();
    let sealed: Vec<PathBuf> = (0..3).map(|at| place.join(format!("d{at}"))).collect();
    bed.serve(&sealed).refused("mounted read-only");
    let server = bed.serve(&sealed).option(&["--read-only"]).start();
    assert_eq!(server.at_start["volumes"][0]["read_only"], true);
    server.verify("data", &mut ledger);
    assert_eq!(server.client("data").write(0, &[1; 512]), Err(EPERM));
    // The drives are locked all the same, also under their other paths.
    bed.serve(bed.drives()).refused("in use");
    bed.serve(&sealed)
        .option(&["--read-only"])
        .refused("in use");
    server.stop();
    mount.end();
}

/// A server with --read-only takes no spares, because adding one would write a record to it.
#[test]
fn who_only_reads_takes_no_spares() {
    let bed = Bed::new(4, 48 * MIB);
    bed.create("data", 1, bed.first(2), &[]);
    let [named, added] = [2, 3].map(|at| bed.drive(at).display().to_string());
    let before = std::fs::read(&named).expect("it is there");
    let words = ["--read-only", "--spare", &named];
    let server = bed.serve(bed.first(2)).option(&words).start();
    server.order(&["add-spare", &added]).refused("only read");
    let members = server.status()["members"].as_array().map(Vec::len);
    assert_eq!(members, Some(2));
    server.wait_event("spare-refused", "--read-only takes no spares", 10);
    server.stop();
    for drive in [named, added] {
        let now = std::fs::read(&drive).expect("it is there");
        assert!(now == before, "{drive} was written to");
    }
}

#[test]
fn more_drives_than_a_process_can_number_are_refused() {
    const MOST: usize = engine::limits::CONTAINER_MEMBERS_MAX;
    let bed = Bed::new(MOST + 1, 16 * MIB);
    bed.create("data", 1, bed.first(2), &[]);
    bed.serve(bed.drives())
        .refused(&format!("name at most {MOST}"));
    bed.serve(bed.first(MOST)).start().stop();
}
