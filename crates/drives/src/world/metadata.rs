//! Metadata on its way to the drives.
//!
//! It has memory of its own, so that a failed member can be recorded while every payload buffer is taken.
//! Should even that run out, records wait for those before them.
//!
//! A record may come in several parts, of which each must be durable before the next is written: what a
//! crash leaves of one part is covered by the others. So at most one part is on its way to a member.

use super::{Answer, GONE, MISUSE, Payload, RingWorld, Transfer};
use crate::arena::Pool;
use crate::drive::{Backing, Drive};
use crate::pace::Demand;
use crate::port::Port;
use engine::control::record::Record;
use engine::plan::StepKind;
use engine::units::{Buffer, MemberId, Nanos};
use std::any::Any;
use std::collections::VecDeque;

/// Longest record, half of the memory, so that one always fits in the end.
const RECORD_BYTES_MAX: u64 = super::METADATA_BYTES as u64 / 2;

/// What is to be written to a member, in order: first byte and bytes of each part.
pub type Parts = Vec<(u64, Vec<u8>)>;

/// Turns records into bytes. A function that does so is one, as long as no drives join.
pub trait Encode: Send {
    /// Encodes a record for a member: first byte on the drive and the bytes, both in whole sectors, of each part.
    /// The parts are written in this order, each when the one before is durable.
    ///
    /// # Errors
    ///
    /// The format cannot express the record; nothing is written then.
    fn encode(&mut self, member: MemberId, record: &Record) -> Result<Parts, NotExpressible>;

    /// A message for the encoder ([`crate::mailbox::Mail::Encoder`]), of a type that it knows.
    fn mail(&mut self, message: Box<dyn Any + Send>);
}

/// See [`Encode`].
pub type Encoder = Box<dyn Encode>;

impl<F> Encode for F
where
    F: FnMut(MemberId, &Record) -> Result<Parts, NotExpressible> + Send,
{
    fn encode(&mut self, member: MemberId, record: &Record) -> Result<Parts, NotExpressible> {
        self(member, record)
    }

    fn mail(&mut self, _: Box<dyn Any + Send>) {
        unreachable!("a message for an encoder that expects none");
    }
}

/// See [`Encode::encode`]. Whoever encodes knows what it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotExpressible;

/// A record, or what is left of it, that waits for memory or for the one before it.
#[derive(Debug)]
struct Waiting {
    member: MemberId,
    parts: VecDeque<(u64, Vec<u8>)>,
}

/// Memory for records in flight, and the records that wait.
#[derive(Debug)]
pub(super) struct Metadata {
    pool: Pool,
    waiting: VecDeque<Waiting>,
    /// For each member with a part in flight, the parts that follow it.
    in_flight: Vec<Waiting>,
    is_starting: bool,
}

impl Metadata {
    pub fn new(pool: Pool) -> Metadata {
        Metadata {
            pool,
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            is_starting: false,
        }
    }

    pub fn free(&mut self, memory: Buffer) {
        self.pool.free(memory);
    }

    #[cfg(test)]
    pub fn available_bytes(&self) -> u64 {
        self.pool.available_bytes()
    }

    #[cfg(test)]
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Records that can wait and be in flight without taking more memory.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.waiting.capacity() + self.in_flight.capacity()
    }

    /// The part in flight to `member` has been answered: true if the record has more, which now wait.
    fn part_answered(&mut self, member: MemberId, errno: i32) -> bool {
        let of_member = |record: &Waiting| record.member == member;
        let at = self.in_flight.iter().position(of_member);
        let record = at.map(|at| self.in_flight.swap_remove(at));
        let more = record.filter(|record| errno == 0 && !record.parts.is_empty());
        let has_more = more.is_some();
        more.into_iter()
            .for_each(|record| self.waiting.push_front(record));
        has_more
    }

    /// The first record whose member has none in flight.
    fn next(&mut self) -> Option<Waiting> {
        let is_free = |record: &Waiting| {
            let busy = |other: &Waiting| other.member == record.member;
            !self.in_flight.iter().any(busy)
        };
        let at = self.waiting.iter().position(is_free)?;
        self.waiting.remove(at)
    }
}

/// Whether a part could be started.
enum Started {
    Yes,
    /// Not now: there is no memory for it.
    NoMemory,
}

impl<P: Port> RingWorld<P> {
    /// Writes `parts` to `member`, each durably before the next, after all that waits; answered by
    /// `Input::Persisted` when the last is durable or one has failed.
    pub(super) fn write_metadata(&mut self, member: MemberId, parts: Parts) {
        self.metadata.waiting.push_back(Waiting {
            member,
            parts: parts.into(),
        });
        self.write_waiting_metadata();
    }

    /// Writes what waits, as far as there is memory.
    pub(super) fn write_waiting_metadata(&mut self) {
        // A part that is answered at once comes back here: the loop that is running goes on.
        if std::mem::replace(&mut self.metadata.is_starting, true) {
            return;
        }
        while let Some(mut record) = self.metadata.next() {
            let part = record.parts.pop_front().unwrap_or_default();
            let member = record.member;
            self.metadata.in_flight.push(record);
            if let Started::NoMemory = self.start_metadata(member, &part) {
                if let Some(mut record) = self.metadata.in_flight.pop() {
                    record.parts.push_front(part);
                    self.metadata.waiting.push_front(record);
                }
                break;
            }
        }
        self.metadata.is_starting = false;
    }

    /// Whether what has been answered is a part of a record that others follow; then it is no answer yet.
    #[inline]
    pub(super) fn has_more_parts(&mut self, answer: Answer, errno: i32) -> bool {
        match answer {
            Answer::Done(_) | Answer::NotExpressible(_) => false,
            Answer::Persisted(member) => self.metadata.part_answered(member, errno),
        }
    }

    /// A part has been answered: the next one, or what else waits, can be written.
    #[inline]
    pub(super) fn go_on_with_metadata(&mut self, answer: Answer) {
        if let Answer::Persisted(_) = answer {
            self.write_waiting_metadata();
        }
    }

    /// Starts writing a part of a record.
    fn start_metadata(
        &mut self,
        member: MemberId,
        (offset_bytes, bytes): &(u64, Vec<u8>),
    ) -> Started {
        let answer = Answer::Persisted(member);
        let Some(index) = self.attachments.index_of(member) else {
            self.answer(answer, GONE);
            return Started::Yes;
        };
        let attachment = self.attachments.at(index);
        let drive = &attachment.drive;
        let (offset_bytes, length_bytes) = (*offset_bytes, bytes.len() as u64);
        if !is_whole(drive, offset_bytes, length_bytes) {
            self.answer(answer, MISUSE);
            return Started::Yes;
        }
        let kind = StepKind::Write { fua: true };
        let way = match (drive.backing(), attachment.way) {
            (Backing::File(_), Some(way)) => Some(way),
            (Backing::Ram(ram), _) => {
                ram.write(offset_bytes, bytes);
                None
            }
            _ => None,
        };
        let memory = way.and_then(|_| self.metadata.pool.allocate(length_bytes));
        if way.is_some() && memory.is_none() {
            return Started::NoMemory;
        }
        let demand = Demand {
            kind,
            offset_bytes,
            length_bytes,
        };
        let finish = drive
            .pace()
            .map_or(Nanos(0), |pace| pace.admit(super::clock(), demand));
        let sector_bytes = drive.sector_bytes();
        let (Some(way), Some(memory)) = (way, memory) else {
            self.attachments.started(index);
            self.settle(answer, index, finish, 0);
            return Started::Yes;
        };
        self.ring.internal_arena().write(memory, bytes);
        let transfer = Transfer {
            answer,
            attachment: index,
            way,
            sector_bytes,
            kind,
            payload: Payload::Piece(memory),
            offset_bytes,
            left_bytes: length_bytes,
            finish,
            memory: Some(memory),
        };
        self.launch(transfer);
        Started::Yes
    }
}

/// Whether a range is whole sectors on the drive that may be written, and fits into the memory for metadata.
fn is_whole(drive: &Drive, offset_bytes: u64, length_bytes: u64) -> bool {
    let sector_bytes = u64::from(drive.sector_bytes());
    length_bytes > 0
        && length_bytes <= RECORD_BYTES_MAX
        && offset_bytes.is_multiple_of(sector_bytes)
        && length_bytes.is_multiple_of(sector_bytes)
        && drive.allows(StepKind::Write { fua: true }, offset_bytes, length_bytes)
}
