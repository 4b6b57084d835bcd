//! Writes to a volume with a bitmap: which may begin, and what this shard and the keeper tell each other. See
//! [`crate::bitmap`] for the rules.

use crate::bitmap::regions::{Regions, set};
use crate::control::message::Message;
use crate::request::{Failure, Request};
use crate::shard::Engine;
use crate::units::VolumeId;
use crate::volumes::volume::marks::Marked;
use alloc::sync::Arc;

impl Engine {
    /// Whether a write may not begin now; then it has been parked, or refused for good.
    #[cold]
    pub(crate) fn must_wait(&mut self, index: u32) -> bool {
        let request = *self.admission[index].request();
        let at = request.volume.0 as usize;
        if self.volumes[at].refuses_writes() {
            self.refuse(index, Failure::ReadOnly);
            return true;
        }
        if self.volumes[at].view().failed {
            // Nothing more is recorded of such a volume: a write that would need a dirty mark, or a bit, is an error.
            let may_begin = self.has_on_record(&request);
            if !may_begin {
                let loss = self.loss(index);
                self.refuse(index, loss);
            }
            return !may_begin;
        }
        let is_marked = self.mark_regions(&request);
        let volume = &mut self.volumes[at];
        if volume.view().writes_allowed && is_marked {
            return false;
        }
        if volume.block(index) {
            self.desk
                .tell_controller(Message::WriteIntent(request.volume));
        }
        true
    }

    /// Whether the regions of a write may be written to, as in a volume without a bitmap; asks for those that may not.
    fn mark_regions(&mut self, request: &Request) -> bool {
        let volume = &mut self.volumes[request.volume.0 as usize];
        match volume.begin_marked(request.offset_bytes, request.length_bytes) {
            Marked::Yes => true,
            Marked::AskFor(regions) => {
                let message = Message::WantRegions {
                    shard: self.desk.id(),
                    volume: request.volume,
                    regions,
                };
                self.desk.tell_controller(message);
                false
            }
            Marked::Asked => false,
        }
    }

    /// Whether a request may write with what is on record already: that writes are allowed, and its regions marked.
    #[cold]
    pub(crate) fn has_on_record(&mut self, request: &Request) -> bool {
        let volume = &mut self.volumes[request.volume.0 as usize];
        volume.begin_on_record(request.offset_bytes, request.length_bytes)
    }

    /// The bits of these regions are durable: writes may begin there.
    pub(crate) fn regions_marked(&mut self, volume: VolumeId, regions: Regions) {
        let at = volume.0 as usize;
        self.volumes[at].bitmap_mut().mark(regions);
        self.unblock(at);
    }

    /// The keeper wants to clear bits: closes the regions that are at rest here, and names the others.
    pub(crate) fn close_regions(&mut self, volume: VolumeId) {
        let at = volume.0 as usize;
        let mut busy = self.volumes[at].bitmap_mut().take_touched();
        self.add_writing(volume, &mut busy);
        self.volumes[at].bitmap_mut().close_all_but(&busy);
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
        let mut add = |request: &Request| {
            let (offset, length) = (request.offset_bytes, request.length_bytes);
            set(busy, target.regions_of(offset, length));
        };
        for index in self.flight.single_numbers() {
            let single = self.flight.single(index);
            if single.writes_to(volume) {
                add(single.request());
            }
        }
        let writes = self.admission.writes();
        writes
            .filter(|request| request.volume == volume)
            .for_each(add);
    }

    /// These bits are being cleared: nothing is written there before they are set again.
    pub(crate) fn regions_cleared(&mut self, volume: VolumeId, cleared: &Arc<[u64]>) {
        let bitmap = self.volumes[volume.0 as usize].bitmap_mut();
        bitmap.clear(cleared);
    }
}
