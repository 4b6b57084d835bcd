//! Member I/O in flight, and the handling of partial results.
//!
//! The kernel may move fewer bytes than requested. On an intact drive the rest can still be moved, so it is requested
//! again. A read that ends before the end of the drive means that the drive has shrunk (a truncated file, a removed
//! disk): the member is *gone*, and nothing it returned for the range can be used.

use crate::calls::Call;
use crate::held::Answer;
use crate::helpers::{Helpers, Job};
use crate::mailbox::MailSender;
use crate::ring::{FileSlot, Iovec, Ring};
use engine::limits::STEP_SEGMENTS_MAX;
use engine::plan::StepKind;
use engine::units::{Buffer, Nanos};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use std::os::fd::BorrowedFd;

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

/// The memory of an I/O's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    /// None: flush, zero, discard.
    Nothing,
    /// One piece.
    Piece(Buffer),
    /// A list in the ring's vectors.
    List(u32),
    /// The block of zeros, repeated: for zeroing and discarding if the member cannot do it.
    Zeros,
}

/// How a transfer reaches the kernel; [`crate::drive::IoPath`] says why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Through the ring, which knows the file by this slot.
    Ring(FileSlot),
    /// By system calls on the data thread, during the call.
    Inline,
    /// By the member's own threads.
    Helpers,
}

/// One I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub answer: Answer,
    /// Index of the attachment, for the world.
    pub attachment: u16,
    pub way: Way,
    pub sector_bytes: u32,
    pub kind: StepKind,
    pub payload: Payload,
    /// The first byte that has not been moved yet.
    pub offset_bytes: u64,
    /// How many bytes have not been moved yet.
    pub left_bytes: u64,
    /// When the member's pace allows the answer; zero without a pace.
    pub finish: Nanos,
    /// Memory that the world frees after the transfer (for metadata).
    pub memory: Option<Buffer>,
}

/// All transfers in flight, by the index that the ring and the helpers return.
#[derive(Debug)]
pub(crate) struct Transfers {
    slots: Vec<Option<Transfer>>,
    free: Vec<u32>,
    zeros: (Buffer, u64),
    /// Where helpers send their answers.
    reply: MailSender,
}

impl Transfers {
    /// Room for `capacity` transfers at once; grows if it must. `zeros` is a block of zeros and its length. Answers of
    /// helpers go to `reply`, whose owner calls [`Transfers::answered`].
    pub fn new(capacity: usize, zeros: (Buffer, u64), reply: MailSender) -> Transfers {
        Transfers {
            slots: vec![None; capacity],
            free: (0..capacity as u32).rev().collect(),
            zeros,
            reply,
        }
    }

    /// Starts a transfer in the ring, or in its member's `helpers` if it has any.
    pub fn start(&mut self, ring: &mut Ring, helpers: Option<&Helpers>, transfer: Transfer) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize] = Some(transfer);
        self.push(ring, helpers, index, &transfer);
    }

    /// Carries a transfer out during the call; returns an errno, or zero for success.
    pub fn carry_out(&self, ring: &mut Ring, fd: BorrowedFd<'_>, transfer: &mut Transfer) -> i32 {
        let errno = loop {
            let call = transfer.call();
            let mut own = [Iovec::EMPTY];
            let memory = transfer.memory(ring, self.zeros, &mut own);
            // SAFETY: as in `push`; the engine waits for the answer.
            let result = unsafe { call.carry_out(fd, memory) };
            if let Some(errno) = transfer.settled(ring, result) {
                break errno;
            }
        };
        transfer.give_back(ring);
        errno
    }

    /// How many are in flight.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The attachment of the transfer `index`.
    pub fn attachment(&self, index: u32) -> Option<u16> {
        let transfer = self.slots.get(index as usize)?.as_ref()?;
        Some(transfer.attachment)
    }

    /// Takes the kernel's result for the transfer `index`. If the transfer has ended, returns it with an errno, or zero
    /// for success; otherwise starts the rest.
    pub fn answered(
        &mut self,
        ring: &mut Ring,
        helpers: Option<&Helpers>,
        index: u32,
        result: i32,
    ) -> Option<(Transfer, i32)> {
        let mut transfer = (*self.slots.get(index as usize)?)?;
        let settled = transfer.settled(ring, result);
        if settled.is_none() {
            self.slots[index as usize] = Some(transfer);
            self.push(ring, helpers, index, &transfer);
            return None;
        }
        transfer.give_back(ring);
        self.slots[index as usize] = None;
        self.free.push(index);
        settled.map(|errno| (transfer, errno))
    }

    /// Asks for an early end of the transfer `index`. True if it had not begun and is withdrawn, so that no answer will
    /// come.
    pub fn cancel(&mut self, ring: &mut Ring, helpers: Option<&Helpers>, index: u32) -> bool {
        match helpers {
            Some(helpers) => helpers.withdraw(&self.reply, index),
            None => {
                ring.cancel_member(index);
                false
            }
        }
    }

    /// The index of the transfer with this `answer`.
    pub fn find(&self, answer: Answer) -> Option<u32> {
        let wanted =
            |slot: &Option<Transfer>| slot.is_some_and(|transfer| transfer.answer == answer);
        self.slots.iter().position(wanted).map(|index| index as u32)
    }

    fn push(
        &mut self,
        ring: &mut Ring,
        helpers: Option<&Helpers>,
        index: u32,
        transfer: &Transfer,
    ) {
        // SAFETY, of both: payload pieces were checked to lie in the arena when the transfer was made;
        // lists lie in the ring's vectors until the transfer is settled; zeros and metadata lie in the
        // ring's internal arena. The engine keeps payload unchanged until the answer.
        match (transfer.way, helpers) {
            (Way::Ring(file), _) => {
                let entry = transfer.entry(ring, file, self.zeros);
                // SAFETY: see above.
                unsafe { ring.push_member(entry, file, index) }
            }
            (_, Some(helpers)) => {
                let job = transfer.job(ring, self.zeros, self.reply.clone(), index);
                // SAFETY: see above.
                unsafe { helpers.add(job) }
            }
            (way, None) => unreachable!("a transfer by {way:?} without helpers"),
        }
    }
}

impl Transfer {
    /// Takes the kernel's `result`: returns the errno or zero if the transfer has ended, `None` if more must follow.
    fn settled(&mut self, ring: &mut Ring, result: i32) -> Option<i32> {
        if result < 0 {
            self.failed(-result)
        } else {
            self.moved(ring, result as u64)
        }
    }

    /// Whether the member refused to discard, so that zeros were written.
    pub fn was_refused_discard(&self) -> bool {
        self.kind == StepKind::Discard && self.payload == Payload::Zeros
    }

    fn give_back(&self, ring: &mut Ring) {
        if let Payload::List(list) = self.payload {
            ring.vectors().give_back(list);
        }
    }

    /// The remaining range as a system call.
    fn call(&self) -> Call {
        Call {
            kind: self.kind,
            offset_bytes: self.offset_bytes,
            length_bytes: self.left_bytes,
        }
    }

    /// The memory of the remaining range; `own` provides room for a single piece.
    fn memory<'a>(
        &self,
        ring: &'a mut Ring,
        zeros: (Buffer, u64),
        own: &'a mut [Iovec; 1],
    ) -> &'a mut [Iovec] {
        let (buffer, length_bytes) = match self.payload {
            Payload::Nothing => return &mut [],
            Payload::List(list) => return ring.vectors().pieces_mut(list),
            Payload::Piece(buffer) => (buffer, self.left_bytes.min(KERNEL_BYTES_MAX)),
            Payload::Zeros => (zeros.0, self.left_bytes.min(zeros.1)),
        };
        own[0] = Iovec::new(buffer.0 as *mut u8, length_bytes as usize);
        own
    }

    /// The remaining range as a job for a helper.
    fn job(&self, ring: &mut Ring, zeros: (Buffer, u64), reply: MailSender, index: u32) -> Job {
        let owners = [ring.arena().clone(), ring.internal_arena().clone()];
        let mut memory = [Iovec::EMPTY; STEP_SEGMENTS_MAX];
        let mut own = [Iovec::EMPTY];
        let pieces = self.memory(ring, zeros, &mut own);
        memory[..pieces.len()].copy_from_slice(pieces);
        Job {
            call: self.call(),
            memory,
            pieces: pieces.len(),
            owners,
            reply,
            index,
        }
    }

    /// Handles an error: returns the errno if the transfer has ended, `None` if it is tried in another way.
    fn failed(&mut self, errno: i32) -> Option<i32> {
        let leaves_zeros = matches!(self.kind, StepKind::Zero { .. } | StepKind::Discard);
        if leaves_zeros && self.payload == Payload::Nothing && matches!(errno, EOPNOTSUPP | ENOSYS)
        {
            self.payload = Payload::Zeros;
            return None;
        }
        Some(errno)
    }

    /// Handles a result of `count` bytes: returns the errno or zero if the transfer has ended, `None` if the rest must
    /// follow.
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

    fn entry(&self, ring: &mut Ring, file: FileSlot, zeros: (Buffer, u64)) -> squeue::Entry {
        let file = Fd(file.number());
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

/// The errno for an I/O that is invalid.
pub(crate) const MISUSE: i32 = EINVAL;
/// The errno for a member that is not attached.
pub(crate) const GONE: i32 = ENXIO;

#[cfg(test)]
mod tests;
