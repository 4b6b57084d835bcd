//! Drives that lie: writes that are acknowledged but were not carried out, or were carried out elsewhere; flushes
//! that did nothing.
//!
//! RAID without checksums cannot detect such lies, so nothing is promised about them; their effects are only
//! measured. For every lie this module keeps the sectors where the drive's content is wrong, until they are
//! written again, and whether a client or a scrub has come across them.

use super::store::{SECTOR_BYTES, Store};
use engine::plan::StepKind;
use std::collections::BTreeSet;
use std::ops::Range;

/// A kind of lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untruth {
    /// A write is acknowledged but not carried out.
    LostWrite,
    /// A write is carried out this many bytes further on, wrapping around in the range of the lie.
    MisdirectedWrite(u64),
    /// A flush is acknowledged but makes nothing durable.
    DroppedFlush,
}

/// A lie that has been told.
#[derive(Clone, Debug)]
pub struct Lie {
    /// Its kind.
    pub untruth: Untruth,
    /// First bytes of all sectors whose content has at some time been wrong because of the lie.
    places: BTreeSet<u64>,
    /// Those of them that have not been written since.
    open: BTreeSet<u64>,
    /// A scrub reported a mismatch at one of its places.
    pub scrubbed: bool,
    /// Wrong bytes of one of its places came to a client.
    pub read: bool,
    /// As `read`, but after a scrub had corrected mismatches.
    pub read_after_repair: bool,
}

impl Lie {
    /// Whether the lie has ever made a difference.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether all of its places have been written again.
    #[must_use]
    pub fn is_overwritten(&self) -> bool {
        self.has_effect() && self.open.is_empty()
    }

    /// Whether one of its sectors lies in this range of the drive.
    #[must_use]
    pub fn is_in(&self, range: Range<u64>) -> bool {
        self.places.range(range).next().is_some()
    }

    /// First bytes of its sectors.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.places.iter().copied()
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    untruth: Untruth,
    within: Range<u64>,
}

/// The lies of one drive. See the module's prose.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    waiting: Vec<Waiting>,
    /// The lies told so far, in order.
    pub told: Vec<Lie>,
    /// Flushes that did nothing: the cache position that each promised to make durable, and the index of the lie.
    dropped: Vec<(u64, usize)>,
}

impl Lies {
    /// Makes the drive lie about the next flush, or about the next write inside this range.
    pub fn plan(&mut self, untruth: Untruth, within: Range<u64>) {
        self.waiting.push(Waiting { untruth, within });
    }

    /// Cancels lies that were planned but not told.
    pub fn calm(&mut self) {
        self.waiting.clear();
    }

    /// The lie to tell about a command, if one is due, and its range.
    pub fn due(&mut self, kind: StepKind, range: &Range<u64>) -> Option<(Untruth, Range<u64>)> {
        let is_due = |waiting: &Waiting| match (waiting.untruth, kind) {
            (Untruth::DroppedFlush, _) => kind == StepKind::Flush,
            (_, StepKind::Write { .. } | StepKind::Zero { .. } | StepKind::Discard) => {
                waiting.within.start <= range.start && range.end <= waiting.within.end
            }
            _ => false,
        };
        let at = self.waiting.iter().position(is_due)?;
        let waiting = self.waiting.remove(at);
        Some((waiting.untruth, waiting.within))
    }

    /// Records a lie. `places` are the sectors whose content is wrong now.
    pub fn tell(&mut self, untruth: Untruth, places: BTreeSet<u64>) {
        self.told.push(Lie {
            untruth,
            open: places.clone(),
            places,
            scrubbed: false,
            read: false,
            read_after_repair: false,
        });
    }

    /// Records a dropped flush that was to make the cache up to `position` durable.
    pub fn drop_flush(&mut self, position: u64) {
        self.dropped.push((position, self.told.len()));
        self.tell(Untruth::DroppedFlush, BTreeSet::new());
    }

    /// Notes that a flush was carried out. It also makes up for earlier dropped flushes.
    pub fn flushed(&mut self, position: u64) {
        self.dropped.retain(|(promised, _)| *promised > position);
    }

    /// Notes that a range has been written, so that its sectors are right again.
    pub fn written(&mut self, offset_bytes: u64, length_bytes: u64) {
        for lie in &mut self.told {
            let range = offset_bytes..offset_bytes + length_bytes;
            let again: Vec<u64> = lie.open.range(range).copied().collect();
            for sector in again {
                lie.open.remove(&sector);
            }
        }
    }

    /// Notes writes that a power cut has undone: the first byte of each sector, and the number of the oldest
    /// write to it that is lost. Sectors that a dropped flush had promised are put down to that lie.
    pub fn power_lost(&mut self, undone: &[(u64, u64)]) {
        for &(sector, number) in undone {
            let promised = |(position, _): &&(u64, usize)| *position >= number;
            if let Some(&(_, lie)) = self.dropped.iter().find(promised) {
                self.told[lie].places.insert(sector);
                self.told[lie].open.insert(sector);
            }
        }
        self.dropped.clear();
    }
}

/// First bytes of the sectors whose content differs from `bytes`, which begin at `offset_bytes`.
#[must_use]
pub fn differing(store: &Store, offset_bytes: u64, bytes: &[u8]) -> BTreeSet<u64> {
    let sectors = bytes.chunks_exact(SECTOR_BYTES as usize);
    let places = (offset_bytes..).step_by(SECTOR_BYTES as usize).zip(sectors);
    let differs = |&(at, wanted): &(u64, &[u8])| {
        let mut held = [0; SECTOR_BYTES as usize];
        store.read(at, &mut held);
        held[..] != *wanted
    };
    places.filter(differs).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::create::drive;
    use crate::drive::Drive;
    use crate::history::{Topology, VolumeShape};
    use engine::layout::Level;

    fn one() -> Drive {
        let volume = VolumeShape {
            level: Level::Raid1,
            chunk_bytes: 64 << 10,
            component_bytes: 128 << 10,
            born_in_sync: true,
            logged: false,
            marked: false,
        };
        drive(1, &Topology::plain(2, vec![volume]), 0, false)
    }

    fn write(drive: &mut Drive, at: u64, byte: u8, length: usize) {
        drive
            .write_now(at, &vec![byte; length])
            .expect("a lying drive reports success");
    }

    fn flush(drive: &mut Drive) {
        let position = drive.cache_position();
        let done = drive.carry_out(StepKind::Flush, (0, 0), &mut [], position);
        done.expect("a lying drive reports success");
    }

    fn byte(drive: &Drive, at: u64) -> u8 {
        let mut sector = [0; 512];
        drive.inspect(at, &mut sector);
        sector[0]
    }

    #[test]
    fn a_lost_write_is_not_there_until_it_is_written_again() {
        let mut drive = one();
        write(&mut drive, 0, 1, 2048);
        drive.lies.plan(Untruth::LostWrite, 0..4096);
        write(&mut drive, 4096, 2, 512);
        assert!(
            drive.lies.told.is_empty(),
            "the planned lie is about another range"
        );
        drive.lies.calm();
        drive.lies.plan(Untruth::LostWrite, 0..4096);
        write(&mut drive, 1024, 2, 512);
        write(&mut drive, 1024, 1, 512);
        assert!(drive.lies.told[0].is_overwritten());
        // The first of the two sectors already holds what the lost write brings.
        drive.lies.plan(Untruth::LostWrite, 0..4096);
        write(&mut drive, 1536, 1, 1024);
        assert_eq!((byte(&drive, 1536), byte(&drive, 2048)), (1, 0));
        let places: Vec<u64> = drive.lies.told[1].places().collect();
        assert_eq!(places, [2048]);
        write(&mut drive, 1536, 3, 512);
        assert!(!drive.lies.told[1].is_overwritten());
    }

    #[test]
    fn a_misdirected_write_is_wrong_at_two_places() {
        let mut drive = one();
        write(&mut drive, 0, 1, 4096);
        drive.lies.plan(Untruth::MisdirectedWrite(1024), 0..4096);
        write(&mut drive, 0, 2, 512);
        assert_eq!((byte(&drive, 0), byte(&drive, 1024)), (1, 2));
        let places: Vec<u64> = drive.lies.told[0].places().collect();
        assert_eq!(places, [0, 1024]);
    }

    #[test]
    fn a_dropped_flush_tells_when_the_power_goes() {
        for seed in 0..50 {
            let mut drive = one();
            drive.random = crate::random::Stream::new(seed, "drive", 0);
            write(&mut drive, 0, 1, 512);
            drive.lies.plan(Untruth::DroppedFlush, 0..0);
            flush(&mut drive);
            write(&mut drive, 512, 2, 512);
            drive.lose_power();
            let lie = &drive.lies.told[0];
            // The write after the flush may be lost without any lie.
            assert_eq!(lie.has_effect(), byte(&drive, 0) == 0);
            assert!(lie.places().all(|place| place == 0));
        }
    }

    #[test]
    fn a_flush_after_a_dropped_one_does_what_was_promised() {
        let mut drive = one();
        write(&mut drive, 0, 1, 512);
        drive.lies.plan(Untruth::DroppedFlush, 0..0);
        flush(&mut drive);
        flush(&mut drive);
        drive.lose_power();
        assert_eq!(byte(&drive, 0), 1);
        assert!(!drive.lies.told[0].has_effect());
    }
}
