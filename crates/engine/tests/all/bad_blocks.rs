//! Blocks that members cannot read. Such a block affects its own grain of 4 KiB and nothing beside it, in reads, writes
//! and background work, also where two members of a row have unreadable blocks.

use crate::memory::client::Client;
use crate::memory::{Array, Random, geometry, record};
use engine::control::message::Command;
use engine::control::record::SyncKind;
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::limits::GRAIN_BYTES;
use engine::options::Options;
use engine::request::Failure;
use engine::units::{MemberId, Slot, VolumeId};

const GRAIN: u64 = GRAIN_BYTES as u64;

fn filled(shape: Geometry, spares: u8, shards: u8, seed: u64) -> (Array, Vec<u8>) {
    let mut array = Array::new(
        record(shape, spares, None),
        shards,
        seed,
        Options::default(),
    );
    let mut random = Random(seed);
    let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
    write_all(&mut array, &content);
    (array, content)
}

fn write_all(array: &mut Array, content: &[u8]) {
    for (at, piece) in content.chunks(1 << 20).enumerate() {
        array.write(0, (at as u64) << 20, piece).expect("written");
    }
}

/// Makes 512 bytes unreadable: member, row, offset in the chunk.
fn spoil(array: &Array, member: usize, row: u64, in_chunk: u64) {
    let from = array.shape.member_offset_bytes(row, in_chunk as u32);
    array.shared.borrow_mut().disks[member]
        .bad
        .push((from, from + 512));
}

fn bad_blocks(array: &Array) -> usize {
    let shared = array.shared.borrow();
    shared.disks.iter().map(|disk| disk.bad.len()).sum()
}

fn check(array: &mut Array, content: &[u8]) {
    for (at, expected) in content.chunks(512 << 10).enumerate() {
        let shard = at % array.shards.len();
        let offset = (at as u64) * (512 << 10);
        let got = array.read(shard, offset, expected.len() as u32);
        assert!(got.expect("readable") == expected, "content at {offset}");
    }
}

fn no_member_failed(array: &Array) -> bool {
    !array.has_event(|event| matches!(event, Event::MemberFailed { .. }))
}

/// How the first job ended: complete, mismatches, failures.
fn job_end(array: &mut Array, wanted: JobName) -> (bool, u64, u64) {
    let mut found = None;
    array.run_until(|array| {
        let shared = array.shared.borrow();
        found = shared.events.iter().find_map(|event| match *event {
            Event::JobEnded {
                job,
                complete,
                mismatches,
                failures,
                ..
            } if job == wanted => Some((complete, mismatches, failures)),
            _ => None,
        });
        found.is_some()
    });
    found.unwrap()
}

/// RAID 5 with chunks of one band, of several bands, and of less than a band.
fn parity_shapes() -> [Geometry; 3] {
    [
        geometry(Level::Raid5, 4, 128 << 10, 6),
        geometry(Level::Raid5, 3, 512 << 10, 3),
        geometry(Level::Raid5, 5, 32 << 10, 12),
    ]
}

#[test]
fn writes_beside_bad_blocks_of_two_members_succeed() {
    for shape in parity_shapes() {
        for (shards, seed) in [(1, 1), (3, 2)] {
            let (mut array, mut content) = filled(shape, 0, shards, seed);
            for row in 0..shape.rows() {
                let members = shape.members as usize;
                spoil(&array, row as usize % members, row, GRAIN + 512);
                spoil(&array, (row as usize + 1) % members, row, 4 * GRAIN);
                spoil(&array, (row as usize + 2) % members, row, 7 * GRAIN - 512);
            }
            // A write that does not fill its row reads the old data of its range, or the other chunks' data.
            let chunk = u64::from(shape.chunk_bytes);
            for row in 0..shape.rows() {
                for (at, length) in [(0, chunk), (512, chunk - 512), (chunk / 2, chunk)] {
                    let offset = row * shape.row_bytes() + at;
                    let bytes: Vec<u8> = (0..length).map(|at| (at ^ row) as u8).collect();
                    let shard = row as usize % shards as usize;
                    assert_eq!(array.write(shard, offset, &bytes), Ok(()), "row {row}");
                    content[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
            }
            check(&mut array, &content);
            assert_eq!(array.scrub(false), 0, "parity matches its data: {shape:?}");
            assert_eq!(bad_blocks(&array), 0, "{shape:?}");
            assert!(no_member_failed(&array));
            // Parity replaces any one member.
            array.shared.borrow_mut().disks[seed as usize].gone = true;
            check(&mut array, &content);
        }
    }
}

/// If the read were only answered from another copy, the block would stay unreadable until that copy is lost too.
#[test]
fn a_block_that_a_read_met_is_repaired_whichever_mirror_it_is_on() {
    for shape in [
        geometry(Level::Raid1, 2, 64 << 10, 12),
        geometry(Level::Raid1, 4, 64 << 10, 12),
        geometry(Level::Raid10, 4, 32 << 10, 12),
        geometry(Level::Raid5, 4, 32 << 10, 12),
    ] {
        for shards in 1..=3 {
            let (mut array, content) = filled(shape, 0, shards, 11);
            for row in 0..shape.rows() {
                let copies = shape.data_slots(row, 0).count() as u64;
                let member = shape.data_slots(row, 0).iter().nth((row % copies) as usize);
                spoil(&array, member.unwrap().0 as usize, row, row % 8 * GRAIN);
            }
            let all = bad_blocks(&array);
            check(&mut array, &content);
            let repairs = |shard: &engine::turn::Shard<_>| shard.engine.stats().read_repairs;
            let repaired: u64 = array.shards.iter().map(repairs).sum();
            assert_eq!(repaired, (all - bad_blocks(&array)) as u64);
            assert!(
                repaired >= shape.rows(),
                "{repaired}: {shape:?} on {shards} shards"
            );
            assert!(no_member_failed(&array));
        }
    }
}

#[test]
fn a_scrub_heals_every_grain_that_something_is_left_of() {
    let mirrors = [
        geometry(Level::Raid1, 2, 64 << 10, 33),
        geometry(Level::Raid1, 3, 64 << 10, 33),
        geometry(Level::Raid10, 4, 256 << 10, 5),
    ];
    for shape in parity_shapes().into_iter().chain(mirrors) {
        for shards in [1, 2] {
            let (mut array, content) = filled(shape, 0, shards, 5);
            for row in 0..shape.rows() {
                let grains = u64::from(shape.row_height_bytes(row)) / GRAIN;
                for member in 0..shape.members as u64 {
                    spoil(&array, member as usize, row, (member * 3) % grains * GRAIN);
                }
            }
            if (shape.level, shape.members) == (Level::Raid1, 3) {
                // Two of the three copies of one grain are unreadable.
                spoil(&array, 0, 0, 40 * GRAIN + 512);
                spoil(&array, 1, 0, 40 * GRAIN + 1024);
            }
            assert_eq!(array.scrub(false), 0, "{shape:?}");
            assert_eq!(job_end(&mut array, JobName::Check), (true, 0, 0));
            assert_eq!(bad_blocks(&array), 0, "{shape:?}");
            let repaired = |event: &Event| matches!(event, Event::ReadRepaired { length_bytes, .. } if *length_bytes == GRAIN_BYTES);
            assert!(array.has_event(repaired));
            check(&mut array, &content);
        }
    }
}

#[test]
fn a_scrub_that_meets_bad_blocks_still_compares_what_lies_beside_them() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 4);
    let (mut array, content) = filled(shape, 0, 1, 6);
    let parity = shape.parity_slot(1).unwrap().0 as usize;
    let wrong = shape.member_offset_bytes(1, 9 * GRAIN_BYTES) as usize;
    for repair in [false, true] {
        spoil(&array, 0, 1, 3 * GRAIN);
        spoil(&array, 1, 1, 20 * GRAIN);
        array.shared.borrow_mut().disks[parity].bytes[wrong] ^= 0x10;
        assert_eq!(array.scrub(repair), 1);
        assert_eq!(bad_blocks(&array), 0);
        if !repair {
            array.shared.borrow_mut().disks[parity].bytes[wrong] ^= 0x10;
        }
    }
    assert_eq!(array.scrub(false), 0);
    check(&mut array, &content);
}

#[test]
fn a_scrub_counts_what_it_cannot_heal_once_and_goes_on() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 4);
    for repair in [false, true] {
        let (mut array, _) = filled(shape, 0, 1, 7);
        for grain in [3, 11] {
            spoil(&array, 0, 2, grain * GRAIN);
            spoil(&array, 1, 2, grain * GRAIN);
        }
        spoil(&array, 2, 2, 12 * GRAIN);
        let parity = shape.parity_slot(2).unwrap().0 as usize;
        let wrong = shape.member_offset_bytes(2, 13 * GRAIN_BYTES) as usize;
        array.shared.borrow_mut().disks[parity].bytes[wrong] ^= 1;
        assert_eq!(array.scrub(repair), 1);
        let name = if repair {
            JobName::Repair
        } else {
            JobName::Check
        };
        assert_eq!(job_end(&mut array, name), (true, 1, 1));
        assert_eq!(bad_blocks(&array), 4, "the blocks that cannot be healed");
        let lost = |event: &Event| {
            let at = |grain: u64| 2 * shape.row_bytes() + grain * GRAIN;
            matches!(event, Event::Unrecoverable { offset_bytes, .. }
                if [at(3), at(11)].contains(offset_bytes))
        };
        assert!(array.has_event(lost));
    }
}

#[test]
fn a_drive_is_replaced_around_its_own_bad_blocks_and_those_of_others() {
    for shape in parity_shapes() {
        let (mut array, content) = filled(shape, 1, 2, 8);
        for row in 0..shape.rows() {
            spoil(&array, 1, row, 2 * GRAIN);
            spoil(&array, 0, row, 5 * GRAIN);
            spoil(&array, 2, row, 6 * GRAIN);
        }
        let order = Command::Replace {
            volume: VolumeId(0),
            slot: Slot(1),
            to: MemberId(shape.members),
        };
        assert_eq!(array.command(order), Ok(()));
        assert_eq!(job_end(&mut array, JobName::Replace), (true, 0, 0));
        array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
        check(&mut array, &content);
        assert_eq!(array.scrub(false), 0);
    }
}

#[test]
fn a_mirror_of_three_is_rebuilt_from_two_with_bad_blocks() {
    let shape = geometry(Level::Raid1, 3, 64 << 10, 40);
    let (mut array, content) = filled(shape, 1, 1, 9);
    for row in 0..shape.rows() {
        spoil(&array, 0, row, 3 * GRAIN);
        spoil(&array, 1, row, 4 * GRAIN);
    }
    array.command(Command::Fail(MemberId(2))).unwrap();
    assert_eq!(job_end(&mut array, JobName::Rebuild), (true, 0, 0));
    {
        let mut shared = array.shared.borrow_mut();
        (0..2).for_each(|at| shared.disks[at].gone = true);
    }
    check(&mut array, &content);
}

#[test]
fn mirrors_are_resynced_around_bad_blocks() {
    for shape in [
        geometry(Level::Raid1, 2, 64 << 10, 33),
        geometry(Level::Raid10, 4, 256 << 10, 5),
    ] {
        let (array, content) = filled(shape, 0, 1, 11);
        let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
        for row in 0..shape.rows() {
            for (member, grain) in [(0, 1), (1, 2), (0, 10), (1, 9)] {
                let from = shape.member_offset_bytes(row, grain * GRAIN_BYTES);
                disks[member].bad.push((from, from + 512));
            }
        }
        let record = record(shape, 0, Some(SyncKind::Resync));
        let mut array = Array::over(record, disks, 2, 12, Options::default(), shape);
        assert_eq!(job_end(&mut array, JobName::Resync), (true, 0, 0));
        check(&mut array, &content);
        assert_eq!(array.scrub(false), 0);
        assert_eq!(bad_blocks(&array), 0);
    }
}

#[test]
fn parity_is_established_around_a_band_whose_data_is_lost() {
    let shape = geometry(Level::Raid5, 4, 128 << 10, 6);
    for shards in [1, 3] {
        let (array, content) = filled(shape, 0, 1, 13);
        let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
        for row in 0..shape.rows() {
            let parity = shape.parity_slot(row).unwrap().0 as usize;
            let from = shape.member_offset_bytes(row, 0) as usize;
            disks[parity].bytes[from..from + (128 << 10)].fill(0x77);
        }
        let bad = shape.member_offset_bytes(1, 6 * GRAIN_BYTES);
        disks[0].bad.push((bad, bad + 512));
        let crashed = record(shape, 0, Some(SyncKind::Resync));
        let mut array = Array::over(crashed, disks, shards, 14, Options::default(), shape);
        assert_eq!(job_end(&mut array, JobName::Resync), (false, 0, 1));
        array.wait_ms(200);
        let on_record = |array: &Array| {
            let shared = array.shared.borrow();
            shared.disks[3].record.as_ref().unwrap().volumes[0].sync
        };
        assert!(on_record(&array).unwrap().done_bytes <= 128 << 10);
        let status = |array: &Array| {
            let controller = array.shards[0].engine.controller().unwrap();
            controller
                .job(VolumeId(0))
                .map(|job| (job.running, job.paused))
        };
        assert_eq!(status(&array), Some((false, true)));
        if shards == 1 {
            // A lost block that is written anew can be read, and the resync completes when it is resumed.
            let offset = shape.row_bytes() + 6 * GRAIN;
            let bytes = &content[offset as usize..][..4096];
            assert_eq!(array.write(0, offset, bytes), Ok(()));
            array.shared.borrow_mut().events.clear();
            let resume = Command::Pause {
                volume: VolumeId(0),
                paused: false,
            };
            array.command(resume).unwrap();
            assert_eq!(job_end(&mut array, JobName::Resync), (true, 0, 0));
        }
        array.shared.borrow_mut().disks[1].gone = true;
        let readable = never_wrong(&mut array, &content);
        let expected = if shards == 1 { 6 } else { 5 };
        assert!(readable >= expected * shape.row_bytes(), "{readable}");
    }
}

/// Reads everything in small pieces and returns how many bytes could be read. The others must be answered with errors.
fn never_wrong(array: &mut Array, content: &[u8]) -> u64 {
    let mut readable = 0;
    for (at, expected) in content.chunks(4096).enumerate() {
        match array.read(0, at as u64 * 4096, 4096) {
            Ok(bytes) => {
                assert!(bytes == expected, "wrong bytes at {}", at * 4096);
                readable += 4096;
            }
            Err(failure) => assert!(matches!(failure, Failure::Unrecoverable { .. })),
        }
    }
    readable
}

#[test]
fn parity_that_is_not_established_is_never_read_from() {
    for shards in [1, 2] {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 60);
        let (array, content) = filled(shape, 1, 1, 15);
        let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
        for row in 0..shape.rows() {
            let parity = shape.parity_slot(row).unwrap().0 as usize;
            let from = shape.member_offset_bytes(row, 0) as usize;
            disks[parity].bytes[from..from + (16 << 10)].fill(0x77);
        }
        let crashed = record(shape, 1, Some(SyncKind::Resync));
        let options = Options {
            rate_bytes_per_s: 1 << 20,
            ..Options::default()
        };
        let mut array = Array::over(crashed, disks, shards, 16, options, shape);
        array.wait_ms(400);
        array.shared.borrow_mut().disks[2].gone = true;
        let half = never_wrong(&mut array, &content);
        assert!(
            half < content.len() as u64,
            "the rest of that member is lost"
        );
        // No spare is filled from that parity either, however long one waits.
        assert!(!job_end(&mut array, JobName::Resync).0);
        array.wait_ms(2000);
        let later = never_wrong(&mut array, &content);
        // Three quarters lie on members that still serve. The rest is readable as far as the resync came in 400 ms.
        assert!(
            later >= content.len() as u64 * 3 / 4 + (10 << 14),
            "{later}"
        );
        assert!(!array.has_event(|event| matches!(event, Event::SpareActivated { .. })));
    }
}

#[test]
fn under_load_no_bad_block_is_noticed_by_clients() {
    let shapes = parity_shapes().into_iter().chain([
        geometry(Level::Raid1, 3, 64 << 10, 20),
        geometry(Level::Raid10, 4, 128 << 10, 8),
    ]);
    for shape in shapes {
        for seed in 0..3 {
            let shards = 1 + seed as u8;
            let mut array = Array::new(record(shape, 0, None), shards, seed, Options::default());
            let mut client = Client::new(shape.size_bytes, seed);
            for round in 0..400 {
                client.step(&mut array, 10);
                if round % 20 == 0 {
                    // Each grain is unreadable on at most one member, until it is healed.
                    let row = client.random.below(shape.rows());
                    let grains = u64::from(shape.row_height_bytes(row)) / GRAIN;
                    let members = u64::from(shape.members);
                    let grain = client.random.below(grains);
                    spoil(
                        &array,
                        ((row + grain) % members) as usize,
                        row,
                        grain * GRAIN,
                    );
                }
            }
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?} seed {seed}");
            assert_eq!(bad_blocks(&array), 0);
            assert!(no_member_failed(&array));
        }
    }
}

/// With one drive gone there is nothing to compare with, but everything can still be read.
#[test]
fn a_scrub_whose_member_fails_calls_nothing_lost() {
    let shapes = [
        geometry(Level::Raid1, 2, 64 << 10, 12),
        geometry(Level::Raid10, 4, 32 << 10, 12),
        geometry(Level::Raid5, 4, 32 << 10, 12),
    ];
    for (shape, turns) in shapes
        .into_iter()
        .flat_map(|shape| (0..12).map(move |at| (shape, at)))
    {
        let (mut array, content) = filled(shape, 0, 1 + turns % 3, 21);
        (0..shape.rows()).for_each(|row| spoil(&array, 1, row, row % 8 * GRAIN));
        array.shared.borrow_mut().events.clear();
        let (volume, repair) = (VolumeId(0), turns % 2 == 0);
        array.command(Command::Scrub { volume, repair }).unwrap();
        for _ in 0..turns * 2 {
            array.turn();
        }
        array.shared.borrow_mut().disks[1].gone = true;
        let (complete, ..) = job_end(
            &mut array,
            if repair {
                JobName::Repair
            } else {
                JobName::Check
            },
        );
        assert!(!complete, "{shape:?} {turns}");
        let lost = |event: &Event| matches!(event, Event::Unrecoverable { .. });
        assert!(!array.has_event(lost), "{shape:?} {turns}");
        check(&mut array, &content);
    }
}
