//! The write-intent bitmap: which regions of a volume may be in the middle of a write.
//!
//! A region's bit is durable on every drive that carries the bitmap before anything in the region is written,
//! and is cleared only when everything written there is durable on all drives, and only while none of them is
//! missing. So after a crash the regions of set bits are all that has to be synchronised, and a drive that
//! comes back lacks them and nothing else.
//!
//! One shard, the controller's, writes the bitmap and is its keeper ([`keeper`]). Every shard has a copy of
//! what is set, and knows where it may write without asking: that is one look at a bit. A write that finds its
//! bit missing waits with those that wait for the dirty mark, and the keeper is asked; one update serves
//! all that ask meanwhile. Bits are cleared in rounds: the keeper asks all shards to close what they have not
//! written to since the round before. A closed region is asked for again before it is written to. A shard
//! names as busy whatever it has written to meanwhile or still writes to, so what nobody has named is
//! at rest everywhere, and after a flush of the drives its bit can go.
//!
//! Messages from the keeper to a shard arrive in their order, views of the controller among them. So when a
//! shard learns of a job it has heard of every region that was written to before the job was known
//! anywhere: jobs can go by the shard's copy.
//!
//! Regions are numbered as the format does: over each member's part of the volume, on RAID 10 over the volume.

pub(crate) mod keeper;
pub(crate) mod regions;

use crate::bitmap::regions::{Regions, Words, regions};
use crate::control::record::BitmapRecord;
use crate::layout::{Geometry, Level};
use alloc::vec;

/// Bits are asked for, granted and cleared of volumes that have a bitmap, and of no others.
pub(crate) const HAS_BITMAP: &str = "the volume has a bitmap";

/// A volume's bitmap as one shard knows it.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// Bytes of a region, as a power of two.
    pub shift: u32,
    /// Regions whose bits are set on all members, as far as this shard has been told.
    pub marked: Words,
    /// Those of them in which this shard may begin writes.
    pub open: Words,
    /// Regions in which it has begun writes since the last round.
    pub touched: Words,
    /// Regions that it waits for.
    pub asked: Words,
}

impl Bitmap {
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
    pub(crate) fn regions_of(
        &self,
        shape: &Geometry,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Regions {
        let last_byte = offset_bytes + u64::from(length_bytes.max(1)) - 1;
        let (first, last) = if shape.level == Level::Raid5 {
            // Parity is in the same rows.
            let (from, to) = (
                offset_bytes / shape.row_bytes(),
                last_byte / shape.row_bytes(),
            );
            let chunk = u64::from(shape.chunk_bytes);
            let end = ((to + 1) * chunk).min(shape.component_bytes);
            (from * chunk, end - 1)
        } else {
            (offset_bytes, last_byte)
        };
        ((first >> self.shift) as u32, (last >> self.shift) as u32)
    }

    /// The first marked region from `region` on.
    pub(crate) fn next_marked(&self, region: u64) -> Option<u64> {
        let mut at = (region / 64) as usize;
        let mut word = *self.marked.get(at)? & (u64::MAX << (region % 64));
        while word == 0 {
            at += 1;
            word = *self.marked.get(at)?;
        }
        Some(at as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}
