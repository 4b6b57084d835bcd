//! Mirrors whose copies may differ, and what reading does about it.
//!
//! What was being written when a crash came may be new on one drive and old on another until the resync has
//! passed; before the first sync all of a mirror is so. Either content is right, but not now one and then the
//! other, and the drive that was read may fail. So a client's read makes the copies equal where it reads before it
//! is answered. It takes the way of reads that have to be reconstructed: to the owner of the row, under the lock
//! of its range, by a plan that reads one copy and writes it to all others
//! ([`mirror_equal`](crate::plan::mirror::mirror_equal)). After that any drive may fail, or turn out to be
//! unreadable there.
//!
//! - *A drive that misses the write* has failed, and the answer waits until that is on record, as a write's
//!   does: a crash could bring the drive back with the other content. The same goes for one that had failed
//!   before and is not on record yet. In a volume that has failed nothing is recorded any more; there such a
//!   read is an error.
//! - *No mark is needed*: that the band is not in sync is on record, by the position of the sync or by the dirty
//!   mark, which stays until then. Resyncs write there without asking for the same reason.
//! - *The other copies are written with FUA*: the next start may take one of them for the source, and a power cut
//!   must not leave it without what has been read. The source itself is not flushed: what only its cache held is
//!   as durable as a write that was acknowledged.
//! - *Volumes that are only read* write nothing: of those one slot is read ([`RowView::source`]), and when
//!   its drive fails what has been read may change.
//!
//! What is equal stays so: writes go to all copies, and who misses one is read no more. A table of fixed size
//! remembers, so that what is read often is written once and served by all drives again. What it
//! forgets for want of room costs another write and nothing else. It goes when the sync is done.

use crate::layout::{Level, Location};
use crate::limits::{EQUAL_BLOCKS_MAX, GRAIN_BYTES};
use crate::plan::{Range, RowView};
use crate::shard::Engine;
use crate::units::{MemberSet, SlotSet};
use crate::volume::Volume;
use alloc::vec;
use alloc::vec::Vec;
use planted::{Bug, planted};

/// Bytes of a block: a grain for each bit of a word.
const BLOCK_BYTES: u64 = GRAIN_BYTES as u64 * u32::BITS as u64;

/// One of the places that a block may be remembered in.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its number on the members, and the data chunk of the row: each has copies of its own.
    block: (u64, u8),
    /// By bit: copies of this grain are equal.
    grains: u32,
}

/// What reads have made equal in one volume, as far as there was room to remember it.
#[derive(Debug, Default)]
pub(crate) struct EqualRanges {
    /// By a hash of the block; empty in volumes that need none.
    known: Vec<Known>,
}

impl EqualRanges {
    /// Makes room, or gives it back with all that is remembered.
    fn keep(&mut self, wanted: bool) {
        if wanted != self.are_kept() {
            let nothing = Known {
                block: (0, 0),
                grains: 0,
            };
            self.known = vec![nothing; if wanted { EQUAL_BLOCKS_MAX } else { 0 }];
        }
    }

    /// Whether this volume has copies that may differ, and that reads may make equal.
    #[inline]
    pub fn are_kept(&self) -> bool {
        !self.known.is_empty()
    }

    fn place(block: (u64, u8)) -> usize {
        // Fibonacci hashing, as for locks: what a shard owns follows a pattern.
        let number = block.0 << 6 | u64::from(block.1);
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize % EQUAL_BLOCKS_MAX
    }

    /// Whether all grains are known to be equal that the bytes `from` to `to` of the members touch.
    fn cover(&self, data_index: u8, from: u64, to: u64) -> bool {
        blocks(from, to).all(|(number, low, high)| {
            let block = (number, data_index);
            let wanted = bits(low / GRAIN_BYTES, high.div_ceil(GRAIN_BYTES));
            let known = self.known.get(EqualRanges::place(block));
            known.is_some_and(|known| known.block == block && wanted & !known.grains == 0)
        })
    }

    /// Remembers the grains that lie wholly between `from` and `to`.
    fn add(&mut self, data_index: u8, from: u64, to: u64) {
        for (number, low, high) in blocks(from, to) {
            let block = (number, data_index);
            let equal = bits(low.div_ceil(GRAIN_BYTES), high / GRAIN_BYTES);
            let place = EqualRanges::place(block);
            let Some(known) = self.known.get_mut(place).filter(|_| equal != 0) else {
                continue;
            };
            if known.block != block {
                *known = Known { block, grains: 0 };
            }
            known.grains |= equal;
        }
    }
}

/// The blocks between two places: number, and offsets in it from which and to which.
fn blocks(from: u64, to: u64) -> impl Iterator<Item = (u64, u32, u32)> {
    (from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES)).map(move |number| {
        let start = number * BLOCK_BYTES;
        let (low, high) = (from.max(start), to.min(start + BLOCK_BYTES));
        (number, (low - start) as u32, (high - start) as u32)
    })
}

/// The bits from the first to before the last.
fn bits(first: u32, end: u32) -> u32 {
    let below = |end: u32| 1u32.checked_shl(end).map_or(u32::MAX, |bit| bit - 1);
    below(end) & !below(first)
}

impl Volume {
    /// Takes note of whether copies may differ somewhere, and may be made equal.
    pub(crate) fn note_sync(&mut self) {
        let wanted = self.is_mirrored() && !self.view.row.in_sync && !self.view.read_only;
        self.equal.keep(wanted);
    }

    pub(crate) fn is_mirrored(&self) -> bool {
        matches!(self.shape.level, Level::Raid1 | Level::Raid10)
    }

    fn on_members(&self, place: Location) -> u64 {
        place.row * u64::from(self.shape.chunk_bytes) + u64::from(place.in_chunk_bytes)
    }

    /// Whether copies may differ somewhere in the `length_bytes` from a place on, which `view` is about, for all
    /// that this shard knows. What reads have made equal only the owner of the row knows. With a bitmap only
    /// what it marks may differ.
    pub(crate) fn may_differ(&self, place: Location, length_bytes: u32, view: &RowView) -> bool {
        if view.in_sync || !self.is_mirrored() {
            return false;
        }
        let offset_bytes = self.shape.volume_offset_bytes(place);
        let from = self.on_members(place);
        let to = from + u64::from(length_bytes);
        self.is_marked(offset_bytes, length_bytes) && !self.equal.cover(place.data_index, from, to)
    }

    /// Whether a read there has to make copies equal, or to wait for a record, before it is answered.
    pub(crate) fn must_equal(&self, place: Location, view: &RowView) -> bool {
        let slots = self.shape.data_slots(place.row, place.data_index);
        let several = SlotSet(slots.0 & view.writable.0).count() > 1;
        (several || !self.unrecorded_in(slots).is_empty())
            && !self.view.read_only
            && !planted(Bug::MirrorReadsAnywhere)
    }

    /// The same for a read that has the lock of its range.
    #[inline]
    pub(crate) fn must_equal_under_lock(
        &self,
        data_index: u8,
        range: Range,
        view: &RowView,
    ) -> bool {
        self.equal.are_kept() && {
            let place = Location {
                row: range.row,
                data_index,
                in_chunk_bytes: range.low_bytes,
            };
            self.may_differ(place, range.length_bytes(), view) && self.must_equal(place, view)
        }
    }

    /// Drives of `slots` that have failed, and whose failure is not on record.
    pub(crate) fn unrecorded_in(&self, slots: SlotSet) -> MemberSet {
        let members = slots
            .iter()
            .filter_map(|slot| self.view.slots[usize::from(slot.0)]);
        members
            .filter(|&member| self.unrecorded.has(member))
            .collect()
    }
}

impl Engine {
    /// A read under a lock is over. If it has made copies equal, that is remembered. Returns whether it must not
    /// be answered: a drive that has missed it may come back as if it were current.
    #[inline]
    pub(crate) fn leaves_unequal(&mut self, index: u32) -> bool {
        let volume = &self.volumes[usize::from(self.flight.running[index].volume)];
        volume.equal.are_kept() && self.note_equal(index)
    }

    #[cold]
    fn note_equal(&mut self, index: u32) -> bool {
        let running = &self.flight.running[index];
        let (part, missed) = (
            self.order.ranges.parts[running.work.parts()],
            running.missed,
        );
        let key = self.order.ranges.key_of_lock(running.lock);
        let view = self.view_of(key);
        let volume = &mut self.volumes[usize::from(key.volume)];
        let place = Location {
            row: volume.band_range(key.band).0,
            data_index: part.data_index,
            in_chunk_bytes: part.low,
        };
        let length_bytes = part.high - part.low;
        if !volume.may_differ(place, length_bytes, &view) {
            return false;
        }
        if !missed.within(self.members.durable_failed()) {
            return true;
        }
        if self.admission.requests[part.request].failure.is_none() {
            let from = volume.on_members(place);
            let to = from + u64::from(length_bytes);
            volume.equal.add(part.data_index, from, to);
            self.desk.stats.reads_made_equal += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn table() -> EqualRanges {
        let mut table = EqualRanges::default();
        table.keep(true);
        table
    }

    #[test]
    fn what_has_been_made_equal_is_known_and_nothing_beside_it() {
        let mut table = table();
        // Across the border of a block, with half a grain at each end.
        table.add(1, 122 * KIB, 142 * KIB);
        assert!(table.cover(1, 124 * KIB, 140 * KIB));
        assert!(table.cover(1, 127 * KIB, 129 * KIB));
        for (from, to) in [(122, 124), (123, 125), (139, 141), (140, 142), (0, 4)] {
            assert!(!table.cover(1, from * KIB, to * KIB), "{from} to {to}");
        }
        assert!(!table.cover(0, 124 * KIB, 140 * KIB), "another pair's");
        table.add(1, 120 * KIB, 124 * KIB);
        assert!(table.cover(1, 120 * KIB, 140 * KIB));
        table.add(1, 4 * KIB, 6 * KIB);
        assert!(!table.cover(1, 4 * KIB, 5 * KIB), "half a grain is none");
    }

    #[test]
    fn whole_blocks_and_longer_ranges_are_known() {
        let mut table = table();
        table.add(0, 0, 1024 * KIB);
        assert!(table.cover(0, 0, 1024 * KIB));
        assert!(!table.cover(0, 0, 1024 * KIB + 512));
    }

    #[test]
    fn what_has_no_room_is_forgotten_and_never_taken_for_another() {
        let mut table = table();
        let blocks = 3 * EQUAL_BLOCKS_MAX as u64;
        for block in 0..blocks {
            table.add(0, block * BLOCK_BYTES, block * BLOCK_BYTES + 4 * KIB);
        }
        let is_known = |block: &u64| {
            let from = block * BLOCK_BYTES;
            assert!(!table.cover(0, from + 4 * KIB, from + 8 * KIB));
            table.cover(0, from, from + 4 * KIB)
        };
        let known = (0..blocks).filter(is_known).count();
        assert!(known > EQUAL_BLOCKS_MAX / 2 && known <= EQUAL_BLOCKS_MAX);
        assert!(is_known(&(blocks - 1)), "the last one is there");
    }

    #[test]
    fn chunks_of_one_row_do_not_share_a_place() {
        let mut table = table();
        (0..16).for_each(|chunk| table.add(chunk, 0, 4 * KIB));
        assert!((0..16).all(|chunk| table.cover(chunk, 0, 4 * KIB)));
    }

    #[test]
    fn nothing_is_known_without_room_or_after_it_was_given_back() {
        let mut table = EqualRanges::default();
        table.add(0, 0, 4 * KIB);
        assert!(!table.cover(0, 0, 4 * KIB));
        table.keep(true);
        table.add(0, 0, 4 * KIB);
        table.keep(true);
        assert!(table.cover(0, 0, 4 * KIB));
        table.keep(false);
        assert!(!table.cover(0, 0, 4 * KIB));
    }
}
