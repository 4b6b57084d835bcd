//! Prepares for requests that will be handled soon: see [`crate::claims`].

use crate::order::ranges::BandKey;
use crate::request::{Operation, Request};
use crate::shard::Engine;

impl Engine {
    /// A request will be handled soon: lets the processor fetch the claim that it needs, which may be in another
    /// core's cache.
    #[inline]
    pub(crate) fn expect_single(&self, request: &Request) {
        if request.operation != Operation::Write {
            return;
        }
        let number = request.volume.0;
        let Some(volume) = self.volumes.get(usize::from(number)) else {
            return;
        };
        if self.order.ranges.is_claimed(number) && request.offset_bytes < volume.shape().size_bytes
        {
            let place = volume.shape().locate(request.offset_bytes);
            let band = volume.band(place.row, place.in_chunk_bytes);
            let volume = number;
            self.order.ranges.expect(BandKey { volume, band });
        }
    }
}
