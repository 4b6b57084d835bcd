//! The write-intent bitmap: which regions of a volume may be in the middle of a write.
//!
//! A region's bit is durable on every drive that carries the bitmap before anything in the region is written, and is
//! cleared only when everything written there is durable on all drives, and only while none of them is missing. So
//! after a crash only the regions of set bits have to be synchronised, and a drive that comes back lacks nothing
//! outside of them.
//!
//! One shard, the controller's, writes the bitmap and is its keeper ([`keeper`]). Every shard has a copy of the set
//! bits, and knows in which regions it may write without asking: it only looks at a bit. A write that finds its bit
//! missing waits with those that wait for the dirty mark, and the shard asks the keeper; one update of the bitmap
//! serves all requests that arrive meanwhile.
//!
//! Bits are cleared in rounds: the keeper asks all shards to close the regions that they have not written to since
//! the round before. A shard asks for a closed region again before it writes there. Each shard reports as busy the
//! regions that it has written to meanwhile or still writes to. A region that no shard has reported is at rest
//! everywhere, and after a flush of the drives its bit is cleared.
//!
//! Messages from the keeper to a shard arrive in their order, views of the controller among them. So when a shard
//! learns of a job it has been told of every region that was written to before the job was known anywhere, and jobs
//! can rely on the shard's copy.
//!
//! Regions are numbered as the format does: over each member's part of the volume, on RAID 10 over the volume.

pub(crate) mod keeper;
pub(crate) mod regions;

use crate::bitmap::regions::{Regions, Words, has_all, regions, set, take_out};
use crate::control::record::BitmapRecord;
use crate::layout::Geometry;
use alloc::vec;
use alloc::vec::Vec;

/// A volume's bitmap as one shard knows it.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// Bytes of a region, as a power of two.
    shift: u32,
    /// Regions whose bits are set on all members, as far as this shard has been told.
    marked: Words,
    /// The marked regions in which this shard may begin writes.
    open: Words,
    /// Regions in which it has begun writes since the last round.
    touched: Words,
    /// Regions that the keeper has been asked for.
    asked: Words,
}

impl Bitmap {
    /// As the record has it: this shard may write where bits are set.
    pub fn new(record: &BitmapRecord, shape: &Geometry) -> Bitmap {
        let words = regions(shape, record.region_bytes).div_ceil(64) as usize;
        let mut marked = vec![0; words];
        let known = words.min(record.marked.len());
        marked[..known].copy_from_slice(&record.marked[..known]);
        Bitmap {
            shift: record.region_bytes.trailing_zeros(),
            open: marked.clone(),
            marked,
            touched: vec![0; words],
            asked: vec![0; words],
        }
    }

    /// The regions of a range of the volume.
    pub fn regions_of(&self, shape: &Geometry, offset_bytes: u64, length_bytes: u32) -> Regions {
        let (first, last) = shape.bitmap_range(offset_bytes, length_bytes);
        (self.region(first) as u32, self.region(last) as u32)
    }

    /// The region of a byte, counted as the format does.
    pub fn region(&self, byte: u64) -> u64 {
        byte >> self.shift
    }

    /// The first byte of a region.
    pub fn first_byte(&self, region: u64) -> u64 {
        region << self.shift
    }

    /// The first marked region from `region` on.
    pub fn next_marked(&self, region: u64) -> Option<u64> {
        let mut at = (region / 64) as usize;
        let mut word = *self.marked.get(at)? & (u64::MAX << (region % 64));
        while word == 0 {
            at += 1;
            word = *self.marked.get(at)?;
        }
        Some(at as u64 * 64 + u64::from(word.trailing_zeros()))
    }

    /// Whether a write in these regions may begin now; if so they count as written to.
    pub fn begin_write(&mut self, regions: Regions) -> bool {
        let may = has_all(&self.open, regions);
        if may {
            set(&mut self.touched, regions);
        }
        may
    }

    /// A write waits for these regions. Returns whether the keeper has to be asked, because it has not been asked for
    /// all of them.
    pub fn wait_for(&mut self, regions: Regions) -> bool {
        let is_new = !has_all(&self.asked, regions);
        if is_new {
            set(&mut self.asked, regions);
        }
        is_new
    }

    /// The bits of these regions are durable: writes may begin there.
    pub fn mark(&mut self, regions: Regions) {
        for region in regions.0..=regions.1 {
            self.asked[region as usize / 64] &= !(1 << (region % 64));
        }
        set(&mut self.marked, regions);
        set(&mut self.open, regions);
    }

    /// The regions in which writes have begun since the last call.
    pub fn take_touched(&mut self) -> Vec<u64> {
        let words = self.touched.len();
        core::mem::replace(&mut self.touched, vec![0; words])
    }

    /// In all regions but these a write has to ask again before it may begin.
    pub fn close_all_but(&mut self, busy: &[u64]) {
        for (open, busy) in self.open.iter_mut().zip(busy) {
            *open &= busy;
        }
    }

    /// The bits of these regions are being cleared.
    pub fn clear(&mut self, cleared: &[u64]) {
        take_out(&mut self.marked, cleared);
        take_out(&mut self.open, cleared);
    }
}
