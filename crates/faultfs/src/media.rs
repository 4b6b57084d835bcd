//! The content of one file: what a read returns, what is durable, and the changes in between.

use repeatable::random::Stream;
use std::collections::BTreeSet;
use std::ops::Range;

const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

/// The new content of a changed range.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    Zeros(u64),
}

/// A change that is not durable.
#[derive(Clone, Debug)]
struct Change {
    /// The change's entry in the journal.
    entry: usize,
    offset: usize,
    content: Content,
    /// When the change was answered, if it has been.
    answered: Option<u64>,
}

impl Change {
    /// The parts of the change outside of a range.
    fn without(&self, place: &Range<usize>) -> Vec<Change> {
        let (start, end) = (self.offset, self.offset + self.content.len());
        let parts = [start..end.min(place.start), start.max(place.end)..end];
        let part = |part: &Range<usize>| Change {
            offset: part.start,
            content: self.content.part(part.start - start, part.len()),
            ..*self
        };
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.map(part).collect()
    }
}

/// How much of what was not durable is lost in a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// All of it.
    Everything,
    /// None of it.
    Nothing,
    /// Each write is kept or lost by chance.
    Writes,
    /// Each 4 KiB block of each write is kept or lost by chance.
    Blocks,
    /// Each sector of each write is kept or lost by chance.
    Sectors,
}

impl Loss {
    /// All kinds of losses.
    pub const ALL: [Loss; 5] = [
        Loss::Everything,
        Loss::Nothing,
        Loss::Writes,
        Loss::Blocks,
        Loss::Sectors,
    ];
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Media {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

fn apply(to: &mut [u8], offset: usize, content: &Content) {
    match content {
        Content::Bytes(bytes) => to[offset..offset + bytes.len()].copy_from_slice(bytes),
        Content::Zeros(length) => to[offset..offset + *length as usize].fill(0),
    }
}

impl Content {
    pub fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Zeros(length) => *length as usize,
        }
    }

    fn part(&self, from: usize, length: usize) -> Content {
        match self {
            Content::Bytes(bytes) => Content::Bytes(bytes[from..from + length].to_vec()),
            Content::Zeros(_) => Content::Zeros(length as u64),
        }
    }
}

impl Media {
    pub fn new(size_bytes: u64) -> Media {
        Media {
            current: vec![0; size_bytes as usize],
            durable: vec![0; size_bytes as usize],
            unsynced: Vec::new(),
        }
    }

    pub fn size_bytes(&self) -> u64 {
        self.current.len() as u64
    }

    /// The bytes that a read returns, cut at the end of the file.
    pub fn read(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        let size = self.current.len();
        let start = (offset_bytes as usize).min(size);
        &self.current[start..(start + length_bytes as usize).min(size)]
    }

    /// The bytes that would be left after a power cut that loses everything not durable.
    pub fn durable(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        &self.durable[offset_bytes as usize..][..length_bytes as usize]
    }

    /// Takes a change that lies within the file.
    pub fn change(&mut self, entry: usize, offset_bytes: u64, content: Content) {
        let offset = offset_bytes as usize;
        apply(&mut self.current, offset, &content);
        self.unsynced.push(Change {
            entry,
            offset,
            content,
            answered: None,
        });
    }

    /// Notes when the change of this entry was answered.
    pub fn answered(&mut self, entry: usize, moment: u64) {
        let of_entry = |change: &&mut Change| change.entry == entry;
        self.unsynced
            .iter_mut()
            .filter(of_entry)
            .for_each(|change| change.answered = Some(moment));
    }

    /// Makes durable, or loses for good, the changes that were answered before `moment`; returns their entries.
    pub fn sync(&mut self, moment: u64, loses: bool) -> Vec<usize> {
        self.settle(loses, |change| {
            change.answered.is_some_and(|answered| answered < moment)
        })
    }

    /// Makes the change of one entry durable. Returns that entry, and those whose changes it has overwritten entirely.
    pub fn sync_entry(&mut self, entry: usize) -> Vec<usize> {
        let before: BTreeSet<usize> = self.unsynced.iter().map(|change| change.entry).collect();
        self.settle(false, |change| change.entry == entry);
        let is_left = |entry: &usize| self.unsynced.iter().any(|change| change.entry == *entry);
        before.into_iter().filter(|entry| !is_left(entry)).collect()
    }

    fn settle(&mut self, loses: bool, which: impl Fn(&Change) -> bool) -> Vec<usize> {
        let mut settled = Vec::new();
        let mut left: Vec<Change> = Vec::new();
        for change in std::mem::take(&mut self.unsynced) {
            if !which(&change) {
                left.push(change);
                continue;
            }
            settled.push(change.entry);
            if !loses {
                apply(&mut self.durable, change.offset, &change.content);
                // Older changes of the same range are overwritten, and must not be applied over this one later.
                let place = change.offset..change.offset + change.content.len();
                left = left
                    .iter()
                    .flat_map(|older| older.without(&place))
                    .collect();
            }
        }
        self.unsynced = left;
        settled
    }

    /// Loses in a power cut, as `loss` says, changes that were not durable. What is left is durable.
    pub fn lose(&mut self, loss: Loss, random: &mut Stream) {
        let grain = match loss {
            Loss::Everything | Loss::Nothing | Loss::Writes => usize::MAX,
            Loss::Blocks => BLOCK_BYTES,
            Loss::Sectors => SECTOR_BYTES,
        };
        for change in std::mem::take(&mut self.unsynced) {
            let length = change.content.len();
            let mut at = 0;
            while at < length {
                // Changes are split at block boundaries of the drive, whatever the offset of the write.
                let position = change.offset + at;
                let step = match grain {
                    usize::MAX => length,
                    _ => (grain - position % grain).min(length - at),
                };
                let is_kept = match loss {
                    Loss::Everything => false,
                    Loss::Nothing => true,
                    _ => random.chance(1, 2),
                };
                if is_kept {
                    apply(&mut self.durable, position, &change.content.part(at, step));
                }
                at += step;
            }
        }
        self.current.copy_from_slice(&self.durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: u8, length: usize) -> Content {
        Content::Bytes(vec![value; length])
    }

    #[test]
    fn a_sync_covers_what_was_answered_before_it_and_nothing_else() {
        let mut media = Media::new(8192);
        media.change(0, 0, bytes(1, 512));
        media.change(1, 512, bytes(2, 512));
        media.change(2, 1024, bytes(3, 512));
        media.answered(0, 10);
        media.answered(2, 30);
        assert_eq!(media.sync(20, false), [0]);
        assert_eq!(
            (media.durable(0, 1), media.read(512, 1)),
            (&[1][..], &[2][..])
        );
        media.lose(Loss::Everything, &mut Stream::new(1, "loss", 0));
        assert_eq!(media.read(0, 1), [1]);
        assert_eq!(
            (media.read(512, 1), media.read(1024, 1)),
            (&[0][..], &[0][..])
        );
    }

    #[test]
    fn an_older_write_does_not_come_back_over_one_that_was_durable_by_itself() {
        let mut media = Media::new(8192);
        media.change(0, 0, bytes(1, 4096));
        media.change(1, 1024, bytes(2, 512));
        media.answered(0, 1);
        media.answered(1, 2);
        assert_eq!(media.sync_entry(1), [1]);
        let durable: Vec<u8> = (0..8).map(|at| media.durable(at * 512, 1)[0]).collect();
        assert_eq!(durable, [0, 0, 2, 0, 0, 0, 0, 0]);
        assert_eq!(media.sync(3, false), [0, 0]);
        let durable: Vec<u8> = (0..8).map(|at| media.durable(at * 512, 1)[0]).collect();
        assert_eq!(durable, [1, 1, 2, 1, 1, 1, 1, 1]);
        media.change(2, 0, bytes(3, 512));
        media.change(3, 0, bytes(4, 1024));
        assert_eq!(media.sync_entry(3), [2, 3]);
    }

    #[test]
    fn what_a_failed_sync_has_lost_the_next_one_does_not_bring_back() {
        let mut media = Media::new(4096);
        media.change(0, 0, bytes(7, 512));
        media.answered(0, 1);
        assert_eq!(media.sync(2, true), [0]);
        assert!(media.sync(3, false).is_empty());
        assert_eq!(
            (media.read(0, 1), media.durable(0, 1)),
            (&[7][..], &[0][..])
        );
    }

    #[test]
    fn each_subset_of_sectors_is_drawn_and_later_writes_win_over_earlier_ones() {
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut media = Media::new(4096);
            media.change(0, 0, bytes(1, 1024));
            media.change(1, 512, bytes(2, 1024));
            media.lose(Loss::Sectors, &mut Stream::new(seed, "loss", 0));
            let at = |sector: u64| media.read(sector * 512, 1)[0];
            found.insert([at(0), at(1), at(2)]);
        }
        // The first and the third sector may be old or new; the second may be old or from either write.
        assert_eq!(found.len(), 2 * 3 * 2, "{found:?}");
    }

    #[test]
    fn pieces_of_a_write_that_begins_within_a_block_end_where_blocks_do() {
        for seed in 0..50 {
            let mut media = Media::new(16384);
            media.change(0, 3584, bytes(1, 4096));
            media.lose(Loss::Blocks, &mut Stream::new(seed, "loss", 0));
            let block = media.read(4096, 3584);
            assert!(
                block.iter().all(|byte| *byte == block[0]),
                "torn within a block"
            );
        }
    }
}
