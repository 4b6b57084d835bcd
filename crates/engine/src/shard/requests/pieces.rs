//! Pieces of a request go to the band that they lie in, or to the shard that owns it.

use crate::control::message::{Forward, Message};
use crate::limits::{PARTS_RESERVED, RECONSTRUCTIONS_LEAVE};
use crate::order::ranges::{BandKey, Part, PartKind};
use crate::request::Operation;
use crate::shard::Engine;
use crate::shard::requests::cut::Cut;
use crate::units::{MemberId, ShardId};

impl Engine {
    /// Queues a part under its band. Returns false if only the reserve of parts is left.
    pub(crate) fn enqueue(
        &mut self,
        index: u32,
        kind: PartKind,
        cut: Cut,
        tried: Option<MemberId>,
    ) -> bool {
        let reserve = if matches!(kind, PartKind::Reconstruct { .. }) {
            RECONSTRUCTIONS_LEAVE
        } else {
            PARTS_RESERVED
        };
        if self.order.ranges.parts_available() <= reserve {
            return false;
        }
        let volume = self.admission[index].request().volume.0;
        let low = cut.place.in_chunk_bytes;
        let band = self.volumes[volume as usize].band(cut.place.row, low);
        let range = (low, cut.length);
        let part = Part::of_request(
            (kind, index),
            cut.place.data_index,
            range,
            cut.buffer,
            tried,
        );
        self.admission[index].piece_begins();
        self.order.ranges.add(BandKey { volume, band }, part);
        true
    }

    pub(crate) fn forward(
        &mut self,
        index: u32,
        owner: ShardId,
        operation: Operation,
        cut: Cut,
        (tried, repairs): (Option<MemberId>, bool),
    ) {
        let request = self.admission[index].request();
        let forward = Forward {
            from: self.desk.id(),
            ticket: index,
            operation,
            fua: request.fua,
            repairs,
            tried,
            volume: request.volume,
            offset_bytes: cut.offset,
            length_bytes: cut.length,
            buffer: cut.buffer,
        };
        self.admission[index].piece_begins();
        self.admission.piece_sent();
        self.desk.stats.forwards += 1;
        self.desk.send(owner, Message::Forward(forward));
    }
}
