//! Starting a kept array with the built program, and what has to come of it.

use super::kept::{Duty, Kept, Ledger, SECTOR_BYTES, content};
use crate::common::checks::{expect_clean, scrub_finds_nothing};
use crate::common::{Bed, Client, Server};

/// Starts it, reads everything, also without each drive, and starts it again.
#[track_caller]
pub fn judge(kept: &Kept) {
    let ledger = &kept.ledger;
    let bed = kept.unpack();
    let server = bed.serve(bed.drives()).start();
    let volume = &server.at_start["volumes"][0];
    assert_eq!(volume["name"], ledger.volume.as_str(), "{}", kept.title());
    assert_eq!(volume["level"], ledger.level, "{}", kept.title());
    // What a client has read stays as it was, so this comes before the resync as well as after it.
    let content = read(&mut server.client(&ledger.volume), ledger);
    check(kept, &content);
    expect_duty(kept, &server);
    let same = |server: &Server<'_>, when: &str| {
        let now = read(&mut server.client(&ledger.volume), ledger);
        assert!(now == content, "{}: other bytes {when}", kept.title());
    };
    server.wait_optimal(60);
    same(&server, "after the resync");
    scrub_finds_nothing(&server, &ledger.volume);
    server.stop();
    expect_clean(&bed, 0..ledger.members);
    for missing in 0..ledger.members {
        let left = without(&bed, missing);
        let server = bed
            .serve(&left)
            .option(&["--degraded", "--read-only"])
            .start();
        same(&server, &format!("without d{missing}"));
        server.stop();
    }
}

fn without(bed: &Bed, missing: usize) -> Vec<std::path::PathBuf> {
    let drives = bed.drives().iter().enumerate();
    let left = drives.filter(|(at, _)| *at != missing);
    left.map(|(_, drive)| drive.clone()).collect()
}

/// What the program says of its start. Words may change from version to version, the duty does not.
#[track_caller]
fn expect_duty(kept: &Kept, server: &Server<'_>) {
    let resynced = || {
        server.wait_event("job-ended", "resync finished", 60);
    };
    let noted = |words: &str| {
        server.wait_event("start-note", words, 10);
    };
    match kept.ledger.duty {
        Duty::Resync => resynced(),
        Duty::ResyncMarked => {
            noted("bitmap marks");
            resynced();
        }
        Duty::UseShadows => {
            noted("every member's record is torn");
            resynced();
        }
        Duty::Replay => {
            noted("write-hole log has corrected parity");
            assert_eq!(server.count_events("job-started"), 0, "{}", kept.title());
        }
    }
}

fn read(client: &mut Client, ledger: &Ledger) -> Vec<u8> {
    assert_eq!(client.size_bytes, ledger.volume_bytes);
    let mut all = Vec::new();
    while (all.len() as u64) < ledger.volume_bytes {
        let left = ledger.volume_bytes - all.len() as u64;
        let length = left.min(1 << 20) as u32;
        let bytes = client.read(all.len() as u64, length);
        all.extend(bytes.expect("it can be read"));
    }
    all
}

/// Each sector is of the last write to it that was acknowledged, or of one after that which was in flight.
#[track_caller]
fn check(kept: &Kept, found: &[u8]) {
    let mut wrong = Vec::new();
    for (sector, bytes) in (0..).zip(found.chunks_exact(SECTOR_BYTES)) {
        let at = sector * SECTOR_BYTES as u64;
        let mut allowed = vec![vec![0; SECTOR_BYTES]];
        let writes = kept.ledger.writes.iter();
        for write in writes.filter(|write| {
            (write.offset_bytes..write.offset_bytes + write.length_bytes).contains(&at)
        }) {
            if write.acknowledged {
                allowed.clear();
            }
            allowed.push(content(write.number, sector));
        }
        if !allowed.iter().any(|allowed| allowed == bytes) {
            wrong.push(sector);
        }
    }
    assert!(
        wrong.is_empty(),
        "{}: {} sectors are wrong, the first are {:?}",
        kept.title(),
        wrong.len(),
        &wrong[..wrong.len().min(8)]
    );
}
