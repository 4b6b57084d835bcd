//! How a start uses the write-intent bitmaps that it finds on the drives, and what it writes to them.

use super::rig::{DEGRADED, NOTHING, rebuild_onto};
use super::{MIB_SECTORS, Memory, Pages, SECTOR, put_record, read, record, write};
use crate::assemble::bitmap::{FoundBitmap, follow, new_bitmap, read_all, read_one, start_modes};
use crate::assemble::{Container, assemble};
use crate::member::Member;
use engine::control::record::{SyncKind, SyncRecord};
use engine::units::MemberId;
use metadata::imsm::bitmap::{Header, all_words};
use metadata::imsm::choose::{Assembly, choose};
use metadata::imsm::record::{Migration, MigrationKind};
use metadata::imsm::start::{StartMode, StartOptions, SyncWork};
use metadata::imsm::{Level, Mpb, WriteHolePolicy};

mod coming_back;
mod returning;

type Change = fn(&mut Mpb);

const MEMBERS: usize = 4;
/// The drive that leaves.
const AWAY: usize = 3;
const REGION_BYTES: u32 = 64 << 10;
/// Number of regions in the volume's 2 MiB.
const REGIONS: u64 = 32;
/// A RAID 10 with a bitmap, in sync.
fn made(is_dirty: bool) -> Mpb {
    let mut mpb = record(Level::Raid10, MEMBERS, 4).expect("a valid record");
    assert_eq!(mpb.volumes[0].size_sectors, 2 * MIB_SECTORS);
    mpb.set_write_hole_policy(0, WriteHolePolicy::Bitmap)
        .unwrap();
    mpb.set_dirty(0, is_dirty).unwrap();
    mpb.generation = 20;
    mpb
}

/// The record that the other drives have after [`AWAY`] has failed.
fn without(of: &Mpb) -> Mpb {
    let mut now = of.clone();
    now.mark_failed(AWAY).unwrap();
    now.generation = 22;
    now
}

/// A bitmap with these regions marked. Its header says since which generation bits may have been cleared.
fn bitmap(mpb: &Mpb, marked: u64, events_cleared: u64) -> FoundBitmap {
    let mut found = new_bitmap(mpb, 0, SECTOR, Some(REGION_BYTES)).unwrap();
    assert_eq!(found.regions(), REGIONS);
    found.marked = vec![marked];
    found.header.events_cleared = events_cleared;
    found
}

fn put_bitmap(pages: &Pages, found: &FoundBitmap) {
    write(pages, found.volume.header_offset_bytes(), &found.encode());
}

/// Drives with this record, each with the bitmap that `bitmap_of` gives for its slot.
fn put(mpb: &Mpb, bitmap_of: impl Fn(usize) -> FoundBitmap) -> Vec<Pages> {
    let drives: Vec<Pages> = (0..MEMBERS).map(|_| Pages::default()).collect();
    for (slot, pages) in drives.iter().enumerate() {
        put_record(pages, mpb);
        put_bitmap(pages, &bitmap_of(slot));
    }
    drives
}

fn open(drives: &[Pages]) -> Vec<Memory> {
    let open = |(slot, pages): (usize, &Pages)| Memory::open(slot, pages.clone());
    drives
        .iter()
        .enumerate()
        .map(|drive| open(drive).unwrap())
        .collect()
}

fn assembly(drives: &[Memory]) -> Assembly {
    let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
    let mut choice = choose(&candidates);
    choice
        .containers
        .remove(0)
        .outcome
        .expect("drives of one array")
}

/// The bitmap that results from those of all members.
fn found(drives: &[Pages]) -> FoundBitmap {
    let drives = open(drives);
    let mut found = read_all(&drives, &assembly(&drives));
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The bitmap of each drive now.
fn left(drives: &[Pages], at: &FoundBitmap) -> Vec<(Header, Vec<u64>)> {
    let one = |drive: &Memory| read_one(drive, &at.volume).expect("a drive with a bitmap");
    open(drives).iter().map(one).collect()
}

fn started(drives: &[Pages], options: StartOptions) -> Container<Memory> {
    assemble(open(drives), options, false).unwrap_or_else(|error| panic!("{error}"))
}

fn erase_shadow(pages: &Pages) {
    let place = Memory::open(0, pages.clone()).unwrap().placement().shadow();
    write(
        pages,
        place.offset_bytes,
        &vec![0; place.length_bytes as usize],
    );
}

#[test]
fn a_region_that_any_member_marks_is_marked_and_the_newest_counter_counts() {
    let mpb = made(true);
    let drives = put(&mpb, |slot| {
        bitmap(&mpb, 1 << (8 * slot), 10 + (slot as u64 * 3) % 7)
    });
    let union = 0x0101_0101;
    let found = found(&drives);
    assert_eq!(
        (found.marked.as_slice(), &found.doubt),
        (&[union][..], &None)
    );
    assert_eq!(found.header.events_cleared, 16);
    let container = started(&drives, NOTHING);
    let volume = &container.record.volumes[0];
    let bitmap = volume.bitmap.as_ref().unwrap();
    assert_eq!(
        (&bitmap.marked[..], bitmap.cleared_generation),
        (&[union][..], 16)
    );
    assert_eq!(bitmap.region_bytes, u64::from(REGION_BYTES));
    let resync = SyncRecord {
        kind: SyncKind::Resync,
        done_bytes: 0,
    };
    assert_eq!(volume.sync, Some(resync));
    let said = "its write-intent bitmap marks 4 of 32 regions";
    assert!(container.notes.iter().any(|note| note.contains(said)));
    // After the start each member has the union.
    for (header, words) in left(&drives, &found) {
        assert_eq!((header.events_cleared, words), (16, vec![union]));
    }
}

/// The bitmap of a drive that is being rebuilt is left from before it joined, and says nothing about the volume.
#[test]
fn a_member_that_is_out_of_sync_says_nothing() {
    let mut mpb = made(true);
    // The drive that was lost is here, and the record lists it as the rebuild's target.
    rebuild_onto(&mut mpb, 2, 2);
    let told = [1, 2, 1 << 20, 4];
    let drives = put(&mpb, |slot| bitmap(&mpb, told[slot], [9, 9, 19, 9][slot]));
    let present = assembly(&open(&drives)).present();
    assert_eq!(present, [true; MEMBERS], "all drives are present");
    let one = found(&drives);
    assert_eq!((one.marked, one.doubt), (vec![7], None));
    assert_eq!(one.header.events_cleared, 9);
    // Nor does it matter if that drive has no bitmap at all.
    write(&drives[2], one.volume.header_offset_bytes(), &[0; 512]);
    let one = found(&drives);
    assert_eq!((one.marked, one.doubt), (vec![7], None));
}

#[test]
fn where_a_member_has_no_bitmap_of_the_volume_everything_is_in_doubt() {
    let mpb = made(true);
    let mut other = mpb.clone();
    other.volumes[0].name = metadata::imsm::VolumeName::new("other").unwrap();
    let larger = new_bitmap(&mpb, 0, SECTOR, Some(2 * REGION_BYTES)).unwrap();
    for (slot, wrong, said) in [
        (0, None, "no header"),
        (3, None, "no header"),
        (1, Some(larger), "different regions"),
        (2, Some(bitmap(&other, 1, 1)), "it belongs to volume"),
    ] {
        let drives = put(&mpb, |_| bitmap(&mpb, 1, 1));
        let at = bitmap(&mpb, 1, 1);
        match wrong {
            Some(wrong) => put_bitmap(&drives[slot], &wrong),
            None => write(&drives[slot], at.volume.header_offset_bytes(), &[0; 512]),
        }
        let found = found(&drives);
        assert_eq!(found.marked, all_words(REGIONS), "{said}");
        assert_eq!(
            found.header.events_cleared,
            u64::from(mpb.generation),
            "{said}"
        );
        assert!(
            found.doubt.as_ref().unwrap().contains(said),
            "{:?}",
            found.doubt
        );
        let container = started(&drives, NOTHING);
        let bitmap = container.record.volumes[0].bitmap.as_ref().unwrap();
        assert_eq!(bitmap.marked[..], all_words(REGIONS), "{said}");
        for (header, words) in left(&drives, &at) {
            assert_eq!(
                (header.region_bytes, words),
                (REGION_BYTES, all_words(REGIONS))
            );
        }
    }
}

/// Other programs clear bits without updating the counter, but the records that they write have no shadow.
#[test]
fn the_counter_is_believed_only_after_a_record_of_our_own() {
    let mpb = made(true);
    let newest = u64::from(mpb.generation);
    let cleared = |drives: &[Pages]| {
        let found = found(drives);
        assert_eq!(found.marked, [1], "bits count in any case");
        found.header.events_cleared
    };
    let drives = put(&mpb, |_| bitmap(&mpb, 1, 7));
    drives[1..].iter().for_each(erase_shadow);
    assert_eq!(cleared(&drives), 7, "one shadow is enough");
    erase_shadow(&drives[0]);
    assert_eq!(cleared(&drives), newest);
    // Half of an update by another program: the records that it has not yet replaced still have shadows.
    let drives = put(&mpb, |_| bitmap(&mpb, 1, 7));
    let mut newer = mpb.clone();
    newer.generation += 1;
    drives[..2].iter().for_each(|pages| {
        put_record(pages, &newer);
        erase_shadow(pages);
    });
    assert_eq!(cleared(&drives), newest + 1);
    // The shadows are older than the records, or have the same generation but different content.
    let changes: [fn(&mut Mpb); 2] = [|mpb| mpb.generation -= 1, |mpb| mpb.volumes[0].dirty = 0];
    for change in changes {
        let drives = put(&mpb, |_| bitmap(&mpb, 1, 7));
        let mut older = mpb.clone();
        change(&mut older);
        for pages in &drives {
            let shadow = metadata::imsm::shadow::encode(&older, None, SECTOR).unwrap();
            let place = Memory::open(0, pages.clone()).unwrap().placement().shadow();
            write(pages, place.offset_bytes, &shadow);
        }
        assert_eq!(cleared(&drives), newest);
    }
}

/// A start clears the bits of a volume only if nothing in it can differ. A volume that lacks a drive, or was never
/// synchronised, keeps them.
#[test]
fn marks_go_only_where_the_volume_is_whole_and_at_rest() {
    let all = all_words(REGIONS)[0];
    let verified: Change = |mpb| {
        mpb.volumes[0].migration = Some(Migration {
            kind: MigrationKind::Verify,
            checkpoint_unit: 0,
            second_map: mpb.volumes[0].map.clone(),
        });
    };
    let cases: [(&str, Change, u64); 4] = [
        ("at rest", |_| {}, 0),
        ("dirty", |mpb| mpb.set_dirty(0, true).unwrap(), 6),
        (
            "never synchronised",
            |mpb| mpb.start_initial_sync(0).unwrap(),
            all,
        ),
        ("being verified", verified, 6),
    ];
    for (what, change, marked) in cases {
        let mut mpb = made(false);
        change(&mut mpb);
        let drives = put(&mpb, |_| bitmap(&mpb, 6, 7));
        let found = found(&drives);
        let container = started(&drives, NOTHING);
        let bitmap = container.record.volumes[0].bitmap.as_ref().unwrap();
        assert_eq!(bitmap.marked[..], [marked], "{what}");
        for (_, words) in left(&drives, &found) {
            assert_eq!(words, [marked], "{what}");
        }
        // A new bitmap of the same volume.
        let new = new_bitmap(&mpb, 0, SECTOR, Some(REGION_BYTES)).unwrap();
        assert_eq!(
            new.marked,
            [if what == "at rest" { 0 } else { all }],
            "{what}"
        );
    }
    // Without a drive the bits stay, since they mark what that drive lacks.
    let mpb = made(false);
    let drives = put(&mpb, |_| bitmap(&mpb, 6, 7));
    let container = assemble(open(&drives[..3]), DEGRADED, false).unwrap();
    let bitmap = container.record.volumes[0].bitmap.as_ref().unwrap();
    assert_eq!(bitmap.marked[..], [6]);
}

#[test]
fn the_bits_of_a_volume_that_is_not_started_stay() {
    let mpb = made(false);
    let drives = put(&mpb, |_| bitmap(&mpb, 6, 7));
    let mut found = [found(&drives)];
    let drives = open(&drives);
    let modes = start_modes(&assembly(&drives[..3]), &found, NOTHING);
    assert!(matches!(modes[0], StartMode::Refused { .. }));
    follow(&mut found, &mpb, &modes);
    assert_eq!(found[0].marked, [6]);
}

/// A write marks its region first. So if no region is marked, no write was under way.
#[test]
fn a_dirty_volume_without_a_mark_is_as_good_as_clean() {
    for level in [Level::Raid10, Level::Raid5] {
        let mut mpb = made(true);
        if level == Level::Raid5 {
            mpb = record(level, MEMBERS, 4).unwrap();
            mpb.set_write_hole_policy(0, WriteHolePolicy::Bitmap)
                .unwrap();
            mpb.set_dirty(0, true).unwrap();
        }
        let bitmap = |marked| {
            let mut found = new_bitmap(&mpb, 0, SECTOR, Some(REGION_BYTES)).unwrap();
            found.marked = vec![marked];
            found
        };
        for (marked, without) in [(0, None), (2, None), (0, Some(0)), (2, Some(0))] {
            let drives = put(&mpb, |_| bitmap(marked));
            let mut here = open(&drives);
            if let Some(slot) = without {
                here.remove(slot);
            }
            let assembly = assembly(&here);
            let found = read_all(&here, &assembly);
            let [mode] = &start_modes(&assembly, &found, DEGRADED)[..] else {
                panic!("not one volume");
            };
            let is_in_doubt = marked != 0 && without.is_some() && level == Level::Raid5;
            match mode {
                StartMode::Refused { .. } => assert!(is_in_doubt, "{level} {marked}"),
                StartMode::ReadWrite { sync, .. } => {
                    assert!(!is_in_doubt);
                    let is_settled = *sync == SyncWork::None;
                    assert_eq!(is_settled, marked == 0, "{level} {without:?}");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

#[test]
fn a_bitmap_that_cannot_be_kept_is_given_up() {
    let mpb = made(false);
    let drives = open(&put(&mpb, |_| bitmap(&mpb, 0, 7)));
    let assembly = assembly(&drives);
    let found = read_all(&drives, &assembly);
    for (found, switched) in [(&found[..], None), (&[], Some(WriteHolePolicy::Off))] {
        let modes = start_modes(&assembly, found, NOTHING);
        let StartMode::ReadWrite { switch_policy, .. } = &modes[0] else {
            panic!("the volume may not be written");
        };
        assert_eq!(*switch_policy, switched);
    }
}

/// The first update after which bits may be cleared writes a header. But for its counters, that is the header that the
/// members have.
#[test]
fn the_headers_that_were_found_are_kept_by_the_record_that_follows() {
    let mpb = made(true);
    let drives = put(&mpb, |_| bitmap(&mpb, 6, 7));
    let at = found(&drives);
    let mut container = started(&drives, NOTHING);
    let mut record = container.record.clone();
    for clears in [false, true] {
        record.generation += 1;
        if clears {
            let bitmap = record.volumes[0].bitmap.as_mut().unwrap();
            bitmap.cleared_generation = record.generation;
        }
        for member in (0..MEMBERS as u8).map(MemberId) {
            let parts = container.persister.encode(member, &record).unwrap();
            let headers = parts
                .iter()
                .filter(|(offset_bytes, _)| *offset_bytes == at.volume.header_offset_bytes());
            let headers: Vec<_> = headers.collect();
            assert_eq!(headers.len(), usize::from(clears), "{member:?}");
            for (_, bytes) in headers {
                let wanted = Header {
                    events: record.generation,
                    events_cleared: record.generation,
                    ..at.header
                };
                assert_eq!(Header::decode(bytes, &at.volume), Ok(wanted));
            }
        }
    }
    let bits = read(&drives[0], at.volume.bits_offset_bytes(), 8);
    assert_eq!(bits[..2], [6, 0]);
}
