//! Clients write patterns that the oracle recognises, and have the oracle check what they read.

use super::{Failure, Run};
use crate::history::{Act, Ask, Mode};
use crate::machine::Note;
use crate::oracle::pattern::{SECTOR_BYTES, fill};
use crate::oracle::{Ended, Value};
use crate::process::REQUEST_BYTES_MAX;
use engine::request::{Completion, Failure as Refusal, Operation, Request};
use engine::units::{Buffer, VolumeId};
use engine::world::Input;
use std::ops::Range;

/// Where a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// With the engine, with the memory of this slot.
    Slot(usize),
    /// With a tag of a block device.
    Tag,
    /// In the memory of a guest.
    Room,
}

/// Where what a read has returned is.
#[derive(Clone, Copy)]
pub(super) enum Returned<'a> {
    /// In the process's memory.
    InMemory(Buffer),
    /// A guest has it.
    ToGuest(&'a [u8]),
}

/// A request in flight.
pub(super) struct Flying {
    number: u32,
    ask: Ask,
    place: Place,
    /// For reads and flushes: when it began, for the oracle.
    began: u64,
}

impl Flying {
    fn sectors(&self) -> Range<u64> {
        let first = self.ask.offset_bytes / SECTOR_BYTES as u64;
        first..first + u64::from(self.ask.length_bytes) / SECTOR_BYTES as u64
    }
}

impl Run<'_> {
    /// Submits waiting requests as far as slots or tags are free.
    pub(super) fn submit_waiting(&mut self) {
        if self.attached.has_ports() {
            return self.submit_to_ports();
        }
        while self.process.is_some() && self.stopping.is_none() && !self.slots.is_empty() {
            if let Some((number, ask)) = self.again.pop_front() {
                self.submit(number, ask);
                continue;
            }
            let Some(at) = self.waiting.pop_front() else {
                return;
            };
            let action = &self.history.actions[at];
            if let Act::Ask(ask) = action.act {
                self.submit(action.number, ask);
            }
        }
    }

    /// Whether there is a slot or a tag for a request.
    pub(super) fn has_room(&self, ask: Ask) -> bool {
        !self.slots.is_empty() && self.has_place(ask)
    }

    /// Submits a request. The caller has checked that there is a process, and a free slot or tag.
    pub(super) fn submit(&mut self, number: u32, ask: Ask) {
        if self.attached.has_ports() {
            return self.submit_to_port(number, ask);
        }
        let (Some(process), Some(slot)) = (&self.process, self.slots.pop()) else {
            return;
        };
        let shard = usize::from(ask.connection) % process.shards();
        let buffer = process.payload(slot);
        let places = self.places(slot);
        let mut machine = self.machine.borrow_mut();
        machine.let_go.retain(|pin| !places.contains(&pin.0));
        drop(machine);
        let flying = self.begin((number, ask), Place::Slot(slot), Some(buffer), shard);
        let request = Request {
            tag: u64::from(number),
            volume: VolumeId(ask.volume),
            operation: ask.operation,
            fua: ask.fua,
            offset_bytes: ask.offset_bytes,
            length_bytes: ask.length_bytes,
            buffer,
        };
        let mut machine = self.machine.borrow_mut();
        machine.tell(shard, Input::Request(request));
        drop(machine);
        self.flying.insert(request.tag, flying);
    }

    /// A request begins: the oracle learns of it, and what it writes is in its memory, if it has any.
    pub(super) fn begin(
        &mut self,
        (number, ask): (u32, Ask),
        place: Place,
        buffer: Option<Buffer>,
        shard: usize,
    ) -> Flying {
        let mut flying = Flying {
            number,
            ask,
            place,
            began: 0,
        };
        let oracle = &mut self.oracles[ask.volume as usize];
        let mut machine = self.machine.borrow_mut();
        match ask.operation {
            Operation::Read => flying.began = oracle.read_begins(),
            Operation::Flush => flying.began = oracle.flush_begins(),
            Operation::Write => {
                if let Some(buffer) = buffer {
                    let length = ask.length_bytes as usize;
                    fill_all(number, &ask, machine.memory_mut(buffer, length));
                }
                oracle.write_begins(number, Value::Of(number), flying.sectors());
            }
            Operation::Trim | Operation::WriteZeroes { .. } => {
                oracle.write_begins(number, Value::Zero, flying.sectors());
            }
        }
        machine.note(&Note::Request(
            number,
            shard,
            ask.volume,
            name(ask.operation),
            ask.offset_bytes,
            ask.length_bytes,
        ));
        flying
    }

    /// Handles the answer of the engine to a request.
    pub(super) fn completed(&mut self, completion: Completion) -> Result<(), Failure> {
        let Some(flying) = self.flying.remove(&completion.tag) else {
            let text = format!("request {} is answered twice", completion.tag);
            return Err(Failure::Unsound(text));
        };
        let Place::Slot(slot) = flying.place else {
            let text = format!("request {} is answered past its tag", completion.tag);
            return Err(Failure::Unsound(text));
        };
        let Some(process) = &self.process else {
            return Ok(());
        };
        if completion.result == Err(Refusal::BufferHeld) {
            return self.ask_again(&flying, slot);
        }
        let buffer = process.payload(slot);
        self.settle(&flying, Returned::InMemory(buffer), completion.result)?;
        self.give_back(&flying, slot);
        self.submit_waiting();
        Ok(())
    }

    /// Has the oracle judge an answer.
    pub(super) fn settle(
        &mut self,
        flying: &Flying,
        returned: Returned<'_>,
        result: Result<(), Refusal>,
    ) -> Result<(), Failure> {
        self.counts.requests += 1;
        let (ask, sectors) = (flying.ask, flying.sectors());
        let oracle = &mut self.oracles[ask.volume as usize];
        let ok = result.is_ok();
        match ask.operation {
            Operation::Read if ok => self.judge_read(flying, returned)?,
            Operation::Read => oracle.read_failed(flying.began),
            Operation::Flush if ok => oracle.flush_ends(flying.began),
            Operation::Flush => {}
            Operation::Trim => oracle.write_ends(flying.number, sectors, Ended::Maybe),
            Operation::Write | Operation::WriteZeroes { .. } => {
                let how = match (ok, ask.fua) {
                    (false, _) => Ended::Maybe,
                    (true, true) => Ended::Durable,
                    (true, false) => Ended::Done,
                };
                oracle.write_ends(flying.number, sectors, how);
            }
        }
        if let Err(refusal) = result {
            self.counts.request_errors += 1;
            self.judge_refusal(flying, refusal)?;
        }
        Ok(())
    }

    fn judge_read(&mut self, flying: &Flying, returned: Returned<'_>) -> Result<(), Failure> {
        let machine = self.machine.borrow();
        let bytes = match returned {
            Returned::InMemory(buffer) => machine.memory(buffer, flying.ask.length_bytes as usize),
            Returned::ToGuest(bytes) => bytes,
        };
        let oracle = &mut self.oracles[flying.ask.volume as usize];
        let first = flying.sectors().start;
        if self.history.mode != Mode::Lying {
            let read = oracle.read_ends(flying.began, first, bytes);
            return read.map_err(|wrong| {
                Failure::WrongBytes(format!("request {}: {wrong}", flying.number))
            });
        }
        let mut all = Vec::new();
        let Ok(()) = oracle.read_ends_with(flying.began, first, bytes, |wrong| {
            all.push(wrong);
            Ok::<(), std::convert::Infallible>(())
        });
        drop(machine);
        all.iter().try_for_each(|wrong| self.read_wrong(wrong))
    }

    /// Repeats a read with another buffer, because a hung drive still uses the first one.
    fn ask_again(&mut self, flying: &Flying, slot: usize) -> Result<(), Failure> {
        let ask = flying.ask;
        if ask.operation != Operation::Read || !self.was_pinned(slot) {
            let (number, operation) = (flying.number, name(ask.operation));
            let text = format!("request {number}: the buffer of a {operation} is held by nobody");
            return Err(Failure::Unsound(text));
        }
        self.oracles[ask.volume as usize].read_failed(flying.began);
        self.pinned.push(slot);
        if self.stopping.is_none() {
            self.again.push_back((flying.number, ask));
            self.submit_waiting();
        }
        Ok(())
    }

    /// The memory range of a slot's payload; empty without a process.
    fn places(&self, slot: usize) -> Range<u64> {
        let Some(process) = &self.process else {
            return 0..0;
        };
        let from = process.payload(slot).0;
        from..from + u64::from(REQUEST_BYTES_MAX)
    }

    fn is_pinned(&self, slot: usize) -> bool {
        let places = self.places(slot);
        let machine = self.machine.borrow();
        machine.pins.iter().any(|pin| places.contains(&pin.0))
    }

    /// Whether the slot is pinned, or was pinned for its present request: the drive may have answered before the
    /// client received the refusal.
    fn was_pinned(&self, slot: usize) -> bool {
        let places = self.places(slot);
        let machine = self.machine.borrow();
        let mut pins = machine.pins.iter().chain(&machine.let_go);
        pins.any(|pin| places.contains(&pin.0))
    }

    /// Returns the slot to the client, unless a drive may still use its memory. The memory is overwritten, so
    /// that any other use of it shows.
    fn give_back(&mut self, flying: &Flying, slot: usize) {
        if self.is_pinned(slot) {
            return self.pinned.push(slot);
        }
        if let Some(process) = &self.process {
            let buffer = process.payload(slot);
            let mut machine = self.machine.borrow_mut();
            let length = flying.ask.length_bytes as usize;
            machine.memory_mut(buffer, length).fill(0xC5);
        }
        self.slots.push(slot);
    }

    /// Frees pinned slots whose memory no drive uses any more.
    pub(super) fn take_back_slots(&mut self) {
        for slot in std::mem::take(&mut self.pinned) {
            if self.is_pinned(slot) {
                self.pinned.push(slot);
            } else {
                self.slots.push(slot);
            }
        }
        self.submit_waiting();
    }

    fn judge_refusal(&self, flying: &Flying, refusal: Refusal) -> Result<(), Failure> {
        let allowed = match (flying.ask.operation, refusal) {
            (_, Refusal::Misuse) => false,
            (Operation::Trim | Operation::WriteZeroes { .. }, Refusal::NotSupported) => true,
            (_, Refusal::Stopping) => self.stopping.is_some(),
            (_, Refusal::Unrecoverable { .. } | Refusal::ReadOnly) => {
                self.is_lenient(flying.ask.volume)
            }
            _ => false,
        };
        if allowed || self.wide.illness.is_some() {
            return Ok(());
        }
        Err(Failure::FailedRequest(format!(
            "request {} ({} of {} bytes at {} of volume {}): {refusal:?}",
            flying.number,
            name(flying.ask.operation),
            flying.ask.length_bytes,
            flying.ask.offset_bytes,
            flying.ask.volume
        )))
    }

    /// Drops all requests in flight, because the process has ended.
    pub(super) fn forget_flying(&mut self) {
        for (_, flying) in std::mem::take(&mut self.flying) {
            if let Place::Slot(slot) = flying.place {
                self.slots.push(slot);
            }
        }
        self.slots.append(&mut self.pinned);
        self.again.clear();
    }
}

/// Fills `bytes` with what a write writes.
pub(super) fn fill_all(number: u32, ask: &Ask, bytes: &mut [u8]) {
    let first = ask.offset_bytes / SECTOR_BYTES as u64;
    let sectors = bytes.chunks_exact_mut(SECTOR_BYTES);
    for (sector, bytes) in (first..).zip(sectors) {
        fill(number, ask.volume, sector, bytes);
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Trim => "trim",
        Operation::WriteZeroes { .. } => "write zeroes",
    }
}
