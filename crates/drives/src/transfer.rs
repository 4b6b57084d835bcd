//! Member I/O that is with the kernel, and what a partial answer means.
//!
//! The kernel may move fewer bytes than it was asked to. Of a drive that is all there it never does so
//! for good: the rest is asked for again. A read that ends where the drive should go on means that the
//! drive has shrunk (a truncated file, a removed disk): the member is *gone*, and nothing it says about
//! the range can be used.

use crate::held::Answer;
use crate::ring::{FileSlot, Ring};
use engine::plan::StepKind;
use engine::units::{Buffer, Nanos};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

/// `RWF_DSYNC` of `pwritev2(2)`: durable when it completes.
const RWF_DSYNC: i32 = 2;
const FALLOC_FL_KEEP_SIZE: i32 = 1;
const FALLOC_FL_PUNCH_HOLE: i32 = 2;
const FALLOC_FL_ZERO_RANGE: i32 = 16;
/// The kernel moves at most this much in one call (`MAX_RW_COUNT`).
const KERNEL_BYTES_MAX: u64 = 0x7FFF_F000;

const EIO: i32 = 5;
const ENXIO: i32 = 6;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// Where an I/O's payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    /// None: flush, zero, discard.
    Nothing,
    /// One piece.
    Piece(Buffer),
    /// A list in the ring's vectors.
    List(u32),
    /// The block of zeros, again and again: zeroing where the file system cannot.
    Zeros,
}

/// One I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub answer: Answer,
    /// Index of the attachment, for the world.
    pub attachment: u16,
    pub file: FileSlot,
    pub sector_bytes: u32,
    pub kind: StepKind,
    pub payload: Payload,
    /// The first byte that has not moved yet.
    pub offset_bytes: u64,
    /// How many have not.
    pub left_bytes: u64,
    /// When a throttled member may answer; zero otherwise.
    pub finish: Nanos,
    /// The first byte of memory given, for whoever allocated it.
    pub memory: Option<Buffer>,
}

/// All of them, by the index that the ring carries.
#[derive(Debug)]
pub(crate) struct Transfers {
    slots: Vec<Option<Transfer>>,
    free: Vec<u32>,
    zeros: (Buffer, u64),
}

impl Transfers {
    /// Room for `capacity` at once; grows if it must. `zeros` is a block of zeros and its length.
    pub fn new(capacity: usize, zeros: (Buffer, u64)) -> Transfers {
        Transfers {
            slots: vec![None; capacity],
            free: (0..capacity as u32).rev().collect(),
            zeros,
        }
    }

    /// Hands a transfer to the ring.
    pub fn start(&mut self, ring: &mut Ring, transfer: Transfer) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize] = Some(transfer);
        self.push(ring, index, &transfer);
    }

    /// The kernel's answer to the transfer `index`. When that settles it, returns it and an errno, or
    /// zero for success; otherwise the rest is on its way again.
    pub fn answered(
        &mut self,
        ring: &mut Ring,
        index: u32,
        result: i32,
    ) -> Option<(Transfer, i32)> {
        let mut transfer = (*self.slots.get(index as usize)?)?;
        let settled = if result < 0 {
            transfer.failed(-result)
        } else {
            transfer.moved(ring, result as u64)
        };
        if settled.is_none() {
            self.slots[index as usize] = Some(transfer);
            self.push(ring, index, &transfer);
            return None;
        }
        if let Payload::List(list) = transfer.payload {
            ring.vectors().give_back(list);
        }
        self.slots[index as usize] = None;
        self.free.push(index);
        settled.map(|errno| (transfer, errno))
    }

    /// The index of the transfer that `answer` waits for.
    pub fn find(&self, answer: Answer) -> Option<u32> {
        let wanted =
            |slot: &Option<Transfer>| slot.is_some_and(|transfer| transfer.answer == answer);
        self.slots.iter().position(wanted).map(|index| index as u32)
    }

    fn push(&mut self, ring: &mut Ring, index: u32, transfer: &Transfer) {
        let entry = transfer.entry(ring, self.zeros);
        // SAFETY: payload pieces were checked to lie in the arena when the transfer was made; lists lie in
        // the ring's vectors until the transfer is settled; zeros and metadata lie in the ring's
        // internal arena. The engine keeps payload unchanged until the answer.
        unsafe { ring.push_member(entry, transfer.file, index) }
    }
}

impl Transfer {
    /// After an error: the errno if that is the end, `None` if there is another way.
    fn failed(&mut self, errno: i32) -> Option<i32> {
        let zeroing =
            matches!(self.kind, StepKind::Zero { .. }) && self.payload == Payload::Nothing;
        if zeroing && matches!(errno, EOPNOTSUPP | ENOSYS) {
            self.payload = Payload::Zeros;
            return None;
        }
        Some(errno)
    }

    /// After `count` bytes: the errno or zero if that is the end, `None` if the rest must follow.
    fn moved(&mut self, ring: &mut Ring, count: u64) -> Option<i32> {
        if self.payload == Payload::Nothing || count == self.left_bytes {
            return Some(0);
        }
        let torn = !count.is_multiple_of(u64::from(self.sector_bytes));
        if count == 0 || torn || count > self.left_bytes {
            return Some(if self.kind == StepKind::Read {
                ENXIO
            } else {
                EIO
            });
        }
        self.offset_bytes += count;
        self.left_bytes -= count;
        match &mut self.payload {
            Payload::Piece(buffer) => *buffer = Buffer(buffer.0 + count),
            Payload::List(list) => ring.vectors().advance(*list, count as usize),
            Payload::Nothing | Payload::Zeros => {}
        }
        None
    }

    fn entry(&self, ring: &mut Ring, zeros: (Buffer, u64)) -> squeue::Entry {
        let file = Fd(self.file.number());
        match self.payload {
            Payload::Nothing => self.entry_without_payload(file),
            Payload::Piece(buffer) => {
                let length_bytes = self.left_bytes.min(KERNEL_BYTES_MAX);
                self.entry_with_piece(ring, file, buffer, length_bytes as u32)
            }
            Payload::Zeros => {
                let length_bytes = self.left_bytes.min(zeros.1);
                self.entry_with_piece(ring, file, zeros.0, length_bytes as u32)
            }
            Payload::List(list) => {
                let (pieces, count) = ring.vectors().pieces(list);
                match self.kind {
                    StepKind::Read => opcode::Readv::new(file, pieces, count)
                        .offset(self.offset_bytes)
                        .build(),
                    _ => opcode::Writev::new(file, pieces, count)
                        .offset(self.offset_bytes)
                        .rw_flags(self.write_flags())
                        .build(),
                }
            }
        }
    }

    fn entry_with_piece(
        &self,
        ring: &Ring,
        file: Fd,
        buffer: Buffer,
        length_bytes: u32,
    ) -> squeue::Entry {
        let address = buffer.0 as *mut u8;
        let registered = ring.registered_piece(buffer, u64::from(length_bytes));
        match (self.kind, registered) {
            (StepKind::Read, Some(piece)) => {
                opcode::ReadFixed::new(file, address, length_bytes, piece)
                    .offset(self.offset_bytes)
                    .build()
            }
            (StepKind::Read, None) => opcode::Read::new(file, address, length_bytes)
                .offset(self.offset_bytes)
                .build(),
            (_, Some(piece)) => opcode::WriteFixed::new(file, address, length_bytes, piece)
                .offset(self.offset_bytes)
                .rw_flags(self.write_flags())
                .build(),
            (_, None) => opcode::Write::new(file, address, length_bytes)
                .offset(self.offset_bytes)
                .rw_flags(self.write_flags())
                .build(),
        }
    }

    fn entry_without_payload(&self, file: Fd) -> squeue::Entry {
        let fallocate = |mode| {
            opcode::Fallocate::new(file, self.left_bytes)
                .offset(self.offset_bytes)
                .mode(mode | FALLOC_FL_KEEP_SIZE)
                .build()
        };
        match self.kind {
            StepKind::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            StepKind::Zero {
                keep_allocated: true,
            } => fallocate(FALLOC_FL_ZERO_RANGE),
            _ => fallocate(FALLOC_FL_PUNCH_HOLE),
        }
    }

    fn write_flags(&self) -> i32 {
        if self.kind == (StepKind::Write { fua: true }) {
            RWF_DSYNC
        } else {
            0
        }
    }
}

/// The errno for an I/O that makes no sense.
pub(crate) const MISUSE: i32 = EINVAL;
/// The errno for a member that is not there.
pub(crate) const GONE: i32 = ENXIO;

#[cfg(test)]
mod tests;
