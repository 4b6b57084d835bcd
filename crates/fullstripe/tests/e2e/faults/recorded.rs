//! Bad blocks on record: recorded by another program, or by a rebuild that could not read their sources.

use crate::common::checks::{ledger, on_drive};
use crate::common::faulty::{specs, with_faulty};
use crate::common::nbd::EIO;
use crate::common::{Bed, MIB, Server, has_fuse, run};
use metadata::imsm::place::{Placement, decode_region, encode_image};
use metadata::imsm::{Mpb, SectorSize};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Changes the record of a drive, as another program would.
fn change_record(bed: &Bed, drive: usize, change: impl FnOnce(&mut Mpb)) {
    let path = bed.drive(drive);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let size_bytes = file.metadata().unwrap().len();
    let placement = Placement::new(size_bytes, SectorSize::Bytes512).unwrap();
    let region = placement.region_to_read();
    let mut bytes = vec![0; region.length_bytes as usize];
    file.read_exact_at(&mut bytes, region.offset_bytes).unwrap();
    let found = decode_region(&bytes, SectorSize::Bytes512).unwrap();
    let mut record = found.unwrap().mpb;
    change(&mut record);
    let image = encode_image(&record, SectorSize::Bytes512).unwrap();
    let at = placement.image(image.len()).offset_bytes;
    file.write_all_at(&image, at).unwrap();
}

/// Adds `sectors` of drive 1 to the bad-block log in all drives' records, and overwrites these sectors.
fn plant(bed: &Bed, drives: usize, sectors: &[(u64, u64)]) {
    for drive in 0..drives {
        change_record(bed, drive, |record| {
            for &(start, count) in sectors {
                record.add_bad_blocks(1, start, count).unwrap();
            }
        });
    }
    for &(start, count) in sectors {
        bed.scribble(1, start * 512, count as usize * 512, 0xEE);
    }
}

/// The bad blocks in a drive's record, as `examine` reports them.
fn listed(bed: &Bed, drive: usize) -> Vec<Value> {
    let path = bed.drive(drive).display().to_string();
    let said = run(&mut bed.fullstripe(&["examine", "--json", &path]), 20).ok();
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    let listed = &found["drives"][0]["record"]["bad_blocks"];
    listed.as_array().expect("a list").clone()
}

/// Waits until no bad blocks are reported: the status may be a little older than the end of a job.
fn wait_nothing_bad(server: &Server<'_>) {
    server.wait_status("nothing bad", 10, |status| {
        let members = status["members"].as_array().unwrap();
        members.iter().all(|member| member["bad_block_bytes"] == 0)
    });
}

#[test]
fn recorded_blocks_are_reconstructed_and_a_scrub_clears_them() {
    for (level, members) in [(5, 3), (1, 2), (10, 4)] {
        let bed = Bed::new(members, 32 * MIB);
        bed.create("data", level, bed.drives(), &[]);
        let server = bed.serve(bed.drives()).start();
        server.wait_optimal(60);
        let mut ledger = ledger(&server, 0, 6);
        ledger.fill(&mut server.client("data"));
        server.stop();

        let planted = [(0, 8), (4099, 3), (10_000, 600), (20_480, 1)];
        plant(&bed, members, &planted);
        let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
        let drive = &server.at_start["members"][1];
        assert_eq!(drive["bad_block_bytes"], 612 * 512, "{drive:#}");
        assert_eq!(drive["bad_blocks"][1]["offset_bytes"], 4099 * 512);
        assert_eq!(drive["bad_blocks"].as_array().unwrap().len(), 4);
        let panel = server.order(&["status"]).ok().out;
        assert!(panel.contains("active, 306 KiB of bad blocks"), "{panel}");

        server
            .order(&["scrub", "data", "--explain", "0"])
            .refused("bad blocks on record in the stripe of LBA 0");
        server.verify("data", &mut ledger);
        server.order(&["scrub", "data", "--wait"]).ok();
        assert_eq!(server.count_events("mismatch"), 0, "{:#?}", server.events());
        server.wait_event("bad-blocks-cleared", "have been written", 10);
        wait_nothing_bad(&server);
        server.stop();
        (0..members).for_each(|drive| assert_eq!(listed(&bed, drive), [Value::Null; 0]));

        let server = bed.serve(bed.drives()).start();
        server.verify("data", &mut ledger);
        server.stop();
    }
}

#[test]
fn without_redundancy_a_recorded_block_is_an_error_until_it_is_written_whatever_happens() {
    let bed = Bed::new(2, 32 * MIB);
    bed.create("data", 0, bed.drives(), &["--chunk", "64k"]);
    // The second chunk of the volume is the first of this drive.
    plant(&bed, 2, &[(8, 8), (64, 8)]);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    let (first, second) = (65_536 + 4096, 65_536 + 32_768);
    assert_eq!(client.read(first, 4096), Err(EIO));
    assert_eq!(client.read(second + 3584, 512), Err(EIO));
    client.read(first + 4096, 4096).unwrap();
    server.wait_event("unrecoverable", &format!("LBA {}", first / 512), 10);
    client.write(first, &[7; 4096]).unwrap();
    // Killed at once: the acknowledged write must be there.
    server.kill();
    bed.wait_released();
    assert_eq!(listed(&bed, 0).len(), 1);
    let server = bed.serve(bed.drives()).start();
    let mut client = server.client("data");
    assert_eq!(client.read(first, 4096).unwrap(), [7; 4096]);
    assert_eq!(client.read(second, 4096), Err(EIO));
    server.stop();
}

#[test]
fn a_rebuild_puts_what_it_cannot_have_on_record_and_ends() {
    if !has_fuse("a_rebuild_puts_what_it_cannot_have_on_record_and_ends") {
        return;
    }
    let (bed, faulty) = with_faulty(4, 0, 32 * MIB);
    let drives = specs(&bed, 4);
    bed.create("data", 5, &drives[..3], &[]);
    let spare = drives[3].display().to_string();
    let server = bed.serve(&drives[..3]).start();
    server.wait_optimal(60);
    let mut ledger = ledger(&server, 0, 6);
    ledger.fill(&mut server.client("data"));
    faulty.set(|faults| faults.unreadable = vec![5 * MIB..5 * MIB + 512]);
    server
        .order(&["fail", &bed.drive(2).display().to_string()])
        .ok();
    server.wait_event("failure-recorded", "", 30);
    server.order(&["add-spare", &spare]).ok();
    server.wait_event("bad-blocks-recorded", "4 KiB", 60);
    let ended = server.wait_event("job-ended", "rebuild finished", 60);
    assert_eq!(ended["warning"], true);
    let status = server.wait_optimal(30);
    let spare = &status["members"][3];
    assert_eq!(spare["bad_block_bytes"], 4096, "{status:#}");
    assert_eq!(spare["bad_blocks"][0]["offset_bytes"], 5 * MIB);
    server.stop();
    assert_eq!(on_drive(&bed, 3, 0)["state"], "normal");
    assert_eq!(listed(&bed, 3).len(), 1);

    // The next process knows the bad block. Its data are lost as long as the other drive cannot be read.
    let here = [drives[0].clone(), drives[1].clone(), drives[3].clone()];
    let server = bed.serve(&here).start();
    let mut client = server.client("data");
    let lost = |client: &mut crate::common::nbd::Client| {
        let around = (9 * MIB..11 * MIB).step_by(4096);
        around
            .filter(|&at| client.read(at, 4096) == Err(EIO))
            .count()
    };
    let errors = lost(&mut client);
    assert!(errors == 1 || errors == 2, "{errors}");
    // Once the other drive can be read, nothing is lost.
    faulty.set(|faults| faults.unreadable.clear());
    server.verify("data", &mut ledger);
    server.order(&["scrub", "data", "--wait"]).ok();
    wait_nothing_bad(&server);
    assert_eq!(server.count_events("mismatch"), 0, "{:#?}", server.events());
    server.stop();
}
