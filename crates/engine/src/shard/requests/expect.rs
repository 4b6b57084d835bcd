//! Requests that will come in soon, told of before they do: see [`crate::claims`].

use crate::order::ranges::BandKey;
use crate::request::{Operation, Request};
use crate::shard::Engine;

impl Engine {
    /// A request will come in soon: lets the processor fetch what its claim needs from another core.
    #[inline]
    pub(crate) fn expect_single(&self, request: &Request) {
        if request.operation != Operation::Write {
            return;
        }
        let number = request.volume.0;
        let Some(volume) = self.volumes.get(usize::from(number)) else {
            return;
        };
        if self.order.ranges.is_claimed(number) && request.offset_bytes < volume.shape.size_bytes {
            let place = volume.shape.locate(request.offset_bytes);
            let band = volume.band(place.row, place.in_chunk_bytes);
            let volume = number;
            self.order.ranges.expect(BandKey { volume, band });
        }
    }
}
