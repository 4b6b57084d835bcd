//! Writes metadata records to the drives.
//!
//! This uses memory of its own, so that a failed member can be recorded while all payload buffers are taken. If this
//! memory runs out, a record waits until earlier ones have been written.
//!
//! A record may have several parts, each of which must be durable before the next is written: if a crash leaves one
//! part incomplete, the other parts make up for it. So at most one part is in flight to a member.

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

/// Longest part of a record: half of the memory, so that one always fits in the end.
const RECORD_BYTES_MAX: u64 = super::METADATA_BYTES as u64 / 2;

/// The parts of a record in the order in which they are written: offset on the drive, and bytes.
pub type Parts = Vec<(u64, Vec<u8>)>;

/// Turns records into bytes. A function implements this too, if no drives join while it is used.
pub trait Encode: Send {
    /// Encodes a record for a member. Each part is an offset on the drive and its bytes, both in whole sectors. The
    /// parts are written in this order, each after the one before is durable.
    ///
    /// # Errors
    ///
    /// The format cannot express the record; then nothing is written.
    fn encode(&mut self, member: MemberId, record: &Record) -> Result<Parts, NotExpressible>;

    /// Takes a message for the encoder ([`crate::mailbox::Mail::Encoder`]), of a type that the encoder knows.
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
        unreachable!("this encoder takes no messages");
    }
}

/// The format cannot express the record; see [`Encode::encode`]. The encoder itself knows why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotExpressible;

/// A record, or its remaining parts, which waits for memory or for an earlier record of the member.
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

    /// A part that was in flight to `member` has been answered. If the record has more parts, queues them and returns
    /// true.
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

    /// The first record that waits and whose member has no part in flight.
    fn next(&mut self) -> Option<Waiting> {
        let is_free = |record: &Waiting| {
            let busy = |other: &Waiting| other.member == record.member;
            !self.in_flight.iter().any(busy)
        };
        let at = self.waiting.iter().position(is_free)?;
        self.waiting.remove(at)
    }
}

/// Whether the writing of a part has begun.
enum Started {
    Yes,
    /// No: there is no memory for it now.
    NoMemory,
}

impl<P: Port> RingWorld<P> {
    /// Writes `parts` to `member` after all records that wait, each part after the one before is durable.
    /// `Input::Persisted` is given when the last part is durable or one has failed.
    pub(super) fn write_metadata(&mut self, member: MemberId, parts: Parts) {
        self.metadata.waiting.push_back(Waiting {
            member,
            parts: parts.into(),
        });
        self.write_waiting_metadata();
    }

    /// Writes the records that wait, as far as there is memory.
    pub(super) fn write_waiting_metadata(&mut self) {
        // A part that is answered at once leads to a nested call of this function; the outer loop continues instead.
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

    /// Whether the answered write is a part of a record that has more parts. Then the engine gets no answer yet.
    #[inline]
    pub(super) fn has_more_parts(&mut self, answer: Answer, errno: i32) -> bool {
        match answer {
            Answer::Done(_) | Answer::NotExpressible(_) => false,
            Answer::Persisted(member) => self.metadata.part_answered(member, errno),
        }
    }

    /// After a part has been answered, writes the next one, or another record that waits.
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

/// Whether a range consists of whole sectors that may be written on the drive, and fits into the metadata memory.
fn is_whole(drive: &Drive, offset_bytes: u64, length_bytes: u64) -> bool {
    let sector_bytes = u64::from(drive.sector_bytes());
    length_bytes > 0
        && length_bytes <= RECORD_BYTES_MAX
        && offset_bytes.is_multiple_of(sector_bytes)
        && length_bytes.is_multiple_of(sector_bytes)
        && drive.allows(StepKind::Write { fua: true }, offset_bytes, length_bytes)
}
