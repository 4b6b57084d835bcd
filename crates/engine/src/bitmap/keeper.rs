//! A volume's bitmap as it is on the drives, and what is to be changed of it.

use crate::bitmap::regions::{
    Regions, SECTOR_WORDS, Words, has, has_all, image_bytes, is_empty, regions, set, take_out,
};
use crate::control::record::BitmapRecord;
use crate::layout::Geometry;
use crate::units::{Buffer, MemberId, Nanos, ShardId};
use alloc::sync::Arc;
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
enum Round {
    None,
    /// These shards have not answered.
    Asking(u32),
    /// All have.
    Answered,
}

/// A volume's bitmap as it is on the drives.
#[derive(Debug)]
pub(crate) struct Keeper {
    volume: usize,
    area: u64,
    buffer: Buffer,
    /// What the drives hold, or will when the write under way is done; whole sectors, in which bits that stand for no
    /// region are set.
    bits: Words,
    /// The bits that stand for a region.
    real: Words,
    /// Bits to be set next.
    wanted: Words,
    /// Bits that are being set.
    granting: Words,
    /// Bits that may be cleared if nobody objects.
    clearing: Words,
    /// Words that differ from what was written last: from the first to before the last.
    changed: (usize, usize),
    stage: Stage,
    round: Round,
    next_round: Nanos,
    /// The members that carry the bitmap.
    members: Vec<Option<MemberId>>,
}

impl Keeper {
    /// The bitmap of a volume as the record has it, carried by these members, with memory for its image.
    pub fn new(
        volume: usize,
        shape: &Geometry,
        record: &BitmapRecord,
        buffer: Buffer,
        members: &[Option<MemberId>],
        next_round: Nanos,
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
            next_round,
            members: members.into(),
        }
    }

    /// The volume whose bitmap it is.
    pub fn volume(&self) -> usize {
        self.volume
    }

    /// Where a word lies on each drive that carries the bitmap, and its memory.
    pub fn place_of(&self, word: usize) -> (u64, Buffer) {
        let offset_bytes = self.area + word as u64 * 8;
        (offset_bytes, self.buffer.at(word as u32 * 8))
    }

    /// The bits from one word to before another.
    pub fn words(&self, (from, to): (u32, u32)) -> &[u64] {
        &self.bits[from as usize..to as usize]
    }

    /// A shard waits to write in these regions. True if it may already: their bits are set on all drives, and are not
    /// being cleared. Otherwise they are set with the next write.
    pub fn want(&mut self, regions: Regions) -> bool {
        // A write under way may be the one that sets or clears them.
        let is_settled = has_all(&self.bits, regions)
            && (regions.0..=regions.1).all(|region| !has(&self.granting, region));
        if is_settled {
            let mut range = vec![0; self.clearing.len()];
            set(&mut range, regions);
            // They may have been about to be cleared: now they stay.
            take_out(&mut self.clearing, &range);
        } else {
            set(&mut self.wanted, regions);
        }
        is_settled
    }

    /// Whether there is something to write and nothing under way.
    pub fn wants_write(&self) -> bool {
        let has_work = !is_empty(&self.wanted) || self.has_changed();
        has_work && self.stage == Stage::Idle
    }

    fn has_changed(&self) -> bool {
        self.changed.0 != self.changed.1
    }

    /// Takes what is wanted into what is written next, and begins to write.
    pub fn begin_write(&mut self) {
        self.take_wanted();
        self.stage = Stage::Writing;
    }

    /// Takes the range of words that is to be written, in whole sectors.
    pub fn take_changed(&mut self) -> (usize, usize) {
        let (from, to) = core::mem::take(&mut self.changed);
        let first = from / SECTOR_WORDS * SECTOR_WORDS;
        (
            first,
            to.next_multiple_of(SECTOR_WORDS).min(self.bits.len()),
        )
    }

    /// What was under way has ended. Returns what that was.
    pub fn end(&mut self) -> Stage {
        core::mem::replace(&mut self.stage, Stage::Idle)
    }

    /// The bits that were written are durable: calls `tell` with each range of regions whose bits have been set.
    pub fn grant(&mut self, mut tell: impl FnMut(Regions)) {
        let mut region = 0;
        let end = self.granting.len() as u32 * 64;
        while region < end {
            if self.granting[region as usize / 64] == 0 {
                region = (region / 64 + 1) * 64;
                continue;
            }
            let first = region;
            while region < end && has(&self.granting, region) {
                region += 1;
            }
            if first < region {
                tell((first, region - 1));
            } else {
                region += 1;
            }
        }
        self.granting.fill(0);
    }

    /// Whether it is time to ask what may be cleared.
    pub fn is_round_due(&self, now: Nanos) -> bool {
        now >= self.next_round && self.round == Round::None
    }

    /// Asks what may be cleared, of so many shards; returns whether there is anything to ask about.
    pub fn begin_round(&mut self, shards: u8, next_round: Nanos) -> bool {
        self.next_round = next_round;
        // A region that a shard waits for is about to be written to, so it is not at rest.
        for at in 0..self.clearing.len() {
            let asked_for = self.granting[at] | self.wanted[at];
            self.clearing[at] = self.bits[at] & self.real[at] & !asked_for;
        }
        let is_worth_it = !is_empty(&self.clearing);
        if is_worth_it {
            self.round = Round::Asking((1 << shards) - 1);
        }
        is_worth_it
    }

    /// A shard has closed the regions that are at rest on it, and names those that are `busy`.
    pub fn hear(&mut self, shard: ShardId, busy: &[u64]) {
        let Round::Asking(left) = self.round else {
            unreachable!("shard {} has closed regions, and was not asked to", shard.0);
        };
        take_out(&mut self.clearing, busy);
        let left = left & !(1 << shard.0);
        self.round = if left == 0 {
            Round::Answered
        } else {
            Round::Asking(left)
        };
    }

    /// Whether all shards have answered, and nothing is under way that clearing has to wait for.
    pub fn may_clear(&self) -> bool {
        self.round == Round::Answered && self.stage == Stage::Idle
    }

    /// Whether anything is left to be cleared.
    pub fn has_to_clear(&self) -> bool {
        !is_empty(&self.clearing)
    }

    /// Drives are being flushed, so that what was written in the regions is durable before their bits go.
    pub fn begin_flush(&mut self) {
        self.stage = Stage::Flushing;
    }

    /// Clears the bits that no shard has objected to, and returns them. [`Keeper::end_round`] says whether that is to
    /// be written at once, with the bits that are wanted.
    pub fn clear(&mut self) -> Arc<[u64]> {
        for at in 0..self.clearing.len() {
            if self.clearing[at] != 0 {
                self.bits[at] &= !self.clearing[at];
                self.note_changed(at);
            }
        }
        self.take_wanted();
        if self.has_changed() {
            self.stage = Stage::Writing;
        }
        self.clearing[..].into()
    }

    /// The round has ended. Returns whether bits are to be written at once.
    pub fn end_round(&mut self) -> bool {
        self.clearing.fill(0);
        self.round = Round::None;
        self.stage == Stage::Writing
    }

    /// These members carry it from now on. Returns whether that is new; then all of it is written to all of them.
    pub fn follow(&mut self, members: &[Option<MemberId>]) -> bool {
        let is_new = self.members != members;
        if is_new {
            self.members.clear();
            self.members.extend_from_slice(members);
            self.changed = (0, self.bits.len());
        }
        is_new
    }

    fn note_changed(&mut self, word: usize) {
        let (from, to) = self.changed;
        self.changed = if from == to {
            (word, word + 1)
        } else {
            (from.min(word), to.max(word + 1))
        };
    }

    fn take_wanted(&mut self) {
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
}
