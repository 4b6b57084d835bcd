//! What a start tells the engine about the volumes and the drives.

use super::rig::{DEGRADED, NOTHING, on_record, open, put, rebuild_onto, spec, start};
use super::{MIB_SECTORS, record};
use crate::assemble::{Container, assemble};
use crate::member::Member;
use engine::control::bad_blocks::BadRange;
use engine::control::record::{SyncKind, SyncRecord, VolumeRecord};
use engine::policy::MemberKind;
use engine::units::{MemberId, Slot};
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Level, Mpb, WriteHolePolicy};

const MEMBERS: usize = 4;
const ALL: [usize; MEMBERS] = [0, 1, 2, 3];

/// A volume of four drives in sync, clean, without log and bitmap.
fn made(level: Level) -> Mpb {
    record(level, MEMBERS, 4 | 8).expect("a valid record")
}

fn logged() -> Mpb {
    let mut mpb = made(Level::Raid5);
    mpb.set_write_hole_policy(0, WriteHolePolicy::Log).unwrap();
    mpb
}

fn only<M>(container: &Container<M>) -> &VolumeRecord {
    assert_eq!(container.record.volumes.len(), 1);
    &container.record.volumes[0]
}

fn sync(kind: SyncKind, done_bytes: u64) -> Option<SyncRecord> {
    Some(SyncRecord { kind, done_bytes })
}

/// A job continues at its checkpoint: what is done is not done again, and nothing is left out.
#[test]
fn background_work_goes_on_where_the_record_says() {
    let mut rebuilt = made(Level::Raid5);
    rebuild_onto(&mut rebuilt, 1, 4);
    let mut initial = made(Level::Raid5);
    initial.start_initial_sync(0).unwrap();
    let mut repaired = made(Level::Raid10);
    repaired.start_repair(0).unwrap();
    for (mut mpb, numbers, kind) in [
        (rebuilt, [0, 4, 2, 3], SyncKind::Rebuild(Slot(1))),
        (initial, ALL, SyncKind::Initial),
        (repaired, ALL, SyncKind::Resync),
    ] {
        let unit = mpb.volumes[0]
            .checkpoint_at(2 * 256)
            .expect("a job is on record");
        for (unit, done_bytes) in [(0, 0), (unit, 256 << 10)] {
            mpb.set_checkpoint(0, unit).unwrap();
            let container = start(&put(&mpb, 5), &numbers, NOTHING);
            assert_eq!(only(&container).sync, sync(kind, done_bytes));
            assert!(!only(&container).dirty && !only(&container).then_resync);
            let filled = match kind {
                SyncKind::Rebuild(Slot(slot)) => Some(usize::from(slot)),
                _ => None,
            };
            for (at, slot) in only(&container).slots.iter().enumerate() {
                let served_by = &container.members[usize::from(slot.member.unwrap().0)].name;
                assert_eq!(*served_by, super::name(numbers[at]));
                assert_eq!(slot.current, Some(at) != filled);
            }
            // If the volume is dirty, writes may have been cut off anywhere, so the job begins again.
            let mut dirty = mpb.clone();
            dirty.set_dirty(0, true).unwrap();
            let drives = put(&dirty, 5);
            let accepted = StartOptions {
                accept_write_hole: true,
                ..NOTHING
            };
            let container = start(&drives, &numbers, accepted);
            assert_eq!(only(&container).sync, sync(kind, 0));
            assert!(only(&container).dirty && on_record(&drives[0]).volumes[0].is_dirty());
        }
    }
}

/// The rebuild does not compare the copies of the other mirrors.
#[test]
fn mirrors_that_a_crash_left_unequal_are_resynchronised_after_a_rebuild() {
    for (level, is_dirty, then_resync) in [
        (Level::Raid10, true, true),
        (Level::Raid10, false, false),
        (Level::Raid5, true, false),
    ] {
        let mut mpb = made(level);
        rebuild_onto(&mut mpb, 1, 4);
        mpb.set_dirty(0, is_dirty).unwrap();
        let options = StartOptions {
            accept_write_hole: true,
            ..NOTHING
        };
        let container = start(&put(&mpb, 5), &[0, 4, 2, 3], options);
        assert_eq!(only(&container).then_resync, then_resync, "{level}");
    }
}

/// Each drive that is present gets its own bad blocks. For drives that are absent the engine only gets the number of
/// entries, which they take up in the log.
#[test]
fn the_bad_blocks_of_the_drives_that_are_here_are_known_and_those_of_others_counted() {
    let mut mpb = made(Level::Raid5);
    mpb.set_bad_ranges(1, &[4096..4104, 5000..5001]).unwrap();
    mpb.set_bad_ranges(3, std::slice::from_ref(&(6000..6008)))
        .unwrap();
    mpb.disks.swap(1, 2);
    mpb.volumes[0].map.order[1].disk_index = 2;
    mpb.volumes[0].map.order[2].disk_index = 1;
    let range = |member, first: u64, sectors: u64| BadRange {
        member: MemberId(member),
        offset_bytes: first * 512,
        length_bytes: sectors * 512,
    };
    // Entries name rows of the disk table: row 1 is the third drive.
    let all = start(&put(&mpb, 4), &ALL, NOTHING).record.bad_blocks;
    let wanted = [range(1, 4096, 8), range(1, 5000, 1), range(3, 6000, 8)];
    assert_eq!(all.ranges(), wanted);
    for (without, numbers) in [(3, [0, 1, 2]), (2, [0, 1, 3])] {
        let container = assemble(open(&put(&mpb, 4), &numbers), DEGRADED, true);
        let container = container.unwrap();
        let member = |number: usize| {
            let mut members = container.members.iter();
            let at = members.position(|member| member.name == super::name(number));
            at.map(|at| MemberId(at as u8))
        };
        assert_eq!(member(without), None);
        let found = &container.record.bad_blocks;
        let elsewhere = if without == 3 { 1 } else { 2 };
        assert_eq!(found.ranges().len(), 3 - elsewhere);
        let other = member(5 - without).unwrap();
        assert_eq!(found.of(other).len(), 3 - elsewhere);
        let mut same = engine::control::bad_blocks::BadBlocks::new(elsewhere);
        for range in found.ranges() {
            same.add(*range).unwrap();
        }
        assert_eq!(*found, same);
    }
}

/// Parity that was never computed cannot stand in for a drive.
#[test]
fn where_parity_was_never_computed_a_volume_without_a_drive_is_only_read() {
    let mut mpb = logged();
    mpb.start_initial_sync(0).unwrap();
    let unit = mpb.volumes[0].checkpoint_at(512).unwrap();
    mpb.set_checkpoint(0, unit).unwrap();
    let drives = put(&mpb, MEMBERS);
    let options = StartOptions {
        accept_unsynced: true,
        ..DEGRADED
    };
    let before = super::rig::copied(&drives);
    let container = start(&drives, &[0, 1, 3], options);
    let volume = only(&container);
    assert!(volume.read_only && !volume.not_started);
    assert_eq!(volume.log, None);
    assert_eq!(volume.sync, sync(SyncKind::Initial, 256 << 10));
    assert_eq!(volume.slots[2].member, None);
    assert!(!volume.slots[2].current && volume.slots[3].current);
    require_same(&drives, &before);

    // Nothing was written without the drive, so it serves again when it is back.
    let container = start(&drives, &ALL, NOTHING);
    let volume = only(&container);
    assert!(!volume.read_only && volume.slots.iter().all(|slot| slot.current));
    assert_eq!(volume.sync, sync(SyncKind::Initial, 256 << 10));
}

fn require_same(drives: &[super::Pages], before: &[super::Pages]) {
    for (pages, before) in drives.iter().zip(before) {
        assert!(*pages.borrow() == *before.borrow(), "something was written");
    }
}

/// Nothing fills the slot yet. Reads from a drive in that slot would return something else than the volume's data.
#[test]
fn a_slot_that_is_out_of_sync_and_not_being_filled_has_no_drive() {
    let mut mpb = made(Level::Raid5);
    let row = mpb.disks[1].clone();
    mpb.mark_failed(1).unwrap();
    // The drive is a member again, as when another volume has waited for it.
    mpb.disks[1] = row;
    let container = start(&put(&mpb, MEMBERS), &ALL, NOTHING);
    let slot = only(&container).slots[1];
    assert_eq!((slot.member, slot.current), (None, false));
    assert_eq!(only(&container).sync, None);
}

/// No regions are marked in a volume that is not written to.
#[test]
fn a_bitmap_is_kept_only_of_a_volume_that_may_be_written() {
    let mut mpb = made(Level::Raid10);
    mpb.set_write_hole_policy(0, WriteHolePolicy::Bitmap)
        .unwrap();
    let drives = put(&mpb, MEMBERS);
    for (read_only, is_kept) in [(true, false), (false, true)] {
        let container = assemble(open(&drives, &ALL), NOTHING, read_only).unwrap();
        assert_eq!(only(&container).read_only, read_only);
        assert_eq!(only(&container).bitmap.is_some(), is_kept);
    }
    // Beside it lies a volume whose parity may be wrong, and which is not started.
    let mut two = mpb.clone();
    two.add_volume(&spec("doubt", Level::Raid5)).unwrap();
    two.set_write_hole_policy(1, WriteHolePolicy::Bitmap)
        .unwrap();
    two.set_dirty(1, true).unwrap();
    let container = start(&put(&two, MEMBERS), &[0, 1, 2], DEGRADED);
    let [sure, doubt] = &container.record.volumes[..] else {
        panic!("not two volumes");
    };
    assert!(!sure.not_started && sure.bitmap.is_some());
    assert!(doubt.not_started && doubt.bitmap.is_none());
    assert_eq!(container.started().len(), 1);
}

/// The engine does not understand a journal drive, so it must not write to the volume.
#[test]
fn a_volume_with_a_policy_of_another_kind_is_only_read() {
    let mut mpb = made(Level::Raid5);
    mpb.set_write_hole_policy(0, WriteHolePolicy::JournalDrive)
        .unwrap();
    let drives = put(&mpb, MEMBERS);
    let container = start(&drives, &ALL, NOTHING);
    let volume = only(&container);
    assert!(volume.read_only && !volume.not_started && volume.log.is_none());
    assert!(
        container
            .notes
            .iter()
            .any(|note| note.contains("read-only"))
    );
    assert_eq!(on_record(&drives[0]), mpb);
}

#[test]
fn a_container_that_is_only_read_is_not_written_to() {
    let mut mpb = made(Level::Raid10);
    mpb.set_dirty(0, true).unwrap();
    let drives = put(&mpb, MEMBERS);
    let before = super::rig::copied(&drives);
    let container = assemble(open(&drives, &[0, 1, 2]), DEGRADED, true).unwrap();
    assert!(only(&container).read_only && only(&container).dirty);
    require_same(&drives, &before);
    assert_eq!(container.members.len(), 3);
}

#[test]
fn the_shape_of_a_volume_is_in_bytes() {
    let mut mpb = made(Level::Raid10);
    mpb.add_volume(&spec("second", Level::Raid5)).unwrap();
    let start_sector = mpb.volumes[1].map.start_sector;
    assert!(start_sector > MIB_SECTORS);
    let container = start(&put(&mpb, MEMBERS), &ALL, NOTHING);
    let shape = container.record.volumes[1].geometry;
    assert_eq!(shape.level, engine::layout::Level::Raid5);
    assert_eq!((shape.members, shape.block_bytes), (4, 512));
    assert_eq!(shape.chunk_bytes, 16 << 10);
    assert_eq!(shape.start_bytes, start_sector * 512);
    assert_eq!(
        (shape.component_bytes, shape.size_bytes),
        (1 << 20, 3 << 20)
    );
}

/// The drive itself says whether it has to be flushed, and its kind decides what its errors mean.
#[test]
fn drives_are_what_they_say_that_they_are() {
    let container = start(&put(&made(Level::Raid5), MEMBERS), &ALL, NOTHING);
    for (member, drive) in container.record.members.iter().zip(&container.members) {
        assert_eq!(member.size_bytes, drive.size_bytes());
        assert!(member.volatile_cache && member.discards);
        assert_eq!(member.kind, MemberKind::Device);
    }
}

/// The update is based on the record that the start has written, not on the one that it found.
#[test]
fn the_first_update_of_a_session_says_what_the_start_has_put_on_record() {
    let mut mpb = logged();
    mpb.set_dirty(0, true).unwrap();
    let drives = put(&mpb, MEMBERS);
    let mut container = start(&drives, &[0, 1, 3], DEGRADED);
    let written = on_record(&drives[0]);
    assert!(written.disks[2].is_failed() && !written.volumes[0].is_dirty());
    let mut record = container.record.clone();
    record.generation += 1;
    container.persister.encode(MemberId(0), &record).unwrap();
    let generation = written.generation + 1;
    let wanted = Mpb {
        generation,
        ..written
    };
    assert_eq!(*container.persister.mpb(), wanted);
}
