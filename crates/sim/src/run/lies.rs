//! The effects of lies: whether clients and scrubs come across them, and whether lies explain all that is wrong.
//!
//! RAID combines a sector only with the sectors at the same offset of the other members: copies, parity, a drive
//! that is being rebuilt. So a lie explains wrong bytes and mismatches only at its own offsets, on any member.
//! Anywhere else they are a failure, as in other histories.

use super::{Failure, Run};
use crate::drive::lies::{Lie, Untruth};
use crate::oracle::Wrong;
use crate::oracle::pattern::SECTOR_BYTES;
use engine::control::message::Command;
use engine::units::VolumeId;
use std::ops::Range;

/// Virtual time in which a volume has to be scrubbed.
const SCRUBBED_WITHIN_NS: u64 = 60_000_000_000;

/// Counts of lies and their effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LieCounts {
    /// Writes that were acknowledged but not carried out.
    pub lost_writes: u64,
    /// Writes that were carried out elsewhere.
    pub misdirected_writes: u64,
    /// Flushes that did nothing.
    pub dropped_flushes: u64,
    /// Lies that changed no sector: the same content was there already, or the power was not cut.
    pub without_effect: u64,
    /// Lies whose sectors were all written again before a client or a scrub came across them.
    pub overwritten: u64,
    /// Lies that a scrub found as mismatches.
    pub seen_by_scrub: u64,
    /// Lies by which a client read wrong bytes.
    pub read: u64,
    /// Lies by which a client read wrong bytes and that no scrub found, before or after.
    pub read_and_not_seen: u64,
    /// Lies by which a client read wrong bytes after a scrub had corrected mismatches.
    pub read_after_repair: u64,
    /// Lies that neither a client nor a scrub came across: the oracle allowed that content, or it was not read.
    pub unnoticed: u64,
    /// Wrong sectors that clients read, counted at each read.
    pub wrong_sectors: u64,
}

impl LieCounts {
    /// Lies told.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.lost_writes + self.misdirected_writes + self.dropped_flushes
    }

    /// Adds the counts of another history.
    pub fn add(&mut self, other: &LieCounts) {
        self.lost_writes += other.lost_writes;
        self.misdirected_writes += other.misdirected_writes;
        self.dropped_flushes += other.dropped_flushes;
        self.without_effect += other.without_effect;
        self.overwritten += other.overwritten;
        self.seen_by_scrub += other.seen_by_scrub;
        self.read += other.read;
        self.read_and_not_seen += other.read_and_not_seen;
        self.read_after_repair += other.read_after_repair;
        self.unnoticed += other.unnoticed;
        self.wrong_sectors += other.wrong_sectors;
    }

    fn count(&mut self, lie: &Lie) {
        match lie.untruth {
            Untruth::LostWrite => self.lost_writes += 1,
            Untruth::MisdirectedWrite(_) => self.misdirected_writes += 1,
            Untruth::DroppedFlush => self.dropped_flushes += 1,
        }
        self.seen_by_scrub += u64::from(lie.scrubbed);
        self.read += u64::from(lie.read);
        self.read_and_not_seen += u64::from(lie.read && !lie.scrubbed);
        self.read_after_repair += u64::from(lie.read_after_repair);
        if !lie.has_effect() {
            self.without_effect += 1;
        } else if !lie.scrubbed && !lie.read {
            self.overwritten += u64::from(lie.is_overwritten());
            self.unnoticed += u64::from(!lie.is_overwritten());
        }
    }
}

impl Run<'_> {
    /// Handles wrong bytes that a client has read.
    ///
    /// # Errors
    /// If no drive has lied there.
    pub(super) fn read_wrong(&mut self, wrong: &Wrong) -> Result<(), Failure> {
        let shape = &self.shapes[wrong.volume as usize];
        let place = shape.locate(wrong.sector * SECTOR_BYTES as u64);
        let first = shape.member_offset_bytes(place.row, place.in_chunk_bytes);
        self.counts.lies.wrong_sectors += 1;
        let repaired = self.repaired;
        let is_explained = self.mark_lies(first..first + SECTOR_BYTES as u64, |lie| {
            lie.read = true;
            lie.read_after_repair |= repaired;
        });
        if is_explained {
            return Ok(());
        }
        let text = format!("{wrong}, and no drive has lied about it");
        Err(Failure::WrongBytes(text))
    }

    /// Handles a mismatch that a scrub has found, in the stripe at `from_bytes` of the members' extents.
    ///
    /// # Errors
    /// If no drive has lied there.
    pub(super) fn scrub_differs(&mut self, volume: u8, from_bytes: u64) -> Result<(), Failure> {
        let shape = &self.shapes[volume as usize];
        let first = shape.start_bytes + from_bytes;
        let stripe = first..first + u64::from(shape.band_bytes());
        if self.mark_lies(stripe, |lie| lie.scrubbed = true) {
            return Ok(());
        }
        let text = format!("volume {volume}: a scrub finds a mismatch at {from_bytes}");
        Err(Failure::Unsound(text))
    }

    /// Marks the lies about these bytes, on any member. Returns false if there are none.
    fn mark_lies(&mut self, range: Range<u64>, mark: impl Fn(&mut Lie)) -> bool {
        let shapes = &self.shapes;
        let is_data = |place: u64| {
            let mut extents = shapes.iter();
            extents.any(|shape| {
                (shape.start_bytes..shape.start_bytes + shape.component_bytes).contains(&place)
            })
        };
        let mut machine = self.machine.borrow_mut();
        let lies = machine
            .drives
            .iter_mut()
            .flat_map(|drive| &mut drive.lies.told);
        let mut any = false;
        for lie in lies {
            // Metadata that is lost after a dropped flush may affect any place.
            if lie.is_in(range.clone()) || lie.places().any(|place| !is_data(place)) {
                mark(lie);
                any = true;
            }
        }
        any
    }

    /// Counts all lies at the end of a history.
    pub(super) fn count_lies(&mut self) {
        let machine = self.machine.borrow();
        let lies = machine.drives.iter().flat_map(|drive| &drive.lies.told);
        lies.for_each(|lie| self.counts.lies.count(lie));
    }

    /// Scrubs all volumes, reads them, and scrubs them again with repair. The caller reads them again.
    pub(super) fn scrub_everything(&mut self) -> Result<(), Failure> {
        self.scrub(false)?;
        self.read_everything()?;
        self.scrub(true)?;
        self.repaired = true;
        Ok(())
    }

    fn scrub(&mut self, repair: bool) -> Result<(), Failure> {
        for (shape, at) in self.shapes.clone().iter().zip(0..) {
            if !shape.redundant() {
                continue;
            }
            let volume = VolumeId(at);
            self.order_now(Command::Scrub { volume, repair });
            let deadline_ns = self.now_ns() + SCRUBBED_WITHIN_NS;
            loop {
                self.pass_a_while(deadline_ns)?;
                let process = self.process.as_ref();
                if process.is_some_and(|process| process.controller().job(volume).is_none()) {
                    break;
                }
                if self.now_ns() > deadline_ns {
                    let text = format!("volume {at} is not scrubbed in time");
                    return Err(Failure::Stuck(text));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Access, History, Mode, Topology, VolumeShape};
    use engine::layout::Level;

    #[test]
    fn wrong_bytes_where_nobody_has_lied_are_a_failure() {
        let volume = VolumeShape {
            level: Level::Raid1,
            chunk_bytes: 64 << 10,
            component_bytes: 128 << 10,
            born_in_sync: true,
            logged: false,
            marked: false,
        };
        let history = History {
            seed: 1,
            mode: Mode::Lying,
            topology: Topology::plain(2, vec![volume]),
            access: Access::Engine,
            actions: Vec::new(),
        };
        let mut run = Run::new(&history, false).expect("the history has an array");
        let wrong = |sector| Wrong {
            volume: 0,
            sector,
            found: None,
            allowed: Vec::new(),
        };
        let places = [4096].into_iter().collect();
        let tell = |places| {
            let mut machine = run.machine.borrow_mut();
            machine.drives[1].lies.tell(Untruth::LostWrite, places);
        };
        tell(places);
        assert!(run.read_wrong(&wrong(7)).is_err());
        assert_eq!(run.read_wrong(&wrong(8)), Ok(()));
        assert!(run.scrub_differs(0, 64 << 10).is_err());
        assert_eq!(run.scrub_differs(0, 0), Ok(()));
        run.count_lies();
        let counts = run.counts.lies;
        assert_eq!((counts.read, counts.seen_by_scrub), (1, 1));
    }
}
