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

use crate::bitmap::regions::{Regions, Words, has_all, regions, set, take_out};
use crate::control::message::Message;
use crate::control::record::{BitmapRecord, JobKind};
use crate::layout::{Geometry, Level};
use crate::request::{Failure, Operation, Request};
use crate::shard::Engine;
use crate::units::VolumeId;
use crate::volume::Volume;
use alloc::sync::Arc;
use alloc::vec;

/// Bits are asked for, granted and cleared of volumes that have a bitmap, and of no others.
const HAS_BITMAP: &str = "the volume has a bitmap";

/// A volume's bitmap as one shard knows it.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// Bytes of a region, as a power of two.
    shift: u32,
    /// Regions whose bits are set on all members, as far as this shard has been told.
    marked: Words,
    /// Those of them in which this shard may begin writes.
    open: Words,
    /// Regions in which it has begun writes since the last round.
    touched: Words,
    /// Regions that it waits for.
    asked: Words,
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
    fn regions_of(&self, shape: &Geometry, offset_bytes: u64, length_bytes: u32) -> Regions {
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
    fn next_marked(&self, region: u64) -> Option<u64> {
        let mut at = (region / 64) as usize;
        let mut word = *self.marked.get(at)? & (u64::MAX << (region % 64));
        while word == 0 {
            at += 1;
            word = *self.marked.get(at)?;
        }
        Some(at as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}

impl Volume {
    /// Whether some of a range of the volume is marked; without a bitmap all of it counts as that.
    pub(crate) fn is_marked(&self, offset_bytes: u64, length_bytes: u32) -> bool {
        let Some(bitmap) = &self.bitmap else {
            return true;
        };
        let (first, last) = bitmap.regions_of(&self.shape, offset_bytes, length_bytes);
        let marked = bitmap.next_marked(u64::from(first));
        marked.is_some_and(|marked| marked <= u64::from(last))
    }

    /// Where a job that goes by the bitmap goes on from `band`: the same band if it has to be done.
    pub(crate) fn next_band_in_doubt(&self, band: u64) -> u64 {
        let goes_by_it = |job: &&crate::background::runner::JobRunner| {
            job.view.marked_only && matches!(job.view.kind, JobKind::Sync | JobKind::Rebuild(_))
        };
        let (Some(bitmap), Some(_)) = (&self.bitmap, self.job.as_ref().filter(goes_by_it)) else {
            return band;
        };
        let (row, low, high) = self.band_range(band);
        if low == high {
            return band;
        }
        let shape = &self.shape;
        let (from, to) = if shape.level == Level::Raid10 {
            (row * shape.row_bytes(), (row + 1) * shape.row_bytes() - 1)
        } else {
            let first = row * u64::from(shape.chunk_bytes) + u64::from(low);
            (first, first + u64::from(high - low) - 1)
        };
        let Some(marked) = bitmap.next_marked(from >> bitmap.shift) else {
            return self.bands();
        };
        if marked <= to >> bitmap.shift {
            return band;
        }
        let first_byte = marked << bitmap.shift;
        let there = if shape.level == Level::Raid10 {
            self.band(first_byte / shape.row_bytes(), 0)
        } else {
            first_byte / u64::from(self.window_bytes)
        };
        there.max(band + 1)
    }
}

impl Engine {
    /// Whether a write may not begin now; then it has been parked, or refused for good.
    #[cold]
    pub(crate) fn must_wait(&mut self, index: u32) -> bool {
        let request = self.admission.requests[index].request;
        let at = request.volume.0 as usize;
        if self.volumes[at].refuses_writes {
            self.refuse(index, Failure::ReadOnly);
            return true;
        }
        if self.volumes[at].view.failed {
            // Nothing more goes on record for it: a write that would need a dirty mark, or a bit, is an error.
            let may_begin = self.has_on_record(&request);
            if !may_begin {
                let loss = self.loss(index);
                self.refuse(index, loss);
            }
            return !may_begin;
        }
        let is_marked = self.volumes[at].bitmap.is_none() || self.mark_regions(&request);
        let volume = &mut self.volumes[at];
        if volume.view.writes_allowed && is_marked {
            return false;
        }
        volume.blocked.push(index);
        if !volume.view.writes_allowed && !volume.intent_sent {
            volume.intent_sent = true;
            self.desk
                .tell_controller(Message::WriteIntent(request.volume));
        }
        true
    }

    /// Whether the regions of a write may be written to; asks for those that may not.
    fn mark_regions(&mut self, request: &Request) -> bool {
        let volume = &mut self.volumes[request.volume.0 as usize];
        let bitmap = volume.bitmap.as_mut().expect(HAS_BITMAP);
        let regions = bitmap.regions_of(&volume.shape, request.offset_bytes, request.length_bytes);
        if has_all(&bitmap.open, regions) {
            set(&mut bitmap.touched, regions);
            return true;
        }
        if !has_all(&bitmap.asked, regions) {
            set(&mut bitmap.asked, regions);
            let message = Message::WantRegions {
                shard: self.desk.id(),
                volume: request.volume,
                regions,
            };
            self.desk.tell_controller(message);
        }
        false
    }

    /// Whether a request may write with what is on record already: that writes are allowed, and its regions marked.
    #[cold]
    pub(crate) fn has_on_record(&mut self, request: &Request) -> bool {
        let volume = &mut self.volumes[request.volume.0 as usize];
        let Some(bitmap) = &mut volume.bitmap else {
            return volume.view.writes_allowed;
        };
        let regions = bitmap.regions_of(&volume.shape, request.offset_bytes, request.length_bytes);
        let may = volume.view.writes_allowed && has_all(&bitmap.open, regions);
        if may {
            set(&mut bitmap.touched, regions);
        }
        may
    }

    /// The keeper has made bits durable, or they were: writes may begin.
    pub(crate) fn regions_marked(&mut self, volume: VolumeId, regions: Regions) {
        let at = volume.0 as usize;
        let bitmap = self.volumes[at].bitmap.as_mut().expect(HAS_BITMAP);
        for region in regions.0..=regions.1 {
            bitmap.asked[region as usize / 64] &= !(1 << (region % 64));
        }
        set(&mut bitmap.marked, regions);
        set(&mut bitmap.open, regions);
        self.unblock(at);
    }

    /// The keeper wants to clear bits: closes what is at rest here, and names the rest.
    pub(crate) fn close_regions(&mut self, volume: VolumeId) {
        let at = volume.0 as usize;
        let bitmap = self.volumes[at].bitmap.as_mut().expect(HAS_BITMAP);
        let words = bitmap.touched.len();
        let mut busy = core::mem::replace(&mut bitmap.touched, vec![0; words]);
        self.add_writing(volume, &mut busy);
        let bitmap = self.volumes[at].bitmap.as_mut().expect(HAS_BITMAP);
        for (open, busy) in bitmap.open.iter_mut().zip(&busy) {
            *open &= busy;
        }
        let message = Message::RegionsClosed {
            shard: self.desk.id(),
            volume,
            busy: busy.into(),
        };
        self.desk.tell_controller(message);
    }

    /// Adds the regions of all writes to a volume that have begun and not ended.
    fn add_writing(&self, volume: VolumeId, busy: &mut [u64]) {
        let target = &self.volumes[volume.0 as usize];
        let bitmap = target.bitmap.as_ref().expect(HAS_BITMAP);
        let mut add = |request: &Request| {
            let (offset, length) = (request.offset_bytes, request.length_bytes);
            set(busy, bitmap.regions_of(&target.shape, offset, length));
        };
        for index in 0..self.flight.singles.capacity() as u32 {
            let single = &self.flight.singles[index];
            if single.writes_to(volume) {
                add(single.request());
            }
        }
        for index in 0..self.admission.requests.capacity() as u32 {
            let state = &self.admission.requests[index];
            let is_write = !matches!(state.request.operation, Operation::Read | Operation::Flush);
            if is_write && state.request.volume == volume && state.is_writing() {
                add(&state.request);
            }
        }
    }

    /// These bits are being cleared: nothing is written there before they are set again.
    pub(crate) fn regions_cleared(&mut self, volume: VolumeId, cleared: &Arc<[u64]>) {
        let bitmap = self.volumes[volume.0 as usize].bitmap.as_mut();
        let bitmap = bitmap.expect(HAS_BITMAP);
        take_out(&mut bitmap.marked, cleared);
        take_out(&mut bitmap.open, cleared);
    }
}
