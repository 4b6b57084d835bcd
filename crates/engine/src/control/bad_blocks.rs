//! The bad-block log as the engine sees it: ranges of members whose content is lost, whatever the drive
//! returns for them.
//!
//! The log is part of the record. The on-disk format limits it to a bounded number of entries of bounded length,
//! shared by all members.

use crate::limits::{BAD_BLOCK_ENTRIES_MAX, BAD_BLOCK_ENTRY_BYTES_MAX};
use crate::units::{MemberId, MemberSet};
use alloc::vec::Vec;

/// Bytes of a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BadRange {
    /// The member.
    pub member: MemberId,
    /// First byte on the drive.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

impl BadRange {
    /// The first byte after the range.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    /// The part of the range from `low` to `high`; empty if `low` is not below `high`.
    fn between(&self, low: u64, high: u64) -> BadRange {
        let offset_bytes = self.offset_bytes.max(low);
        BadRange {
            offset_bytes,
            length_bytes: self.end_bytes().min(high).saturating_sub(offset_bytes),
            ..*self
        }
    }
}

/// The log has no room for the change and is left as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFull;

/// All recorded ranges. The ranges of a member ascend and do not touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlocks {
    ranges: Vec<BadRange>,
    entries_elsewhere: usize,
}

impl BadBlocks {
    /// An empty log in which `entries_elsewhere` entries are taken by drives that are not present.
    #[must_use]
    pub fn new(entries_elsewhere: usize) -> BadBlocks {
        BadBlocks {
            ranges: Vec::new(),
            entries_elsewhere,
        }
    }

    /// Reserves memory for the largest possible number of ranges.
    pub fn reserve_all(&mut self) {
        self.ranges.reserve(BAD_BLOCK_ENTRIES_MAX as usize);
    }

    /// Makes this log equal to `other`; allocates nothing after [`BadBlocks::reserve_all`].
    pub fn copy_from(&mut self, other: &BadBlocks) {
        self.ranges.clone_from(&other.ranges);
        self.entries_elsewhere = other.entries_elsewhere;
    }

    /// Whether no range is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// All ranges, by member and offset.
    #[must_use]
    pub fn ranges(&self) -> &[BadRange] {
        &self.ranges
    }

    /// The ranges of one member.
    #[must_use]
    pub fn of(&self, member: MemberId) -> &[BadRange] {
        let from = self.ranges.partition_point(|range| range.member < member);
        let to = self.ranges.partition_point(|range| range.member <= member);
        &self.ranges[from..to]
    }

    /// Members that have recorded ranges.
    #[must_use]
    pub fn members(&self) -> MemberSet {
        self.ranges.iter().map(|range| range.member).collect()
    }

    /// Whether some byte of a range is recorded.
    #[must_use]
    pub fn touch(&self, member: MemberId, offset_bytes: u64, length_bytes: u64) -> bool {
        let ranges = self.of(member);
        let first = ranges.partition_point(|range| range.end_bytes() <= offset_bytes);
        ranges
            .get(first)
            .is_some_and(|range| range.offset_bytes < offset_bytes + length_bytes)
    }

    /// Whether all bytes of a range are recorded.
    #[must_use]
    pub fn cover(&self, wanted: BadRange) -> bool {
        let holds = |range: &BadRange| {
            range.offset_bytes <= wanted.offset_bytes && wanted.end_bytes() <= range.end_bytes()
        };
        self.of(wanted.member).iter().any(holds)
    }

    /// Records a range.
    ///
    /// # Errors
    /// [`LogFull`].
    pub fn add(&mut self, added: BadRange) -> Result<(), LogFull> {
        let mut own: Vec<BadRange> = self.of(added.member).to_vec();
        let at = own.partition_point(|range| range.offset_bytes < added.offset_bytes);
        own.insert(at, added);
        self.replace(added.member, own)
    }

    /// Removes a range from the log, because all of it has been written.
    ///
    /// # Errors
    /// [`LogFull`]: a hole makes two entries of one.
    pub fn remove(&mut self, removed: BadRange) -> Result<(), LogFull> {
        let left = |range: &BadRange| {
            let before = range.between(0, removed.offset_bytes);
            [before, range.between(removed.end_bytes(), u64::MAX)]
        };
        let own = self.of(removed.member).iter().flat_map(left).collect();
        self.replace(removed.member, own)
    }

    /// Removes all ranges of a member.
    pub fn forget(&mut self, member: MemberId) {
        self.ranges.retain(|range| range.member != member);
    }

    /// Replaces a member's ranges by `own`, which ascend.
    fn replace(&mut self, member: MemberId, own: Vec<BadRange>) -> Result<(), LogFull> {
        let mut merged: Vec<BadRange> = Vec::with_capacity(own.len());
        for range in own.into_iter().filter(|range| range.length_bytes > 0) {
            match merged.last_mut() {
                Some(last) if range.offset_bytes <= last.end_bytes() => {
                    let end = last.end_bytes().max(range.end_bytes());
                    last.length_bytes = end - last.offset_bytes;
                }
                _ => merged.push(range),
            }
        }
        let others = self.ranges.iter().filter(|range| range.member != member);
        let entries = |range: &BadRange| range.length_bytes.div_ceil(BAD_BLOCK_ENTRY_BYTES_MAX);
        let needed: u64 = others.chain(&merged).map(entries).sum();
        if needed + self.entries_elsewhere as u64 > BAD_BLOCK_ENTRIES_MAX {
            return Err(LogFull);
        }
        self.forget(member);
        let at = self.ranges.partition_point(|range| range.member < member);
        self.ranges.splice(at..at, merged);
        Ok(())
    }
}

/// What happens to a range of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadBlockChange {
    /// Its content is lost: from now on reads of it return errors.
    Lost,
    /// All of it has been durably written, so its entries in the log are outdated.
    Rewritten,
}

/// The outcome of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// It is durably on record, and every shard has adopted the view with it.
    Yes,
    /// The log has no room for it, or no drive is left to record it.
    NoRoom,
    /// The metadata cannot express it: no drive is at fault.
    NotExpressible,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(member: u8, from: u64, to: u64) -> BadRange {
        BadRange {
            member: MemberId(member),
            offset_bytes: from,
            length_bytes: to - from,
        }
    }

    #[test]
    fn ranges_merge_and_are_cut() {
        let mut log = BadBlocks::default();
        for (member, from, to) in [(1, 0, 10), (0, 50, 60), (1, 20, 30), (1, 10, 20), (1, 5, 7)] {
            log.add(range(member, from, to)).unwrap();
        }
        assert_eq!(log.ranges(), [range(0, 50, 60), range(1, 0, 30)]);
        assert!(log.touch(MemberId(1), 29, 100) && !log.touch(MemberId(1), 30, 100));
        assert!(log.touch(MemberId(0), 0, 51) && !log.touch(MemberId(0), 0, 50));
        assert!(log.cover(range(1, 3, 30)) && !log.cover(range(1, 3, 31)));
        assert!(log.cover(range(0, 50, 60)) && !log.cover(range(0, 5, 20)));
        assert_eq!(log.members(), MemberSet(0b11));
        log.remove(range(1, 8, 12)).unwrap();
        assert_eq!(log.of(MemberId(1)), [range(1, 0, 8), range(1, 12, 30)]);
        log.remove(range(1, 4, 40)).unwrap();
        assert_eq!(log.of(MemberId(1)), [range(1, 0, 4)]);
        log.forget(MemberId(1));
        assert_eq!(log.ranges(), [range(0, 50, 60)]);
    }

    #[test]
    fn entries_are_limited_for_all_members_together() {
        let mut log = BadBlocks::new(4);
        let most = (BAD_BLOCK_ENTRIES_MAX - 4) * BAD_BLOCK_ENTRY_BYTES_MAX;
        log.add(range(0, 0, most)).unwrap();
        let before = log.clone();
        assert_eq!(log.add(range(1, 0, 512)), Err(LogFull));
        assert_eq!(log.add(range(0, most, most + 512)), Err(LogFull));
        // The two ends that are left of the range would need one more entry.
        assert_eq!(log.remove(range(0, 512, 1024)), Err(LogFull));
        assert_eq!(log, before);
        log.remove(range(0, 0, BAD_BLOCK_ENTRY_BYTES_MAX)).unwrap();
        log.add(range(1, 0, 512)).unwrap();
    }
}
