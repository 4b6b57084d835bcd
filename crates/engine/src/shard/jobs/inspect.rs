//! Keeps a stripe unchanged while an operator's tool compares what its members hold.
//!
//! The engine does not compare: the tool reads the members beside the data path. What it reads fits together only
//! while nothing writes there. So the owner of the row takes the band's lock over all chunks, as background work
//! does, and does nothing under it. It releases the lock when it is told to, after [`INSPECTION_MAX`], or when a new
//! view arrives, which may name other members. In the last two cases what was read proves nothing, and the event says
//! so.
//!
//! Each shard inspects one stripe at a time, because clients' writes to that stripe wait meanwhile.

use crate::event::Event;
use crate::flight::running::Work;
use crate::inspection::{INSPECTS, Inspection};
use crate::limits::{PARTS_RESERVED, PLANS_RESERVED};
use crate::order::ranges::{BandKey, Part};
use crate::shard::Engine;
use crate::units::{Nanos, VolumeId};

/// The longest time for which a stripe is kept unchanged: ample for one read of each member, and bearable for
/// clients.
const INSPECTION_MAX: Nanos = Nanos(2 * Nanos::SECOND.0);

impl Engine {
    /// A tool wants to inspect the stripe that holds byte `offset_bytes` of a volume.
    pub(crate) fn inspect(&mut self, ticket: u64, volume: VolumeId, offset_bytes: u64) {
        let at = volume.0 as usize;
        let refused = Event::InspectionEnded {
            ticket,
            held: false,
        };
        let known = self.volumes.get(at);
        let Some(volume) = known.filter(|volume| offset_bytes < volume.shape().size_bytes) else {
            return self.desk.emit(refused);
        };
        let place = volume.shape().locate(offset_bytes);
        let band = volume.band(place.row, place.in_chunk_bytes);
        let (row, low, high) = volume.band_range(band);
        let mine = volume.shape().owner(row, self.desk.shards()) == self.desk.id()
            && !volume.view().stopping;
        let room = self.order.ranges.parts_available() > PARTS_RESERVED
            && self.flight.plans_available() > PLANS_RESERVED;
        if !mine || !room || self.inspection.is_some() {
            return self.desk.emit(refused);
        }
        self.inspection = Some(Inspection {
            ticket,
            held_by: None,
            abandoned: false,
            until: self.desk.now().after(INSPECTION_MAX),
        });
        let key = BandKey {
            volume: at as u8,
            band,
        };
        let part = Part::background((low, high), INSPECTS);
        self.order.ranges.add(key, part);
    }

    /// The tool that asked for an inspection by this ticket has finished.
    pub(crate) fn inspected(&mut self, ticket: u64) {
        if self.inspection.is_some_and(|one| one.ticket == ticket) {
            self.end_inspection(true);
        }
    }

    /// Ends an inspection whose time is up, so that clients do not wait for long.
    pub(crate) fn end_late_inspection(&mut self) {
        if self
            .inspection
            .is_some_and(|one| self.desk.now() >= one.until)
        {
            self.end_inspection(false);
        }
    }

    /// Releases the lock, or sees to it that it is released as soon as it is held.
    pub(crate) fn end_inspection(&mut self, held: bool) {
        let Some(inspection) = &mut self.inspection else {
            return;
        };
        let Inspection {
            ticket,
            held_by,
            abandoned,
            ..
        } = *inspection;
        if let Some(index) = held_by {
            self.inspection = None;
            self.give_back(index);
        } else {
            inspection.abandoned = true;
        }
        if !abandoned {
            let held = held && held_by.is_some();
            self.desk.emit(Event::InspectionEnded { ticket, held });
        }
    }

    fn give_back(&mut self, index: u32) {
        let Work::Background { part, .. } = self.flight.running(index).work() else {
            unreachable!(
                "{:?} is not an inspection",
                self.flight.running(index).work()
            );
        };
        self.release(index);
        self.order.ranges.end(part);
    }
}
