//! The order in which a start writes to the drives, and what it flushes in between. A journal lists the commands to all
//! drives. What a power cut leaves depends on the drives' caches, so each rule is about flushes.

use super::half_done::HalfDone;
use super::rig::{copied, put, put_on, spec};
use super::{DRIVE_BYTES, Memory, Pages, SECTOR, name, put_record, record, write};
use crate::assemble::assemble;
use crate::assemble::bitmap::{new_bitmap, read_one, write_all};
use crate::log::initialise_all;
use crate::member::{FoundShadow, Member};
use crate::write::{finish_update, write_record};
use anyhow::bail;
use metadata::imsm::choose::Unfinished;
use metadata::imsm::log::LoggedVolume;
use metadata::imsm::place::{Found, Placement};
use metadata::imsm::start::StartOptions;
use metadata::imsm::{DecodeError, Level, Mpb, SectorSize, Serial, WriteHolePolicy};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

mod failing;

/// The part of a drive to which a command writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Data and parity.
    Volume,
    Log,
    Bitmap,
    Shadow,
    /// The record itself, and the sector of a reshape behind it.
    Record,
}

/// The number of a drive, and the part that is written; `None` is a flush.
type Act = (usize, Option<Part>);
type Journal = Rc<RefCell<Vec<Act>>>;
type Generations = Rc<RefCell<Vec<(usize, u32)>>>;

struct Drive {
    inner: Memory,
    number: usize,
    journal: Journal,
    /// First byte of the log or bitmap behind the volume, and which of the two it is.
    behind: (u64, Part),
    /// The drive fails flushes.
    is_stuck: Rc<Cell<bool>>,
    /// The drive fails writes to this part.
    refuses: Rc<Cell<Option<Part>>>,
    /// The generations of the records that were written, for all drives together.
    generations: Generations,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl Drive {
    fn part(&self, offset_bytes: u64) -> Part {
        let placement = self.placement();
        if offset_bytes == placement.shadow().offset_bytes {
            Part::Shadow
        } else if offset_bytes >= placement.image(512).offset_bytes - (1 << 16) {
            Part::Record
        } else if offset_bytes >= self.behind.0 {
            self.behind.1
        } else {
            Part::Volume
        }
    }

    fn generation_now(&self) -> Option<u32> {
        let now = Memory::open(self.number, self.inner.pages.clone())?;
        let found = now.found().as_ref().ok()?.as_ref()?;
        Some(found.mpb.generation)
    }
}

impl Member for Drive {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn kind(&self) -> engine::policy::MemberKind {
        self.inner.kind()
    }
    fn discards(&self) -> bool {
        true
    }
    fn volatile_cache(&self) -> bool {
        true
    }
    fn serial(&self) -> Serial {
        self.inner.serial()
    }
    fn sector(&self) -> SectorSize {
        SECTOR
    }
    fn placement(&self) -> Placement {
        self.inner.placement()
    }
    fn found(&self) -> &Result<Option<Found>, DecodeError> {
        self.inner.found()
    }
    fn shadow(&self) -> &FoundShadow {
        self.inner.shadow()
    }
    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> anyhow::Result<Vec<u8>> {
        self.inner.read_at(offset_bytes, length_bytes)
    }
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let part = self.part(offset_bytes);
        self.journal.borrow_mut().push((self.number, Some(part)));
        if self.refuses.get() == Some(part) {
            bail!("cannot write");
        }
        self.inner.write_at(offset_bytes, bytes)?;
        if let (Part::Record, Some(generation)) = (part, self.generation_now()) {
            self.generations
                .borrow_mut()
                .push((self.number, generation));
        }
        Ok(())
    }
    fn flush(&self) -> anyhow::Result<()> {
        self.journal.borrow_mut().push((self.number, None));
        if self.is_stuck.get() {
            bail!("cannot flush");
        }
        Ok(())
    }
}

/// The record of a volume that is in sync and not stopped cleanly.
fn made(level: Level, members: usize, policy: WriteHolePolicy) -> Mpb {
    let mut mpb = record(level, members, 4 | 8).expect("a valid record");
    mpb.set_write_hole_policy(0, policy).unwrap();
    mpb.set_dirty(0, true).unwrap();
    mpb
}

fn open(mpb: &Mpb, drives: &[Pages], slots: &[usize]) -> (Vec<Drive>, Journal) {
    let (journal, generations) = (Journal::default(), Generations::default());
    let volume = &mpb.volumes[0];
    let end_bytes = (volume.map.start_sector + volume.component_sectors()) * 512;
    let behind = match volume.write_hole_policy {
        WriteHolePolicy::Bitmap => Part::Bitmap,
        _ => Part::Log,
    };
    let drive = |&slot: &usize| Drive {
        inner: Memory::open(slot, drives[slot].clone()).expect("a readable drive"),
        number: slot,
        journal: journal.clone(),
        behind: (end_bytes, behind),
        is_stuck: Rc::default(),
        refuses: Rc::default(),
        generations: generations.clone(),
    };
    (slots.iter().map(drive).collect(), journal)
}

fn is_unflushed(acts: &[Act], drive: usize) -> bool {
    let mut of = acts.iter().filter(|(number, _)| *number == drive);
    matches!(of.next_back(), Some((_, Some(_))))
}

/// On each drive the record is written after its shadow is durable. The second half of the drives is written after
/// everything on the first half is durable. In the end everything is durable.
fn assert_halves(acts: &[Act], drives: &[usize], shadow_first: bool) {
    let (first, second) = drives.split_at(drives.len().div_ceil(2));
    for (at, &(drive, part)) in acts.iter().enumerate() {
        let before = &acts[..at];
        let is_first = |part| !before.contains(&(drive, Some(part)));
        if shadow_first && part == Some(Part::Record) && is_first(Part::Record) {
            assert!(!is_first(Part::Shadow), "record before shadow: {acts:?}");
            assert!(
                !is_unflushed(before, drive),
                "a shadow is not durable: {acts:?}"
            );
        }
        if part == Some(Part::Record) && second.contains(&drive) {
            for other in first {
                assert!(before.contains(&(*other, Some(Part::Record))), "{acts:?}");
                assert!(!is_unflushed(before, *other), "half not durable: {acts:?}");
            }
        }
    }
    for drive in drives {
        assert!(acts.contains(&(*drive, Some(Part::Record))), "{acts:?}");
        assert!(!is_unflushed(acts, *drive), "not durable: {acts:?}");
    }
}

/// When `then` is first written on any drive, what was written of `first` is durable on all drives.
fn assert_durable_before(acts: &[Act], first: Part, then: Part) {
    let next = acts.iter().position(|(_, part)| *part == Some(then));
    let before = &acts[..next.expect("there is a next step")];
    assert!(before.iter().any(|(_, part)| *part == Some(first)));
    for (drive, _) in acts {
        let is_durable = !is_unflushed(before, *drive);
        assert!(
            is_durable,
            "drive {drive}: {first:?}, then {then:?}: {acts:?}"
        );
    }
}

/// All drives are flushed between the last write of one part and the first one of another.
fn assert_flushed_between(acts: &[Act], last: Part, first: Part, drives: &[usize]) {
    let from = acts.iter().rposition(|(_, part)| *part == Some(last));
    let to = acts.iter().position(|(_, part)| *part == Some(first));
    let between = &acts[from.expect("one step")..to.expect("another")];
    for drive in drives {
        assert!(between.contains(&(*drive, None)), "drive {drive}: {acts:?}");
    }
}

#[test]
fn a_record_is_written_by_halves_and_its_shadow_is_durable_first() {
    for members in [2, 4] {
        let level = if members == 2 {
            Level::Raid1
        } else {
            Level::Raid10
        };
        let mpb = made(level, members, WriteHolePolicy::Off);
        let slots: Vec<usize> = (0..members).collect();
        let (drives, journal) = open(&mpb, &put(&mpb, members), &slots);
        write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
        assert_halves(&journal.borrow(), &slots, true);
    }
}

/// Only the shadows hold the newest record. They must not be overwritten before the drives' own copies are durable.
#[test]
fn an_update_that_only_shadows_have_is_finished_with_them_in_place() {
    for from_shadows in [true, false] {
        let mpb = made(Level::Raid10, 4, WriteHolePolicy::Off);
        let slots = [0, 1, 2, 3];
        let (drives, journal) = open(&mpb, &put(&mpb, 4), &slots);
        let unfinished = Unfinished {
            record: Box::new(mpb),
            drives: slots.to_vec(),
            from_shadows,
        };
        finish_update(Some(&unfinished), &drives).unwrap();
        let acts = journal.borrow();
        assert_halves(&acts, &slots, !from_shadows);
        if from_shadows {
            assert_durable_before(&acts, Part::Record, Part::Shadow);
            let shadows = acts.iter().filter(|(_, part)| *part == Some(Part::Shadow));
            assert_eq!(shadows.count(), 4);
        }
    }
}

/// Parity that a replay has written is durable before the log from which it came is emptied. The empty log is durable
/// before a record says that the volume is clean. This is tried with all drives and with each one missing.
#[test]
fn what_a_replay_restores_is_durable_before_its_log_is_emptied() {
    for missing in [0, 1, 2, 3, 9] {
        for row in 0..4 {
            let mpb = made(Level::Raid5, 4, WriteHolePolicy::Log);
            let pages = put(&mpb, 4);
            let logged = LoggedVolume::of(&mpb, 0, SECTOR).expect("a volume with a log");
            // The chunk that was being written is the first data chunk of the row whose drive is present.
            let written = (0..3).find(|at| {
                let data: Vec<usize> = (0..4)
                    .filter(|&slot| slot != logged.parity_slot(row))
                    .collect();
                data[*at as usize] != missing
            });
            let mut script = [row as u8, 0, 7, written.unwrap() << 2 | 1].into_iter();
            HalfDone::put(&pages, &mpb, &logged, &mut || script.next().unwrap_or(0));
            if missing == logged.parity_slot(row) {
                continue;
            }
            let slots: Vec<usize> = (0..4).filter(|&slot| slot != missing).collect();
            let (drives, journal) = open(&mpb, &pages, &slots);
            let options = StartOptions {
                degraded: true,
                ..StartOptions::default()
            };
            assemble(drives, options, false).expect("the array starts");
            // If a drive is missing, that is recorded before the replay. Those commands are skipped.
            let acts = journal.borrow();
            let from = acts
                .iter()
                .position(|(_, part)| *part == Some(Part::Volume));
            let acts = &acts[from.expect("parity was written")..];
            // The data from which parity was computed may be in caches, too, so all drives are flushed.
            assert_flushed_between(acts, Part::Volume, Part::Log, &slots);
            assert_durable_before(acts, Part::Log, Part::Record);
            assert_halves(acts, &slots, true);
        }
    }
}

/// The header says since which generation bits may have been cleared. It must be durable before the record after which
/// they may be.
#[test]
fn a_bitmap_is_durable_on_all_members_before_the_record_that_follows() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        let mpb = made(level, members, WriteHolePolicy::Bitmap);
        let slots: Vec<usize> = (0..members).collect();
        let (drives, journal) = open(&mpb, &put(&mpb, members), &slots);
        assemble(drives, StartOptions::default(), false).expect("the array starts");
        let acts = journal.borrow();
        assert_durable_before(&acts, Part::Bitmap, Part::Record);
        for slot in &slots {
            assert!(acts.contains(&(*slot, Some(Part::Bitmap))), "slot {slot}");
        }
        assert_halves(&acts, &slots, true);
    }
}

/// A record that takes a drive back lists that drive as a member again. To the next start the drive is missing until it
/// has this record itself.
#[test]
fn a_drive_that_is_taken_back_has_its_record_before_all_others() {
    let mut waiting = made(Level::Raid10, 4, WriteHolePolicy::Off);
    waiting.add_volume(&spec("fast", Level::Raid0)).unwrap();
    let pages = put(&waiting, 4);
    for back in 0..4 {
        let pages = copied(&pages);
        let mut without = waiting.clone();
        without.mark_failed_in(back, |at| at == 0).unwrap();
        without.bump_generation();
        let others = (0..4).filter(|&slot| slot != back);
        others
            .clone()
            .for_each(|slot| put_record(&pages[slot], &without));
        let (drives, journal) = open(&waiting, &pages, &[0, 1, 2, 3]);
        let options = StartOptions {
            trust_returned_drive: true,
            ..StartOptions::default()
        };
        let container = assemble(drives, options, false).expect("the array starts");
        assert_eq!(container.not_started, [None, None]);
        let acts = journal.borrow();
        let is_others = |act: &Act| act.0 != back && act.1 == Some(Part::Record);
        let first = acts.iter().position(is_others).expect("others follow");
        assert!(
            acts[..first].contains(&(back, Some(Part::Record))),
            "{acts:?}"
        );
        assert!(!is_unflushed(&acts[..first], back), "{acts:?}");
    }
}

/// Two updates in a row that are cut off would leave copies of which neither can be trusted. So an update begins only
/// when the one before is complete, and a drive's generation never decreases.
#[test]
fn an_update_that_was_cut_off_is_finished_before_the_next_begins() {
    let newer = made(Level::Raid5, 4, WriteHolePolicy::Log);
    let mut older = newer.clone();
    older.generation -= 1;
    let pages = put(&newer, 4);
    put_on(&pages[2..], &older);
    let (drives, journal) = open(&newer, &pages, &[0, 1, 2, 3]);
    let generations = drives[0].generations.clone();
    let container = assemble(drives, StartOptions::default(), false).expect("the array starts");
    let first = newer.generation;
    // First the drives that were behind get the unfinished update. Then all drives get the update that makes the copies
    // equal, and all get the one that records the replay.
    let mut wanted: Vec<(usize, u32)> = [2, 3].map(|drive| (drive, first)).to_vec();
    for next in [first + 1, first + 2] {
        wanted.extend((0..4).map(|drive| (drive, next)));
    }
    let mut found = generations.borrow().clone();
    found.dedup();
    assert_eq!(found, wanted, "{:?}", journal.borrow());
    let behind = |member: &engine::control::record::MemberRecord| member.behind;
    let behind: Vec<bool> = container.record.members.iter().map(behind).collect();
    assert_eq!(behind, [false, false, true, true]);
    assert_eq!(container.record.generation, u64::from(first) + 2);
}

/// The copies are made equal even if the volume is clean, so that a start has nothing else to write.
#[test]
fn copies_that_an_update_has_left_apart_are_alike_when_the_volume_starts() {
    let mut newer = made(Level::Raid10, 4, WriteHolePolicy::Off);
    newer.set_dirty(0, false).unwrap();
    let mut older = newer.clone();
    older.generation -= 1;
    let pages = put(&newer, 4);
    put_record(&pages[3], &older);
    let (drives, _) = open(&newer, &pages, &[0, 1, 2, 3]);
    assemble(drives, StartOptions::default(), false).expect("the array starts");
    let (drives, _) = open(&newer, &pages, &[0, 1, 2, 3]);
    let found: Vec<_> = drives.iter().map(Drive::generation_now).collect();
    assert_eq!(found, [Some(newer.generation + 1); 4]);
}

/// Nobody knows which writes an outdated copy has missed. Once it is on record as failed it must not come back by the
/// bitmap, whenever the power fails. So the headers that forbid this are written first.
#[test]
fn bitmaps_say_that_an_outdated_copy_may_not_return_before_the_record_calls_it_failed() {
    let old = made(Level::Raid10, 4, WriteHolePolicy::Bitmap);
    let mut now = old.clone();
    now.generation += 2;
    let pages = put(&old, 4);
    let mut bitmap = new_bitmap(&old, 0, SECTOR, None).unwrap();
    for (slot, pages) in pages.iter().enumerate() {
        write(pages, bitmap.volume.header_offset_bytes(), &bitmap.encode());
        if slot != 3 {
            put_record(pages, &now);
        }
    }
    bitmap.header.events_cleared = u64::from(now.generation) + 1;
    let (drives, journal) = open(&old, &pages, &[0, 1, 2, 3]);
    let options = StartOptions {
        degraded: true,
        ..StartOptions::default()
    };
    // The start fails after the headers, at the record.
    drives
        .iter()
        .for_each(|drive| drive.refuses.set(Some(Part::Record)));
    assemble(drives, options, false).unwrap_err();
    assert_durable_before(&journal.borrow(), Part::Bitmap, Part::Record);
    let (drives, _) = open(&old, &pages, &[0, 1, 2]);
    for drive in &drives {
        let (header, _) = read_one(drive, &bitmap.volume).unwrap();
        assert_eq!(header.events_cleared, bitmap.header.events_cleared);
    }
}

#[test]
fn every_part_is_told_from_the_others() {
    let mpb = made(Level::Raid5, 4, WriteHolePolicy::Log);
    let (drives, _) = open(&mpb, &put(&mpb, 4), &[0]);
    let placement = drives[0].placement();
    let logged = LoggedVolume::of(&mpb, 0, SECTOR).unwrap();
    let log_end = (logged.log_sector() + logged.log_sectors) * 512;
    assert!(log_end < DRIVE_BYTES && name(0) == drives[0].name());
    for (offset_bytes, part) in [
        (logged.start_sector * 512, Part::Volume),
        (logged.log_sector() * 512 - 512, Part::Volume),
        (logged.log_sector() * 512, Part::Log),
        (log_end - 512, Part::Log),
        (placement.shadow().offset_bytes, Part::Shadow),
        (placement.image(512).offset_bytes, Part::Record),
        (placement.image(4096).offset_bytes, Part::Record),
        (placement.migration_record_offset_bytes(), Part::Record),
    ] {
        assert_eq!(drives[0].part(offset_bytes), part, "at {offset_bytes}");
    }
}
