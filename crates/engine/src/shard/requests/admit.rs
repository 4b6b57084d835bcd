//! A request comes in: it is checked and gets a slot, or waits for one. Small ones run without a slot
//! ([`crate::shard::requests::single`]). The others are cut up ([`crate::shard::requests::issue`]) as far as the
//! pools allow; the rest follows when the pools refill.

use crate::admission::{Origin, RequestState};
use crate::control::message::Forward;
use crate::request::{Failure, Operation, Request};
use crate::shard::Engine;
use crate::shard::requests::issue::Issued;

impl Engine {
    /// Accepts a request of a port.
    #[inline]
    pub(crate) fn admit(&mut self, request: Request) {
        if let Err(failure) = self.check_request(&request) {
            return self.turn_away(&request, None, failure);
        }
        if self.begin_single(&request, None) {
            return self.count_request(&request);
        }
        self.admit_planned(request, None);
    }

    /// Accepts a request of another shard. A function of its own, so that the path of a port's request stays short.
    #[inline(never)]
    fn admit_forwarded(&mut self, request: Request, origin: Origin) {
        if let Err(failure) = self.check_request(&request) {
            return self.turn_away(&request, Some(origin), failure);
        }
        let tag = u64::from(origin.ticket);
        if !self.begin_single(&Request { tag, ..request }, Some(origin.shard)) {
            self.admit_planned(request, Some(origin));
        }
    }

    #[cold]
    fn turn_away(&mut self, request: &Request, origin: Option<Origin>, failure: Failure) {
        self.desk.stats.request_errors += 1;
        self.answer(request.tag, origin, Err(failure));
    }

    /// Gives a request that needs plans a slot, and begins it.
    #[inline(never)]
    fn admit_planned(&mut self, request: Request, origin: Option<Origin>) {
        if origin.is_none() && !self.admission.has_room_for_port() {
            self.admission.queue(request);
            return;
        }
        let index = self.admission.take(origin.is_some());
        // A piece from another shard was counted there, as part of its request.
        if origin.is_none() {
            self.count_request(&request);
        }
        self.admission[index] = RequestState::new(request, origin);
        if self.admission.stalled() == 0 {
            self.begin(index);
        } else {
            self.admission.stall(index);
        }
    }

    fn count_request(&mut self, request: &Request) {
        let bytes = u64::from(request.length_bytes);
        match request.operation {
            Operation::Read => {
                self.desk.stats.reads += 1;
                self.desk.stats.read_bytes += bytes;
            }
            Operation::Write => {
                self.desk.stats.writes += 1;
                self.desk.stats.write_bytes += bytes;
            }
            Operation::Flush => self.desk.stats.flushes += 1,
            Operation::Trim | Operation::WriteZeroes { .. } => self.desk.stats.trims += 1,
        }
    }

    fn check_request(&self, request: &Request) -> Result<(), Failure> {
        let volume = self
            .volumes
            .get(request.volume.0 as usize)
            .ok_or(Failure::Misuse)?;
        if volume.view().stopping {
            return Err(Failure::Stopping);
        }
        if request.operation == Operation::Flush {
            return Ok(());
        }
        let (offset, length) = (request.offset_bytes, u64::from(request.length_bytes));
        let block = u64::from(volume.shape().block_bytes) - 1;
        let end = offset.checked_add(length).ok_or(Failure::Misuse)?;
        if length == 0 || (offset | length) & block != 0 || end > volume.shape().size_bytes {
            return Err(Failure::Misuse);
        }
        if request.operation != Operation::Read && volume.refuses_writes() {
            return Err(Failure::ReadOnly);
        }
        Ok(())
    }

    /// Starts a request, or parks it where it will be woken.
    #[inline]
    fn begin(&mut self, index: u32) {
        let state = &self.admission[index];
        let modifies = !matches!(
            state.request().operation,
            Operation::Read | Operation::Flush
        );
        if modifies && !state.counts_as_write() {
            let at = state.request().volume.0 as usize;
            let volume = &self.volumes[at];
            if volume.view().stopping {
                return self.refuse(index, Failure::Stopping);
            }
            if !volume.writes_freely() && self.must_wait(index) {
                return;
            }
            self.note_writing(at);
            self.admission[index].count_as_write(true);
        }
        self.issue_or_park(index);
    }

    /// Turns a request into work. What cannot be turned into work now waits at the end of the queue for what it
    /// lacks.
    #[inline]
    fn issue_or_park(&mut self, index: u32) {
        match self.issue(index) {
            Issued::All => {}
            Issued::NoRoom => self.admission.stall(index),
            Issued::NoForward => self.admission.wait_to_forward(index),
        }
    }

    /// Continues requests that waited because too many pieces were with other shards.
    #[inline]
    pub(crate) fn resume_forwarding(&mut self) {
        if self.admission.waits_to_forward() {
            self.resume_forwarding_some();
        }
    }

    #[inline(never)]
    fn resume_forwarding_some(&mut self) {
        while let Some(index) = self.admission.next_to_forward() {
            self.issue_or_park(index);
        }
    }

    /// Continues requests that waited because a pool had too little left for them.
    #[inline]
    pub(crate) fn resume_stalled(&mut self) {
        if !self.admission.nobody_waits_for_room() {
            self.resume_stalled_some();
        }
    }

    #[inline(never)]
    fn resume_stalled_some(&mut self) {
        while let Some(index) = self.admission.first_stalled() {
            if self.admission[index].is_untouched() {
                self.admission.first_goes_on();
                if self.begin_waiting_single(index) {
                    continue;
                }
                let before = self.admission.stalled();
                self.begin(index);
                if self.admission.stalled() > before {
                    // Still no room.
                    self.admission.last_was_first();
                    return;
                }
            } else {
                match self.issue(index) {
                    Issued::All => {}
                    Issued::NoRoom => return,
                    Issued::NoForward => self.admission.wait_to_forward(index),
                }
                self.admission.first_goes_on();
            }
        }
        while let Some(forward) = self.admission.next_queued_forwarded() {
            self.forwarded(forward);
        }
        while let Some(request) = self.admission.next_queued() {
            self.admit(request);
        }
    }

    /// Starts a port's request without a plan after it has waited for room, if it needs none, and frees the slot in
    /// which it has waited. When more requests are outstanding than there are plans, all new ones wait.
    #[inline]
    fn begin_waiting_single(&mut self, index: u32) -> bool {
        let state = &self.admission[index];
        let (request, volume) = (*state.request(), state.request().volume.0 as usize);
        // A write that is not allowed any more is not started here: `begin` refuses it, for example when the array
        // stops, or lets it wait.
        if state.origin().is_some() || !self.start_as_single(&request, None) {
            return false;
        }
        // The write has been counted as begun already if only its plan lacked room.
        if self.admission[index].counts_as_write() {
            self.volumes[volume].writes_mut().end();
        }
        self.admission[index].count_as_write(false);
        self.admission.give(index, false);
        true
    }

    /// A piece of another shard's request arrives.
    pub(crate) fn forwarded(&mut self, forward: Forward) {
        if !self.admission.has_room_for_forward() {
            self.admission.queue_forwarded(forward);
            return;
        }
        let request = Request {
            tag: 0,
            volume: forward.volume,
            operation: forward.operation,
            fua: forward.fua,
            offset_bytes: forward.offset_bytes,
            length_bytes: forward.length_bytes,
            buffer: forward.buffer,
        };
        let origin = Origin {
            shard: forward.from,
            ticket: forward.ticket,
            repairs: forward.repairs,
            tried: forward.tried,
        };
        self.admit_forwarded(request, origin);
    }
}
