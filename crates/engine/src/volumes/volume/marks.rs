//! What a volume's bitmap says about a range of it, about writes there, and about the band at which its job continues.

use crate::bitmap::Bitmap;
use crate::bitmap::regions::Regions;
use crate::control::record::JobKind;
use crate::volumes::job::JobRunner;
use crate::volumes::volume::Volume;

/// Messages about bits are sent for volumes that have a bitmap, and for no others.
const HAS_BITMAP: &str = "the volume has a bitmap";

/// Whether a write may begin, as far as the bitmap goes.
#[must_use]
pub(crate) enum Marked {
    /// All its regions are marked, and count as written to. A volume without a bitmap needs no marks.
    Yes,
    /// Not before these regions are marked, for which the keeper has to be asked.
    AskFor(Regions),
    /// Not before the keeper has answered, who has been asked already.
    Asked,
}

impl Volume {
    /// Begins a write, or notes what it waits for, as far as the bitmap goes.
    #[inline]
    pub(crate) fn begin_marked(&mut self, offset_bytes: u64, length_bytes: u32) -> Marked {
        let Some(bitmap) = &mut self.bitmap else {
            return Marked::Yes;
        };
        let regions = bitmap.regions_of(&self.shape, offset_bytes, length_bytes);
        if bitmap.begin_write(regions) {
            Marked::Yes
        } else if bitmap.wait_for(regions) {
            Marked::AskFor(regions)
        } else {
            Marked::Asked
        }
    }

    /// The regions of a range of the volume.
    ///
    /// # Panics
    /// The volume has no bitmap.
    pub(crate) fn regions_of(&self, offset_bytes: u64, length_bytes: u32) -> Regions {
        let bitmap = self.bitmap.as_ref().expect(HAS_BITMAP);
        bitmap.regions_of(&self.shape, offset_bytes, length_bytes)
    }

    /// The bitmap, which the keeper's messages are about.
    ///
    /// # Panics
    /// The volume has no bitmap.
    pub(crate) fn bitmap_mut(&mut self) -> &mut Bitmap {
        self.bitmap.as_mut().expect(HAS_BITMAP)
    }

    /// Whether some of a range of the volume is marked; without a bitmap every range counts as marked.
    pub(crate) fn is_marked(&self, offset_bytes: u64, length_bytes: u32) -> bool {
        let Some(bitmap) = &self.bitmap else {
            return true;
        };
        let (first, last) = bitmap.regions_of(&self.shape, offset_bytes, length_bytes);
        let marked = bitmap.next_marked(u64::from(first));
        marked.is_some_and(|marked| marked <= u64::from(last))
    }

    /// Whether a write may begin with what is on record already: that writes are allowed, and its regions marked. If so
    /// these count as written to.
    #[inline]
    pub(crate) fn begin_on_record(&mut self, offset_bytes: u64, length_bytes: u32) -> bool {
        let Some(bitmap) = &mut self.bitmap else {
            return self.view.writes_allowed;
        };
        let regions = bitmap.regions_of(&self.shape, offset_bytes, length_bytes);
        self.view.writes_allowed && bitmap.begin_write(regions)
    }

    /// The band at which a job that follows the bitmap continues from `band`: the same band if it has to be done.
    pub(crate) fn next_band_in_doubt(&self, band: u64) -> u64 {
        let goes_by_it = |job: &&JobRunner| {
            job.view().marked_only && matches!(job.view().kind, JobKind::Sync | JobKind::Rebuild(_))
        };
        let (Some(bitmap), Some(_)) = (&self.bitmap, self.job.as_ref().filter(goes_by_it)) else {
            return band;
        };
        let (row, low, high) = self.band_range(band);
        if low == high {
            return band;
        }
        let shape = &self.shape;
        let (from, to) = shape.bitmap_range_of_row(row, (low, high));
        let Some(marked) = bitmap.next_marked(bitmap.region(from)) else {
            return self.bands();
        };
        if marked <= bitmap.region(to) {
            return band;
        }
        let first_byte = bitmap.first_byte(marked);
        let (row, in_chunk_bytes) = shape.bitmap_place(first_byte);
        let there = self.band(row, in_chunk_bytes);
        there.max(band + 1)
    }
}
