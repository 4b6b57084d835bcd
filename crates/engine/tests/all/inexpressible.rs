//! A record that the metadata cannot express never counts as durable: writes that depend on it are refused, reads
//! continue, changes that the array can do without are left out, nothing is retried for ever, and a stop ends.

mod service_goes_on;
mod writes_stop;

use crate::memory::{Array, Random, geometry, record};
use engine::control::message::Command;
use engine::control::record::{LogArea, MemberState, Record, SlotRecord, SyncKind, VolumeRecord};
use engine::event::{Event, NotRecorded};
use engine::layout::{Geometry, Level};
use engine::limits::{LOG_HEADER_BYTES, LOG_PARTIAL_PARITY_BYTES_MAX};
use engine::options::Options;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, Nanos, VolumeId};

const VOLUME: VolumeId = VolumeId(0);
const KIB: u64 = 1 << 10;

/// For this long a record that cannot be expressed must not be tried again.
const LONG_MS: u64 = 20_000;

fn shapes() -> [Geometry; 3] {
    [
        geometry(Level::Raid1, 2, 64 << 10, 40),
        geometry(Level::Raid10, 4, 16 << 10, 24),
        geometry(Level::Raid5, 4, 16 << 10, 24),
    ]
}

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
        ..Options::default()
    }
}

fn with_log(mut record: Record) -> Record {
    let volume = &mut record.volumes[0];
    volume.log = Some(LogArea {
        offset_bytes: volume.geometry.start_bytes + volume.geometry.component_bytes,
        length_bytes: LOG_HEADER_BYTES + LOG_PARTIAL_PARITY_BYTES_MAX,
    });
    record
}

fn refuse(array: &Array, refuses: fn(&Record, &Record) -> bool) {
    array.shared.borrow_mut().refuses = refuses;
}

fn refused(array: &Array) -> usize {
    array.shared.borrow().refused.len()
}

/// Gives a volume random content and returns it.
fn fill(array: &mut Array) -> Vec<u8> {
    let mut random = Random(9);
    let size = array.shape.size_bytes;
    let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
    for (at, piece) in content.chunks(256 << 10).enumerate() {
        array.write(0, at as u64 * 256 * KIB, piece).unwrap();
    }
    content
}

fn check(array: &mut Array, content: &[u8]) {
    for (at, expected) in content.chunks(64 << 10).enumerate() {
        let shard = at % array.shards.len();
        let offset = at as u64 * 64 * KIB;
        let got = array.read(shard, offset, expected.len() as u32).unwrap();
        assert!(got == expected, "content at {offset}");
    }
}

fn flush(array: &mut Array) -> Result<(), Failure> {
    let buffer = array.allocate(512);
    let tag = array.submit(0, Operation::Flush, 0, 0, buffer);
    array.finish(tag)
}

fn stopped_writes(array: &Array) -> bool {
    let event = array.has_event(|event| *event == Event::WritesStopped(VOLUME));
    let controller = array.shards[0].engine.controller().unwrap();
    assert_eq!(controller.has_stopped_writes(VOLUME), event);
    event
}

fn was_not_recorded(array: &Array, wanted: NotRecorded) -> bool {
    let wanted = Event::NotRecorded {
        volume: VOLUME,
        change: wanted,
    };
    array.has_event(|event| *event == wanted)
}

/// Checks that nothing is retried over and over.
fn assert_quiet(array: &mut Array) {
    array.wait_ms(500);
    let before = (refused(array), array.shared.borrow().persists.len());
    array.wait_ms(LONG_MS);
    let after = (refused(array), array.shared.borrow().persists.len());
    assert_eq!(after, before, "it keeps retrying");
}

fn until_followed(array: &mut Array) {
    array.run_until(|array| array.shards[0].engine.controller().unwrap().is_followed());
}

fn stop(array: &mut Array) {
    array.command(Command::Stop).unwrap();
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
}

/// The volume in a drive's record.
fn on_drive(array: &Array, drive: usize) -> VolumeRecord {
    let shared = array.shared.borrow();
    let record = shared.disks[drive].record.as_ref();
    record.unwrap_or(&shared.expressed).volumes[0].clone()
}

fn fails(before: &Record, now: &Record) -> bool {
    let count = |record: &Record| {
        let failed = record.members.iter();
        failed
            .filter(|member| member.state == MemberState::Failed)
            .count()
    };
    count(now) > count(before)
}

fn dirties(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| !was.dirty && is.dirty)
}

fn cleans(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| was.dirty && !is.dirty)
}

fn changes(
    before: &Record,
    now: &Record,
    change: impl Fn(&VolumeRecord, &VolumeRecord) -> bool,
) -> bool {
    let mut volumes = before.volumes.iter().zip(&now.volumes);
    volumes.any(|(was, is)| change(was, is))
}

fn kind(volume: &VolumeRecord) -> Option<SyncKind> {
    volume.sync.map(|sync| sync.kind)
}

fn begins_rebuild(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| {
        matches!(kind(is), Some(SyncKind::Rebuild(_))) && kind(was) != kind(is)
    })
}

fn ends_rebuild(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| {
        matches!(kind(was), Some(SyncKind::Rebuild(_))) && kind(is).is_none()
    })
}

fn ends_sync(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| {
        let is_sync = matches!(kind(was), Some(SyncKind::Initial | SyncKind::Resync));
        is_sync && kind(is).is_none()
    })
}

fn checkpoints(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| {
        kind(was) == kind(is) && was.sync != is.sync
    })
}

fn replaces(before: &Record, now: &Record) -> bool {
    let served = |slot: &SlotRecord| slot.member.filter(|_| slot.current);
    changes(before, now, |was, is| {
        let mut slots = was.slots.iter().zip(&is.slots);
        slots.any(|(was, is)| {
            served(was).is_some() && served(is).is_some() && served(was) != served(is)
        })
    })
}

fn clears_bits(before: &Record, now: &Record) -> bool {
    changes(before, now, |was, is| {
        let of = |volume: &VolumeRecord| volume.bitmap.as_ref().map(|by| by.cleared_generation);
        of(was) != of(is)
    })
}

fn records_blocks(before: &Record, now: &Record) -> bool {
    before.bad_blocks != now.bad_blocks
}
