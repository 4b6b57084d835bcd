//! What a start leaves on record and on the drives, besides parity and bitmaps.

use super::rig::{DEGRADED, NOTHING, new_drive, on_record, put, rebuild_onto, spec, start};
use super::{PAGE_BYTES, Pages, SECTOR, put_record, read, record, write};
use crate::assemble::bitmap::new_bitmap;
use engine::control::record::SyncKind;
use metadata::imsm::log::{AreaStart, Header, LoggedVolume, walk};
use metadata::imsm::record::MigrationKind;
use metadata::imsm::{Level, Mpb, Volume, WriteHolePolicy};

const MEMBERS: usize = 4;
const ALL: [usize; MEMBERS] = [0, 1, 2, 3];

/// A volume in sync that was not stopped cleanly.
fn made(level: Level, policy: WriteHolePolicy) -> Mpb {
    let mut mpb = record(level, MEMBERS, 4 | 8).expect("a valid record");
    mpb.set_write_hole_policy(0, policy).unwrap();
    mpb.set_dirty(0, true).unwrap();
    mpb
}

fn kind_on(pages: &Pages) -> Option<MigrationKind> {
    let mpb = on_record(pages);
    mpb.volumes[0]
        .migration
        .as_ref()
        .map(|migration| migration.kind)
}

/// Bytes that are no log and no bitmap, where one would be.
fn spoil(pages: &Pages, sector: u64) {
    write(pages, sector * 512, &[0x3C; PAGE_BYTES]);
}

fn spoilt(pages: &Pages, sector: u64) -> bool {
    read(pages, sector * 512, PAGE_BYTES) == [0x3C; PAGE_BYTES]
}

/// The log makes parity right, but the drive that is being rebuilt may lack interrupted writes below the checkpoint.
/// The dirty mark makes the next start rebuild it from the beginning.
#[test]
fn a_replay_beside_a_rebuild_leaves_the_volume_dirty() {
    let mut mpb = made(Level::Raid5, WriteHolePolicy::Log);
    rebuild_onto(&mut mpb, 1, 4);
    let drives = put(&mpb, 5);
    let container = start(&drives, &[0, 4, 2, 3], NOTHING);
    let volume = &container.record.volumes[0];
    assert!(matches!(volume.sync.unwrap().kind, SyncKind::Rebuild(_)));
    assert!(volume.dirty);
    assert_eq!(on_record(&drives[0]).volumes[0].dirty, mpb.volumes[0].dirty);
}

/// The start does not compare the copies with each other, so whether they are equal is as unknown as before.
#[test]
fn a_degraded_mirror_that_was_not_stopped_cleanly_stays_dirty() {
    let mpb = made(Level::Raid10, WriteHolePolicy::Off);
    let drives = put(&mpb, MEMBERS);
    let container = start(&drives, &[0, 2], DEGRADED);
    assert_eq!(container.record.volumes[0].sync, None);
    assert!(container.record.volumes[0].dirty);
    assert!(on_record(&drives[0]).volumes[0].is_dirty());
}

#[test]
fn a_resync_that_a_crash_has_made_necessary_is_on_record_once() {
    for level in [Level::Raid10, Level::Raid5] {
        let drives = put(&made(level, WriteHolePolicy::Off), MEMBERS);
        // The second start finds it on record already.
        for _ in 0..2 {
            let container = start(&drives, &ALL, NOTHING);
            let sync = container.record.volumes[0].sync.unwrap();
            assert_eq!(sync.kind, SyncKind::Resync);
            assert_eq!(kind_on(&drives[0]), Some(MigrationKind::Repair));
        }
    }
}

#[test]
fn a_volume_that_was_never_synchronised_says_so_when_it_has_begun() {
    let mpb = record(Level::Raid5, MEMBERS, 8).expect("a valid record");
    let mut mpb = mpb;
    mpb.volumes[0].migration = None;
    mpb.volumes[0].map.state = metadata::imsm::MapState::Uninitialised;
    let drives = put(&mpb, MEMBERS);
    for _ in 0..2 {
        let container = start(&drives, &ALL, NOTHING);
        let sync = container.record.volumes[0].sync.unwrap();
        assert_eq!(sync.kind, SyncKind::Initial);
        assert_eq!(kind_on(&drives[0]), Some(MigrationKind::InitialSync));
    }
}

/// The dirty mark says whether there is a log. A log that is no longer kept must not be replayed.
#[test]
fn a_log_that_has_no_room_is_given_up_on_record_and_in_the_mark() {
    let mut mpb = made(Level::Raid5, WriteHolePolicy::Log);
    assert_ne!(mpb.volumes[0].dirty & Volume::LOG_VALID, 0);
    // Another volume lies directly behind the first, where the log would be.
    mpb.add_volume(&spec("next", Level::Raid10)).unwrap();
    mpb.volumes[1].map.start_sector = mpb.volumes[0].extent().end;
    let drives = put(&mpb, MEMBERS);
    let container = start(&drives, &ALL, NOTHING);
    let volume = &container.record.volumes[0];
    assert_eq!(
        (volume.log, volume.sync.unwrap().kind),
        (None, SyncKind::Resync)
    );
    for pages in &drives {
        let volume = &on_record(pages).volumes[0];
        assert_eq!(volume.write_hole_policy, WriteHolePolicy::Off);
        assert_eq!(volume.dirty, Volume::DIRTY);
    }
}

/// A spare that takes a slot must not bring an old log into it.
#[test]
fn spares_get_empty_logs_as_the_members_do() {
    let mut mpb = made(Level::Raid5, WriteHolePolicy::Log);
    mpb.add_volume(&spec("second", Level::Raid5)).unwrap();
    mpb.set_write_hole_policy(1, WriteHolePolicy::Log).unwrap();
    let drives = put(&mpb, MEMBERS + 1);
    put_record(
        &drives[MEMBERS],
        &Mpb::spare(&new_drive(MEMBERS), SECTOR).unwrap(),
    );
    let logs = [0, 1].map(|at| LoggedVolume::of(&mpb, at, SECTOR).unwrap());
    let last = |log: &LoggedVolume| log.log_sector() + log.log_sectors - 8;
    for log in &logs {
        spoil(&drives[MEMBERS], log.log_sector());
        drives.iter().for_each(|pages| spoil(pages, last(log)));
    }
    let container = start(&drives, &[0, 1, 2, 3, 4], NOTHING);
    assert_eq!(container.members.len(), MEMBERS + 1);
    for (number, pages) in drives.iter().enumerate() {
        for log in &logs {
            let area = read(pages, log.log_sector() * 512, log.log_bytes());
            let found = walk(&area, log.signature, SECTOR);
            assert_eq!(found.start, AreaStart::Header, "drive {number}");
            assert!(!spoilt(pages, last(log)), "drive {number}");
        }
    }
}

/// When the missing drive is back, the logs and bitmaps that lie on the drives now may settle what is in doubt.
#[test]
fn logs_and_bitmaps_of_a_volume_that_is_not_started_stay_as_they_are() {
    for policy in [WriteHolePolicy::Log, WriteHolePolicy::Bitmap] {
        let mut mpb = record(Level::Raid10, MEMBERS, 4).expect("a valid record");
        mpb.add_volume(&spec("doubt", Level::Raid5)).unwrap();
        mpb.set_write_hole_policy(1, policy).unwrap();
        mpb.set_dirty(1, true).unwrap();
        let drives = put(&mpb, MEMBERS);
        let volume = &mpb.volumes[1];
        let behind = volume.map.start_sector + volume.component_sectors();
        match policy {
            WriteHolePolicy::Log => drives.iter().for_each(|pages| spoil(pages, behind)),
            _ => {
                let mut bitmap = new_bitmap(&mpb, 1, SECTOR, None).unwrap();
                bitmap.marked[0] = 1;
                bitmap.header.events = 3;
                let at = bitmap.volume.header_offset_bytes();
                drives
                    .iter()
                    .for_each(|pages| write(pages, at, &bitmap.encode()));
            }
        }
        let held = |pages: &Pages| read(pages, behind * 512, 1 << 20);
        let before: Vec<_> = drives.iter().map(held).collect();
        let container = start(&drives, &[0, 1, 2], DEGRADED);
        assert!(container.not_started[1].is_some(), "{:?}", container.notes);
        assert_eq!(container.not_started[0], None);
        let after: Vec<_> = drives.iter().map(held).collect();
        assert!(before == after, "something was written");
    }
}

/// Other programs use that counter to tell which bitmap is newer.
#[test]
fn the_headers_of_bitmaps_have_the_number_of_the_record_that_they_were_found_with() {
    let mut mpb = made(Level::Raid10, WriteHolePolicy::Bitmap);
    mpb.generation = 33;
    let bitmap = new_bitmap(&mpb, 0, SECTOR, None).unwrap();
    assert_eq!(
        (bitmap.header.events, bitmap.header.events_cleared),
        (34, 34)
    );
    let drives = put(&mpb, MEMBERS);
    let at = bitmap.volume.header_offset_bytes();
    drives
        .iter()
        .for_each(|pages| write(pages, at, &bitmap.encode()));
    let container = start(&drives, &ALL, NOTHING);
    for drive in &container.members {
        let (header, _) = crate::assemble::bitmap::read_one(drive, &bitmap.volume).unwrap();
        assert_eq!(header.events, 33);
    }
}

/// Any of the volumes may be the one that was being written to.
#[test]
fn each_volume_of_a_container_is_settled_for_itself() {
    for dirty in [[false, true], [true, false], [true, true]] {
        let mut mpb = record(Level::Raid5, MEMBERS, 4).expect("a valid record");
        mpb.add_volume(&spec("second", Level::Raid5)).unwrap();
        for policy in [WriteHolePolicy::Log, WriteHolePolicy::Off] {
            for (at, dirty) in dirty.into_iter().enumerate() {
                mpb.set_write_hole_policy(at, policy).unwrap();
                mpb.set_dirty(at, dirty).unwrap();
            }
            let drives = put(&mpb, MEMBERS);
            for log in [0, 1].map(|at| LoggedVolume::of(&mpb, at, SECTOR).unwrap()) {
                let empty = Header::empty(log.signature).encode(SECTOR);
                let place = log.log_sector() * 512;
                drives.iter().for_each(|pages| write(pages, place, &empty));
            }
            let container = start(&drives, &ALL, NOTHING);
            for (at, name) in ["fuzz", "second"].into_iter().enumerate() {
                let said = format!("volume {name} was not stopped cleanly; its write-hole log has");
                let is_said = container.notes.iter().any(|note| note.starts_with(&said));
                let volume = &on_record(&drives[0]).volumes[at];
                let is_logged = policy == WriteHolePolicy::Log;
                assert_eq!(is_said, dirty[at] && is_logged, "{:?}", container.notes);
                assert_eq!(volume.is_dirty(), dirty[at] && !is_logged);
                assert_eq!(volume.migration.is_some(), dirty[at] && !is_logged);
                let sync = container.record.volumes[at].sync;
                assert_eq!(sync.is_some(), dirty[at] && !is_logged);
            }
        }
    }
}

/// The second volume's bitmap marks nothing, but that does not make the first volume clean.
#[test]
fn a_bitmap_says_nothing_of_another_volume() {
    let mut mpb = made(Level::Raid10, WriteHolePolicy::Off);
    mpb.add_volume(&spec("second", Level::Raid10)).unwrap();
    mpb.set_write_hole_policy(1, WriteHolePolicy::Bitmap)
        .unwrap();
    mpb.set_dirty(1, true).unwrap();
    let drives = put(&mpb, MEMBERS);
    let mut bitmap = new_bitmap(&mpb, 1, SECTOR, None).unwrap();
    bitmap.marked.fill(0);
    let at = bitmap.volume.header_offset_bytes();
    drives
        .iter()
        .for_each(|pages| write(pages, at, &bitmap.encode()));
    let container = start(&drives, &ALL, NOTHING);
    let volumes = &container.record.volumes;
    assert_eq!(volumes[0].sync.unwrap().kind, SyncKind::Resync);
    assert_eq!(volumes[1].sync, None);
}
