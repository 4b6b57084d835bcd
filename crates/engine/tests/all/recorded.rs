//! Ranges in the bad-block log: what the drive holds there is never used, the next write over a range clears it, and a
//! rebuild records what it cannot reconstruct.

use crate::memory::client::Client;
use crate::memory::{Array, Disk, Random, geometry, record};
use engine::control::bad_blocks::{BadBlocks, BadRange};
use engine::control::message::Command;
use engine::control::record::{Record, SyncKind};
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::limits::{BAD_BLOCK_ENTRIES_MAX, GRAIN_BYTES};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Slot, VolumeId};

const GRAIN: u64 = GRAIN_BYTES as u64;

fn shapes() -> [Geometry; 5] {
    [
        geometry(Level::Raid1, 2, 64 << 10, 88),
        geometry(Level::Raid1, 3, 64 << 10, 88),
        geometry(Level::Raid10, 4, 32 << 10, 12),
        geometry(Level::Raid5, 4, 32 << 10, 12),
        geometry(Level::Raid5, 3, 512 << 10, 3),
    ]
}

fn range(shape: &Geometry, member: u8, row: u64, in_chunk: u64, length_bytes: u64) -> BadRange {
    BadRange {
        member: MemberId(member),
        offset_bytes: shape.member_offset_bytes(row, in_chunk as u32),
        length_bytes,
    }
}

/// Drives full of content but for `ranges`, which hold wrong bytes, and a record that lists these.
fn planted(shape: Geometry, spares: u8, ranges: &[BadRange]) -> (Record, Vec<Disk>, Vec<u8>) {
    let mut array = Array::new(record(shape, spares, None), 1, 1, Options::default());
    let mut random = Random(7);
    let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
    for (at, piece) in content.chunks(1 << 20).enumerate() {
        array.write(0, (at as u64) << 20, piece).expect("written");
    }
    let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
    let mut record = record(shape, spares, None);
    for range in ranges {
        let (from, to) = (range.offset_bytes as usize, range.end_bytes() as usize);
        disks[range.member.0 as usize].bytes[from..to].fill(0xEE);
        record.bad_blocks.add(*range).unwrap();
    }
    for disk in &mut disks {
        disk.record = Some(record.clone());
        disk.unflushed.clear();
    }
    (record, disks, content)
}

fn check(array: &mut Array, content: &[u8]) {
    for (at, expected) in content.chunks(512 << 10).enumerate() {
        let shard = at % array.shards.len();
        let offset = (at as u64) * (512 << 10);
        let got = array.read(shard, offset, expected.len() as u32);
        assert!(got.expect("readable") == expected, "content at {offset}");
    }
}

fn wanted(array: &Array) -> &Record {
    array.shards[0].engine.controller().unwrap().wanted()
}

/// What every drive's own record says is bad.
fn on_record(array: &Array, members: u8) -> Vec<BadBlocks> {
    let shared = array.shared.borrow();
    let disks = shared.disks[..usize::from(members)].iter();
    let own = |disk: &Disk| disk.record.as_ref().unwrap().bad_blocks.clone();
    disks.map(own).collect()
}

fn lost(offset_bytes: u64) -> Result<Vec<u8>, Failure> {
    Err(Failure::Unrecoverable { offset_bytes })
}

/// How the first job of a kind ended: complete, failures.
fn job_end(array: &mut Array, wanted: JobName) -> (bool, u64) {
    let mut found = None;
    array.run_until(|array| {
        let shared = array.shared.borrow();
        found = shared.events.iter().find_map(|event| match *event {
            Event::JobEnded {
                job,
                complete,
                failures,
                ..
            } if job == wanted => Some((complete, failures)),
            _ => None,
        });
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn recorded_ranges_are_never_believed_and_a_scrub_makes_them_good() {
    for shape in shapes() {
        for shards in 1..=3 {
            let members = u64::from(shape.members);
            let plant = |row: u64| {
                let in_chunk = row % 8 * GRAIN + 512;
                range(&shape, (row % members) as u8, row, in_chunk, 1024)
            };
            let ranges: Vec<_> = (0..shape.rows()).map(plant).collect();
            let (record, disks, content) = planted(shape, 0, &ranges);
            let options = Options::default();
            let mut array = Array::over(record, disks, shards, 3, options, shape);
            check(&mut array, &content);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
            assert!(wanted(&array).bad_blocks.is_empty(), "{shape:?}");
            for own in on_record(&array, shape.members) {
                assert!(own.is_empty());
            }
            assert_eq!(array.shared.borrow().early_clears, 0);
            array.shared.borrow_mut().disks[1].gone = true;
            check(&mut array, &content);
        }
    }
}

#[test]
fn a_read_that_meets_a_recorded_range_repairs_it() {
    let shape = geometry(Level::Raid5, 4, 32 << 10, 12);
    let slot = shape.data_slots(5, 0).iter().next().unwrap();
    let bad = range(&shape, slot.0, 5, 2 * GRAIN, GRAIN);
    let (record, disks, content) = planted(shape, 0, &[bad]);
    let mut array = Array::over(record, disks, 2, 3, Options::default(), shape);
    check(&mut array, &content);
    assert!(array.has_event(|event| *event == Event::BadBlocksCleared(bad)));
    assert!(wanted(&array).bad_blocks.is_empty());
}

#[test]
fn without_redundancy_a_recorded_range_is_an_error_until_it_is_written() {
    let stripes = geometry(Level::Raid0, 2, 32 << 10, 8);
    let mirror = geometry(Level::Raid1, 2, 64 << 10, 88);
    for (shape, is_degraded) in [(stripes, false), (mirror, true)] {
        for shards in 1..=2 {
            let bad = range(&shape, 0, 3, GRAIN, GRAIN);
            let offset = 3 * shape.row_bytes() + GRAIN;
            let (record, mut disks, _) = planted(shape, 0, &[bad]);
            disks[1].gone = is_degraded;
            let mut array = Array::over(record, disks, shards, 3, Options::default(), shape);
            array.read(0, 0, 4096).unwrap();
            let last = shards as usize - 1;
            assert_eq!(array.read(last, offset + 512, 512), lost(offset + 512));
            array.read(0, offset - 512, 512).unwrap();
            array.read(last, offset + GRAIN, 512).unwrap();
            // Half of the range is written, and then the rest.
            array.write(last, offset, &[1; 2048]).unwrap();
            assert!(!on_record(&array, 1)[0].touch(MemberId(0), bad.offset_bytes, 2048));
            assert_eq!(array.read(0, offset, 2048).unwrap(), [1; 2048]);
            assert_eq!(array.read(0, offset + 2048, 512), lost(offset + 2048));
            array.write(0, offset + 2048, &[2; 2048]).unwrap();
            assert!(on_record(&array, 1)[0].is_empty());
            assert_eq!(array.read(last, offset + 2048, 2048).unwrap(), [2; 2048]);
            assert_eq!(array.shared.borrow().early_clears, 0);
        }
    }
}

#[test]
fn zeroes_make_a_recorded_range_good_and_a_trim_does_not() {
    let shape = geometry(Level::Raid0, 2, 32 << 10, 8);
    let bad = range(&shape, 0, 3, GRAIN, GRAIN);
    let offset = 3 * shape.row_bytes() + GRAIN;
    let (record, disks, _) = planted(shape, 0, &[bad]);
    let mut array = Array::over(record, disks, 1, 3, Options::default(), shape);
    let buffer = array.allocate(GRAIN);
    let tag = array.submit(0, Operation::Trim, offset, GRAIN_BYTES, buffer);
    array.finish(tag).unwrap();
    assert_eq!(array.read(0, offset, GRAIN_BYTES), lost(offset));
    let zeroes = Operation::WriteZeroes {
        keep_allocated: true,
        only_if_fast: false,
    };
    let tag = array.submit(0, zeroes, offset, GRAIN_BYTES, buffer);
    array.finish(tag).unwrap();
    assert!(on_record(&array, 2).iter().all(BadBlocks::is_empty));
    assert_eq!(array.read(0, offset, GRAIN_BYTES).unwrap(), [0; 4096]);
}

/// If the write were acknowledged earlier, reading it after a crash would be an error.
#[test]
fn a_write_over_a_recorded_range_waits_for_the_record() {
    for shape in [
        geometry(Level::Raid0, 2, 32 << 10, 8),
        geometry(Level::Raid1, 2, 64 << 10, 88),
        geometry(Level::Raid5, 3, 32 << 10, 8),
    ] {
        let slot = shape.data_slots(3, 0).iter().next().unwrap();
        let bad = range(&shape, slot.0, 3, 0, GRAIN);
        let (record, disks, _) = planted(shape, 0, &[bad]);
        let mut array = Array::over(record, disks, 2, 3, Options::default(), shape);
        // Marks the volume dirty first.
        array.write(0, 0, &[3; 512]).unwrap();
        array.shared.borrow_mut().hold_persists = true;
        let offset = 3 * shape.row_bytes();
        let buffer = array.allocate(GRAIN);
        array.fill(buffer, &[9; 4096]);
        let tag = array.submit(0, Operation::Write, offset, GRAIN_BYTES, buffer);
        array.wait_ms(200);
        assert_eq!(array.take_completion(tag), None, "{shape:?}");
        // Other writes do not wait.
        array.write(1, 4 * shape.row_bytes(), &[4; 512]).unwrap();
        assert_eq!(array.take_completion(tag), None, "{shape:?}");
        array.run_until(|array| {
            array.release_persists();
            !array.shared.borrow().flights.contains_key(&tag)
        });
        assert_eq!(array.take_completion(tag), Some(Ok(())));
        assert!(on_record(&array, 2).iter().all(BadBlocks::is_empty));
        assert_eq!(array.shared.borrow().early_clears, 0);
    }
}

/// A shard with the old view would still answer reads of the range with errors.
#[test]
fn a_write_over_a_recorded_range_waits_for_the_other_shards() {
    let shape = geometry(Level::Raid0, 2, 32 << 10, 8);
    let bad = range(&shape, 0, 3, 0, GRAIN);
    let (record, disks, _) = planted(shape, 0, &[bad]);
    let mut array = Array::over(record, disks, 2, 3, Options::default(), shape);
    array.wait_ms(100);
    let offset = 3 * shape.row_bytes();
    let buffer = array.allocate(GRAIN);
    let tag = array.submit(0, Operation::Write, offset, GRAIN_BYTES, buffer);
    for _ in 0..1000 {
        array.shards[0].turn();
        array.shared.borrow_mut().now += 10_000;
    }
    assert!(on_record(&array, 2).iter().all(BadBlocks::is_empty));
    assert_eq!(array.take_completion(tag), None);
    array.finish(tag).unwrap();
    array.read(1, offset, GRAIN_BYTES).unwrap();
}

#[test]
fn a_drive_that_fails_while_its_record_is_cleared_is_a_failed_member() {
    let shape = geometry(Level::Raid5, 4, 32 << 10, 12);
    let slot = shape.data_slots(3, 0).iter().next().unwrap();
    let bad = range(&shape, slot.0, 3, 0, GRAIN);
    for flush_fails in [true, false] {
        let (record, disks, mut content) = planted(shape, 0, &[bad]);
        let mut array = Array::over(record, disks, 2, 3, Options::default(), shape);
        array.write(0, 0, &content[..512]).unwrap();
        let offset = 3 * shape.row_bytes();
        if flush_fails {
            array.shared.borrow_mut().disks[slot.0 as usize].flushes_fail = true;
        } else {
            array.shared.borrow_mut().hold_persists = true;
        }
        let buffer = array.allocate(GRAIN);
        array.fill(buffer, &[9; 4096]);
        let tag = array.submit(0, Operation::Write, offset, GRAIN_BYTES, buffer);
        if !flush_fails {
            array.wait_ms(100);
            array.shared.borrow_mut().disks[slot.0 as usize].gone = true;
            let touch = array.submit(0, Operation::Read, offset + 65536, 4096, buffer.at(0));
            array.wait_ms(100);
            array.release_persists();
            array.finish(touch).unwrap();
        }
        array.finish(tag).unwrap();
        content[offset as usize..][..4096].fill(9);
        if flush_fails {
            let failed = |event: &Event| matches!(event, Event::MemberFailed { member, .. } if member.0 == slot.0);
            assert!(array.has_event(failed));
        }
        check(&mut array, &content);
    }
}

/// Makes 512 bytes unreadable: member, row, offset in the chunk.
fn spoil(array: &Array, member: usize, row: u64, in_chunk: u64) {
    let from = array.shape.member_offset_bytes(row, in_chunk as u32);
    array.shared.borrow_mut().disks[member]
        .bad
        .push((from, from + 512));
}

#[test]
fn a_rebuild_records_what_it_cannot_have_and_goes_on() {
    for (shape, failed, source) in [
        (geometry(Level::Raid5, 4, 128 << 10, 6), 2, 0),
        (geometry(Level::Raid5, 3, 512 << 10, 3), 0, 2),
        (geometry(Level::Raid1, 2, 64 << 10, 88), 1, 0),
        (geometry(Level::Raid10, 4, 256 << 10, 5), 3, 2),
    ] {
        for shards in 1..=3 {
            let (record, disks, mut content) = planted(shape, 1, &[]);
            let mut array = Array::over(record, disks, shards, 3, Options::default(), shape);
            spoil(&array, source, 1, 3 * GRAIN + 512);
            spoil(&array, source, 2, GRAIN);
            array.command(Command::Fail(MemberId(failed))).unwrap();
            assert_eq!(job_end(&mut array, JobName::Rebuild), (true, 2));
            let spare = shape.members;
            let recorded = [
                range(&shape, spare, 1, 3 * GRAIN, GRAIN),
                range(&shape, spare, 2, GRAIN, GRAIN),
            ];
            assert_eq!(wanted(&array).bad_blocks.ranges(), recorded, "{shape:?}");
            assert!(array.has_event(|event| *event == Event::BadBlocksRecorded(recorded[0])));
            // No record says that the drive is filled beyond a lost range that it does not list.
            for (_, record) in &array.shared.borrow().persists {
                let volume = &record.volumes[0];
                let is_there = volume.slots[failed as usize].member == Some(MemberId(spare));
                let filled = volume.sync.map_or(u64::MAX, |sync| sync.done_bytes);
                for range in recorded.iter().filter(|_| is_there) {
                    let from = range.offset_bytes - shape.start_bytes;
                    let listed = record.bad_blocks.touch(range.member, range.offset_bytes, 1);
                    assert!(listed || filled <= from, "{shape:?}: {filled}");
                }
            }
            // The next process knows the same, from the record.
            let after = wanted(&array).clone();
            let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
            let mut array = Array::over(after, disks, shards, 4, Options::default(), shape);
            let mut errors = 0;
            for at in 0..shape.size_bytes / GRAIN {
                let offset = at * GRAIN;
                match array.read(0, offset, GRAIN_BYTES) {
                    Ok(bytes) => assert!(bytes == content[offset as usize..][..4096]),
                    Err(failure) => {
                        assert_eq!(Err(failure), lost(offset));
                        errors += 1;
                    }
                }
            }
            assert!((1..=4).contains(&errors), "{errors}: {shape:?}");
            // Rows that are written over can be read again.
            content.iter_mut().for_each(|byte| *byte ^= 0x55);
            for (at, piece) in content.chunks(shape.row_bytes() as usize).enumerate() {
                array
                    .write(0, at as u64 * shape.row_bytes(), piece)
                    .unwrap();
            }
            assert!(wanted(&array).bad_blocks.is_empty(), "{shape:?}");
            check(&mut array, &content);
            assert_eq!(array.scrub(false), 0);
            assert_eq!(array.shared.borrow().early_clears, 0);
        }
    }
}

/// A second rebuild from a drive of which something is on record as lost.
#[test]
fn a_recorded_range_of_a_source_is_lost_on_the_new_drive_too() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 88);
    let bad = range(&shape, 0, 4, 5 * GRAIN, GRAIN);
    let (record, disks, content) = planted(shape, 1, &[bad]);
    let mut array = Array::over(record, disks, 1, 3, Options::default(), shape);
    array.command(Command::Fail(MemberId(1))).unwrap();
    assert_eq!(job_end(&mut array, JobName::Rebuild), (true, 1));
    let copied = range(&shape, 2, 4, 5 * GRAIN, GRAIN);
    assert_eq!(wanted(&array).bad_blocks.ranges(), [bad, copied]);
    let offset = 4 * shape.row_bytes() + 5 * GRAIN;
    assert_eq!(array.read(0, offset, 4096), lost(offset));
    check(&mut array, &content[..offset as usize]);
    array.write(0, offset, &[5; 4096]).unwrap();
    assert!(wanted(&array).bad_blocks.is_empty());
}

#[test]
fn a_drive_replaced_in_a_degraded_array_takes_what_there_is() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 6);
    let (record, disks, content) = planted(shape, 1, &[]);
    let options = Options {
        auto_rebuild: false,
        ..Options::default()
    };
    let mut array = Array::over(record, disks, 2, 3, options, shape);
    array.command(Command::Fail(MemberId(3))).unwrap();
    spoil(&array, 1, 2, 4 * GRAIN);
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: MemberId(4),
    };
    array.command(order).unwrap();
    assert_eq!(job_end(&mut array, JobName::Replace), (true, 1));
    let recorded = range(&shape, 4, 2, 4 * GRAIN, GRAIN);
    assert_eq!(wanted(&array).bad_blocks.ranges(), [recorded]);
    let mut errors = 0;
    for at in 0..shape.size_bytes / GRAIN {
        let offset = at * GRAIN;
        match array.read(0, offset, GRAIN_BYTES) {
            Ok(bytes) => assert!(bytes == content[offset as usize..][..4096]),
            Err(failure) => {
                assert_eq!(Err(failure), lost(offset));
                errors += 1;
            }
        }
    }
    assert!(errors == 1 || errors == 2, "{errors}");
}

#[test]
fn a_rebuild_ends_before_its_time_when_the_log_is_full() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 6);
    let (mut record, disks, content) = planted(shape, 1, &[]);
    record.bad_blocks = BadBlocks::new(BAD_BLOCK_ENTRIES_MAX as usize - 1);
    let mut array = Array::over(record, disks, 2, 3, Options::default(), shape);
    spoil(&array, 0, 1, 3 * GRAIN);
    spoil(&array, 0, 4, 3 * GRAIN);
    array.command(Command::Fail(MemberId(2))).unwrap();
    let (complete, failures) = job_end(&mut array, JobName::Rebuild);
    assert!(!complete && failures > 0);
    let full = |event: &Event| matches!(event, Event::BadBlockLogFull(MemberId(4)));
    assert!(array.has_event(full));
    assert!(wanted(&array).volumes[0].sync.is_none());
    check(&mut array, &content[..shape.row_bytes() as usize]);
}

#[test]
fn a_mirror_resynced_after_a_crash_goes_around_recorded_ranges() {
    for shape in [
        geometry(Level::Raid1, 2, 64 << 10, 88),
        geometry(Level::Raid10, 4, 256 << 10, 5),
    ] {
        let ranges = [
            range(&shape, 0, 1, 2 * GRAIN, GRAIN),
            range(&shape, 1, 2, 512, 1024),
        ];
        let (planted_record, disks, content) = planted(shape, 0, &ranges);
        let mut crashed = record(shape, 0, Some(SyncKind::Resync));
        crashed.bad_blocks = planted_record.bad_blocks;
        let mut array = Array::over(crashed, disks, 2, 3, Options::default(), shape);
        assert_eq!(job_end(&mut array, JobName::Resync), (true, 0));
        assert!(wanted(&array).bad_blocks.is_empty());
        check(&mut array, &content);
        assert_eq!(array.scrub(false), 0);
    }
}

#[test]
fn under_load_no_recorded_range_is_noticed_by_clients() {
    for shape in shapes() {
        for seed in 0..3 {
            let members = u64::from(shape.members);
            let mut random = Random(seed);
            // Each grain of a row is bad on at most one member.
            let mut plant = |row: u64| {
                let grains = u64::from(shape.row_height_bytes(row)) / GRAIN;
                let grain = random.below(grains);
                let member = ((row + grain) % members) as u8;
                let sector = random.below(6) * 512;
                range(&shape, member, row, grain * GRAIN + sector, 1024)
            };
            let ranges: Vec<_> = (0..shape.rows()).map(&mut plant).collect();
            let array = Array::new(record(shape, 0, None), 1, seed, Options::default());
            let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
            let mut planted = record(shape, 0, None);
            for range in ranges {
                let (from, to) = (range.offset_bytes as usize, range.end_bytes() as usize);
                disks[range.member.0 as usize].bytes[from..to].fill(0xEE);
                planted.bad_blocks.add(range).unwrap();
            }
            for disk in &mut disks {
                disk.record = Some(planted.clone());
            }
            let shards = 1 + seed as u8;
            let mut array = Array::over(planted, disks, shards, seed, Options::default(), shape);
            let mut client = Client::new(shape.size_bytes, seed);
            for _ in 0..300 {
                client.step(&mut array, 10);
            }
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?} seed {seed}");
            assert!(wanted(&array).bad_blocks.is_empty(), "{shape:?}");
            assert_eq!(array.shared.borrow().early_clears, 0);
        }
    }
}
