//! Metadata on its way to the drives.
//!
//! It has memory of its own, so that a failed member can be recorded while every payload buffer is taken.
//! Should even that run out, records wait for those before them.

use super::{Answer, GONE, MISUSE, Payload, RingWorld, Transfer};
use crate::arena::Pool;
use crate::drive::{Backing, Drive};
use crate::port::Port;
use engine::plan::StepKind;
use engine::units::{Buffer, MemberId, Nanos};
use std::collections::VecDeque;

/// Longest record, half of the memory, so that one always fits in the end.
const RECORD_BYTES_MAX: u64 = super::METADATA_BYTES as u64 / 2;

/// A record that waits for memory: member, first byte, bytes.
type Waiting = (MemberId, u64, Vec<u8>);

/// Memory for records in flight, and the records that wait for it.
#[derive(Debug)]
pub(super) struct Metadata {
    pool: Pool,
    waiting: VecDeque<Waiting>,
}

impl Metadata {
    pub fn new(pool: Pool) -> Metadata {
        Metadata {
            pool,
            waiting: VecDeque::new(),
        }
    }

    pub fn free(&mut self, memory: Buffer) {
        self.pool.free(memory);
    }
}

impl<P: Port> RingWorld<P> {
    /// Writes `bytes` durably to `member`, after all that waits; answered by `Input::Persisted`.
    pub(super) fn write_metadata(&mut self, member: MemberId, offset_bytes: u64, bytes: Vec<u8>) {
        self.metadata
            .waiting
            .push_back((member, offset_bytes, bytes));
        self.write_waiting_metadata();
    }

    /// Writes what waits, as far as there is memory.
    pub(super) fn write_waiting_metadata(&mut self) {
        while let Some((member, offset_bytes, bytes)) = self.metadata.waiting.pop_front() {
            if !self.try_write_metadata(member, offset_bytes, &bytes) {
                self.metadata
                    .waiting
                    .push_front((member, offset_bytes, bytes));
                return;
            }
        }
    }

    /// False when there is no memory for it now.
    fn try_write_metadata(&mut self, member: MemberId, offset_bytes: u64, bytes: &[u8]) -> bool {
        let answer = Answer::Persisted(member);
        let Some(index) = self.attachments.index_of(member) else {
            self.answer(answer, GONE);
            return true;
        };
        let attachment = self.attachments.at(index);
        let drive = &attachment.drive;
        let length_bytes = bytes.len() as u64;
        if !is_whole(drive, offset_bytes, length_bytes) {
            self.answer(answer, MISUSE);
            return true;
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
            return false;
        }
        let finish = drive.throttle().map_or(Nanos(0), |throttle| {
            throttle.admit(super::clock(), kind, length_bytes)
        });
        let sector_bytes = drive.sector_bytes();
        let (Some(way), Some(memory)) = (way, memory) else {
            self.attachments.started(index);
            self.settle(answer, index, finish, 0);
            return true;
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
        true
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
