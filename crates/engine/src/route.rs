//! From a request to work: admission, cutting up, and deciding who does what.
//!
//! Healthy reads and RAID 0 writes go straight to a plan on the shard where they arrive. Everything
//! that needs a lock becomes parts on the shard that owns the row; pieces of other shards' rows are
//! sent there. A request is cut up only as far as the pools allow; the rest follows when they refill.

use crate::control::message::{Forward, Message};
use crate::event::Event;
use crate::inflight::Work;
use crate::layout::{Level, Location};
use crate::limits::{BAND_BYTES_MAX, FORWARDED_MAX, READ_PLAN_BYTES_MAX, REQUESTS_MAX};
use crate::plan::{Plan, Step, StepKind};
use crate::ranges::{BandKey, NONE, Part, PartKind};
use crate::request::{Completion, Failure, Operation, Request};
use crate::shard::{Engine, Output};
use crate::units::{Buffer, ShardId, Slot, SlotSet, VolumeId};
use crate::volume::Volume;

/// Plans kept free for the controller and for work that others wait for.
pub(crate) const PLANS_RESERVED: usize = 8;
/// Parts kept free for reads that must be reconstructed.
pub(crate) const PARTS_RESERVED: usize = 256;

/// A request under way.
#[derive(Debug)]
pub(crate) struct RequestState {
    pub request: Request,
    /// Another shard's request: whom to answer, its ticket, and slots that could not be read there.
    pub origin: Option<(ShardId, u32, u64)>,
    /// Bytes that have been turned into work.
    cursor: u64,
    /// Plans, parts and forwards that have not come back.
    pub outstanding: u32,
    pub failure: Option<Failure>,
    /// Counted in its volume's `writes_running`.
    writing: bool,
    /// All of it has been turned into work.
    issued: bool,
}

impl Default for RequestState {
    fn default() -> RequestState {
        let request = Request {
            tag: 0,
            volume: VolumeId(0),
            operation: Operation::Flush,
            fua: false,
            offset_bytes: 0,
            length_bytes: 0,
            buffer: Buffer(0),
        };
        RequestState {
            request,
            origin: None,
            cursor: 0,
            outstanding: 0,
            failure: None,
            writing: false,
            issued: false,
        }
    }
}

/// A piece of a request inside one chunk and one band.
#[derive(Clone, Copy)]
struct Cut {
    place: Location,
    length: u32,
    offset: u64,
    buffer: Buffer,
}

impl Engine {
    /// Accepts a request of a port (`origin` none) or of another shard.
    #[inline]
    pub(crate) fn admit(&mut self, request: Request, origin: Option<(ShardId, u32, u64)>) {
        if let Err(failure) = self.check(&request) {
            self.stats.request_errors += 1;
            return self.answer(request.tag, origin, Err(failure));
        }
        let Some(index) = self.take_request(origin.is_some()) else {
            self.backlog.push_back(request);
            return;
        };
        self.count_request(&request);
        let state = &mut self.requests[index];
        state.request = request;
        state.origin = origin;
        state.cursor = 0;
        state.outstanding = 0;
        state.failure = None;
        state.writing = false;
        state.issued = false;
        if self.stalled.is_empty() {
            self.begin(index);
        } else {
            self.stalled.push_back(index);
        }
    }

    /// A request slot; local requests leave the share of forwarded pieces alone.
    #[inline]
    fn take_request(&mut self, forwarded: bool) -> Option<u32> {
        if !forwarded {
            if self.local_requests == REQUESTS_MAX {
                return None;
            }
            self.local_requests += 1;
        }
        self.requests.take()
    }

    fn count_request(&mut self, request: &Request) {
        let bytes = u64::from(request.length_bytes);
        match request.operation {
            Operation::Read => {
                self.stats.reads += 1;
                self.stats.read_bytes += bytes;
            }
            Operation::Write => {
                self.stats.writes += 1;
                self.stats.write_bytes += bytes;
            }
            Operation::Flush => self.stats.flushes += 1,
            Operation::Trim | Operation::WriteZeroes { .. } => self.stats.trims += 1,
        }
    }

    fn check(&self, request: &Request) -> Result<(), Failure> {
        let volume = self
            .volumes
            .get(request.volume.0 as usize)
            .ok_or(Failure::Misuse)?;
        if volume.view.stopping {
            return Err(Failure::Stopping);
        }
        if request.operation == Operation::Flush {
            return Ok(());
        }
        let (offset, length) = (request.offset_bytes, u64::from(request.length_bytes));
        let block = u64::from(volume.shape.block_bytes) - 1;
        let end = offset.checked_add(length).ok_or(Failure::Misuse)?;
        if length == 0 || (offset | length) & block != 0 || end > volume.shape.size_bytes {
            return Err(Failure::Misuse);
        }
        if request.operation != Operation::Read && volume.view.read_only {
            return Err(Failure::ReadOnly);
        }
        Ok(())
    }

    /// Starts a request, or parks it where it will be woken.
    #[inline]
    fn begin(&mut self, index: u32) {
        let state = &self.requests[index];
        let modifies = !matches!(state.request.operation, Operation::Read | Operation::Flush);
        if modifies && !state.writing {
            let at = state.request.volume.0 as usize;
            let volume = &mut self.volumes[at];
            if !volume.view.writes_allowed {
                volume.blocked.push(index);
                if !volume.intent_sent {
                    volume.intent_sent = true;
                    let message = Message::WriteIntent(self.requests[index].request.volume);
                    self.tell_controller(message);
                }
                return;
            }
            volume.writes_running += 1;
            volume.last_write = self.now;
            if volume.idle_reported {
                self.report_busy(at);
            }
            self.requests[index].writing = true;
        }
        if !self.issue(index) {
            self.stalled.push_back(index);
        }
    }

    /// Goes on with requests that a pool was too small for.
    #[inline]
    pub(crate) fn resume_stalled(&mut self) {
        while let Some(&index) = self.stalled.front() {
            if self.requests[index].cursor == 0 && self.requests[index].outstanding == 0 {
                self.stalled.pop_front();
                let before = self.stalled.len();
                self.begin(index);
                if self.stalled.len() > before {
                    // Still no room: keep its place at the head.
                    self.stalled.rotate_right(1);
                    return;
                }
            } else if self.issue(index) {
                self.stalled.pop_front();
            } else {
                return;
            }
        }
        while self.has_room_for_forward() && self.stalled.is_empty() {
            let Some(forward) = self.forward_backlog.pop_front() else {
                break;
            };
            self.forwarded(forward);
        }
        while self.local_requests < REQUESTS_MAX && self.stalled.is_empty() {
            let Some(request) = self.backlog.pop_front() else {
                return;
            };
            self.admit(request, None);
        }
    }

    /// Wakes what waited for writes to be allowed.
    pub(crate) fn unblock(&mut self, volume: usize) {
        self.volumes[volume].intent_sent = false;
        for at in 0..self.volumes[volume].blocked.len() {
            let index = self.volumes[volume].blocked[at];
            self.stalled.push_back(index);
        }
        self.volumes[volume].blocked.clear();
    }

    /// Turns as much of a request into work as the pools allow; returns whether that was all of it.
    #[inline]
    fn issue(&mut self, index: u32) -> bool {
        // Counted as one outstanding piece, so that pieces which end at once do not answer the request.
        self.requests[index].outstanding += 1;
        let request = self.requests[index].request;
        let level = self.volumes[request.volume.0 as usize].shape.level;
        let all = match request.operation {
            Operation::Read => self.issue_direct(index, StepKind::Read),
            Operation::Write if level == Level::Raid0 => {
                self.issue_direct(index, StepKind::Write { fua: request.fua })
            }
            Operation::Write => self.issue_parts(index),
            Operation::Trim | Operation::WriteZeroes { .. } => self.issue_parts(index),
            Operation::Flush => self.issue_flush(index),
        };
        let state = &mut self.requests[index];
        state.issued |= all;
        if all {
            self.piece_done(index, Ok(()));
        } else {
            state.outstanding -= 1;
        }
        all
    }

    /// The next piece of a request that lies in one chunk and one band.
    #[inline]
    fn cut(&self, index: u32, window_bytes: u32) -> Option<Cut> {
        let state = &self.requests[index];
        let rest = u64::from(state.request.length_bytes) - state.cursor;
        if rest == 0 || state.failure.is_some() {
            return None;
        }
        let offset = state.request.offset_bytes + state.cursor;
        let shape = &self.volumes[state.request.volume.0 as usize].shape;
        let place = shape.locate(offset);
        let window_left = window_bytes - (place.in_chunk_bytes & (window_bytes - 1));
        let length = rest.min(u64::from(window_left)) as u32;
        let buffer = Buffer(state.request.buffer.0 + state.cursor);
        Some(Cut {
            place,
            length,
            offset,
            buffer,
        })
    }

    /// Reads, and writes without redundancy: plans that need no lock.
    #[inline]
    fn issue_direct(&mut self, index: u32, kind: StepKind) -> bool {
        let at = self.requests[index].request.volume.0 as usize;
        loop {
            if self.running.available() <= PLANS_RESERVED {
                return false;
            }
            let Some(plan_index) = self.running.take() else {
                return false;
            };
            self.running[plan_index].prepare(Work::Direct { request: index }, at as u8, NONE);
            let mut bytes = 0;
            let mut all = true;
            loop {
                let volume = &self.volumes[at];
                let window = if volume.job.is_none() {
                    volume.shape.chunk_bytes
                } else {
                    volume.window_bytes
                };
                let Some(cut) = self.cut(index, window) else {
                    break;
                };
                let room = self.running[plan_index].plan.steps().len() < self.steps_max(at);
                if bytes >= READ_PLAN_BYTES_MAX || !room {
                    all = false;
                    break;
                }
                if !self.issue_cut(index, plan_index, kind, cut) {
                    all = false;
                    break;
                }
                bytes += u64::from(cut.length);
                self.requests[index].cursor += u64::from(cut.length);
            }
            if self.running[plan_index].plan.steps().is_empty() {
                self.running.give(plan_index);
            } else {
                self.stats.plans_direct += 1;
                self.requests[index].outstanding += 1;
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
        2 * self.volumes[volume].shape.members as usize
    }

    /// Adds one piece to a direct plan, or sends it where it can be reconstructed.
    #[inline]
    fn issue_cut(&mut self, index: u32, plan_index: u32, kind: StepKind, cut: Cut) -> bool {
        let at = self.requests[index].request.volume.0 as usize;
        let avoid = SlotSet(self.requests[index].origin.map_or(0, |(_, _, avoid)| avoid));
        let volume = &self.volumes[at];
        let slot = if kind == StepKind::Read {
            self.read_slot(volume, cut.place, avoid)
        } else {
            Some(Slot(cut.place.data_index))
        };
        match slot {
            Some(slot) => {
                let shape = &volume.shape;
                let offset = shape.member_offset_bytes(cut.place.row, cut.place.in_chunk_bytes);
                let step = Step::member(kind, 0, slot, offset, u64::from(cut.length));
                self.running[plan_index].plan.transfer(step, cut.buffer);
                true
            }
            // Another shard's request names slots that it could not read: those are worth repairing.
            None => self.recover_cut(index, cut, avoid, avoid != SlotSet(0)),
        }
    }

    /// Which slot a read of this place goes to, if any can serve it.
    #[inline]
    fn read_slot(&self, volume: &Volume, place: Location, avoid: SlotSet) -> Option<Slot> {
        let row_view;
        let view = match volume.uniform() {
            Some(view) => view,
            None => {
                let band = volume.band(place.row, place.in_chunk_bytes);
                row_view = volume.row_view(band, self.id, self.shards, self.failed);
                &row_view
            }
        };
        let slots = volume.shape.data_slots(place.row, place.data_index);
        let slots = SlotSet(slots.0 & view.readable.0 & !avoid.0);
        if slots.0 & slots.0.wrapping_sub(1) == 0 || !view.in_sync {
            // One candidate or none; or mirrors that may differ: always the lowest, so that a region
            // never flips between two contents.
            return slots.iter().next();
        }
        self.balance(volume, slots, place)
    }

    /// The read balance policy `least-in-flight`: the mirror with the fewest commands outstanding; on a
    /// tie they take turns by place, so that every drive serves and neighbouring reads stay together.
    #[inline]
    fn balance(&self, volume: &Volume, slots: SlotSet, place: Location) -> Option<Slot> {
        let turn = (place.row as u32) % slots.count();
        let load = |slot: Slot| {
            volume
                .member(slot, false)
                .map_or(u32::MAX, |member| self.in_flight[member.0 as usize])
        };
        let count = slots.count();
        (0u32..)
            .zip(slots.iter())
            .min_by_key(|&(order, slot)| (load(slot), (order + count - turn) % count))
            .map(|(_, slot)| slot)
    }

    /// A piece that no slot can deliver: reconstruct it here, or ask the owner of its row to.
    fn recover_cut(&mut self, index: u32, cut: Cut, avoid: SlotSet, write_back: bool) -> bool {
        let request = self.requests[index].request;
        let at = request.volume.0 as usize;
        let owner = self.volumes[at].shape.owner(cut.place.row, self.shards);
        if owner != self.id {
            self.forward(index, owner, Operation::Read, cut, avoid.0);
            return true;
        }
        let kind = PartKind::Reconstruct { write_back };
        let window = self.volumes[at].window_bytes;
        let mut done = 0;
        while done < cut.length {
            let low = cut.place.in_chunk_bytes + done;
            let length = (window - (low & (window - 1))).min(cut.length - done);
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
            if !self.enqueue(index, kind, piece, avoid) {
                debug_assert_eq!(done, 0, "parts for one chunk were checked for");
                return false;
            }
            done += length;
        }
        true
    }

    /// Queues a part under its band; fails when too few parts are free for a whole chunk.
    fn enqueue(&mut self, index: u32, kind: PartKind, cut: Cut, avoid: SlotSet) -> bool {
        let reserve = if matches!(kind, PartKind::Reconstruct { .. }) {
            16
        } else {
            PARTS_RESERVED
        };
        if self.ranges.parts.available() <= reserve {
            return false;
        }
        let Some(part) = self.ranges.parts.take() else {
            return false;
        };
        let volume = self.requests[index].request.volume.0;
        let low = cut.place.in_chunk_bytes;
        self.ranges.parts[part] = Part {
            kind,
            request: index,
            data_index: cut.place.data_index,
            low,
            high: low + cut.length,
            buffer: cut.buffer,
            avoid,
            next: NONE,
        };
        let band = self.volumes[volume as usize].band(cut.place.row, low);
        self.requests[index].outstanding += 1;
        self.ranges.enqueue(BandKey { volume, band }, part);
        true
    }

    fn forward(
        &mut self,
        index: u32,
        owner: ShardId,
        operation: Operation,
        cut: Cut,
        unreadable: u64,
    ) {
        let request = &self.requests[index].request;
        let forward = Forward {
            from: self.id,
            ticket: index,
            operation,
            fua: request.fua,
            unreadable,
            volume: request.volume,
            offset_bytes: cut.offset,
            length_bytes: cut.length,
            buffer: cut.buffer,
        };
        self.requests[index].outstanding += 1;
        self.stats.forwards += 1;
        self.outputs
            .push_back(Output::Send(owner, Message::Forward(forward)));
    }

    /// Writes, trims and zeroes of levels with redundancy, and all trims and zeroes.
    #[inline]
    fn issue_parts(&mut self, index: u32) -> bool {
        let request = self.requests[index].request;
        let at = request.volume.0 as usize;
        if self.volumes[at].view.failed {
            let offset_bytes = request.offset_bytes;
            self.requests[index].failure = Some(Failure::Unrecoverable { offset_bytes });
            return true;
        }
        if let Operation::WriteZeroes {
            only_if_fast: true, ..
        } = request.operation
            && self.volumes[at].shape.level == Level::Raid5
        {
            self.requests[index].failure = Some(Failure::NotSupported);
            return true;
        }
        let window = self.volumes[at].window_bytes;
        while let Some(cut) = self.cut(index, window) {
            let owner = self.volumes[at].shape.owner(cut.place.row, self.shards);
            let taken = if owner != self.id {
                let row_cut = self.row_cut(index, cut);
                self.forward(index, owner, request.operation, row_cut, 0);
                Some(row_cut.length)
            } else if request.operation == Operation::Write {
                let kind = PartKind::Write { fua: request.fua };
                self.enqueue(index, kind, cut, SlotSet(0))
                    .then_some(cut.length)
            } else {
                self.issue_zero(index, cut)
            };
            match taken {
                Some(length) => self.requests[index].cursor += u64::from(length),
                None => return false,
            }
        }
        true
    }

    /// As much of the request as lies in the row of `cut`: what is sent to the row's owner.
    fn row_cut(&self, index: u32, cut: Cut) -> Cut {
        let state = &self.requests[index];
        let shape = &self.volumes[state.request.volume.0 as usize].shape;
        let row_end = (cut.place.row + 1) * shape.row_bytes();
        let rest = u64::from(state.request.length_bytes) - state.cursor;
        Cut {
            length: rest.min(row_end - cut.offset) as u32,
            ..cut
        }
    }

    /// Queues a piece of a trim or zeroing; returns how much of the request that covers.
    fn issue_zero(&mut self, index: u32, cut: Cut) -> Option<u32> {
        let request = self.requests[index].request;
        let at = request.volume.0 as usize;
        let shape = self.volumes[at].shape;
        let (discard, keep_allocated) = match request.operation {
            Operation::WriteZeroes { keep_allocated, .. } => (false, keep_allocated),
            _ => (true, false),
        };
        let kind = PartKind::Zero {
            discard,
            keep_allocated,
            fua: request.fua,
        };
        if shape.level != Level::Raid5 {
            return self
                .enqueue(index, kind, cut, SlotSet(0))
                .then_some(cut.length);
        }
        let rest = u64::from(request.length_bytes) - self.requests[index].cursor;
        let row_start = cut.place.data_index == 0 && cut.place.in_chunk_bytes == 0;
        if row_start && rest >= shape.row_bytes() {
            return self.issue_zero_row(index, kind, cut);
        }
        if discard {
            // Part of a row: its parity would have to be computed, which no trim is worth.
            return Some(cut.length);
        }
        let length = cut.length.min(BAND_BYTES_MAX);
        let zeros = Cut {
            buffer: self.zeros,
            length,
            ..cut
        };
        let kind = PartKind::Write { fua: request.fua };
        self.enqueue(index, kind, zeros, SlotSet(0))
            .then_some(length)
    }

    fn issue_zero_row(&mut self, index: u32, kind: PartKind, cut: Cut) -> Option<u32> {
        let at = self.requests[index].request.volume.0 as usize;
        let (shape, window) = (self.volumes[at].shape, self.volumes[at].window_bytes);
        let windows = (shape.chunk_bytes / window) as usize;
        if self.ranges.parts.available() <= PARTS_RESERVED + windows {
            return None;
        }
        for low in (0..shape.chunk_bytes).step_by(window as usize) {
            let place = Location {
                in_chunk_bytes: low,
                ..cut.place
            };
            self.enqueue(
                index,
                kind,
                Cut {
                    place,
                    length: window,
                    ..cut
                },
                SlotSet(0),
            );
        }
        Some(shape.row_bytes() as u32)
    }

    fn issue_flush(&mut self, index: u32) -> bool {
        if self.running.available() <= PLANS_RESERVED {
            return false;
        }
        let at = self.requests[index].request.volume.0;
        let slots = self.volumes[at as usize].flush_slots(self.volatile);
        if slots == SlotSet(0) {
            return true;
        }
        let Some(plan_index) = self.running.take() else {
            return false;
        };
        self.running[plan_index].prepare(Work::Direct { request: index }, at, NONE);
        crate::plan::mirror::flush(&mut self.running[plan_index].plan, slots);
        self.requests[index].outstanding += 1;
        self.start(plan_index);
        true
    }

    /// A plan, part or forward of a request has ended.
    #[inline]
    pub(crate) fn piece_done(&mut self, index: u32, result: Result<(), Failure>) {
        let state = &mut self.requests[index];
        state.outstanding -= 1;
        if let Err(failure) = result {
            state.failure.get_or_insert(failure);
        }
        if state.outstanding > 0 || !state.issued {
            return;
        }
        let (tag, origin, failure) = (state.request.tag, state.origin, state.failure);
        if state.writing {
            self.volumes[state.request.volume.0 as usize].writes_running -= 1;
        }
        self.requests.give(index);
        self.local_requests -= usize::from(origin.is_none());
        if failure.is_some() {
            self.stats.request_errors += 1;
        }
        self.answer(tag, origin, failure.map_or(Ok(()), Err));
    }

    #[inline]
    fn answer(
        &mut self,
        tag: u64,
        origin: Option<(ShardId, u32, u64)>,
        result: Result<(), Failure>,
    ) {
        self.outputs.push_back(match origin {
            None => Output::Complete(Completion { tag, result }),
            Some((shard, ticket, _)) => {
                Output::Send(shard, Message::ForwardDone { ticket, result })
            }
        });
    }

    /// A piece of another shard's request arrives.
    pub(crate) fn forwarded(&mut self, forward: Forward) {
        if !self.has_room_for_forward() {
            self.forward_backlog.push_back(forward);
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
        self.admit(
            request,
            Some((forward.from, forward.ticket, forward.unreadable)),
        );
    }

    fn has_room_for_forward(&self) -> bool {
        self.requests.used() - self.local_requests < FORWARDED_MAX
    }

    /// Hands failed steps of direct reads on to reconstruction, as far as parts are free.
    #[inline]
    pub(crate) fn continue_recovering(&mut self) {
        while let Some(&plan_index) = self.recovering.front() {
            if !self.recover_plan(plan_index) {
                return;
            }
            self.recovering.pop_front();
            let Work::Direct { request } = self.running[plan_index].work else {
                return;
            };
            self.release(plan_index);
            self.piece_done(request, Ok(()));
        }
    }

    /// Hands on what is left of one plan; returns whether that was all.
    fn recover_plan(&mut self, plan_index: u32) -> bool {
        let Work::Direct { request } = self.running[plan_index].work else {
            return true;
        };
        loop {
            let running = &self.running[plan_index];
            let (at, done) = running.recover;
            let Some(step) = running.plan.steps().get(at as usize).copied() else {
                return true;
            };
            let crate::inflight::Progress::Failed { media } = running.states[at as usize].progress
            else {
                self.running[plan_index].recover = (at + 1, 0);
                continue;
            };
            if done == step.length_bytes {
                self.running[plan_index].recover = (at + 1, 0);
                continue;
            }
            let Some((cut, buffer)) = self.failed_cut(plan_index, &step, done) else {
                return true;
            };
            let volume = &self.volumes[running.volume as usize];
            if !volume.shape.redundant() {
                let offset_bytes = cut.offset;
                let event = Event::Unrecoverable {
                    volume: self.volume_of(plan_index),
                    offset_bytes,
                };
                self.emit(event);
                self.requests[request]
                    .failure
                    .get_or_insert(Failure::Unrecoverable { offset_bytes });
            } else if self.ranges.parts.available() <= 32 {
                return false;
            } else {
                // A media error of a long read may lie in any of its pieces: each is read again alone.
                let avoid = if media {
                    SlotSet(0)
                } else {
                    SlotSet(0).with(step.slot)
                };
                self.recover_cut(request, Cut { buffer, ..cut }, avoid, media);
            }
            self.running[plan_index].recover.1 = done + u64::from(cut.length);
        }
    }

    /// The first piece, inside one chunk and one segment, of a failed step from `done` bytes on.
    fn failed_cut(&self, plan_index: u32, step: &Step, done: u64) -> Option<(Cut, Buffer)> {
        let running = &self.running[plan_index];
        let (volume, plan): (&Volume, &Plan) =
            (&self.volumes[running.volume as usize], &running.plan);
        let shape = &volume.shape;
        let mut skip = done;
        let segment = plan.segments_of(step).find(|segment| {
            let here = skip < u64::from(segment.length_bytes);
            if !here {
                skip -= u64::from(segment.length_bytes);
            }
            here
        })?;
        let extent = step.offset_bytes + done - shape.start_bytes;
        let row = extent / u64::from(shape.chunk_bytes);
        let in_chunk_bytes = (extent % u64::from(shape.chunk_bytes)) as u32;
        let data_index = shape.data_index(row, step.slot)?;
        let place = Location {
            row,
            data_index,
            in_chunk_bytes,
        };
        let length = (u64::from(shape.chunk_bytes - in_chunk_bytes))
            .min(u64::from(segment.length_bytes) - skip)
            .min(step.length_bytes - done) as u32;
        let buffer = segment.buffer.at(skip as u32);
        Some((
            Cut {
                place,
                length,
                offset: shape.volume_offset_bytes(place),
                buffer,
            },
            buffer,
        ))
    }
}
