//! Members that hang: they take commands and never answer, or answer much later, with garbage. Requests are served
//! without them shortly after the deadline, and what they do late harms nothing.

use crate::memory::client::Client;
use crate::memory::{Array, MIB, Random, geometry, record};
use engine::control::message::Command;
use engine::control::record::{LogArea, Record, SyncKind};
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::limits::ABANDON_AFTER;
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{Buffer, MemberId, Nanos, Slot, VolumeId};

const DEADLINE: Nanos = Nanos(300 * Nanos::MILLISECOND.0);
/// The deadline, the grace after it, two sweeps of a quarter second, which notice their ends, and time for some turns
/// of the loop, which are slow here.
const PATIENCE_MS: u64 = (DEADLINE.0 + ABANDON_AFTER.0) / Nanos::MILLISECOND.0 + 2 * 250 + 200;

/// A deadline that the other members' metadata writes keep, although a test holds them back for a while.
fn slow() -> Options {
    Options {
        member_deadline: Nanos(2 * Nanos::SECOND.0),
        ..Options::default()
    }
}

fn options() -> Options {
    Options {
        member_deadline: DEADLINE,
        ..Options::default()
    }
}

fn shapes() -> [Geometry; 7] {
    [
        geometry(Level::Raid1, 2, 64 << 10, 37),
        geometry(Level::Raid1, 6, 64 << 10, 20),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid5, 3, 4 << 10, 60),
        geometry(Level::Raid5, 4, 64 << 10, 12),
        geometry(Level::Raid5, 5, 16 << 10, 25),
        geometry(Level::Raid5, 3, 256 << 10, 4),
    ]
}

/// A record whose RAID 5 has a write-hole log, except for one shape.
fn logged(shape: Geometry, spares: u8) -> Record {
    let mut record = record(shape, spares, None);
    let has_log = shape.level == Level::Raid5 && shape.chunk_bytes > 4 << 10;
    record.volumes[0].log = has_log.then_some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    record
}

fn filled(shape: Geometry, spares: u8, shards: u8, seed: u64) -> (Array, Vec<u8>) {
    filled_with(shape, spares, shards, seed, options())
}

fn filled_with(
    shape: Geometry,
    spares: u8,
    shards: u8,
    seed: u64,
    options: Options,
) -> (Array, Vec<u8>) {
    let mut array = Array::new(logged(shape, spares), shards, seed, options);
    let mut random = Random(seed);
    let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
    for (at, piece) in content.chunks(MIB as usize).enumerate() {
        array.write(0, at as u64 * MIB, piece).expect("written");
    }
    (array, content)
}

fn check(array: &mut Array, content: &[u8]) {
    for (at, expected) in content.chunks(256 << 10).enumerate() {
        let offset = at as u64 * (256 << 10);
        let shard = at % array.shards.len();
        let got = array.read(shard, offset, expected.len() as u32);
        assert!(got.expect("readable") == expected, "content at {offset}");
    }
}

fn answered(array: &mut Array, tags: &[u64]) -> Vec<Result<(), Failure>> {
    let answer = |tag: &u64| array.take_completion(*tag);
    tags.iter().filter_map(answer).collect()
}

/// Lets a hung drive carry out the commands that it has; checks that none is left over afterwards.
fn come_back(array: &mut Array, drive: usize) {
    array.unhang(drive);
    array.wait_ms(100);
    assert_eq!(array.left_behind(), 0);
    assert!(array.shared.borrow().pins.is_empty(), "all is released");
    let stats = |of: fn(&engine::stats::Stats) -> u64| -> u64 {
        array
            .shards
            .iter()
            .map(|shard| of(shard.engine.stats()))
            .sum()
    };
    assert_eq!(
        stats(|stats| stats.abandoned),
        stats(|stats| stats.returned)
    );
}

#[test]
fn reads_of_a_hung_member_are_answered_by_others_with_other_memory() {
    for shape in shapes() {
        for shards in [1, 3] {
            let (mut array, content) = filled(shape, 0, shards, 1);
            let drive = usize::from(shape.members) - 1;
            array.hang(drive);
            // Short ones and long ones, all over the volume.
            let lengths = [4096u64, 64 << 10, 512 << 10];
            let mut reads = Vec::new();
            for at in 0..24u64 {
                let length = lengths[at as usize % 3].min(shape.size_bytes);
                let offset = (at * 37 * 4096) % (shape.size_bytes - length + 512) / 512 * 512;
                let buffer = array.allocate(length);
                let shard = at as usize % usize::from(shards);
                let tag = array.submit(shard, Operation::Read, offset, length as u32, buffer);
                reads.push((tag, offset, length, buffer));
            }
            array.wait_ms(PATIENCE_MS);
            for &(tag, offset, length, buffer) in &reads {
                let answer = array.take_completion(tag);
                assert_eq!(answer, Some(Ok(())), "{shape:?}: read at {offset}");
                let buffer = array.answer_of(tag, buffer);
                let shared = array.shared.borrow();
                let got = &shared.memory[buffer.0 as usize..][..length as usize];
                assert!(got == &content[offset as usize..][..length as usize]);
            }
            assert!(array.left_behind() > 0 && !array.shared.borrow().pins.is_empty());
            let answers: Vec<Vec<u8>> = reads.iter().map(|read| bytes_of(&array, read)).collect();
            come_back(&mut array, drive);
            assert!(array.shared.borrow().late > 0);
            let later: Vec<Vec<u8>> = reads.iter().map(|read| bytes_of(&array, read)).collect();
            assert!(answers == later, "late data overwrote an answer");
            check(&mut array, &content);
        }
    }
}

fn bytes_of(array: &Array, &(tag, _, length, buffer): &(u64, u64, u64, Buffer)) -> Vec<u8> {
    let from = array.answer_of(tag, buffer).0 as usize;
    array.shared.borrow().memory[from..from + length as usize].to_vec()
}

#[test]
fn writes_that_a_hung_member_missed_are_acknowledged_and_let_others_pass() {
    for shape in shapes() {
        for shards in [1, 2] {
            let (mut array, mut content) = filled(shape, 1, shards, 2);
            array.hang(0);
            let mut write = |array: &mut Array, at: u64, fill: u8| {
                let length = [512u64, 4096, 96 << 10][at as usize % 3];
                let offset = (at * 131 * 512) % (shape.size_bytes - length) / 512 * 512;
                let buffer = array.allocate(length);
                array.fill(buffer, &vec![fill; length as usize]);
                content[offset as usize..][..length as usize].fill(fill);
                let shard = at as usize % usize::from(shards);
                array.submit(shard, Operation::Write, offset, length as u32, buffer)
            };
            let mut tags: Vec<u64> = Vec::new();
            for at in 0..20 {
                // All write the same byte: the order of simultaneous writes that overlap is open.
                tags.push(write(&mut array, at * 2, 0x11));
            }
            let flush = array.submit(0, Operation::Flush, 0, 0, Buffer(0));
            array.wait_ms(PATIENCE_MS);
            let answers = answered(&mut array, &tags);
            assert!(answers.iter().all(|answer| answer.is_ok()));
            assert_eq!(answers.len(), tags.len(), "{shape:?}");
            assert_eq!(array.take_completion(flush), Some(Ok(())));
            assert!(array.has_event(|event| *event == Event::FailureRecorded(MemberId(0))));
            // The drive still has the commands, but they hold no locks.
            for at in 0..20 {
                let tag = write(&mut array, at * 2, 0x22);
                assert_eq!(array.finish(tag), Ok(()));
            }
            array.run_until(|array| {
                array.has_event(|event| {
                    matches!(
                        event,
                        Event::JobEnded {
                            job: JobName::Rebuild,
                            complete: true,
                            ..
                        }
                    )
                })
            });
            check(&mut array, &content);
            come_back(&mut array, 0);
            check(&mut array, &content);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

#[test]
fn a_write_of_a_hung_member_waits_for_its_failed_mark() {
    for shape in shapes() {
        let (mut array, _) = filled_with(shape, 0, 1, 3, slow());
        array.hang(1);
        let length = shape.row_bytes() as u32;
        let buffer = array.allocate(u64::from(length));
        array.fill(buffer, &vec![7; length as usize]);
        let tag = array.submit(0, Operation::Write, 0, length, buffer);
        array.shared.borrow_mut().hold_persists = true;
        array.wait_ms(2000 + PATIENCE_MS);
        assert!(array.left_behind() > 0, "no command was abandoned");
        assert!(array.take_completion(tag).is_none(), "{shape:?}: too early");
        array.release_persists();
        assert_eq!(array.finish(tag), Ok(()));
        let read = array.read(0, 0, length).unwrap();
        assert!(read.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn an_array_is_stopped_while_a_drive_holds_commands() {
    for shape in shapes() {
        for shards in [1, 3] {
            let (mut array, content) = filled(shape, 0, shards, 4);
            array.hang(1);
            let buffer = array.allocate(MIB);
            let mut tags = Vec::new();
            for at in 0..16 {
                let offset = at * 24 * 1024;
                tags.push(array.submit(0, Operation::Read, offset, 64 << 10, buffer));
            }
            assert_eq!(array.command(Command::Stop), Ok(()));
            array.wait_ms(PATIENCE_MS + 500);
            assert!(
                array.has_event(|event| *event == Event::Stopped),
                "{shape:?}"
            );
            let answers = answered(&mut array, &tags);
            assert_eq!(answers.len(), tags.len());
            // Reads that had to be issued again came too late; all others were served.
            let expected =
                |answer: &Result<(), Failure>| matches!(answer, Ok(()) | Err(Failure::Stopping));
            assert!(answers.iter().all(expected), "{shape:?}: {answers:?}");
            assert!(array.left_behind() > 0);
            let clean =
                |disk: &crate::memory::Disk| !disk.record.as_ref().unwrap().volumes[0].dirty;
            assert!(clean(&array.shared.borrow().disks[0]));
            come_back(&mut array, 1);
            // The other drives hold everything.
            let mut disks = std::mem::take(&mut array.shared.borrow_mut().disks);
            disks[1].hung = false;
            let saved = disks[0].record.clone().unwrap();
            let mut again = Array::over(saved, disks, 1, 5, options(), shape);
            check(&mut again, &content);
        }
    }
}

#[test]
fn background_work_goes_on_without_a_hung_member_or_ends() {
    let ended = |array: &mut Array, wanted: JobName| {
        let mut complete = None;
        array.run_until(|array| {
            let shared = array.shared.borrow();
            complete = shared.events.iter().find_map(|event| match *event {
                Event::JobEnded { job, complete, .. } if job == wanted => Some(complete),
                _ => None,
            });
            complete.is_some()
        });
        complete.unwrap()
    };
    for shape in shapes() {
        // The drive that is being filled hangs.
        let (mut array, content) = filled(shape, 1, 2, 5);
        let spare = usize::from(shape.members);
        array.hang(spare);
        array.command(Command::Fail(MemberId(0))).unwrap();
        assert!(!ended(&mut array, JobName::Rebuild));
        check(&mut array, &content);
        come_back(&mut array, spare);
        check(&mut array, &content);
        // A drive hangs that a scrub or a replacement reads from.
        for job in [JobName::Check, JobName::Replace] {
            let (mut array, content) = filled(shape, 1, 2, 6);
            array.hang(1);
            let command = if job == JobName::Check {
                Command::Scrub {
                    volume: VolumeId(0),
                    repair: false,
                }
            } else {
                Command::Replace {
                    volume: VolumeId(0),
                    slot: Slot(0),
                    to: MemberId(shape.members),
                }
            };
            array.command(command).unwrap();
            array.wait_ms(PATIENCE_MS);
            check(&mut array, &content);
            come_back(&mut array, 1);
            check(&mut array, &content);
        }
    }
}

#[test]
fn a_resync_of_mirrors_goes_on_without_a_hung_member() {
    let shape = geometry(Level::Raid1, 3, 64 << 10, 40);
    let mut array = Array::new(record(shape, 0, Some(SyncKind::Resync)), 1, 7, options());
    array.hang(2);
    array.wait_ms(PATIENCE_MS);
    array.wait_for_job();
    come_back(&mut array, 2);
}

#[test]
fn what_comes_back_before_its_plan_is_through_is_not_left_over() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 12);
    let (mut array, mut content) = filled_with(shape, 0, 1, 8, slow());
    array.hang(2);
    array.shared.borrow_mut().hold_persists = true;
    let row = shape.row_bytes();
    content[..row as usize].fill(9);
    let buffer = array.allocate(row);
    array.fill(buffer, &content[..row as usize]);
    let tag = array.submit(0, Operation::Write, 0, row as u32, buffer);
    array.wait_ms(2000 + PATIENCE_MS);
    // The drive's commands are abandoned, and the write is not acknowledged yet.
    let abandoned = array.shards[0].engine.stats().abandoned;
    assert!(abandoned > 0);
    array.unhang(2);
    array.wait_ms(100);
    assert_eq!(array.shards[0].engine.stats().returned, abandoned);
    array.release_persists();
    assert_eq!(array.finish(tag), Ok(()));
    assert!(array.shared.borrow().pins.is_empty());
    check(&mut array, &content);
}

#[test]
fn under_load_a_hung_member_costs_no_request_and_no_byte() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in 1..=3 {
            let seed = 10 * at as u64 + u64::from(shards);
            let mut array = Array::new(logged(shape, 2), shards, seed, options());
            let mut client = Client::new(shape.size_bytes, seed);
            let rounds = |client: &mut Client, array: &mut Array, count: usize| {
                for _ in 0..count {
                    client.step(array, 12);
                }
            };
            rounds(&mut client, &mut array, 150);
            let first = client.random.below(u64::from(shape.members)) as usize;
            array.hang(first);
            rounds(&mut client, &mut array, 100);
            array.wait_ms(PATIENCE_MS);
            rounds(&mut client, &mut array, 200);
            client.drain(&mut array);
            array.wait_for_job();
            array.shared.borrow_mut().events.clear();
            client.verify(&mut array);
            // The next one hangs, and the first comes back in the middle of that.
            let second = (first + 1) % usize::from(shape.members);
            array.hang(second);
            rounds(&mut client, &mut array, 60);
            array.unhang(first);
            rounds(&mut client, &mut array, 60);
            array.wait_ms(PATIENCE_MS);
            rounds(&mut client, &mut array, 100);
            client.drain(&mut array);
            array.wait_for_job();
            client.verify(&mut array);
            come_back(&mut array, second);
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?} {shards} shards");
        }
    }
}

#[test]
fn scratch_memory_that_a_hung_member_may_write_to_is_not_used_for_anything_else() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 40);
    for seed in 0..24 {
        let (mut array, mut content) = filled(shape, 0, 1, seed);
        array.hang(1);
        let write = |array: &mut Array, content: &mut [u8], at: u64, fill: u8| {
            let offset = at * shape.row_bytes() + (at % 3) * (16 << 10) + 512;
            let buffer = array.allocate(4096);
            array.fill(buffer, &[fill; 4096]);
            content[offset as usize..][..4096].fill(fill);
            array.submit(0, Operation::Write, offset, 4096, buffer)
        };
        let mut tags = Vec::new();
        for at in 0..32 {
            tags.push(write(&mut array, &mut content, at, 0x33));
        }
        array.wait_ms(PATIENCE_MS);
        assert_eq!(answered(&mut array, &tags).len(), 32);
        let tags: Vec<u64> = (0..32)
            .map(|at| write(&mut array, &mut content, at, 0x44))
            .collect();
        // The late answers come somewhere between the reads and the writes of these plans.
        (0..seed % 12).for_each(|_| _ = array.turn());
        array.unhang(1);
        for tag in tags {
            assert_eq!(array.finish(tag), Ok(()));
        }
        come_back(&mut array, 1);
        assert!(array.shared.borrow().late > 0);
        check(&mut array, &content);
    }
}

/// A reconstruction reads the first drive's data into the memory of the result.
#[test]
fn memory_of_a_read_that_is_reconstructed_is_kept_for_a_drive_that_hangs() {
    let shape = geometry(Level::Raid5, 4, 64 << 10, 12);
    let (mut array, _) = filled(shape, 0, 1, 3);
    let asked = shape.data_slots(0, 1).iter().next().unwrap();
    let from = shape.member_offset_bytes(0, 0);
    array.shared.borrow_mut().disks[usize::from(asked.0)]
        .bad
        .push((from, from + 512));
    let first = (0..4).find(|&slot| slot != usize::from(asked.0)).unwrap();
    array.hang(first);
    let buffer = array.allocate(4096);
    let tag = array.submit(0, Operation::Read, 64 << 10, 4096, buffer);
    array.wait_ms(PATIENCE_MS);
    // Two chunks of the row cannot be read.
    assert!(array.finish(tag).is_err());
    assert!(array.left_behind() > 0);
    come_back(&mut array, first);
    assert!(array.shared.borrow().late > 0, "nothing was done late");
}
