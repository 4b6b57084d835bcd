//! What the array reports of its volumes when it stops and when they are idle, and what must be done before it does.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::{Command, Message};
use engine::control::record::{MemberState, Record, SyncKind, VolumeRecord};
use engine::event::{Event, VolumeEnd};
use engine::layout::Level;
use engine::options::Options;
use engine::policy::ErrorClass;
use engine::request::Operation;
use engine::units::{MemberId, Nanos, VolumeId};

fn quick() -> Options {
    Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        auto_rebuild: false,
        ..Options::default()
    }
}

fn mirrors() -> Record {
    record(geometry(Level::Raid10, 4, 16 << 10, 24), 0, None)
}

fn is_clean(event: &Event) -> bool {
    matches!(event, Event::DirtyMark { dirty: false, .. })
}

fn stop(array: &mut Array) {
    array.command(Command::Stop).unwrap();
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
}

fn ended(array: &Array, volume: u8) -> Option<VolumeEnd> {
    let shared = array.shared.borrow();
    shared.events.iter().find_map(|event| match event {
        Event::VolumeStopped { volume: of, end } if of.0 == volume => Some(*end),
        _ => None,
    })
}

fn on_drive(array: &Array, drive: usize, volume: usize) -> VolumeRecord {
    let shared = array.shared.borrow();
    let record = shared.disks[drive].record.as_ref();
    record.expect("it has one").volumes[volume].clone()
}

/// The volume was clean all the time, so the stop has nothing to flush.
#[test]
fn a_stop_waits_for_reads_that_are_under_way() {
    for shards in [1, 2] {
        let mut array = Array::new(mirrors(), shards, 3, quick());
        array.shared.borrow_mut().latency_ns = 400 * Nanos::MILLISECOND.0;
        let shard = usize::from(shards) - 1;
        let buffer = array.allocate(128 << 10);
        let tag = array.submit(shard, Operation::Read, 0, 128 << 10, buffer);
        array.turn();
        stop(&mut array);
        assert_eq!(array.take_completion(tag), Some(Ok(())), "{shards} shards");
    }
}

#[test]
fn a_volume_is_called_clean_when_that_is_on_record() {
    let mut array = Array::new(mirrors(), 2, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().hold_persists = true;
    array.run_until(|array| !on_drive(array, 0, 0).dirty);
    array.wait_ms(500);
    assert!(!array.has_event(is_clean), "the others do not say so yet");
    array.release_persists();
    array.run_until(|array| array.has_event(is_clean));
    assert!((0..4).all(|drive| !on_drive(&array, drive, 0).dirty));
}

/// A crash has put the volume's redundancy in doubt, and a drive is missing. After the rebuild the whole volume is to
/// be resynced.
#[test]
fn a_volume_that_is_to_be_resynced_later_stays_dirty() {
    let mut crashed = mirrors();
    crashed.members[1].state = MemberState::Absent;
    let volume = &mut crashed.volumes[0];
    (volume.slots[1].member, volume.slots[1].current) = (None, false);
    (volume.dirty, volume.then_resync) = (true, true);
    let mut array = Array::new(crashed, 2, 3, quick());
    array.write(1, 0, &[1; 4096]).unwrap();
    array.wait_ms(1000);
    assert!(!array.has_event(is_clean));
    stop(&mut array);
    assert_eq!(ended(&array, 0), Some(VolumeEnd::StaysDirty));
    for drive in [0, 2, 3] {
        let own = on_drive(&array, drive, 0);
        assert!(own.dirty && own.then_resync);
    }
}

/// Beside it is a volume that is written to.
#[test]
fn a_dirty_volume_that_is_only_read_stays_dirty() {
    let mut two = mirrors();
    let mut other = two.volumes[0].clone();
    other.geometry.start_bytes += other.geometry.component_bytes + MIB;
    (two.volumes[0].dirty, two.volumes[0].read_only) = (true, true);
    two.volumes.push(other);
    let members = two.members.iter_mut();
    members.for_each(|member| member.size_bytes += 4 * MIB);
    let mut array = Array::new(two, 1, 3, quick());
    let buffer = array.allocate(4096);
    let write = Operation::Write;
    let tag = array.submit_to(0, VolumeId(1), write, 0, 4096, buffer, false);
    assert_eq!(array.finish(tag), Ok(()));
    array.run_until(|array| array.has_event(is_clean));
    array.wait_ms(1000);
    stop(&mut array);
    assert_eq!(ended(&array, 0), Some(VolumeEnd::OnlyRead));
    assert_eq!(ended(&array, 1), Some(VolumeEnd::Clean));
    for drive in 0..4 {
        assert!(on_drive(&array, drive, 0).dirty && !on_drive(&array, drive, 1).dirty);
    }
}

/// No mark of a volume depends on that change.
#[test]
fn a_stop_is_over_when_the_last_change_is_on_record() {
    let stripes = record(geometry(Level::Raid0, 2, 16 << 10, 24), 1, None);
    let mut array = Array::new(stripes, 1, 3, quick());
    array.write(0, 0, &[1; 4096]).unwrap();
    array.shared.borrow_mut().hold_persists = true;
    array.command(Command::Remove(MemberId(2))).unwrap();
    array.command(Command::Stop).unwrap();
    array.wait_ms(1000);
    assert!(!array.has_event(|event| *event == Event::Stopped));
    array.release_persists();
    array.run_until(|array| array.has_event(|event| *event == Event::Stopped));
    let shared = array.shared.borrow();
    for disk in &shared.disks[..2] {
        let own = disk.record.as_ref().unwrap();
        assert_eq!(own.members[2].state, MemberState::Absent);
    }
}

/// The volume is clean, and nothing was written.
#[test]
fn a_stop_waits_until_it_is_decided_whether_a_failure_goes_on_record() {
    let mut array = Array::new(mirrors(), 1, 3, quick());
    array.shared.borrow_mut().disks[0].gone = true;
    array.read(0, 0, 4096).unwrap();
    assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
    stop(&mut array);
    let shared = array.shared.borrow();
    for disk in &shared.disks[1..] {
        let own = disk.record.as_ref().expect("it has one");
        assert_eq!(own.members[0].state, MemberState::Failed);
    }
}

#[test]
fn a_stop_leaves_on_record_how_far_a_sync_has_come() {
    let shape = geometry(Level::Raid1, 2, 64 << 10, 256);
    let slow = Options {
        rate_bytes_per_s: MIB,
        ..quick()
    };
    let fresh = record(shape, 0, Some(SyncKind::Initial));
    let mut array = Array::new(fresh, 1, 3, slow);
    let done = |array: &Array| {
        let controller = array.shards[0].engine.controller().unwrap();
        controller.job(VolumeId(0)).map_or(0, |job| job.done_bytes)
    };
    array.run_until(|array| done(array) >= 512 << 10);
    stop(&mut array);
    let sync = on_drive(&array, 0, 0).sync.expect("it is not complete");
    assert!(sync.done_bytes >= 512 << 10, "{}", sync.done_bytes);
}

/// An array that may only be read leaves no trace.
#[test]
fn nothing_goes_on_record_where_no_volume_may_be_written_to() {
    for read_only in [true, false] {
        let mut only_read = mirrors();
        only_read.volumes[0].read_only = read_only;
        only_read.volumes[0].not_started = !read_only;
        let mut array = Array::new(only_read, 1, 3, quick());
        let failed = Message::MemberFailed {
            member: MemberId(0),
            class: ErrorClass::Gone,
            errno: 6,
        };
        array.shared.borrow_mut().mail[0].push_back(failed);
        array.wait_ms(1000);
        assert!(array.has_event(|event| matches!(event, Event::MemberFailed { .. })));
        stop(&mut array);
        assert!(array.shared.borrow().persists.is_empty(), "{read_only}");
    }
}
