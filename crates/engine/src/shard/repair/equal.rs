//! Mirrors whose copies may differ, and what reading does about it.
//!
//! Data that were being written when a crash came may be new on one drive and old on another until the resync has
//! passed; before the first sync that may be so anywhere in a mirror. Either content is right, but reads must not
//! return one now and the other later, as they would after the drive that was read has failed. So a client's read
//! makes the copies equal where it reads before it is answered. It takes the way of reads that have to be
//! reconstructed: to the owner of the row, under the lock of its range, by a plan that reads one copy and writes it
//! to all others ([`mirror_equal`](crate::plan::mirror::mirror_equal)). After that any drive may fail, or turn out to
//! be unreadable there.
//!
//! - *A drive that misses the write* has failed, and the answer waits until that is on record, as a write's does: a
//!   crash could bring the drive back with the other content. The same holds for a drive that had failed before and
//!   whose failure is not on record yet. In a volume that has failed nothing is recorded any more; there such a read
//!   is an error.
//! - *No mark is needed*: the record says already that the band is not in sync, by the position of the sync or by the
//!   dirty mark, which stays until the sync is done. Resyncs write there without a mark of their own for the same
//!   reason.
//! - *The other copies are written with FUA*: the next start may take one of them for the source, and a power cut
//!   must not leave it without what has been read. The source itself is not flushed: what only its cache holds is as
//!   durable as a write that was acknowledged.
//! - *Volumes that are only read* are not written to: all reads use one slot ([`RowView::source`]), and when its
//!   drive fails, later reads may return the other content.
//!
//! Copies that are equal stay equal: writes go to all of them, and a drive that misses one is read no more. A table
//! of fixed size remembers which ranges are equal, so that what is read often is written once and then served by all
//! drives. A range that it forgets for want of room is written once more, and that does no harm. The table goes when
//! the sync is done.

use crate::layout::Location;
use crate::shard::Engine;

impl Engine {
    /// A read under a lock is over. If it has made copies equal, that is remembered. Returns whether the read must
    /// fail, because a drive that has missed the write may come back as if it were current.
    #[inline]
    pub(crate) fn leaves_unequal(&mut self, index: u32) -> bool {
        let volume = &self.volumes[usize::from(self.flight.running(index).volume())];
        volume.makes_equal() && self.note_equal(index)
    }

    #[cold]
    fn note_equal(&mut self, index: u32) -> bool {
        let running = self.flight.running(index);
        let (part, missed) = (self.order.ranges[running.work().parts()], running.missed());
        let key = self.order.ranges.key_of_lock(running.lock());
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
        if self.admission[part.request].failure().is_none() {
            volume.note_made_equal(place, length_bytes);
            self.desk.stats.reads_made_equal += 1;
        }
        false
    }
}
