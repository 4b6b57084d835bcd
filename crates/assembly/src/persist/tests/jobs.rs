//! What the record says about jobs: that one has begun, how far it has come, and that it has ended.

use super::*;
use metadata::imsm::record::{Disk, MigrationKind, Volume};

fn volume(persister: &Persister) -> &Volume {
    &persister.mpb().volumes[0]
}

fn kind(persister: &Persister) -> Option<MigrationKind> {
    let migration = volume(persister).migration.as_ref();
    migration.map(|migration| migration.kind)
}

fn sync(kind: SyncKind, done_bytes: u64) -> Option<SyncRecord> {
    Some(SyncRecord { kind, done_bytes })
}

#[test]
fn a_volume_is_dirty_on_record_until_the_engine_says_that_it_is_clean() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    for dirty in [true, false, true] {
        record.volumes[0].dirty = dirty;
        write(&mut persister, &mut record);
        assert_eq!(volume(&persister).is_dirty(), dirty);
    }
}

/// From the kind of job the next start knows whether parity and copies were ever right.
#[test]
fn a_synchronisation_is_on_record_from_its_beginning_to_its_end() {
    for level in [Level::Raid5, Level::Raid10] {
        let kinds = [
            (SyncKind::Initial, MigrationKind::InitialSync),
            (SyncKind::Resync, MigrationKind::Repair),
        ];
        let (mut persister, mut record) = persister(level, 4);
        for (wanted, recorded) in kinds {
            record.volumes[0].sync = sync(wanted, 0);
            write(&mut persister, &mut record);
            assert_eq!(kind(&persister), Some(recorded), "{level}");
            record.volumes[0].sync = None;
            write(&mut persister, &mut record);
            assert_eq!(kind(&persister), None, "{level}");
            assert_eq!(volume(&persister).map.state, MapState::Normal, "{level}");
            assert_eq!(volume(&persister).status & Volume::VERIFY_AND_FIX, 0);
        }
        // A job that follows another at once.
        record.volumes[0].sync = sync(SyncKind::Initial, 0);
        write(&mut persister, &mut record);
        record.volumes[0].sync = sync(SyncKind::Resync, 0);
        write(&mut persister, &mut record);
        assert_eq!(kind(&persister), Some(MigrationKind::Repair), "{level}");
    }
}

/// With a checkpoint that is too far the next start would leave a part out. One that is not far enough makes it repeat
/// work.
#[test]
fn a_checkpoint_is_where_the_work_is_done() {
    const DONE_BYTES: u64 = 12 << 20;
    let done_sectors = DONE_BYTES / SECTOR_BYTES;
    for level in [Level::Raid5, Level::Raid10, Level::Raid1] {
        let members = if level == Level::Raid1 { 2 } else { 4 };
        let (mut persister, mut record) = persister(level, members);
        record.volumes[0].sync = sync(SyncKind::Resync, 0);
        write(&mut persister, &mut record);
        assert_eq!(volume(&persister).checkpoint_sector(), Some(0));
        for (more_bytes, reached) in [(0, done_sectors), (4096, done_sectors)] {
            record.volumes[0].sync = sync(SyncKind::Resync, DONE_BYTES + more_bytes);
            write(&mut persister, &mut record);
            let checkpoint = volume(&persister).checkpoint_sector();
            assert_eq!(checkpoint, Some(reached), "{level}");
        }
    }
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    rebuild_begun(&mut record);
    write(&mut persister, &mut record);
    record.volumes[0].sync.as_mut().unwrap().done_bytes = DONE_BYTES;
    write(&mut persister, &mut record);
    let checkpoint = volume(&persister).checkpoint_sector();
    assert_eq!(checkpoint, Some(done_sectors));
}

#[test]
fn a_rebuild_that_was_given_up_begins_anew_with_the_same_drive() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    rebuild_begun(&mut record);
    write(&mut persister, &mut record);
    record.volumes[0].sync.as_mut().unwrap().done_bytes = 12 << 20;
    write(&mut persister, &mut record);
    record.volumes[0].sync = None;
    write(&mut persister, &mut record);
    let before = persister.mpb().clone();
    begin_rebuild(&mut record, 1, 4);
    assert_eq!(write(&mut persister, &mut record), [1]);
    // The rebuild has been on record all the time.
    assert_eq!(persister.mpb().volumes, before.volumes);
    assert_eq!(persister.mpb().disks, before.disks);
    end_rebuild(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [0; 0]);
}

/// The record names one drive for a slot. The checkpoint of a rebuild onto that drive says nothing about another drive.
#[test]
fn a_rebuild_onto_another_drive_than_the_one_on_record_is_not_taken_for_it() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    rebuild_begun(&mut record);
    write(&mut persister, &mut record);
    record.volumes[0].sync = None;
    write(&mut persister, &mut record);
    // Another volume may have taken the drive, so that it is listed.
    let other = Disk::member(identity(5).serial, DRIVE_BYTES / SECTOR_BYTES);
    persister.written.mpb.disks.push(other);
    begin_rebuild(&mut record, 1, 5);
    record.generation += 1;
    let error = persister.encode(MemberId(0), &record).unwrap_err();
    let said = "the metadata cannot express that background work begins: ";
    assert!(error.to_string().starts_with(said), "{error}");
}

/// A drive that was taken back for another volume still has its slot in this one, and nothing fills it yet.
#[test]
fn a_listed_drive_is_filled_in_its_own_slot() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    let listed = persister.mpb().disks[1].clone();
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    persister.written.mpb.disks[1] = listed;
    begin_rebuild(&mut record, 1, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    assert_eq!(kind(&persister), Some(MigrationKind::Rebuild));
    assert_eq!(
        volume(&persister).rebuild_targets().collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn a_rebuild_onto_a_drive_that_is_too_small_cannot_be_expressed() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    let small = Placement::new(DRIVE_BYTES / 2, SectorSize::Bytes512).unwrap();
    persister.drives[4].placement = small;
    begin_rebuild(&mut record, 1, 4);
    record.generation += 1;
    let error = persister.encode(MemberId(0), &record).unwrap_err();
    let said = "the metadata cannot express that background work begins: ";
    assert!(error.to_string().starts_with(said), "{error}");
}

/// The record has never listed the spare, so no row of it has to be marked.
#[test]
fn a_spare_that_fails_as_soon_as_it_takes_a_slot_leaves_that_lost() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    let before = persister.mpb().clone();
    begin_rebuild(&mut record, 1, 4);
    record.volumes[0].sync = None;
    fail(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [1]);
    assert_eq!(persister.mpb().disks, before.disks);
    assert_eq!(persister.mpb().volumes, before.volumes);
}

/// Once the drive has been rebuilt under its new number, it must not stay marked failed for the old one.
#[test]
fn a_drive_that_comes_back_under_another_number_stays_a_member() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    persister.drives[4].serial = identity(1).serial;
    begin_rebuild(&mut record, 1, 4);
    write(&mut persister, &mut record);
    end_rebuild(&mut record, 1);
    for _ in 0..2 {
        assert_eq!(write(&mut persister, &mut record), [0; 0]);
        assert!(persister.mpb().disks.iter().all(|disk| !disk.is_failed()));
    }
}

#[test]
fn a_rebuild_that_begins_as_a_drive_too_many_is_lost_is_none() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    begin_rebuild(&mut record, 1, 4);
    fail(&mut record, 3);
    assert_eq!(write(&mut persister, &mut record), [1, 3]);
    assert_eq!(volume(&persister).map.state, MapState::Failed);
    assert_eq!(kind(&persister), None);
}

/// A RAID 10 of which md fills two drives at once; the engine fills one after the other.
fn two_being_filled() -> (Persister, Record) {
    let (mut persister, mut record) = persister(Level::Raid10, 4);
    fail(&mut record, 1);
    fail(&mut record, 3);
    write(&mut persister, &mut record);
    begin_rebuild(&mut record, 1, 4);
    write(&mut persister, &mut record);
    let mpb = &mut persister.written.mpb;
    let lost = identity(3).serial.failed();
    let row = mpb.disk_index_of(&lost).expect("marked as failed");
    mpb.disks[row] = Disk::member(identity(5).serial, DRIVE_BYTES / SECTOR_BYTES);
    let volume = &mut mpb.volumes[0];
    volume.map.order[3].out_of_sync = false;
    volume.map.state = MapState::Normal;
    record.members[5].state = MemberState::Active;
    record.volumes[0].slots[3].member = Some(MemberId(5));
    persister.written.seen = record.clone();
    (persister, record)
}

fn targets(persister: &Persister) -> Vec<usize> {
    volume(persister).rebuild_targets().collect()
}

#[test]
fn of_two_drives_that_are_being_filled_only_the_filled_one_is_in_sync() {
    let (mut persister, mut record) = two_being_filled();
    assert_eq!(targets(&persister), [1, 3]);
    end_rebuild(&mut record, 1);
    assert_eq!(write(&mut persister, &mut record), [3]);
    assert_eq!(targets(&persister), [3]);
    assert_eq!(volume(&persister).current_map().state, MapState::Degraded);
    // Then the other drive is filled, from the start.
    begin_rebuild(&mut record, 3, 5);
    assert_eq!(write(&mut persister, &mut record), [3]);
    assert_eq!(volume(&persister).checkpoint_sector(), Some(0));
    record.volumes[0].sync.as_mut().unwrap().done_bytes = 4 << 20;
    write(&mut persister, &mut record);
    assert_eq!(volume(&persister).checkpoint_sector(), Some(8192));
    end_rebuild(&mut record, 3);
    assert_eq!(write(&mut persister, &mut record), [0; 0]);
    assert_eq!(volume(&persister).map.state, MapState::Normal);
    assert_eq!(kind(&persister), None);
}

/// Any program that reads the checkpoint continues there with both drives.
#[test]
fn a_checkpoint_of_one_drive_is_none_of_another_that_is_being_filled_with_it() {
    let (mut persister, mut record) = two_being_filled();
    persister.written.mpb.set_checkpoint(0, 3).unwrap();
    let before = volume(&persister).checkpoint_sector();
    record.volumes[0].sync.as_mut().unwrap().done_bytes = 4 << 20;
    write(&mut persister, &mut record);
    assert_eq!(volume(&persister).checkpoint_sector(), before);
    // The rebuild is given up. The next one does not begin where the first had come.
    record.volumes[0].sync = None;
    write(&mut persister, &mut record);
    assert_eq!(volume(&persister).checkpoint_sector(), Some(0));
    assert_eq!(targets(&persister), [1, 3]);
}
