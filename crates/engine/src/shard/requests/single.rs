//! Requests that need no plan: one command for each drive that holds the piece, and nothing after it.
//!
//! Most requests are small, lie in one chunk, and find everything healthy. Such a read is one command, and such a
//! write to a level without parity is one command per copy. A plan would only add bookkeeping for what hardly ever
//! happens. So each of these requests is kept in one cache line, and turned into a plan as soon as anything goes
//! wrong ([`Engine::settle`] and the error table then do the rest): an error, a member that failed or is overdue.
//! [`Engine::begin_single`] decides which requests run this way; all others are planned.
//!
//! Order is kept as for plans: a write to a mirrored chunk holds a lock in [`crate::order::ranges`]. It takes the
//! lock only where nothing waits.

use crate::control::message::{Forward, Message};
use crate::layout::Location;
use crate::limits::{PLANS_RESERVED, SINGLE_COPIES_MAX};
use crate::order::ranges::{BandKey, NONE};
use crate::output::Output;
use crate::plan::StepKind;
use crate::policy::MemberError;
use crate::request::{Completion, Failure, Operation, Request};
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{ShardId, Slot, SlotSet};
use crate::world::Io;

/// Marks the tickets of single requests in messages between shards.
const SINGLE_TICKET: u32 = 1 << 31;

/// Who carries a single request out.
enum Target {
    Members(Place),
    /// The shard that owns its row.
    Shard(ShardId),
}

/// Where a single request's commands go.
struct Place {
    slots: SlotSet,
    offset_bytes: u64,
    lock: u32,
}

impl Engine {
    /// Starts a request without a plan; false if it needs one. The tag of a request that was forwarded
    /// `from` another shard is its ticket there.
    #[inline]
    pub(crate) fn begin_single(&mut self, request: &Request, from: Option<ShardId>) -> bool {
        self.admission.stalled() == 0
            && (from.is_some() || self.admission.has_room_for_port())
            && self.start_as_single(request, from)
    }

    /// The same for a request whose turn it is. Inlined into both callers, so that a request which finds room pays
    /// nothing for the queues of those that wait.
    #[inline(always)]
    pub(crate) fn start_as_single(&mut self, request: &Request, from: Option<ShardId>) -> bool {
        if self.flight.plans_available() <= PLANS_RESERVED
            // Singles that other shards carry out take a slot here, but no plan. From here on locks are taken and
            // writes are counted, so the request must not fail for want of a slot.
            || self.flight.singles_available() == 0
        {
            return false;
        }
        let (place, kind) = match request.operation {
            // A forwarded read has to be reconstructed, which needs a plan.
            Operation::Read if from.is_none() => (self.single_read(request), StepKind::Read),
            Operation::Write => match self.single_write(request) {
                Some(Target::Shard(owner)) => {
                    self.forward_single(request, from, owner);
                    return true;
                }
                Some(Target::Members(place)) => (Some(place), StepKind::Write { fua: request.fua }),
                None => return false,
            },
            _ => return false,
        };
        let Some(place) = place else {
            return false;
        };
        let index = self.take_single(request, from);
        self.start_single(index, &place, kind);
        true
    }

    #[inline]
    fn take_single(&mut self, request: &Request, from: Option<ShardId>) -> u32 {
        self.admission.begun(from.is_some());
        self.flight.take_single(request, from)
    }

    #[inline]
    fn single_read(&mut self, request: &Request) -> Option<Place> {
        let volume = &self.volumes[request.volume.0 as usize];
        let view = volume.uniform()?;
        let place = volume.shape().locate(request.offset_bytes);
        if request.length_bytes > volume.shape().chunk_bytes - place.in_chunk_bytes {
            return None;
        }
        let slots = volume.shape().data_slots(place.row, place.data_index);
        let slots = SlotSet(slots.0 & view.readable.0);
        let slot = self.choose_slot(volume, view, slots, place)?;
        self.desk.stats.singles_read += 1;
        Some(Place {
            slots: SlotSet(0).with(slot),
            offset_bytes: volume
                .shape()
                .member_offset_bytes(place.row, place.in_chunk_bytes),
            lock: NONE,
        })
    }

    #[inline]
    fn single_write(&mut self, request: &Request) -> Option<Target> {
        let at = request.volume.0 as usize;
        if !self.volumes[at].writes_freely() && !self.has_on_record(request) {
            return None;
        }
        let volume = &self.volumes[at];
        let view = volume.uniform()?;
        let shape = volume.shape();
        if volume.records_nothing() || !volume.unrecorded().is_empty() {
            return None;
        }
        let place = shape.locate(request.offset_bytes);
        let (low, length) = (place.in_chunk_bytes, request.length_bytes);
        if length > volume.rest_of_band_bytes(low) {
            return None;
        }
        if shape.has_parity() {
            let owner = shape.owner(place.row, self.desk.shards());
            if owner == self.desk.id() {
                return None;
            }
            self.note_write(at, request.offset_bytes, length);
            self.note_writing(at);
            return Some(Target::Shard(owner));
        }
        let slots = shape.data_slots(place.row, place.data_index);
        let slots = SlotSet(slots.0 & view.writable.0);
        if slots.0 & view.readable.0 == 0 || slots.count() as usize > SINGLE_COPIES_MAX {
            return None;
        }
        let offset_bytes = shape.member_offset_bytes(place.row, low);
        let lock = if !shape.redundant() {
            NONE
        } else {
            let key = BandKey {
                volume: request.volume.0,
                band: volume.band(place.row, low),
            };
            let high = low + length;
            if self.desk.shards() == 1 {
                self.order
                    .ranges
                    .lock_if_quiet(key, place.data_index, low, high)?
            } else {
                match self.lock_claimed(key, place, high) {
                    Ok(lock) => lock,
                    Err(None) => return None,
                    Err(Some(owner)) => {
                        self.note_writing(at);
                        return Some(Target::Shard(owner));
                    }
                }
            }
        };
        self.desk.stats.singles_write += 1;
        self.note_writing(at);
        Some(Target::Members(Place {
            slots,
            offset_bytes,
            lock,
        }))
    }

    /// Takes a lock for a mirrored write. If that is not possible, returns the shard that has to carry the write out:
    /// the owner of the row, or `None` if that is this shard, which then plans the write.
    fn lock_claimed(
        &mut self,
        key: BandKey,
        place: Location,
        high: u32,
    ) -> Result<u32, Option<ShardId>> {
        let low = place.in_chunk_bytes;
        let lock = self
            .order
            .ranges
            .lock_if_quiet(key, place.data_index, low, high);
        // The owner is looked up last: it changes from request to request, and no branch predictor foresees it.
        if let Some(lock) = lock
            && self
                .order
                .claims
                .anywhere(self.volumes.view().epoch, self.desk.shards())
        {
            return Ok(lock);
        }
        let shape = self.volumes[usize::from(key.volume)].shape();
        let owner = shape.owner(place.row, self.desk.shards());
        if owner == self.desk.id() {
            return lock.ok_or(None);
        }
        if let Some(lock) = lock {
            self.order.ranges.unlock_quiet(lock);
        }
        Err(Some(owner))
    }

    /// Has the owner of the row carry a request out.
    #[inline]
    fn forward_single(&mut self, request: &Request, from: Option<ShardId>, owner: ShardId) {
        let index = self.take_single(request, from);
        let forward = Forward {
            from: self.desk.id(),
            ticket: SINGLE_TICKET | index,
            operation: request.operation,
            fua: request.fua,
            repairs: false,
            tried: None,
            volume: request.volume,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            buffer: request.buffer,
        };
        self.desk.stats.forwards += 1;
        self.desk.send(owner, Message::Forward(forward));
    }

    /// The owner of a request's row has answered: it has carried the request out, or failed to.
    #[inline]
    pub(crate) fn forward_done(&mut self, ticket: u32, result: Result<(), Failure>) {
        if ticket & SINGLE_TICKET == 0 {
            self.admission.piece_came_back();
            return self.piece_done(ticket, result);
        }
        let index = ticket & !SINGLE_TICKET;
        let is_with_drives = self.flight.single(index).outstanding() != 0;
        assert!(
            !is_with_drives,
            "single {index} is with drives, and a shard answers it"
        );
        self.desk.stats.request_errors += u64::from(result.is_err());
        self.answer_single(index, result);
    }

    #[inline]
    fn start_single(&mut self, index: u32, target: &Place, kind: StepKind) {
        self.flight.single_begins();
        let single = self.flight.single_mut(index);
        let volume = &self.volumes[single.request().volume.0 as usize];
        let length_bytes = u64::from(single.request().length_bytes);
        let (mut copies, mut rest) = (0u8, target.slots.0);
        while rest != 0 {
            let slot = Slot(rest.trailing_zeros() as u8);
            rest &= rest - 1;
            let member = volume.view().slots[slot.0 as usize]
                .expect("a slot that the row's state calls usable has a drive");
            self.members.sent(member);
            self.desk.ask(Output::Io(Io {
                token: single.send(index, copies, slot, member),
                member,
                kind,
                offset_bytes: target.offset_bytes,
                length_bytes,
            }));
            copies += 1;
        }
        single.start(self.desk.now(), target.lock, copies);
        let bytes = u64::from(copies) * length_bytes;
        if kind == StepKind::Read {
            self.desk.stats.member_reads += u64::from(copies);
            self.desk.stats.member_read_bytes += bytes;
        } else {
            self.desk.stats.member_writes += u64::from(copies);
            self.desk.stats.member_write_bytes += bytes;
        }
    }

    /// A command of a single request has been answered.
    #[inline]
    pub(crate) fn single_done(&mut self, token: Token, result: Result<(), MemberError>) {
        let (index, copy) = (token.index(), token.step() as u8);
        let single = self.flight.single_mut(index);
        if !single.has_name(token) {
            return self.came_back_late(token);
        }
        let member = single.holder_of(copy);
        let trouble = result.is_err()
            || (!self.members.failed().is_empty() && self.members.failed().has(member));
        if trouble || single.plan() != NONE {
            return self.single_in_trouble(index, copy, result);
        }
        self.members.answered(member);
        if single.came_back(copy) {
            self.finish_single(index);
        }
    }

    #[inline]
    fn finish_single(&mut self, index: u32) {
        self.flight.single_needs_none();
        let lock = self.flight.single(index).lock();
        if lock != NONE {
            self.order.ranges.unlock_quiet(lock);
        }
        self.answer_single(index, Ok(()));
    }

    #[inline]
    fn answer_single(&mut self, index: u32, result: Result<(), Failure>) {
        let single = self.flight.single(index);
        let (request, from) = (single.request(), single.from());
        let tag = request.tag;
        if request.operation == Operation::Write {
            self.volumes[request.volume.0 as usize].writes_mut().end();
        }
        self.flight.give_single(index);
        self.desk.ask(if let Some(shard) = from {
            self.admission.ended(true);
            let ticket = tag as u32;
            Output::Send(shard, Message::ForwardDone { ticket, result })
        } else {
            self.admission.ended(false);
            Output::Complete(Completion { tag, result })
        });
    }

    /// The plan handles what happened. The single's slot stays in use until all commands that bear its name are back.
    #[cold]
    pub(crate) fn single_in_trouble(
        &mut self,
        index: u32,
        copy: u8,
        result: Result<(), MemberError>,
    ) {
        if self.flight.single(index).plan() == NONE {
            self.plan_single(index);
        }
        let single = self.flight.single_mut(index);
        let plan = single.plan();
        if single.came_back(copy) {
            self.flight.running_mut(plan).forget_single();
            self.flight.give_single(index);
        }
        let running = self.flight.running(plan);
        let token = running.name_of(plan, usize::from(copy));
        self.step_done(token, result);
    }
}
