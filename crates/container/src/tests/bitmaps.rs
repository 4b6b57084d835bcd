//! Volumes with a write-intent bitmap: the marks of all members are combined, and doubt adds marks. A drive that was
//! away is taken back only if no other program has written the record meanwhile.

use super::logs::DEGRADED;
use super::*;
use crate::bitmap::{new_bitmap, read_one, write_all};
use metadata::imsm::bitmap::BitmapVolume;
use metadata::imsm::place::encode_image;
use metadata::imsm::{SectorSize, WriteHolePolicy};

const REGION: u32 = 64 << 10;
/// Number of regions of a volume of [`Bench::new`], which has 8 MiB on each member.
const REGIONS: u32 = 128;

impl Bench {
    /// A RAID 5 of three with a bitmap, in which member `n` has marked the regions of `marks[n]`.
    pub(super) fn with_bitmap(dirty: bool, marks: [u64; 3]) -> Bench {
        let bench = Bench::new(Level::Raid5, 3, 0);
        let drives = bench.open(3);
        let mut mpb = bench.mpb(&drives);
        mpb.set_write_hole_policy(0, WriteHolePolicy::Bitmap)
            .unwrap();
        mpb.set_dirty(0, dirty).unwrap();
        let mut bitmap = [new_bitmap(&mpb, 0, SectorSize::Bytes512, Some(REGION)).unwrap()];
        mpb.bump_generation();
        for (drive, marks) in drives.iter().zip(marks) {
            bitmap[0].marked.fill(0);
            bitmap[0].marked[0] = marks;
            write_all(&mut bitmap, &[drive], mpb.generation).unwrap();
        }
        write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
        bench
    }

    fn bitmap_volume(&self) -> BitmapVolume {
        let mpb = self.mpb(&self.open(3));
        BitmapVolume::of(&mpb, 0, SectorSize::Bytes512).unwrap()
    }

    fn marks(&self, at: usize) -> u32 {
        let volume = self.bitmap_volume();
        let (_, words) = read_one(&self.open(3)[at], &volume).unwrap();
        words.iter().map(|word| word.count_ones()).sum()
    }
}

fn marked(container: &Container) -> Vec<u64> {
    let bitmap = container.record.volumes[0].bitmap.as_ref();
    bitmap.expect("the volume has a bitmap").marked.to_vec()
}

#[test]
fn members_marks_are_united_and_written_to_all() {
    let bench = Bench::with_bitmap(true, [1 << 3, 0, 1 << 5 | 1 << 63]);
    let container = bench.assemble(3).unwrap();
    assert_eq!(marked(&container), [1 << 3 | 1 << 5 | 1 << 63, 0]);
    assert!(container.record.volumes[0].sync.is_some());
    let note = "its write-intent bitmap marks 3 of 128 regions";
    assert!(container.notes[0].contains(note), "{:?}", container.notes);
    drop(container);
    assert!((0..3).all(|at| bench.marks(at) == 3));
}

#[test]
fn a_bitmap_that_cannot_be_believed_marks_everything() {
    let bench = Bench::with_bitmap(true, [0; 3]);
    bench.put(1, bench.bitmap_volume().header_offset_bytes(), &[0xEE; 512]);
    let container = bench.assemble(3).unwrap();
    let count: u32 = marked(&container)
        .iter()
        .map(|word| word.count_ones())
        .sum();
    assert_eq!(count, REGIONS);
    assert!(container.notes[0].contains("cannot be used"));
    drop(container);
    assert!((0..3).all(|at| bench.marks(at) == REGIONS));
}

#[test]
fn a_clean_volume_at_rest_has_no_marks() {
    let bench = Bench::with_bitmap(false, [7, 0, 0]);
    let container = bench.assemble(3).unwrap();
    assert_eq!(marked(&container), [0, 0]);
    assert!(container.record.volumes[0].sync.is_none());
    drop(container);
    assert_eq!(bench.marks(0), 0);
}

#[test]
fn a_dirty_volume_without_a_member_needs_a_bitmap_without_marks() {
    let bench = Bench::with_bitmap(true, [1, 0, 0]);
    let refused = bench.start(&[0, 1], DEGRADED).unwrap_err().to_string();
    assert!(refused.contains("--accept-write-hole"), "{refused}");
    let bench = Bench::with_bitmap(true, [0; 3]);
    let container = bench.start(&[0, 1], DEGRADED).unwrap();
    assert_eq!(container.record.volumes[0].current_slots().count(), 2);
}

/// Starts without the third drive, makes `change`, and starts with all drives. Returns the container of that start.
fn back_after(change: impl FnOnce(&Bench)) -> (Container, Bench) {
    let bench = Bench::with_bitmap(false, [0; 3]);
    drop(bench.start(&[0, 1], DEGRADED).unwrap());
    change(&bench);
    let container = bench.start(&[0, 1, 2], StartOptions::default()).unwrap();
    (container, bench)
}

#[test]
fn a_drive_that_was_away_is_taken_back() {
    let (container, _bench) = back_after(|_| {});
    let notes = container.notes.join("; ");
    assert!(notes.contains("d2.img comes back"), "{notes}");
    let returning = container.record.members.last().unwrap();
    assert_eq!(returning.returns_to, Some(engine::units::Slot(2)));
}

#[test]
fn a_drive_that_was_away_while_others_wrote_the_record_is_not_taken_back() {
    let (container, _bench) = back_after(|bench| {
        // Like md, writes a newer record and no shadow of it.
        let drives = bench.open(3);
        let mut mpb = bench.mpb(&drives);
        mpb.bump_generation();
        for drive in &drives[..2] {
            let image = encode_image(&mpb, SectorSize::Bytes512).unwrap();
            let place = drive.placement.image(image.len());
            drive.drive.write_at(place.offset_bytes, &image).unwrap();
        }
    });
    let notes = container.notes.join("; ");
    assert!(!notes.contains("comes back"), "{notes}");
    assert_eq!(container.record.members.len(), 2);
}

/// Bits may have been cleared after the copy was made, so the regions marked now are not all that it lacks.
#[test]
fn an_old_copy_of_a_drive_is_not_taken_back() {
    let bench = Bench::with_bitmap(false, [0; 3]);
    {
        let drives = bench.open(3);
        let mut mpb = bench.mpb(&drives);
        for _ in 0..2 {
            mpb.bump_generation();
            write_record(&mpb, &[&drives[0], &drives[1]]).unwrap();
        }
    }
    // The drive is left out first as outdated, then because the record says that it is absent.
    for options in [DEGRADED, StartOptions::default()] {
        let container = bench.start(&[0, 1, 2], options).unwrap();
        let notes = container.notes.join("; ");
        assert!(!notes.contains("comes back"), "{notes}");
        assert_eq!(container.record.members.len(), 2, "{notes}");
    }
}
