//! Drives that refuse a write or a flush in the middle of a start: nothing that should follow it is written.

use super::*;

/// Nothing is written after a flush that has failed, whatever it was for.
#[test]
fn a_drive_that_cannot_flush_ends_what_is_being_written() {
    let off = made(Level::Raid10, 4, WriteHolePolicy::Off);
    let bitmap = made(Level::Raid10, 4, WriteHolePolicy::Bitmap);
    let log = made(Level::Raid5, 4, WriteHolePolicy::Log);
    let logged = LoggedVolume::of(&log, 0, SECTOR).unwrap();
    for stuck in 0..4 {
        let opened = |mpb: &Mpb| {
            let (drives, journal) = open(mpb, &put(mpb, 4), &[0, 1, 2, 3]);
            drives[stuck].is_stuck.set(true);
            (drives, journal)
        };
        let (drives, journal) = opened(&off);
        let all: Vec<&Drive> = drives.iter().collect();
        write_record(&off, &all).unwrap_err();
        assert!(!journal.borrow().contains(&(stuck, Some(Part::Record))));
        let unfinished = Unfinished {
            record: Box::new(off.clone()),
            drives: vec![0, 1, 2, 3],
            from_shadows: true,
        };
        let (drives, journal) = opened(&off);
        finish_update(Some(&unfinished), &drives).unwrap_err();
        assert!(!journal.borrow().contains(&(stuck, Some(Part::Shadow))));
        let (drives, _) = opened(&bitmap);
        let all: Vec<&Drive> = drives.iter().collect();
        let mut found = new_bitmap(&bitmap, 0, SECTOR, None).unwrap();
        write_all([&mut found], &all, 1).unwrap_err();
        let (drives, journal) = opened(&log);
        let all: Vec<&Drive> = drives.iter().collect();
        initialise_all(&[logged], &all).unwrap_err();
        let writes = journal
            .borrow()
            .iter()
            .filter(|(_, part)| part.is_some())
            .count();
        assert_eq!(writes, 4, "the old headers, and nothing after them");
    }
}

/// Nothing is written after a write that has failed, whichever part it was of.
#[test]
fn a_drive_that_cannot_be_written_ends_what_is_being_written() {
    let off = made(Level::Raid10, 4, WriteHolePolicy::Off);
    let bitmap = made(Level::Raid10, 4, WriteHolePolicy::Bitmap);
    let log = made(Level::Raid5, 4, WriteHolePolicy::Log);
    let logged = LoggedVolume::of(&log, 0, SECTOR).unwrap();
    for dead in 0..4 {
        for part in [Part::Shadow, Part::Record] {
            let (drives, journal) = open(&off, &put(&off, 4), &[0, 1, 2, 3]);
            drives[dead].refuses.set(Some(part));
            let all: Vec<&Drive> = drives.iter().collect();
            write_record(&off, &all).unwrap_err();
            let acts = journal.borrow();
            let last = acts.last().expect("the command was tried");
            assert_eq!(*last, (dead, Some(part)), "{acts:?}");
        }
        // This start has only an absence to record.
        let mut clean = off.clone();
        clean.set_dirty(0, false).unwrap();
        let here: Vec<usize> = (0..4).filter(|&slot| slot != dead).collect();
        let (drives, _) = open(&clean, &put(&clean, 4), &here);
        drives[1].refuses.set(Some(Part::Record));
        let degraded = StartOptions {
            degraded: true,
            ..StartOptions::default()
        };
        assemble(drives, degraded, false).unwrap_err();
        for part in [Part::Shadow, Part::Record] {
            let (drives, _) = open(&log, &put(&log, 4), &[0, 1, 2, 3]);
            drives[dead].refuses.set(Some(part));
            assemble(drives, StartOptions::default(), false).unwrap_err();
        }
        for (mpb, part) in [
            (&bitmap, Part::Bitmap),
            (&log, Part::Log),
            (&log, Part::Volume),
        ] {
            let pages = put(mpb, 4);
            if part == Part::Volume {
                HalfDone::put(&pages, mpb, &logged, &mut || dead as u8);
            }
            let (drives, journal) = open(mpb, &pages, &[0, 1, 2, 3]);
            if part == Part::Volume {
                drives
                    .iter()
                    .for_each(|drive| drive.refuses.set(Some(part)));
            }
            drives[dead].refuses.set(Some(part));
            assemble(drives, StartOptions::default(), false).unwrap_err();
            let acts = journal.borrow();
            let is_record = |act: &Act| act.1 == Some(Part::Record);
            assert!(!acts.iter().any(is_record), "{part:?}: {acts:?}");
        }
    }
}

/// If a replay could not be made durable, the log must stay for the next start.
#[test]
fn a_log_is_kept_if_what_it_restores_cannot_be_flushed() {
    let mpb = made(Level::Raid5, 4, WriteHolePolicy::Log);
    let logged = LoggedVolume::of(&mpb, 0, SECTOR).unwrap();
    for stuck in 0..4 {
        let pages = put(&mpb, 4);
        HalfDone::put(&pages, &mpb, &logged, &mut || 1);
        let (drives, journal) = open(&mpb, &pages, &[0, 1, 2, 3]);
        drives[stuck].is_stuck.set(true);
        assemble(drives, StartOptions::default(), false).unwrap_err();
        let acts = journal.borrow();
        assert!(acts.iter().any(|(_, part)| *part == Some(Part::Volume)));
        assert!(
            !acts.iter().any(|(_, part)| *part == Some(Part::Log)),
            "{acts:?}"
        );
    }
}
