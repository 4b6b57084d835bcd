//! A request is cut at the borders of chunks and bands, and every piece becomes a step of a direct plan,
//! a part under a lock, or a message to the shard that owns its row.
//!
//! Healthy reads and RAID 0 writes go straight to a plan on the shard where they arrive. Everything that needs a lock
//! becomes parts on the shard that owns the row, except small reads of lost data where nothing else is at work
//! ([`crate::shard::requests::reconstruct`]); pieces of other shards' rows are sent there.

use crate::flight::running::Work;
use crate::layout::Location;
use crate::limits::{BAND_BYTES_MAX, PARTS_RESERVED, PLANS_RESERVED, READ_PLAN_BYTES_MAX};
use crate::order::ranges::{NONE, PartKind};
use crate::plan::{RowView, Step, StepKind};
use crate::request::{Failure, Operation};
use crate::shard::Engine;
use crate::shard::requests::cut::Cut;
use crate::units::{Buffer, Slot, SlotSet};
use crate::volumes::volume::Volume;

/// How far a request has been turned into work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issued {
    All,
    /// Only as far as there were plans and parts.
    NoRoom,
    /// Only until as many pieces were with other shards as may be. Such a request must not block those that wait for
    /// room: among them are pieces of other shards' requests, and those shards may wait for this one in the same way.
    NoForward,
}

impl Issued {
    fn from_all(all: bool) -> Issued {
        if all { Issued::All } else { Issued::NoRoom }
    }
}

impl Engine {
    /// Turns as much of a request into work as the pools allow; returns how much that was.
    #[inline]
    pub(crate) fn issue(&mut self, index: u32) -> Issued {
        // Counted as one outstanding piece, so that pieces which end at once do not answer the request.
        self.admission[index].piece_begins();
        let request = *self.admission[index].request();
        let volume = &self.volumes[request.volume.0 as usize];
        let issued = match request.operation {
            Operation::Read => Issued::from_all(
                self.reconstruct_at_once(index) || self.issue_direct(index, StepKind::Read),
            ),
            // While a job copies a drive it locks the bands that it works on, so writes need locks, too.
            Operation::Write if !volume.shape().redundant() && volume.job().is_none() => {
                let kind = StepKind::Write { fua: request.fua };
                Issued::from_all(self.issue_direct(index, kind))
            }
            Operation::Write => self.issue_parts(index),
            Operation::Trim | Operation::WriteZeroes { .. } => self.issue_parts(index),
            Operation::Flush => Issued::from_all(self.issue_flush(index)),
        };
        let state = &mut self.admission[index];
        if issued == Issued::All {
            state.set_issued();
            self.piece_done(index, Ok(()));
        } else {
            state.piece_ends();
        }
        issued
    }

    /// Reads, and writes without redundancy: plans that need no lock.
    #[inline]
    fn issue_direct(&mut self, index: u32, kind: StepKind) -> bool {
        let at = self.admission[index].request().volume.0 as usize;
        loop {
            if self.flight.plans_available() <= PLANS_RESERVED {
                return false;
            }
            let work = Work::Direct { request: index };
            let plan_index = self.flight.take_plan(work, at as u8, NONE);
            let mut bytes = 0;
            let mut all = true;
            loop {
                let unit_bytes = self.volumes[at].unit_bytes();
                let Some(cut) = self.cut(index, unit_bytes) else {
                    break;
                };
                let room =
                    self.flight.running(plan_index).plan().steps().len() < self.steps_max(at);
                if bytes >= READ_PLAN_BYTES_MAX || !room {
                    all = false;
                    break;
                }
                if !self.issue_cut(index, plan_index, kind, cut) {
                    all = false;
                    break;
                }
                bytes += u64::from(cut.length);
                self.admission[index].advance(cut.length);
            }
            if self.flight.running(plan_index).plan().steps().is_empty() {
                self.flight.give_plan(plan_index);
            } else {
                self.desk.stats.plans_direct += 1;
                self.admission[index].piece_begins();
                self.start(plan_index);
            }
            if all {
                return true;
            }
            if bytes == 0 {
                return false;
            }
        }
    }

    /// Steps that a direct plan of this volume may have; the pool's plans have room for more.
    #[inline]
    fn steps_max(&self, volume: usize) -> usize {
        2 * self.volumes[volume].shape().members as usize
    }

    /// Adds one piece to a direct plan, or sends it where it can be reconstructed.
    #[inline]
    fn issue_cut(&mut self, index: u32, plan_index: u32, kind: StepKind, cut: Cut) -> bool {
        let at = self.admission[index].request().volume.0 as usize;
        let origin = self.admission[index].origin();
        let (tried, repairs) = origin.map_or((None, false), |from| (from.tried, from.repairs));
        let volume = &self.volumes[at];
        let slot = match kind {
            // A repair must not read from another slot: that would serve the read, and leave the block unreadable.
            StepKind::Read if repairs => None,
            StepKind::Read => self.read_slot(volume, &cut, volume.slot_of(tried)),
            _ => Some(Slot(cut.place.data_index)),
        };
        match slot {
            Some(slot) => {
                let shape = volume.shape();
                let offset = shape.member_offset_bytes(cut.place.row, cut.place.in_chunk_bytes);
                let step = Step::member(kind, 0, slot, offset, u64::from(cut.length));
                self.flight
                    .running_mut(plan_index)
                    .plan_mut()
                    .transfer(step, cut.buffer);
                self.desk.stats.pieces_direct += 1;
                true
            }
            None => self.recover_cut(index, cut, tried, repairs),
        }
    }

    /// Which slot a read of this piece goes to, if any can serve it as it is.
    #[inline]
    fn read_slot(&self, volume: &Volume, cut: &Cut, avoid: SlotSet) -> Option<Slot> {
        let place = cut.place;
        let row_view;
        let view = match volume.uniform() {
            Some(view) => view,
            None => {
                let band = volume.band(place.row, place.in_chunk_bytes);
                let view = volume.row_view(
                    band,
                    self.desk.id(),
                    self.desk.shards(),
                    self.members.failed(),
                );
                let in_sync = !volume.may_differ(place, cut.length, &view);
                if !in_sync && volume.must_equal(place, &view) {
                    return None;
                }
                row_view = RowView { in_sync, ..view };
                &row_view
            }
        };
        let slots = volume.shape().data_slots(place.row, place.data_index);
        let slots = SlotSet(slots.0 & view.readable.0 & !avoid.0);
        self.choose_slot(volume, view, slots, place)
    }

    /// Writes, trims and zeroes of levels with redundancy, and all trims and zeroes.
    #[inline]
    fn issue_parts(&mut self, index: u32) -> Issued {
        let request = *self.admission[index].request();
        let at = request.volume.0 as usize;
        if self.volumes[at].records_nothing() {
            let failure = self.why_not(at, request.offset_bytes);
            self.admission[index].give_up(failure);
            return Issued::All;
        }
        let discards = self.volumes[at].view().discards;
        if let Operation::WriteZeroes {
            only_if_fast: true, ..
        } = request.operation
            && (self.volumes[at].shape().has_parity() || !discards)
        {
            self.admission[index].give_up(Failure::NotSupported);
            return Issued::All;
        }
        if request.operation == Operation::Trim && !discards {
            // Trims are carried out on all drives or on none, so that the drives' contents fit together.
            return Issued::All;
        }
        let band_bytes = self.volumes[at].band_bytes();
        if request.operation == Operation::Write && self.admission[index].cursor() == 0 {
            self.note_write(at, request.offset_bytes, request.length_bytes);
        }
        while let Some(cut) = self.cut(index, band_bytes) {
            let owner = self.volumes[at]
                .shape()
                .owner(cut.place.row, self.desk.shards());
            let taken = if owner != self.desk.id() {
                if !self.admission.may_forward() {
                    return Issued::NoForward;
                }
                let row_cut = self.row_cut(index, cut);
                self.forward(index, owner, request.operation, row_cut, (None, false));
                Some(row_cut.length)
            } else if request.operation == Operation::Write {
                let kind = PartKind::Write { fua: request.fua };
                self.enqueue(index, kind, cut, None).then_some(cut.length)
            } else {
                self.issue_zero(index, cut)
            };
            match taken {
                Some(length) => self.admission[index].advance(length),
                None => return Issued::NoRoom,
            }
        }
        Issued::All
    }

    /// As much of the request as lies in the row of `cut`: what is sent to the row's owner.
    fn row_cut(&self, index: u32, cut: Cut) -> Cut {
        let state = &self.admission[index];
        let shape = self.volumes[state.request().volume.0 as usize].shape();
        let row_end = (cut.place.row + 1) * shape.row_bytes();
        let rest = state.rest();
        Cut {
            length: rest.min(row_end - cut.offset) as u32,
            ..cut
        }
    }

    /// Queues a piece of a trim or zeroing; returns how much of the request that covers.
    fn issue_zero(&mut self, index: u32, cut: Cut) -> Option<u32> {
        let request = *self.admission[index].request();
        let at = request.volume.0 as usize;
        let shape = *self.volumes[at].shape();
        let (discard, keep_allocated) = match request.operation {
            Operation::WriteZeroes { keep_allocated, .. } => (false, keep_allocated),
            Operation::Trim => (true, false),
            other => unreachable!("{other:?} zeroes nothing"),
        };
        let kind = PartKind::Zero {
            discard,
            keep_allocated,
            fua: request.fua,
        };
        if !shape.has_parity() {
            return self.enqueue(index, kind, cut, None).then_some(cut.length);
        }
        let rest = u64::from(request.length_bytes) - self.admission[index].cursor();
        let row_start = cut.place.data_index == 0 && cut.place.in_chunk_bytes == 0;
        if row_start && rest >= shape.row_bytes() {
            return self.issue_zero_row(index, kind, cut);
        }
        if discard {
            // Only part of a row: its parity would have to be computed again, and a trim is not worth that.
            return Some(cut.length);
        }
        let length = cut.length.min(BAND_BYTES_MAX);
        let zeros = Cut {
            buffer: self.desk.zeros(),
            length,
            ..cut
        };
        let kind = PartKind::Write { fua: request.fua };
        self.enqueue(index, kind, zeros, None).then_some(length)
    }

    fn issue_zero_row(&mut self, index: u32, kind: PartKind, cut: Cut) -> Option<u32> {
        let at = self.admission[index].request().volume.0 as usize;
        let (shape, band_bytes) = (*self.volumes[at].shape(), self.volumes[at].band_bytes());
        let bands = (shape.chunk_bytes / band_bytes) as usize;
        if self.order.ranges.parts_available() <= PARTS_RESERVED + bands {
            return None;
        }
        for low in (0..shape.chunk_bytes).step_by(band_bytes as usize) {
            let place = Location {
                in_chunk_bytes: low,
                ..cut.place
            };
            let band = Cut {
                place,
                length: band_bytes,
                ..cut
            };
            let queued = self.enqueue(index, kind, band, None);
            assert!(
                queued,
                "parts run out within a row, although enough were free"
            );
        }
        Some(shape.row_bytes() as u32)
    }

    /// Why a write fails although it has been admitted.
    #[cold]
    fn why_not(&self, at: usize, offset_bytes: u64) -> Failure {
        if self.volumes[at].view().failed {
            Failure::Unrecoverable { offset_bytes }
        } else {
            Failure::ReadOnly
        }
    }

    fn issue_flush(&mut self, index: u32) -> bool {
        if self.flight.plans_available() <= PLANS_RESERVED {
            return false;
        }
        let at = self.admission[index].request().volume.0;
        let volume = &self.volumes[at as usize];
        if volume.is_lost() {
            // What a lost member has acknowledged may never have reached its medium.
            let offset_bytes = self.admission[index].request().offset_bytes;
            self.admission[index].give_up(Failure::Unrecoverable { offset_bytes });
            return true;
        }
        let (slots, shadows) = volume.to_flush(self.members.volatile(), self.members.failed());
        let unrecorded = volume.unrecorded();
        if slots.0 | shadows.0 == 0 && unrecorded.is_empty() {
            return true;
        }
        let work = Work::Direct { request: index };
        let plan_index = self.flight.take_plan(work, at, NONE);
        let running = self.flight.running_mut(plan_index);
        crate::plan::mirror::flush(running.plan_mut(), slots, shadows);
        // If a crash came before their failure is on record, these members would come back without what is flushed
        // here.
        running.miss_all(unrecorded);
        self.admission[index].piece_begins();
        self.start(plan_index);
        true
    }

    /// The next piece of a request that lies in one chunk and one unit, which is a band or the whole chunk.
    #[inline]
    fn cut(&self, index: u32, unit_bytes: u32) -> Option<Cut> {
        let state = &self.admission[index];
        let rest = state.rest();
        if rest == 0 || state.failure().is_some() {
            return None;
        }
        let offset = state.request().offset_bytes + state.cursor();
        let shape = self.volumes[state.request().volume.0 as usize].shape();
        let place = shape.locate(offset);
        let left = unit_bytes - (place.in_chunk_bytes & (unit_bytes - 1));
        let length = rest.min(u64::from(left)) as u32;
        let buffer = Buffer(state.request().buffer.0 + state.cursor());
        Some(Cut {
            place,
            length,
            offset,
            buffer,
        })
    }
}
