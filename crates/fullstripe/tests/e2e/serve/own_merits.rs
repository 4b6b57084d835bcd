//! A volume that does not survive the loss of a drive, beside one that does: each is started or not on its own
//! merits. When the drive comes back, the first uses it as it is if the operator says so, and the second rebuilds it.

use crate::common::checks::{ledger, on_drive, scrub_finds_nothing};
use crate::common::{Bed, Ledger, Load, MIB, Mix, Server, run};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const TRUST: &[&str] = &["--trust-returned-drive"];
const DRIVE_BYTES: u64 = 40 * MIB;
/// More than the metadata at the end of a drive needs.
const TAIL_BYTES: u64 = 4 * MIB;

/// The level of the volume beside the RAID 0, and the number of drives.
const REDUNDANT: [(u8, usize); 3] = [(1, 2), (5, 4), (10, 4)];

/// Two volumes on the same drives, both fully written. `fast` has no redundancy, `safe` has.
fn two_volumes(level: u8, members: usize) -> (Bed, [Ledger; 2]) {
    let bed = Bed::new(members + 1, DRIVE_BYTES);
    bed.create("fast", 0, bed.first(members), &["--size", "8m"]);
    bed.create("safe", level, bed.first(members), &[]);
    let server = bed.serve(bed.first(members)).start();
    let mut ledgers = [0, 1].map(|at| ledger(&server, at, 20 + at as u64));
    ledgers[0].fill(&mut server.client("fast"));
    ledgers[1].fill(&mut server.client("safe"));
    server.wait_status("both whole", 60, |status| {
        let volumes = status["volumes"].as_array().expect("volumes");
        volumes.iter().all(|volume| volume["state"] == "optimal")
    });
    server.stop();
    (bed, ledgers)
}

fn json(bed: &Bed, command: &str, options: &[&str], drives: &[PathBuf]) -> Value {
    let mut command = bed.fullstripe(&[command, "--json"]);
    let said = run(command.args(options).args(drives), 20);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// How `assemble` would start the two volumes.
fn outlook(bed: &Bed, options: &[&str], drives: &[PathBuf]) -> [Value; 2] {
    let report = json(bed, "assemble", options, drives);
    [0, 1].map(|at| report["containers"][0]["volumes"][at]["start"].clone())
}

/// Expects that `fast` is not served, and that the status and the messages say why.
fn expect_not_started(server: &Server<'_>, said: &str) {
    let status = server.status();
    let fast = &status["volumes"][0];
    assert_eq!(fast["state"], "not started", "{status:#}");
    let why = fast["not_started"].as_str().expect("a sentence");
    assert!(why.contains("volume fast is not started"), "{why}");
    assert!(why.contains(said), "{said:?} is not in: {why}");
    assert!(server.words().contains(why), "{}", server.words());
    assert_eq!(status["volumes"][1]["not_started"], Value::Null);
    let exports = status["exports"].as_array().expect("exports");
    assert!(exports.len() == 1 && exports[0].to_string().contains("/safe"));
    let text = server.order(&["status"]).ok().out;
    assert!(
        text.contains("not started") && text.contains(said),
        "{text}"
    );
}

fn both_optimal(server: &Server<'_>) {
    server.wait_status("both whole again", 60, |status| {
        let volumes = status["volumes"].as_array().expect("volumes");
        volumes.iter().all(|volume| volume["state"] == "optimal")
    });
}

/// Expects all acknowledged data in both volumes, and no mismatch in `safe`.
fn expect_all(server: &Server<'_>, ledgers: &mut [Ledger; 2]) {
    let [fast, safe] = ledgers;
    server.verify("fast", fast);
    server.verify("safe", safe);
    scrub_finds_nothing(server, "safe");
}

/// Expects that on all these drives the record of `fast` is unchanged, with all its slots in sync.
fn expect_untouched(bed: &Bed, before: &Value, drives: impl IntoIterator<Item = usize>) {
    for drive in drives {
        let now = on_drive(bed, drive, 0);
        for field in ["state", "dirty", "migration", "members"] {
            assert_eq!(now[field], before[field], "{field} on d{drive}: {now:#}");
        }
        let slots = now["slots"].as_array().expect("slots");
        assert!(slots.iter().all(|slot| slot["in_sync"] == true), "{now:#}");
    }
}

#[test]
fn a_volume_starts_although_another_lacks_a_drive_and_both_have_it_back() {
    for (level, members) in REDUNDANT {
        for lost in [0, members - 1] {
            let (bed, mut ledgers) = two_volumes(level, members);
            let before = on_drive(&bed, 1 - lost.min(1), 0);
            let mut left = bed.first(members).to_vec();
            left.remove(lost);
            let others = (0..members).filter(|at| *at != lost);

            // Without --degraded, neither volume is started.
            let refused = bed.serve(&left).refused("volume fast is not started");
            assert!(refused.err.contains("--degraded"), "{refused}");
            let [fast, safe] = outlook(&bed, &[], &left);
            assert_eq!(
                (&fast["mode"], &safe["mode"]),
                (&"refused".into(), &"refused".into())
            );

            // With it, `safe` is started and written.
            let [fast, safe] = outlook(&bed, &["--degraded"], &left);
            assert_eq!(
                (&fast["mode"], &safe["mode"]),
                (&"refused".into(), &"read-write".into())
            );
            let server = bed.serve(&left).option(&["--degraded"]).start();
            expect_not_started(&server, "does not survive the loss of slot");
            let [fast, safe] = ledgers;
            let load = safe.load(server.clients("safe", 2), Mix::Everything);
            load.wait_for(200, 30);
            let mut safe = load.stop();
            server.verify("safe", &mut safe);
            ledgers = [fast, safe];
            server.stop();
            expect_untouched(&bed, &before, others.clone());

            // The drive is back. Without --trust-returned-drive it is left alone, and `fast` is not started.
            let all = bed.first(members);
            let drive = fs::read(bed.drive(lost)).unwrap();
            let [fast, safe] = outlook(&bed, &[], all);
            assert_eq!(
                (&fast["mode"], &safe["mode"]),
                (&"refused".into(), &"read-write".into())
            );
            assert_eq!(fast["option"], TRUST[0]);
            assert_eq!(
                json(&bed, "list", &[], all)["containers"][0]["volumes"][0]["start"],
                fast
            );
            let server = bed.serve(all).start();
            expect_not_started(&server, TRUST[0]);
            server.stop();
            assert!(
                fs::read(bed.drive(lost)).unwrap() == drive,
                "the returned drive was written to"
            );

            // With it, both are started, and the drive is rebuilt in `safe`.
            let [fast, safe] = outlook(&bed, TRUST, all);
            assert_eq!(
                (&fast["mode"], &safe["mode"]),
                (&"read-write".into(), &"read-write".into())
            );
            let server = bed.serve(all).option(TRUST).start();
            let [fast, safe] = &mut ledgers;
            server.verify("fast", fast);
            server.verify("safe", safe);
            both_optimal(&server);
            expect_all(&server, &mut ledgers);
            server.stop();

            // From now on no option is needed, and the drive is a member like any other.
            let mut without = all.to_vec();
            without.remove(1 - lost.min(1));
            let server = bed.serve(all).start();
            assert_eq!(server.at_start["volumes"][0]["state"], "optimal");
            expect_all(&server, &mut ledgers);
            server.stop();
            let server = bed.serve(&without).option(&["--degraded"]).start();
            server.verify("safe", &mut ledgers[1]);
            server.stop();
        }
    }
}

/// A file is cut short under load, so that it loses its metadata. Later its end is put back.
#[test]
fn a_drive_that_was_lost_under_load_comes_back_to_both_volumes() {
    for (level, members) in REDUNDANT {
        let (bed, ledgers) = two_volumes(level, members);
        let drives = bed.first(members);
        let lost = members - 1;
        let server = bed.serve(drives).option(&["--shards", "2"]).start();
        let mut names = ["fast", "safe"].iter();
        let loads: [Load; 2] = ledgers.map(|ledger| {
            let name = names.next().expect("one for each");
            ledger.load(server.clients(name, 2), Mix::Everything)
        });
        loads.iter().for_each(|load| load.wait_for(100, 30));
        let file = File::options()
            .read(true)
            .write(true)
            .open(bed.drive(lost))
            .unwrap();
        let mut tail = vec![0; TAIL_BYTES as usize];
        file.read_exact_at(&mut tail, DRIVE_BYTES - TAIL_BYTES)
            .unwrap();
        file.set_len(DRIVE_BYTES - TAIL_BYTES).unwrap();
        server.wait_event("failure-recorded", "d", 20);
        let [fast, safe] = loads;
        safe.wait_for(200, 30);
        let (fast, _) = fast.end();
        let mut safe = safe.stop();
        server.verify("safe", &mut safe);
        let (status, words) = server.end();
        assert!(
            !status.success() && words.contains("volume fast had failed"),
            "{words}"
        );
        let mut ledgers = [fast, safe];
        file.set_len(DRIVE_BYTES).unwrap();
        file.write_all_at(&tail, DRIVE_BYTES - TAIL_BYTES).unwrap();
        drop(file);

        let server = bed.serve(drives).start();
        expect_not_started(&server, TRUST[0]);
        server.verify("safe", &mut ledgers[1]);
        // Killing this server changes nothing about that.
        let [fast, safe] = ledgers;
        let load = safe.load(server.clients("safe", 2), Mix::Small);
        load.wait_for(50, 30);
        server.kill();
        let (safe, _) = load.end();
        let mut ledgers = [fast, safe];
        bed.wait_released();

        let server = bed.serve(drives).option(TRUST).start();
        both_optimal(&server);
        expect_all(&server, &mut ledgers);
        server.stop();
        let server = bed.serve(drives).start();
        expect_all(&server, &mut ledgers);
        server.stop();
    }
}

/// A spare has taken the lost drive's slot in `safe`, but `fast` still needs the lost drive.
#[test]
fn a_volume_waits_for_its_drive_while_another_one_takes_a_spare() {
    let (bed, mut ledgers) = two_volumes(5, 4);
    let spare = bed.drive(4).display().to_string();
    let left = bed.first(3);
    let server = bed.serve(left).option(&["--degraded"]).start();
    server.order(&["add-spare", &spare]).ok();
    server.wait_event("job-ended", "rebuild finished", 60);
    expect_not_started(&server, "does not survive the loss of slot 3");
    server.verify("safe", &mut ledgers[1]);
    // The drive that `fast` needs is not accepted as a spare without --force.
    let back = bed.drive(3).display().to_string();
    server.order(&["add-spare", &back]).refused("--force");
    server.stop();
    let server = bed.serve(bed.drives()).start();
    expect_not_started(&server, TRUST[0]);
    server.stop();
    for options in [TRUST, &[]] {
        let server = bed.serve(bed.drives()).option(options).start();
        both_optimal(&server);
        expect_all(&server, &mut ledgers);
        let [fast, safe] = ledgers;
        let load = fast.load(server.clients("fast", 1), Mix::Small);
        load.wait_for(50, 30);
        ledgers = [load.stop(), safe];
        server.stop();
    }
}

/// A drive that returns with older content than it had when it left is recognised, and not trusted.
#[test]
fn an_old_copy_is_not_taken_back() {
    let (bed, mut ledgers) = two_volumes(5, 4);
    let drives = bed.first(4);
    let copy = bed.path("copy");
    fs::copy(bed.drive(3), &copy).unwrap();
    let server = bed.serve(drives).start();
    let [fast, safe] = ledgers;
    let load = fast.load(server.clients("fast", 2), Mix::Small);
    load.wait_for(100, 30);
    ledgers = [load.stop(), safe];
    server.stop();
    fs::copy(copy, bed.drive(3)).unwrap();
    let said = bed
        .serve(drives)
        .option(TRUST)
        .refused("volume fast is not started");
    assert!(said.err.contains("its record is outdated"), "{said}");
    let options = ["--degraded", TRUST[0]];
    for _ in 0..2 {
        let server = bed.serve(drives).option(&options).start();
        let status = server.status();
        assert_eq!(status["volumes"][0]["state"], "not started", "{status:#}");
        server.verify("safe", &mut ledgers[1]);
        server.stop();
    }
}
