//! What becomes of lies: who comes across them, and whether all that is wrong is theirs.
//!
//! Whatever RAID does with a sector, it does it with the sectors at the same place of the other members: a copy, a
//! parity, a drive that is filled. So wrong bytes, and redundancy that does not match, are a lie's only at the places
//! of a lie, on whichever member. Anywhere else they are a failure, as in other histories.

use super::{Failure, Run};
use crate::drive::lies::{Lie, Untruth};
use crate::oracle::Wrong;
use crate::oracle::pattern::SECTOR_BYTES;
use engine::control::message::Command;
use engine::units::VolumeId;
use std::ops::Range;

/// Virtual time in which a volume has to be scrubbed.
const SCRUBBED_WITHIN_NS: u64 = 60_000_000_000;

/// What became of the lies of histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LieCounts {
    /// Writes that were answered as done and were not.
    pub lost_writes: u64,
    /// Writes that were carried out elsewhere.
    pub misdirected_writes: u64,
    /// Flushes that did nothing.
    pub dropped_flushes: u64,
    /// Lies that made no difference to any sector: what was lost was there already, or the power stayed.
    pub without_effect: u64,
    /// Lies whose places have all been written again before anybody came across them.
    pub overwritten: u64,
    /// Lies that a scrub came across: redundancy did not match.
    pub seen_by_scrub: u64,
    /// Lies that came to a client as wrong bytes.
    pub read: u64,
    /// Those that did so and that no scrub had seen or ever saw.
    pub read_and_not_seen: u64,
    /// Lies that came to a client as wrong bytes after a scrub had corrected what did not match.
    pub read_after_repair: u64,
    /// Lies that nobody came across: clients may have expected just that, or did not ask.
    pub unnoticed: u64,
    /// Sectors that came to clients with wrong bytes, as often as they did.
    pub wrong_sectors: u64,
}

impl LieCounts {
    /// Lies told.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.lost_writes + self.misdirected_writes + self.dropped_flushes
    }

    /// Adds those of another history.
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
    /// A client has been given wrong bytes.
    ///
    /// # Errors
    /// No drive has lied there.
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

    /// A scrub has found that redundancy does not match, in a stripe that begins there in the members' extents.
    ///
    /// # Errors
    /// No drive has lied there.
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

    /// Marks the lies that are about these bytes of the members, on any of them. False if there are none.
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
            // Metadata that are lost after a flush may have been about anything.
            if lie.is_in(range.clone()) || lie.places().any(|place| !is_data(place)) {
                mark(lie);
                any = true;
            }
        }
        any
    }

    /// What became of all lies; at the end of a history.
    pub(super) fn count_lies(&mut self) {
        let machine = self.machine.borrow();
        let lies = machine.drives.iter().flat_map(|drive| &drive.lies.told);
        lies.for_each(|lie| self.counts.lies.count(lie));
    }

    /// All volumes are compared, read, corrected where they do not match, and read again by who comes after.
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
    use crate::history::{History, Mode, Topology, VolumeShape};
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
            actions: Vec::new(),
        };
        let mut run = Run::new(&history, false).expect("there is an array");
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
