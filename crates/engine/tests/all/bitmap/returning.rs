//! A drive that was away comes back.

use super::{REGION, count, marked, on_drives, started};
use crate::memory::client::Client;
use crate::memory::geometry;
use crate::memory::marks::{union, with_bitmap};
use crate::memory::{Array, Disk};
use engine::control::message::{Command, Message, Refused};
use engine::control::record::{MemberState, Returning};
use engine::event::{Event, JobName};
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::policy::MemberKind;
use engine::units::{MemberId, Slot, VolumeId};

pub fn shapes() -> Vec<Geometry> {
    vec![
        geometry(Level::Raid1, 2, 1 << 20, 24),
        geometry(Level::Raid10, 4, 16 << 10, 640),
        geometry(Level::Raid5, 4, 16 << 10, 640),
    ]
}

fn copy_of(disk: &Disk) -> Disk {
    Disk {
        bytes: disk.bytes.clone(),
        record: disk.record.clone(),
        ..Disk::empty(disk.bytes.len() as u64)
    }
}

/// Writes everywhere, so that a drive is of no use without what it holds.
fn fill(array: &mut Array, client: &mut Client) {
    for _ in 0..1200 {
        client.step(array, 8);
    }
    client.drain(array);
}

fn lose(array: &mut Array, member: MemberId) {
    array.shared.borrow_mut().disks[member.0 as usize].gone = true;
    array.command(Command::Fail(member)).unwrap();
    array.run_until(|array| array.has_event(|event| *event == Event::FailureRecorded(member)));
    array.shared.borrow_mut().events.clear();
}

/// Overwrites 4 KiB at an offset.
fn write_at(array: &mut Array, client: &mut Client, offset: u64) {
    let bytes: Vec<u8> = (0..4096).map(|_| client.random.next() as u8).collect();
    array.write(0, offset, &bytes).unwrap();
    client.model[offset as usize..][..4096].copy_from_slice(&bytes);
}

/// The drive that was in slot `lost` joins as a new member.
fn come_back(
    array: &mut Array,
    disk: Disk,
    lost: Slot,
    generation: u64,
) -> Result<MemberId, Refused> {
    let member = MemberId(array.shared.borrow().disks.len() as u8);
    let size_bytes = disk.bytes.len() as u64;
    array.shared.borrow_mut().disks.push(disk);
    let returning = Returning {
        slot: lost,
        generation,
    };
    let add = Command::AddSpare {
        member,
        size_bytes,
        volatile_cache: true,
        kind: MemberKind::Device,
        discards: true,
        returns: Some(returning),
    };
    array.command(add).map(|()| member)
}

/// The generation of the member's own record, and that of the array's newest record.
fn generations(array: &Array, member: MemberId) -> (u64, u64) {
    let shared = array.shared.borrow();
    let own = shared.persists.iter().rfind(|(to, _)| *to == member);
    let last = shared
        .persists
        .iter()
        .map(|(_, record)| record.generation)
        .max();
    (
        own.map_or(1, |(_, record)| record.generation),
        last.unwrap_or(1),
    )
}

#[test]
fn a_member_that_comes_back_gets_what_it_missed_and_no_more() {
    for (seed, shape) in (0u64..).zip(shapes().into_iter().cycle()).take(9) {
        let record = marked(shape, 0);
        let mut array = started(&record, 1 + (seed / 3) as u8, seed);
        let mut client = Client::new(shape.size_bytes, 60 + seed);
        fill(&mut array, &mut client);
        array.wait_ms(16_000);
        assert_eq!(count(&on_drives(&array, &record)), 0);
        let (lost, slot) = (MemberId(1), Slot(1));
        lose(&mut array, lost);
        let (generation, _) = generations(&array, lost);
        let size = shape.size_bytes;
        for offset in [0, size / 2 / 4096 * 4096] {
            write_at(&mut array, &mut client, offset);
        }
        // However long it lasts, nothing is cleared while a drive is away.
        array.wait_ms(30_000);
        let away = count(&on_drives(&array, &record));
        assert!((2..=4).contains(&away), "{away} regions are marked");
        let disk = copy_of(&array.shared.borrow().disks[1]);
        let before = rebuilt_bands(&array);
        let member = come_back(&mut array, disk, slot, generation).unwrap();
        array.run_until(|array| array.has_event(is_rebuilt));
        let bands = rebuilt_bands(&array) - before;
        assert!(bands <= 16, "{shape:?}: {bands} bands for {away} regions");
        client.verify(&mut array);
        array.wait_ms(16_000);
        let disks = &array.shared.borrow().disks;
        let carriers: Vec<Disk> = [0, 2, 3]
            .into_iter()
            .filter(|&at| at < shape.members as usize)
            .chain([member.0 as usize])
            .map(|at| copy_of(&disks[at]))
            .collect();
        assert_eq!(
            count(&union(&carriers, &record)),
            0,
            "cleared again, on the new member too"
        );
        let extent =
            shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
        let expected = reference(disks, &shape);
        let got = &disks[member.0 as usize].bytes[extent];
        assert!(
            got == expected,
            "seed {seed}, {shape:?}: the drive lacks something"
        );
    }
}

/// Bands that jobs have planned.
fn rebuilt_bands(array: &Array) -> u64 {
    let shards = array.shards.iter();
    shards
        .map(|shard| shard.engine.stats().plans_background)
        .sum()
}

fn is_rebuilt(event: &Event) -> bool {
    matches!(event, Event::JobEnded { complete: true, .. })
}

/// What slot 1 has to hold, computed from the others.
fn reference(disks: &[Disk], shape: &Geometry) -> Vec<u8> {
    let extent = shape.start_bytes as usize..(shape.start_bytes + shape.component_bytes) as usize;
    if shape.level != Level::Raid5 {
        return disks[0].bytes[extent].to_vec();
    }
    extent
        .map(|at| disks[0].bytes[at] ^ disks[2].bytes[at] ^ disks[3].bytes[at])
        .collect()
}

/// How many commands a rebuild of slot 1 takes: by the bits if the drive returns, else of everything.
fn rebuild_commands(shape: Geometry, returns: bool) -> u64 {
    let mut record = with_bitmap(super::record(shape, 0, None), REGION, &[1 << 5]);
    record.volumes[0].slots[1].member = None;
    record.volumes[0].slots[1].current = false;
    record.members[1].state = MemberState::Spare;
    record.members[1].returns_to = returns.then_some(Slot(1));
    let mut array = Array::new(record, 1, 3, Options::default());
    array.run_until(|array| array.has_event(is_rebuilt));
    let stats = array.shards[0].engine.stats();
    stats.member_reads + stats.member_writes
}

#[test]
fn a_short_absence_costs_less_than_a_tenth_of_a_rebuild() {
    for shape in shapes() {
        let (whole, short) = (
            rebuild_commands(shape, false),
            rebuild_commands(shape, true),
        );
        assert!(
            short > 0 && short * 10 <= whole,
            "{shape:?}: {short} commands of {whole}"
        );
    }
}

/// To fill it takes little, but it would soon have to be replaced again.
#[test]
fn a_drive_that_comes_back_and_is_about_to_fail_is_taken_only_if_no_other_fits() {
    for (others, taken) in [(1, 2), (0, 1)] {
        let shape = geometry(Level::Raid1, 2, 1 << 20, 3);
        let mut record = with_bitmap(super::record(shape, others, None), REGION, &[1 << 5]);
        record.volumes[0].slots[1].member = None;
        record.volumes[0].slots[1].current = false;
        record.members[1].state = MemberState::Spare;
        record.members[1].returns_to = Some(Slot(1));
        let options = Options {
            auto_rebuild: false,
            ..Options::default()
        };
        let mut array = Array::new(record, 1, 3, options);
        let about_to_fail = [MemberId(1)].into_iter().collect();
        let message = Message::AboutToFail(about_to_fail);
        array.shared.borrow_mut().mail[0].push_back(message);
        array.wait_ms(1);
        array.command(Command::Rebuild(VolumeId(0))).unwrap();
        array.run_until(|array| array.has_event(is_rebuilt));
        let activated = Event::SpareActivated {
            volume: VolumeId(0),
            slot: Slot(1),
            member: MemberId(taken),
            about_to_fail: others == 0,
        };
        assert!(
            array.has_event(|event| *event == activated),
            "{activated:?}"
        );
    }
}

#[test]
fn a_member_whose_absence_is_older_than_cleared_bits_is_refused() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 3);
    let record = marked(shape, 1);
    let mut array = started(&record, 1, 11);
    let mut client = Client::new(shape.size_bytes, 77);
    fill(&mut array, &mut client);
    let old = copy_of(&array.shared.borrow().disks[1]);
    lose(&mut array, MemberId(1));
    let (generation, _) = generations(&array, MemberId(1));
    // The spare takes its place; then bits are cleared.
    write_at(&mut array, &mut client, 0);
    array.run_until(|array| array.has_event(is_rebuilt));
    write_at(&mut array, &mut client, 1 << 20);
    array.wait_ms(16_000);
    assert_eq!(array.shared.borrow().marks.unwrap().early, 0);
    let spare = MemberId(2);
    lose(&mut array, spare);
    let refused = come_back(&mut array, old, Slot(1), generation);
    assert_eq!(refused, Err(Refused::Outdated));
    // A drive whose slot another drive fills is refused too.
    let (_, last) = generations(&array, MemberId(0));
    let disk = copy_of(&array.shared.borrow().disks[2]);
    let refused = come_back(&mut array, disk, Slot(0), last);
    assert_eq!(refused, Err(Refused::Outdated));
    client.verify(&mut array);
}

/// After a drive was replaced, bits are cleared of regions that it lacks. Then its successor is lost.
#[test]
fn a_drive_that_was_replaced_does_not_come_back_by_the_bitmap() {
    for shape in [
        geometry(Level::Raid1, 2, 1 << 20, 3),
        geometry(Level::Raid10, 4, 16 << 10, 192),
    ] {
        let record = marked(shape, 1);
        let mut array = started(&record, 1, 11);
        let mut client = Client::new(shape.size_bytes, 77);
        fill(&mut array, &mut client);
        let (old, new) = (MemberId(1), MemberId(shape.members));
        let order = Command::Replace {
            volume: VolumeId(0),
            slot: Slot(1),
            to: new,
        };
        array.command(order).unwrap();
        let is_replaced = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    job: JobName::Replace,
                    complete: true,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(is_replaced));
        let (generation, last) = generations(&array, old);
        assert!(generation < last, "its record no longer names it");
        let copy = copy_of(&array.shared.borrow().disks[1]);
        write_at(&mut array, &mut client, 1 << 20);
        array.wait_ms(16_000);
        assert!(array.shared.borrow().marks.unwrap().cleared > 0);
        lose(&mut array, new);
        let refused = come_back(&mut array, copy, Slot(1), generation);
        assert_eq!(refused, Err(Refused::Outdated), "{shape:?}");
        client.verify(&mut array);
    }
}

/// The drive comes back while its successor is being filled. Before the successor is lost, bits are cleared of regions
/// that the drive lacks.
#[test]
fn a_drive_that_came_back_beside_its_successor_is_filled_whole_later() {
    let shape = geometry(Level::Raid1, 2, 1 << 20, 8);
    let mut array = started(&marked(shape, 1), 1, 11);
    let mut client = Client::new(shape.size_bytes, 77);
    fill(&mut array, &mut client);
    array.wait_ms(16_000);
    array.command(Command::Rate(1 << 20)).unwrap();
    lose(&mut array, MemberId(1));
    let (generation, _) = generations(&array, MemberId(1));
    let disk = copy_of(&array.shared.borrow().disks[1]);
    let old = come_back(&mut array, disk, Slot(1), generation).unwrap();
    array.command(Command::Rate(0)).unwrap();
    array.run_until(|array| array.has_event(is_rebuilt));
    write_at(&mut array, &mut client, 3 << 20);
    array.wait_ms(16_000);
    assert!(array.shared.borrow().marks.unwrap().cleared > 0);
    lose(&mut array, MemberId(2));
    array.run_until(|array| array.has_event(is_rebuilt));
    let slots = &wanted(&array).volumes[0].slots;
    assert_eq!(slots[1].member, Some(old));
    array.shared.borrow_mut().disks[0].gone = true;
    client.verify(&mut array);
}

fn wanted(array: &Array) -> engine::control::record::Record {
    let controller = array.shards[0].engine.controller().unwrap();
    controller.wanted().clone()
}
