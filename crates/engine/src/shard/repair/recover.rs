//! Failed reads, by what they were for. Work under a lock goes around what could not be read
//! ([`crate::shard::repair::piecewise`]). The failed steps of a direct plan become pieces that are read again alone,
//! reconstructed, or sent to the shard that can do so. A read whose own memory a drive that hangs may still use is
//! answered with an error.

use crate::event::Event;
use crate::flight::running::{Next, Work};
use crate::flight::states::Progress;
use crate::layout::Location;
use crate::limits::RECONSTRUCTIONS_LEAVE;
use crate::order::ranges::PartKind;
use crate::plan::{Plan, Step};
use crate::request::{Failure, Operation};
use crate::shard::Engine;
use crate::shard::requests::cut::Cut;
use crate::units::{Buffer, MemberId};
use crate::volumes::volume::Volume;

impl Engine {
    /// A stage has ended, and some of its reads have failed.
    pub(crate) fn reads_failed(&mut self, index: u32) -> Next {
        if self.read_elsewhere(index) {
            return Next::Nothing;
        }
        match self.flight.running(index).work() {
            Work::Direct { .. } => {
                self.flight.wait_to_recover(index);
                self.continue_recovering();
                Next::Nothing
            }
            Work::Write { .. } | Work::Reconstruct { .. } | Work::Background { .. } => {
                self.go_around(index)
            }
            Work::ControlFlush { .. } | Work::LogFlush { .. } | Work::Bitmap { .. } => {
                unreachable!("a flush or a bitmap's write reads nothing")
            }
        }
    }

    /// Answers a read whose own memory a drive that hangs may still use; false if the plan is no such read.
    fn read_elsewhere(&mut self, index: u32) -> bool {
        if !self.flight.running(index).is_payload_left() {
            return false;
        }
        match self.flight.running(index).work() {
            Work::Direct { request } => {
                self.release(index);
                self.piece_done(request, Err(Failure::BufferHeld));
            }
            Work::Reconstruct { part } => {
                let request = self.order.ranges[part].request;
                self.admission[request].fail(Failure::BufferHeld);
                self.release(index);
                self.parts_done(part, false);
            }
            // These read into scratch memory only.
            Work::Write { .. }
            | Work::Background { .. }
            | Work::ControlFlush { .. }
            | Work::LogFlush { .. }
            | Work::Bitmap { .. } => {
                return false;
            }
        }
        true
    }

    /// Has a piece reconstructed, here or by the owner of its row: no slot can deliver it, or it `repairs` what the
    /// drive that was `tried` could not read. Returns false if too few parts are free.
    pub(crate) fn recover_cut(
        &mut self,
        index: u32,
        cut: Cut,
        tried: Option<MemberId>,
        repairs: bool,
    ) -> bool {
        let request = *self.admission[index].request();
        let at = request.volume.0 as usize;
        let owner = self.volumes[at]
            .shape()
            .owner(cut.place.row, self.desk.shards());
        if owner != self.desk.id() {
            self.forward(index, owner, Operation::Read, cut, (tried, repairs));
            return true;
        }
        let kind = PartKind::Reconstruct { repairs };
        let band_bytes = self.volumes[at].band_bytes();
        // All of its pieces or none: what has been queued cannot be taken back.
        let pieces = (cut.length / band_bytes) as usize + 2;
        if self.order.ranges.parts_available() <= RECONSTRUCTIONS_LEAVE + pieces {
            return false;
        }
        let mut done = 0;
        while done < cut.length {
            let low = cut.place.in_chunk_bytes + done;
            let length = (band_bytes - (low & (band_bytes - 1))).min(cut.length - done);
            let place = Location {
                in_chunk_bytes: low,
                ..cut.place
            };
            let piece = Cut {
                place,
                length,
                offset: cut.offset,
                buffer: cut.buffer.at(done),
            };
            let queued = self.enqueue(index, kind, piece, tried);
            assert!(
                queued,
                "parts run out within a chunk, although enough were free"
            );
            done += length;
        }
        true
    }

    /// Hands failed steps of direct reads on to reconstruction, as far as parts are free.
    #[inline]
    pub(crate) fn continue_recovering(&mut self) {
        while let Some(plan_index) = self.flight.first_to_recover() {
            if !self.recover_plan(plan_index) {
                return;
            }
            self.flight.first_is_recovered();
            let request = self.direct_request(plan_index);
            self.release(plan_index);
            self.piece_done(request, Ok(()));
        }
    }

    /// The request of a plan that needs no lock. Other plans hand nothing on.
    fn direct_request(&self, plan_index: u32) -> u32 {
        match self.flight.running(plan_index).work() {
            Work::Direct { request } => request,
            work => unreachable!("{work:?} hands no failed reads on"),
        }
    }

    /// Hands on what is left of one plan; returns whether that was all.
    fn recover_plan(&mut self, plan_index: u32) -> bool {
        let request = self.direct_request(plan_index);
        loop {
            let running = self.flight.running(plan_index);
            let (at, done) = running.recovering();
            let Some(step) = running.plan().steps().get(at).copied() else {
                return true;
            };
            let Progress::Failed { media } = running.states()[at].progress() else {
                self.flight.running_mut(plan_index).recover_next();
                continue;
            };
            if done == step.length_bytes {
                self.flight.running_mut(plan_index).recover_next();
                continue;
            }
            let (cut, buffer) = self.failed_cut(plan_index, &step, done);
            let volume = &self.volumes[running.volume() as usize];
            let tried = running.states()[at].member();
            // Without redundancy no other drive holds the data, unless another drive has taken the slot meanwhile.
            let in_slot = volume.member(step.slot, false);
            let is_taken = in_slot.is_some_and(|member| member != tried);
            if !volume.shape().redundant() && !is_taken {
                let offset_bytes = cut.offset;
                let event = Event::Unrecoverable {
                    volume: self.volume_of(plan_index),
                    offset_bytes,
                };
                self.desk.emit(event);
                self.admission[request].fail(Failure::Unrecoverable { offset_bytes });
            } else {
                if !self.recover_cut(request, Cut { buffer, ..cut }, Some(tried), media) {
                    return false;
                }
            }
            self.flight.running_mut(plan_index).recovered(cut.length);
        }
    }

    /// The first piece, inside one chunk and one segment, of a failed step from `done` bytes on.
    fn failed_cut(&self, plan_index: u32, step: &Step, done: u64) -> (Cut, Buffer) {
        let running = self.flight.running(plan_index);
        let (volume, plan): (&Volume, &Plan) =
            (&self.volumes[running.volume() as usize], running.plan());
        let shape = volume.shape();
        let mut skip = done;
        let mut segments = plan.segments_of(step);
        let segment = segments.find(|segment| {
            let here = skip < u64::from(segment.length_bytes);
            if !here {
                skip -= u64::from(segment.length_bytes);
            }
            here
        });
        let segment = segment.expect("a step has memory for all its bytes");
        let extent = step.offset_bytes + done - shape.start_bytes;
        let row = extent / u64::from(shape.chunk_bytes);
        let in_chunk_bytes = (extent % u64::from(shape.chunk_bytes)) as u32;
        let data_index = shape.data_index(row, step.slot);
        let data_index = data_index.expect("a direct read asks for data");
        let place = Location {
            row,
            data_index,
            in_chunk_bytes,
        };
        let length = (u64::from(shape.chunk_bytes - in_chunk_bytes))
            .min(u64::from(segment.length_bytes) - skip)
            .min(step.length_bytes - done) as u32;
        let buffer = segment.buffer.at(skip as u32);
        let cut = Cut {
            place,
            length,
            offset: shape.volume_offset_bytes(place),
            buffer,
        };
        (cut, buffer)
    }
}
