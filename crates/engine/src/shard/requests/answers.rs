//! Requests end: their pieces come back, and they are answered.

use crate::admission::Origin;
use crate::control::message::Message;
use crate::event::Event;
use crate::order::ranges::{NONE, Part};
use crate::output::Output;
use crate::request::{Completion, Failure};
use crate::shard::Engine;
use crate::units::VolumeId;

impl Engine {
    /// A plan, part or forward of a request has ended.
    #[inline]
    pub(crate) fn piece_done(&mut self, index: u32, result: Result<(), Failure>) {
        let state = &mut self.admission[index];
        state.piece_ends();
        if let Err(failure) = result {
            state.fail(failure);
        }
        if !state.is_over() {
            return;
        }
        let (request, origin, failure) = (state.request(), *state.origin(), state.failure());
        let tag = request.tag;
        if state.counts_as_write() {
            self.volumes[request.volume.0 as usize].writes_mut().end();
        }
        self.admission.give(index, origin.is_some());
        if failure.is_some() {
            self.desk.stats.request_errors += 1;
        }
        self.answer(tag, origin, failure.map_or(Ok(()), Err));
    }

    #[inline]
    pub(crate) fn answer(&mut self, tag: u64, origin: Option<Origin>, result: Result<(), Failure>) {
        self.desk.ask(match origin {
            None => Output::Complete(Completion { tag, result }),
            Some(Origin { shard, ticket, .. }) => {
                Output::Send(shard, Message::ForwardDone { ticket, result })
            }
        });
    }

    /// Answers a request that has not begun and never will.
    pub(crate) fn refuse(&mut self, index: u32, why: Failure) {
        let state = &self.admission[index];
        assert!(
            state.outstanding() == 0,
            "request {index} is refused, and has begun"
        );
        let (tag, origin) = (state.request().tag, *state.origin());
        self.admission.give(index, origin.is_some());
        self.answer(tag, origin, Err(why));
    }

    /// Reports data of a request as lost, by the offset of the request, and returns the failure that answers it.
    pub(crate) fn loss(&mut self, request: u32) -> Failure {
        let request = self.admission[request].request();
        let (volume, offset_bytes) = (request.volume, request.offset_bytes);
        self.desk.emit(Event::Unrecoverable {
            volume,
            offset_bytes,
        });
        Failure::Unrecoverable { offset_bytes }
    }

    /// Ends a chain of parts and reports the outcome to their requests.
    #[inline]
    pub(crate) fn parts_done(&mut self, parts: u32, lost: bool) {
        let mut at = parts;
        while at != NONE {
            let (part, next) = self.order.ranges.end(at);
            at = next;
            assert!(part.request != NONE, "a part of a job answers no request");
            let result = if lost {
                Err(self.part_lost(&part))
            } else {
                Ok(())
            };
            self.piece_done(part.request, result);
        }
    }

    fn part_lost(&mut self, part: &Part) -> Failure {
        let request = *self.admission[part.request].request();
        let volume: VolumeId = request.volume;
        let offset_bytes = if request.operation == crate::request::Operation::Read
            || request.operation == crate::request::Operation::Write
        {
            // The payload's place in the request's buffer gives its place in the volume.
            request.offset_bytes + part.buffer.0.wrapping_sub(request.buffer.0)
        } else {
            request.offset_bytes
        };
        self.desk.emit(Event::Unrecoverable {
            volume,
            offset_bytes,
        });
        Failure::Unrecoverable { offset_bytes }
    }
}
