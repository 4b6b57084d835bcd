//! The rules one by one, without random faults: the journal of an undisturbed server shows each.

use super::judge::{Case, brief, generation_of};
use super::load::Kept;
use super::promise::{Promise, SECTOR_BYTES, at};
use super::rig::{DRIVE_BYTES, Kind, Rig, Shape};
use crate::common::{Bed, Loop, MIB, Mount, is_root, nbd, run, tool};
use faultfs::{Entry, Operation};

const LOOP: Kind = Kind::Loop(512);

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (level, write_hole) in [(1, "off"), (10, "bitmap"), (5, "log"), (5, "bitmap")] {
        for (kind, heeds_dsync) in [(Kind::File, false), (Kind::File, true), (LOOP, false)] {
            shapes.push(Shape {
                level,
                write_hole,
                kind,
                shards: 1,
                heeds_dsync,
                held: (1, 4),
            });
        }
    }
    if !is_root("shapes on loop devices") {
        shapes.retain(|shape| matches!(shape.kind, Kind::File));
    }
    shapes
}

/// Carries out one request; returns it with the moments at which it was sent and answered.
fn ask(
    rig: &Rig,
    client: &mut nbd::Client,
    promise: &mut Promise,
    kind: (u16, u16),
    sectors: (usize, usize),
) -> Kept {
    let request = promise.begin_this(kind, sectors.0, sectors.1);
    let data = match kind.0 {
        nbd::WRITE => promise.content(request.first, request.count, request.version),
        _ => Vec::new(),
    };
    let sent = rig.fs.moment();
    let length = (request.count * SECTOR_BYTES) as u32;
    let reply = client.simple(kind, at(request.first), length, &data);
    let answered = rig.fs.moment();
    assert_eq!(reply, Ok(()), "{request:?}");
    promise.succeeded(&request);
    Kept {
        request,
        sent,
        answered,
    }
}

/// Judges the journal by one request, on an array that has been whole all the time.
#[track_caller]
fn judge(rig: &Rig, journal: &[Entry], promise: &Promise, kept: Kept) {
    let members: Vec<usize> = (0..rig.shape.members()).collect();
    let case = Case {
        shape: &rig.shape,
        journal,
        members: &members,
        is_whole: true,
        begins_at_rest: true,
    };
    case.judge(promise, &[kept])
        .unwrap_or_else(|sentence| panic!("{:?}: {sentence}", rig.shape));
}

#[test]
fn a_fua_write_is_durable_on_each_member_that_holds_it_before_it_is_answered() {
    for shape in shapes() {
        let rig = Rig::new(shape, 0, 1);
        let server = rig.serve(&rig.drives());
        let mut client = server.client("data");
        let mut promise = Promise::new(client.size_bytes, 512, 1);
        // Part of a chunk, one sector, and more than a row.
        for sectors in [(8, 8), (1000, 1), (160, 300)] {
            let kind = (nbd::WRITE, nbd::FLAG_FUA);
            let kept = ask(&rig, &mut client, &mut promise, kind, sectors);
            judge(&rig, &rig.fs.journal(), &promise, kept);
        }
        server.kill();
    }
}

/// Zeroed sectors carry no tag. As no other request runs meanwhile, all writes to the members belong to the zeroing.
#[test]
fn zeroes_with_fua_are_durable_on_each_member_before_they_are_answered() {
    for shape in shapes() {
        let rig = Rig::new(shape, 0, 4);
        let server = rig.serve(&rig.drives());
        let mut client = server.client("data");
        let mut promise = Promise::new(client.size_bytes, 512, 4);
        ask(&rig, &mut client, &mut promise, (nbd::WRITE, 0), (0, 600));
        ask(&rig, &mut client, &mut promise, (nbd::FLUSH, 0), (0, 0));
        for sectors in [(8, 8), (100, 1), (160, 300)] {
            let kind = (nbd::WRITE_ZEROES, nbd::FLAG_FUA);
            let kept = ask(&rig, &mut client, &mut promise, kind, sectors);
            let journal = rig.fs.journal();
            let came = journal.iter().filter(|entry| {
                entry.changes() && (kept.sent..kept.answered).contains(&entry.arrived)
            });
            let mut changed = std::collections::BTreeSet::new();
            for entry in came {
                changed.insert(entry.file);
                let is_durable = entry.is_durable_at(kept.answered);
                assert!(is_durable, "{:?}: {}", rig.shape, brief(entry));
            }
            assert!(changed.len() >= 2, "{:?}: {changed:?}", rig.shape);
        }
        server.kill();
    }
}

#[test]
fn a_flush_makes_everything_durable_on_each_member_before_it_is_answered() {
    for shape in shapes() {
        let rig = Rig::new(shape, 0, 2);
        let server = rig.serve(&rig.drives());
        let mut client = server.client("data");
        let mut promise = Promise::new(client.size_bytes, 512, 2);
        for round in 0..3 {
            for part in 0..4 {
                let sectors = (part * 64 + round * 8, 40);
                ask(&rig, &mut client, &mut promise, (nbd::WRITE, 0), sectors);
            }
            ask(
                &rig,
                &mut client,
                &mut promise,
                (nbd::WRITE_ZEROES, 0),
                (2048, 64),
            );
            ask(&rig, &mut client, &mut promise, (nbd::TRIM, 0), (4096, 256));
            let kept = ask(&rig, &mut client, &mut promise, (nbd::FLUSH, 0), (0, 0));
            let journal = rig.fs.journal();
            for member in 0..rig.shape.members() {
                let is_changed = journal
                    .iter()
                    .any(|entry| entry.file == member && entry.changes());
                assert!(is_changed, "{:?}: nothing came to d{member}", rig.shape);
            }
            judge(&rig, &journal, &promise, kept);
        }
        server.kill();
    }
}

#[test]
fn records_go_to_one_half_at_a_time_and_each_is_durable_before_the_next() {
    for shape in shapes() {
        let level = shape.level;
        let rig = Rig::new(shape, 1, 3);
        let count = rig.shape.members();
        let drives = rig.drives();
        let server = rig.serve(&drives[..count]);
        let mut client = server.client("data");
        // Each of these updates the record: dirty, failed, spare in the slot, rebuilt, clean.
        client.write(0, &[1; 4096]).expect("it is written");
        server.order(&["fail", "data:1"]).ok();
        server.wait_event("failure-recorded", "", 20);
        server
            .order(&["add-spare", &drives[count].display().to_string()])
            .ok();
        server.wait_event("job-ended", "rebuild finished", 30);
        server.stop();
        let journal = rig.fs.journal();
        // The drives that were members all the time.
        let members: Vec<usize> = (0..count).filter(|member| *member != 1).collect();
        let case = Case {
            shape: &rig.shape,
            journal: &journal,
            members: &members,
            is_whole: false,
            begins_at_rest: true,
        };
        let promise = Promise::new(0, 512, 0);
        case.judge(&promise, &[])
            .unwrap_or_else(|sentence| panic!("{:?}: {sentence}", rig.shape));
        let records = journal
            .iter()
            .filter(|entry| entry.file == 0 && entry.operation == Operation::Write);
        let generations: Vec<u32> = records.filter_map(generation_of).collect();
        assert!(generations.len() >= 4, "RAID {level}: {generations:?}");
        let all: Vec<String> = journal
            .iter()
            .filter(|entry| generation_of(entry).is_some())
            .map(brief)
            .collect();
        assert!(generations.is_sorted(), "{all:#?}");
    }
}

/// If two flushes through the page cache run at the same time, the kernel reports a lost write-back to only one.
/// `drives::flushes` reports it to both, and only helpers flush through it.
#[test]
fn files_that_go_through_the_page_cache_are_flushed_by_helpers() {
    if !is_root("files_that_go_through_the_page_cache_are_flushed_by_helpers") {
        return;
    }
    let bed = Bed::new(1, 64 * MIB);
    let device = Loop::over(bed.drive(0), &["--sector-size", "4096"]);
    run(tool("mkfs.ext4").arg("-q").arg(device.device()), 30).ok();
    let path = device.device().display().to_string();
    let mount = Mount::new(&[&path], &bed.path("mounted"));
    let members: Vec<_> = ["d0", "d1"].map(|name| mount.place().join(name)).to_vec();
    for member in &members {
        let file = std::fs::File::create(member).expect("room for a file");
        file.set_len(DRIVE_BYTES).expect("room for a file");
    }
    bed.create("data", 1, &members, &[]);
    let server = bed.serve(&members).start();
    // The volume has sectors of 512 bytes, but this file system takes direct I/O only in multiples of 4096.
    assert!(
        server.words().contains("the page cache is used"),
        "{}",
        server.words()
    );
    for member in server.at_start["members"].as_array().expect("members") {
        assert_eq!(member["io_path"], "helpers", "{member}");
    }
    let mut client = server.client("data");
    client.write(0, &[3; 4096]).expect("it is written");
    client.flush().expect("it is flushed");
    assert_eq!(client.read(0, 4096), Ok(vec![3; 4096]));
    server.stop();
    mount.end();
}
