//! What concerns the whole container: two volumes on one set of drives, checkpoints, restarts.

mod memory;

use engine::control::message::{Command, Refused};
use engine::control::record::{MemberState, SyncKind, SyncRecord, VolumeRecord};
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::request::{Failure, Operation};
use engine::shard::Options;
use engine::units::{MemberId, Slot, VolumeId};
use memory::{Array, Random, geometry, record};

fn two_volumes(first: Level, second: Level) -> engine::control::record::Record {
    let shape = geometry(first, 4, 16 << 10, 12);
    let mut record = record(shape, 1, None);
    let mut other = geometry(second, 4, 8 << 10, 16);
    other.start_bytes = shape.start_bytes + shape.component_bytes + (1 << 20);
    for member in &mut record.members {
        member.size_bytes = other.start_bytes + other.component_bytes + (4 << 20);
    }
    let volume = VolumeRecord {
        geometry: other,
        ..record.volumes[0].clone()
    };
    record.volumes.push(volume);
    record
}

fn fill(array: &mut Array, volume: u8, seed: u64) -> Vec<u8> {
    let size = array.shards[0]
        .engine
        .geometry(VolumeId(volume))
        .unwrap()
        .size_bytes;
    let mut random = Random(seed);
    let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
    let buffer = array.allocate(size);
    array.fill(buffer, &content);
    let tag = array.submit_to(
        0,
        VolumeId(volume),
        Operation::Write,
        0,
        size as u32,
        buffer,
        false,
    );
    assert_eq!(array.finish(tag), Ok(()));
    content
}

fn check(array: &mut Array, volume: u8, content: &[u8]) {
    let buffer = array.allocate(content.len() as u64);
    let shard = array.shards.len() - 1;
    let length = content.len() as u32;
    let tag = array.submit_to(
        shard,
        VolumeId(volume),
        Operation::Read,
        0,
        length,
        buffer,
        false,
    );
    assert_eq!(array.finish(tag), Ok(()));
    let shared = array.shared.borrow();
    assert!(
        shared.memory[buffer.0 as usize..][..content.len()] == *content,
        "volume {volume}"
    );
}

#[test]
fn two_volumes_lose_a_member_together_and_are_rebuilt_one_after_the_other() {
    for shards in 1..=3 {
        for (first, second) in [(Level::Raid5, Level::Raid10), (Level::Raid10, Level::Raid5)] {
            let mut array = Array::new(two_volumes(first, second), shards, 3, Options::default());
            let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
            array.shared.borrow_mut().disks[2].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
            array.run_until(|array| {
                let ended = |volume| {
                    array.has_event(|event| {
                        matches!(event, Event::JobEnded { volume: of, job: JobName::Rebuild, complete: true, .. } if *of == VolumeId(volume))
                    })
                };
                ended(0) && ended(1)
            });
            let shared = array.shared.clone();
            for (_, record) in &shared.borrow().persists {
                let syncs = record
                    .volumes
                    .iter()
                    .filter(|volume| volume.sync.is_some())
                    .count();
                assert!(syncs <= 1, "one migration at a time per drive set");
            }
            shared.borrow_mut().disks[3].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
        }
    }
}

#[test]
fn a_raid_0_beside_a_raid_5_fails_alone() {
    let mut array = Array::new(
        two_volumes(Level::Raid0, Level::Raid5),
        2,
        3,
        Options::default(),
    );
    let (_, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.shared.borrow_mut().disks[0].gone = true;
    assert!(matches!(
        array.read(0, 0, 16 << 10),
        Err(Failure::Unrecoverable { .. })
    ));
    check(&mut array, 1, &two);
    assert!(array.has_event(|event| *event == Event::VolumeFailed(VolumeId(0))));
    assert!(!array.has_event(|event| *event == Event::VolumeFailed(VolumeId(1))));
}

#[test]
fn a_rebuild_goes_on_at_its_checkpoint_after_a_restart() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 200);
    let options = Options {
        rate_bytes_per_s: 300 << 10,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, options);
    let content = fill(&mut array, 0, 9);
    array.command(Command::Fail(MemberId(1))).unwrap();
    // At this rate the rebuild takes over ten seconds; a checkpoint is due every five.
    let checkpoint = |array: &Array| {
        let shared = array.shared.borrow();
        shared.disks[0]
            .record
            .as_ref()
            .and_then(|record| record.volumes[0].sync)
    };
    for _ in 0..400 {
        array.wait_ms(20);
        if checkpoint(&array).is_some_and(|sync| sync.done_bytes > 0) {
            break;
        }
    }
    let sync = checkpoint(&array).expect("a rebuild is on record");
    assert!(
        sync.done_bytes > 0 && sync.done_bytes < shape.component_bytes,
        "{sync:?}"
    );
    assert_eq!(sync.kind, SyncKind::Rebuild(Slot(1)));
    let mut shared = array.shared.borrow_mut();
    let saved = shared.disks[0].record.clone().unwrap();
    let mut disks = std::mem::take(&mut shared.disks);
    drop(shared);
    // What the rebuild has not been recorded for may hold anything.
    let from = (shape.start_bytes + sync.done_bytes) as usize;
    disks[4].bytes[from..].fill(0xAA);
    let mut again = Array::over(saved, disks, 1, 6, Options::default(), shape);
    check(&mut again, 0, &content);
    again.wait_for_job();
    again.shared.borrow_mut().disks[3].gone = true;
    check(&mut again, 0, &content);
}

#[test]
fn progress_is_recorded_only_after_the_new_drive_is_flushed() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 40);
    let options = Options {
        rate_bytes_per_s: 4 << 20,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 1, None), 1, 5, options);
    array.command(Command::Fail(MemberId(0))).unwrap();
    let mut seen = 0;
    for _ in 0..800 {
        array.wait_ms(20);
        let shared = array.shared.borrow();
        let recorded = shared
            .persists
            .last()
            .and_then(|(_, record)| record.volumes[0].sync);
        if let Some(SyncRecord { done_bytes, .. }) = recorded.filter(|sync| sync.done_bytes > seen)
        {
            seen = done_bytes;
        }
    }
    assert!(seen > 0, "checkpoints were recorded");
    assert_eq!(array.shared.borrow().early_checkpoints, 0);
    let state = array.shards[0]
        .engine
        .controller()
        .unwrap()
        .wanted()
        .clone();
    assert_eq!(state.members[2].state, MemberState::Active);
}

#[test]
fn a_drive_added_later_becomes_a_spare_and_is_used() {
    let shape = geometry(Level::Raid10, 4, 16 << 10, 40);
    let mut array = Array::new(record(shape, 0, None), 2, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    array.command(Command::Fail(MemberId(3))).unwrap();
    let size_bytes = array.shared.borrow().disks[0].bytes.len() as u64;
    let too_small = Command::AddSpare {
        member: MemberId(4),
        size_bytes: 4096,
        volatile_cache: false,
    };
    assert_eq!(array.command(too_small), Err(Refused::TooSmall));
    array
        .shared
        .borrow_mut()
        .disks
        .push(memory::Disk::empty(size_bytes));
    let add = Command::AddSpare {
        member: MemberId(4),
        size_bytes,
        volatile_cache: false,
    };
    assert_eq!(array.command(add), Ok(()));
    array.wait_for_job();
    assert_eq!(array.command(Command::Remove(MemberId(3))), Ok(()));
    array.shared.borrow_mut().disks[2].gone = true;
    check(&mut array, 0, &content);
}

#[test]
fn background_work_keeps_to_its_rate_and_can_be_paused() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 32);
    let options = Options {
        rate_bytes_per_s: 8 << 20,
        ..Options::default()
    };
    let mut array = Array::new(record(shape, 0, None), 1, 5, options);
    array
        .command(Command::Scrub {
            volume: VolumeId(0),
            repair: false,
        })
        .unwrap();
    array.wait_ms(1000);
    let done = |array: &Array| {
        array.shards[0]
            .engine
            .controller()
            .unwrap()
            .job(VolumeId(0))
            .map(|job| job.done_bytes)
    };
    let after_one = done(&array).expect("still running");
    assert!((5 << 20..=10 << 20).contains(&after_one), "{after_one}");
    array
        .command(Command::Pause {
            volume: VolumeId(0),
            paused: true,
        })
        .unwrap();
    array.wait_ms(500);
    let paused = done(&array).unwrap();
    array.wait_ms(1000);
    assert_eq!(done(&array), Some(paused));
    // A pause is no time in which the work was slow.
    let job = |array: &Array| {
        array.shards[0]
            .engine
            .controller()
            .unwrap()
            .job(VolumeId(0))
    };
    let (was, now) = (job(&array).unwrap(), array.shared.borrow().now);
    assert_eq!((was.slot, was.copied_to), (None, None));
    let limit = Command::Rate(4 << 20);
    assert_eq!(array.command(limit), Ok(()));
    array
        .command(Command::Pause {
            volume: VolumeId(0),
            paused: false,
        })
        .unwrap();
    let resumed = job(&array).unwrap();
    assert!(resumed.paced_since.0 >= now && resumed.paced_from_bytes == paused);
    array.wait_ms(1000);
    let at_the_limit = done(&array).unwrap() - paused;
    assert!(
        (2 << 20..=6 << 20).contains(&at_the_limit),
        "{at_the_limit}"
    );
    array.command(Command::Rate(0)).unwrap();
    array.wait_ms(500);
    assert_eq!(done(&array), None, "unlimited, the rest takes no time");
}

#[test]
fn four_kilobyte_sectors_are_kept_to() {
    let mut shape = geometry(Level::Raid5, 3, 16 << 10, 20);
    shape.block_bytes = 4096;
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    assert_eq!(array.read(0, 512, 4096), Err(Failure::Misuse));
    assert_eq!(array.write(0, 4096, &[1; 512]), Err(Failure::Misuse));
    check(&mut array, 0, &content);
}

#[test]
fn a_read_only_array_is_not_written_to_whatever_happens() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 40);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 4);
    let disks = std::mem::take(&mut array.shared.borrow_mut().disks);
    let mut crashed = record(shape, 1, Some(SyncKind::Resync));
    crashed.volumes[0].read_only = true;
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let mut disks: Vec<_> = disks.into_iter().collect();
    disks.push(memory::Disk::empty(disks[0].bytes.len() as u64));
    let before: Vec<Vec<u8>> = disks.iter().map(|disk| disk.bytes.clone()).collect();
    let mut again = Array::over(crashed, disks, 2, 6, options, shape);
    again.shared.borrow_mut().persists.clear();
    check(&mut again, 0, &content);
    assert_eq!(again.write(0, 0, &[1; 4096]), Err(Failure::ReadOnly));
    // A block that cannot be read, a member that goes: answered or refused, but nothing is written.
    let bad = shape.start_bytes + (16 << 10);
    again.shared.borrow_mut().disks[0]
        .bad
        .push((bad, bad + 512));
    let _ = again.read(0, 0, 512 << 10);
    again.shared.borrow_mut().disks[1].gone = true;
    let _ = again.read(1, 0, 512 << 10);
    again.wait_ms(2000);
    let shared = again.shared.borrow();
    assert!(shared.persists.is_empty(), "metadata was written");
    for (disk, before) in shared.disks.iter().zip(&before) {
        assert!(disk.bytes == *before, "a member was written to");
    }
}

fn by_hand() -> Options {
    Options {
        auto_rebuild: false,
        ..Options::default()
    }
}

#[test]
fn without_leave_to_take_spares_a_rebuild_is_ordered() {
    for shards in [1, 3] {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, shards, 3, by_hand());
        let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        let order = |volume| Command::Rebuild(VolumeId(volume));
        assert_eq!(array.command(order(0)), Err(Refused::NoSuch), "it is whole");
        assert_eq!(array.command(order(7)), Err(Refused::NoSuch));
        array.command(Command::Fail(MemberId(2))).unwrap();
        array.wait_ms(1000);
        assert!(!array.has_event(|event| matches!(event, Event::SpareActivated { .. })));
        assert_eq!(array.command(order(1)), Ok(()));
        // Asked again while it is under way, it goes on.
        assert_eq!(array.command(order(1)), Ok(()));
        array.run_until(|array| ended(array, 0) && ended(array, 1));
        assert_eq!(array.command(order(0)), Err(Refused::NoSuch));
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
        assert_eq!(array.command(order(0)), Err(Refused::NoSpare));
    }
}

fn ended(array: &Array, volume: u8) -> bool {
    array.has_event(|event| {
        matches!(event, Event::JobEnded { volume: of, job: JobName::Rebuild, complete: true, .. }
            if *of == VolumeId(volume))
    })
}

#[test]
fn a_rebuild_waits_for_nothing_when_its_drives_are_scrubbed() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 60);
    let options = Options {
        rate_bytes_per_s: 64 << 10,
        ..by_hand()
    };
    let mut array = Array::new(record(shape, 1, None), 2, 5, options);
    let content = fill(&mut array, 0, 9);
    let scrub = Command::Scrub {
        volume: VolumeId(0),
        repair: false,
    };
    array.command(scrub).unwrap();
    array.wait_ms(500);
    array.command(Command::Fail(MemberId(1))).unwrap();
    array.command(Command::Rate(0)).unwrap();
    array.command(Command::Rebuild(VolumeId(0))).unwrap();
    array.run_until(|array| ended(array, 0));
    // The scrub had nothing left to compare with, and says so once.
    let checks = |event: &&Event| {
        matches!(
            event,
            Event::JobEnded {
                job: JobName::Check,
                complete: false,
                failures: 0,
                ..
            }
        )
    };
    assert_eq!(
        array.shared.borrow().events.iter().filter(checks).count(),
        1
    );
    assert!(!array.has_event(|event| matches!(event, Event::Unrecoverable { .. })));
    check(&mut array, 0, &content);
}

#[test]
fn a_rebuild_that_meets_an_unreadable_block_uses_up_one_spare_only() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 12);
    let mut array = Array::new(record(shape, 2, None), 1, 5, Options::default());
    let content = fill(&mut array, 0, 9);
    let from = shape.member_offset_bytes(7, 0);
    array.shared.borrow_mut().disks[0]
        .bad
        .push((from, from + 512));
    array.command(Command::Fail(MemberId(1))).unwrap();
    let given_up = |event: &&Event| {
        matches!(
            event,
            Event::JobEnded {
                complete: false,
                ..
            }
        )
    };
    let count = |array: &Array| array.shared.borrow().events.iter().filter(given_up).count();
    array.run_until(|array| count(array) == 1);
    array.wait_ms(1000);
    assert_eq!(count(&array), 1);
    let spare = |array: &Array| {
        let controller = array.shards[0].engine.controller().unwrap();
        controller.wanted().members[5].state
    };
    assert_eq!(spare(&array), MemberState::Spare);
    // Whoever knows that the block can be read again says so.
    array.shared.borrow_mut().disks[0].bad.clear();
    assert_eq!(array.command(Command::Rebuild(VolumeId(0))), Ok(()));
    array.run_until(|array| ended(array, 0));
    array.shared.borrow_mut().disks[2].gone = true;
    check(&mut array, 0, &content);
}

#[test]
fn a_rebuild_that_makes_no_sense_is_refused() {
    let order = Command::Rebuild(VolumeId(0));
    let stripes = geometry(Level::Raid0, 3, 16 << 10, 12);
    let mut array = Array::new(record(stripes, 1, None), 1, 5, by_hand());
    assert_eq!(array.command(order), Err(Refused::NoRedundancy));
    let mirror = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut small = record(mirror, 1, None);
    small.members[2].size_bytes -= 4 << 20;
    let mut array = Array::new(small, 1, 5, by_hand());
    array.command(Command::Fail(MemberId(1))).unwrap();
    assert_eq!(array.command(order), Err(Refused::TooSmall));
    let mut array = Array::new(record(mirror, 1, None), 1, 5, by_hand());
    array.shared.borrow_mut().disks[0].gone = true;
    array.shared.borrow_mut().disks[1].gone = true;
    array.write(0, 0, &[1; 512]).unwrap_err();
    array.wait_ms(100);
    assert_eq!(
        array.command(order),
        Err(Refused::NoSuch),
        "nothing is left"
    );
}

const OLD: MemberId = MemberId(1);
const NEW: MemberId = MemberId(4);

fn replace() -> Command {
    Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: NEW,
    }
}

/// The drives that slot 1 of each volume names in a record.
fn in_slot(record: &engine::control::record::Record) -> Vec<Option<MemberId>> {
    let slot = |volume: &VolumeRecord| volume.slots[1].member;
    record.volumes.iter().map(slot).collect()
}

fn wanted(array: &Array) -> engine::control::record::Record {
    array.shards[0]
        .engine
        .controller()
        .unwrap()
        .wanted()
        .clone()
}

/// How replacements have ended, by volume.
fn replaced(array: &Array) -> Vec<(u8, bool)> {
    let shared = array.shared.borrow();
    let ended = shared.events.iter().filter_map(|event| match event {
        Event::JobEnded {
            volume,
            job: JobName::Replace,
            complete,
            ..
        } => Some((volume.0, *complete)),
        _ => None,
    });
    ended.collect()
}

fn copied(array: &Array, volume: u8) -> bool {
    let controller = array.shards[0].engine.controller().unwrap();
    let job = controller.job(VolumeId(volume));
    job.is_some_and(|job| job.done_bytes == job.total_bytes)
}

/// Two volumes whose drive in slot 1 is being replaced, with the update that says so on its way and every
/// answer from the drives about it held back; and what the volumes hold.
fn at_the_switch(shards: u8, seed: u64) -> (Array, Vec<u8>, Vec<u8>) {
    let record = two_volumes(Level::Raid5, Level::Raid10);
    let mut array = Array::new(record, shards, seed, by_hand());
    let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.command(replace()).unwrap();
    array.shared.borrow_mut().hold_persists = true;
    array.run_until(|array| {
        let shared = array.shared.borrow();
        let last = shared.persists.last();
        last.is_some_and(|(_, record)| in_slot(record) == [Some(NEW); 2])
    });
    (array, one, two)
}

/// Writes `bytes` to the start of a volume and to what it should hold.
fn overwrite(array: &mut Array, volume: u8, content: &mut [u8], byte: u8) {
    let length = 24 << 10;
    content[..length].fill(byte);
    let buffer = array.allocate(length as u64);
    array.fill(buffer, &content[..length]);
    let id = VolumeId(volume);
    let tag = array.submit_to(0, id, Operation::Write, 0, length as u32, buffer, false);
    assert_eq!(array.finish(tag), Ok(()));
}

/// What an array over the same drives reads that goes by `record`.
fn check_after_crash(
    array: &Array,
    record: engine::control::record::Record,
    one: &[u8],
    two: &[u8],
) {
    let shared = array.shared.borrow();
    let copy = |disk: &memory::Disk| memory::Disk {
        bytes: disk.bytes.clone(),
        ..memory::Disk::empty(0)
    };
    let disks = shared.disks.iter().map(copy).collect();
    let mut again = Array::over(record, disks, 1, 9, by_hand(), array.shape);
    check(&mut again, 0, one);
    check(&mut again, 1, two);
}

#[test]
fn two_volumes_change_drives_in_one_update() {
    for shards in 1..=3 {
        let record = two_volumes(Level::Raid5, Level::Raid10);
        let mut array = Array::new(record, shards, 3, by_hand());
        let (mut one, mut two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        array.command(replace()).unwrap();
        array.run_until(|array| copied(array, 0));
        // Copied, but written to on both drives until the other volume is copied too.
        overwrite(&mut array, 0, &mut one, 0x5A);
        assert_eq!(replaced(&array), []);
        array.run_until(|array| replaced(array).len() == 2);
        assert_eq!(replaced(&array), [(0, true), (1, true)]);
        overwrite(&mut array, 1, &mut two, 0xA5);
        for (_, record) in &array.shared.borrow().persists {
            let drives = in_slot(record);
            assert_eq!(drives[0], drives[1], "on different drives");
        }
        assert_eq!(wanted(&array).members[1].state, MemberState::Absent);
        assert_eq!(wanted(&array).members[4].state, MemberState::Active);
        // The old drive is not needed, and the new one carries its part of the redundancy.
        array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
        array.shared.borrow_mut().disks[2].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// While the update is on its way, a crash leaves the record of before or the one of after. What has been
/// acknowledged by then is in both.
#[test]
fn whichever_record_a_crash_leaves_names_a_drive_that_has_everything() {
    for shards in [1, 2] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 5);
        overwrite(&mut array, 0, &mut one, 0x11);
        overwrite(&mut array, 1, &mut two, 0x22);
        let after = array.shared.borrow().persists.last().unwrap().1.clone();
        assert_eq!(in_slot(&after), [Some(NEW); 2]);
        let before = array.shared.borrow().disks[1].record.clone().unwrap();
        assert_eq!(in_slot(&before), [Some(OLD); 2]);
        check_after_crash(&array, before, &one, &two);
        check_after_crash(&array, after, &one, &two);
        // The drive that joins is not the last to know.
        assert!(array.shared.borrow().disks[4].record.is_some());
        array.release_persists();
        array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
        check(&mut array, 0, &one);
    }
}

#[test]
fn a_flush_reaches_the_drive_that_is_being_filled() {
    let (mut array, mut one, _) = at_the_switch(1, 6);
    overwrite(&mut array, 0, &mut one, 0x33);
    assert!(!array.shared.borrow().disks[4].unflushed.is_empty());
    let buffer = array.allocate(512);
    let tag = array.submit(0, Operation::Flush, 0, 0, buffer);
    assert_eq!(array.finish(tag), Ok(()));
    let shared = array.shared.borrow();
    for member in 0..5 {
        assert!(shared.disks[member].unflushed.is_empty(), "drive {member}");
    }
}

#[test]
fn a_replacement_that_fails_in_one_volume_is_given_up_in_both() {
    // Whether the new drive vanishes, or a block of the second volume cannot be read and not be made up.
    for vanishes in [true, false] {
        let second = if vanishes { Level::Raid5 } else { Level::Raid0 };
        let mut array = Array::new(two_volumes(Level::Raid5, second), 2, 3, by_hand());
        let (mut one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
        if !vanishes {
            let volume = wanted(&array).volumes[1].geometry;
            let from = volume.start_bytes + volume.component_bytes - (8 << 10);
            array.shared.borrow_mut().disks[1]
                .bad
                .push((from, from + 512));
        }
        array.command(replace()).unwrap();
        array.run_until(|array| copied(array, 0));
        array.shared.borrow_mut().disks[4].gone = vanishes;
        array.run_until(|array| replaced(array).len() == 2);
        assert!(replaced(&array).iter().all(|(_, complete)| !complete));
        overwrite(&mut array, 0, &mut one, 0x77);
        assert_eq!(in_slot(&wanted(&array)), [Some(OLD); 2]);
        let state = wanted(&array).members[4].state;
        let left = if vanishes {
            MemberState::Failed
        } else {
            MemberState::Spare
        };
        assert_eq!(state, left);
        check(&mut array, 0, &one);
        if vanishes {
            array.shared.borrow_mut().disks[3].gone = true;
            check(&mut array, 0, &one);
            check(&mut array, 1, &two);
        }
    }
}

#[test]
fn a_replacement_is_cancelled_in_both_volumes() {
    let record = two_volumes(Level::Raid5, Level::Raid10);
    let mut array = Array::new(record, 2, 3, by_hand());
    let (one, two) = (fill(&mut array, 0, 1), fill(&mut array, 1, 2));
    array.command(replace()).unwrap();
    array.run_until(|array| copied(array, 0));
    assert_eq!(array.command(Command::Remove(NEW)), Err(Refused::Busy));
    assert_eq!(array.command(Command::CancelJob(VolumeId(1))), Ok(()));
    assert_eq!(replaced(&array).len(), 2);
    array.wait_ms(100);
    assert_eq!(in_slot(&wanted(&array)), [Some(OLD); 2]);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
    // And ordered again, it begins from nothing.
    array.shared.borrow_mut().events.clear();
    array.command(replace()).unwrap();
    array.run_until(|array| replaced(array) == [(0, true), (1, true)]);
    check(&mut array, 0, &one);
    check(&mut array, 1, &two);
}

/// The old drive fails while the update is on its way. The new one has everything: nothing is degraded.
#[test]
fn the_old_drive_may_fail_at_the_switch() {
    for shards in [1, 2] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 7);
        array.shared.borrow_mut().disks[1].gone = true;
        let length = 24 << 10;
        let buffer = array.allocate(length);
        array.fill(buffer, &vec![0x44; length as usize]);
        let id = VolumeId(0);
        let tag = array.submit_to(0, id, Operation::Write, 0, length as u32, buffer, false);
        for _ in 0..200 {
            array.turn();
        }
        assert_eq!(
            array.take_completion(tag),
            None,
            "the old drive missed it, and nothing on record says so yet"
        );
        array.release_persists();
        assert_eq!(array.finish(tag), Ok(()));
        one[..length as usize].fill(0x44);
        overwrite(&mut array, 1, &mut two, 0x55);
        assert_eq!(replaced(&array), [(0, true), (1, true)]);
        assert_eq!(in_slot(&wanted(&array)), [Some(NEW); 2]);
        for volume in &wanted(&array).volumes {
            assert_eq!(volume.current_slots().count(), 4);
        }
        array.shared.borrow_mut().disks[3].gone = true;
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// The new drive fails while the update is on its way. If that is known before the update is durable, the
/// old drive, which has everything, stays; else the new one has been lost like any other.
#[test]
fn the_new_drive_may_fail_at_the_switch() {
    for (shards, known_before) in [(1, true), (2, true), (1, false), (2, false)] {
        let (mut array, mut one, mut two) = at_the_switch(shards, 8);
        array.shared.borrow_mut().disks[4].gone = true;
        if known_before {
            let id = VolumeId(1);
            let buffer = array.allocate(4096);
            array.fill(buffer, &two[..4096]);
            array.submit_to(0, id, Operation::Write, 0, 4096, buffer, false);
            array.run_until(|array| replaced(array).len() == 2);
        }
        array.release_persists();
        overwrite(&mut array, 0, &mut one, 0x66);
        overwrite(&mut array, 1, &mut two, 0x77);
        assert_eq!(replaced(&array).len(), 2);
        assert!(
            replaced(&array)
                .iter()
                .all(|(_, complete)| *complete != known_before)
        );
        array.wait_ms(100);
        let record = wanted(&array);
        assert_eq!(record.members[4].state, MemberState::Failed);
        for volume in &record.volumes {
            let slots = volume.current_slots().count();
            assert_eq!(slots, if known_before { 4 } else { 3 });
        }
        let drives: &[usize] = if known_before {
            &[0, 1, 2, 3]
        } else {
            &[0, 2, 3]
        };
        for &member in drives {
            let on_drive = array.shared.borrow().disks[member].record.clone().unwrap();
            assert_eq!(in_slot(&on_drive), in_slot(&record), "{member}");
            assert_eq!(on_drive.members[4].state, MemberState::Failed);
        }
        check(&mut array, 0, &one);
        check(&mut array, 1, &two);
    }
}

/// The last drive of a mirror is replaced, and the new one fails before it is on record: the old one is
/// all there is, and it stays.
#[test]
fn the_only_copy_is_never_given_up_for_one_that_is_not_on_record() {
    let mirror = geometry(Level::Raid1, 2, 64 << 10, 16);
    let mut array = Array::new(record(mirror, 1, None), 1, 5, by_hand());
    let content = fill(&mut array, 0, 4);
    array.command(Command::Fail(MemberId(0))).unwrap();
    let order = Command::Replace {
        volume: VolumeId(0),
        slot: Slot(1),
        to: MemberId(2),
    };
    array.command(order).unwrap();
    array.run_until(|array| copied(array, 0));
    // It takes no record.
    array.shared.borrow_mut().disks[2].gone = true;
    array.run_until(|array| !replaced(array).is_empty());
    assert_eq!(replaced(&array), [(0, false)]);
    assert_eq!(wanted(&array).volumes[0].slots[1].member, Some(MemberId(1)));
    assert_eq!(wanted(&array).members[1].state, MemberState::Active);
    check(&mut array, 0, &content);
}
