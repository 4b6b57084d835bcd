//! A volume's bitmap as it is on the drives, and what is to be changed of it.

use crate::bitmap::regions::{SECTOR_WORDS, Words, image_bytes, regions, set};
use crate::control::record::BitmapRecord;
use crate::layout::Geometry;
use crate::units::{Buffer, MemberId, Nanos};
use alloc::vec;
use alloc::vec::Vec;

/// What is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Idle,
    /// Bits are being written.
    Writing,
    /// Drives are being flushed before bits are cleared.
    Flushing,
}

/// A round of asking shards what may be cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Round {
    None,
    /// These shards have not answered.
    Asking(u32),
    /// All have.
    Answered,
}

/// A volume's bitmap as it is on the drives.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub volume: usize,
    pub area: u64,
    pub buffer: Buffer,
    /// What the drives have, or will when the write under way is done; whole sectors, with bits that stand
    /// for nothing set.
    pub bits: Words,
    /// Regions that there are, to tell bits that stand for nothing.
    pub real: Words,
    /// Bits to be set next.
    pub wanted: Words,
    /// Bits that are being set.
    pub granting: Words,
    /// Bits that may be cleared if nobody objects.
    pub clearing: Words,
    /// Words that differ from what was written last: from the first to before the last.
    pub changed: (usize, usize),
    pub stage: Stage,
    pub round: Round,
    pub next_round: Nanos,
    /// Who carries it.
    pub members: Vec<Option<MemberId>>,
}

impl Keeper {
    pub(crate) fn new(
        volume: usize,
        shape: &Geometry,
        record: &BitmapRecord,
        buffer: Buffer,
    ) -> Keeper {
        let regions = regions(shape, record.region_bytes);
        let words = image_bytes(shape, record) as usize / 8;
        let mut real = vec![0; words];
        if regions > 0 {
            set(&mut real, (0, regions - 1));
        }
        let mut bits: Words = real.iter().map(|word| !word).collect();
        for (bit, marked) in bits.iter_mut().zip(record.marked.iter()) {
            *bit |= marked;
        }
        Keeper {
            volume,
            area: record.bits_offset_bytes,
            buffer,
            bits,
            real,
            wanted: vec![0; words],
            granting: vec![0; words],
            clearing: vec![0; words],
            changed: (0, 0),
            stage: Stage::Idle,
            round: Round::None,
            next_round: Nanos(0),
            members: Vec::new(),
        }
    }

    fn note_changed(&mut self, word: usize) {
        let (from, to) = self.changed;
        self.changed = if from == to {
            (word, word + 1)
        } else {
            (from.min(word), to.max(word + 1))
        };
    }

    /// Takes the bits that are wanted into what is written next.
    pub(crate) fn take_wanted(&mut self) {
        for at in 0..self.wanted.len() {
            let new = self.wanted[at];
            if new == 0 {
                continue;
            }
            self.bits[at] |= new;
            self.granting[at] |= new;
            self.wanted[at] = 0;
            self.note_changed(at);
        }
    }

    /// Clears what nobody has objected to.
    pub(crate) fn take_clearing(&mut self) {
        for at in 0..self.clearing.len() {
            if self.clearing[at] != 0 {
                self.bits[at] &= !self.clearing[at];
                self.note_changed(at);
            }
        }
    }

    /// What is to be written: words, in whole sectors.
    pub(crate) fn take_changed(&mut self) -> (usize, usize) {
        let (from, to) = core::mem::take(&mut self.changed);
        let first = from / SECTOR_WORDS * SECTOR_WORDS;
        (
            first,
            to.next_multiple_of(SECTOR_WORDS).min(self.bits.len()),
        )
    }
}
