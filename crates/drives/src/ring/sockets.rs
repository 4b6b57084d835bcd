//! Socket operations for ports. Payload lies in the arena and is named by [`Buffer`].
//!
//! Each operation except [`Ring::watch`] completes once, through `Port::completion`. It returns the low 56 bits of the `user_data` given here;
//! the bits above hold the number of the port ([`Ring::speak_for`]). Results are the kernel's: a count, zero for the
//! end of the stream, or a negative errno. A buffer outside the arena gives `-EFAULT`, a message of more than
//! [`engine::limits::STEP_SEGMENTS_MAX`] separate pieces gives `-EMSGSIZE`.
//!
//! [`Ring::send_at_once`] bypasses the ring: if the socket has room, one plain system call costs less than an entry,
//! its completion, and the turn that reaps it.

use super::{
    CLASS_PORT, CLASS_SHIFT, Completed, DELAY, EFAULT, KIND_ACCEPT, KIND_MESSAGE, KIND_PLAIN,
    KIND_SHIFT, KIND_WATCH, Ring, RingMode,
};
use crate::port::{OWN_MASK, PortNumber, SPEAKER_SHIFT};
use engine::units::Buffer;
use io_uring::types::{TimeoutFlags, Timespec};
use io_uring::{opcode, squeue, types};
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

const MSG_WAITALL: i32 = 0x100;
const MSG_NOSIGNAL: i32 = 0x4000;
const EMSGSIZE: i32 = 90;
const POLLIN: u32 = 1;
/// `TIOCOUTQ`, for sockets called `SIOCOUTQ`.
const TIOCOUTQ: rustix::ioctl::Opcode = 0x5411;

/// All possible delays, in static memory because the kernel reads the time when the entry is submitted.
static DELAYS: [Timespec; 256] = {
    let mut delays = [Timespec::new(); 256];
    let mut microseconds = 0;
    while microseconds < 256 {
        delays[microseconds] = Timespec::new().nsec(microseconds as u32 * 1000);
        microseconds += 1;
    }
    delays
};

fn port_data(kind: u64, user_data: u64) -> u64 {
    CLASS_PORT << CLASS_SHIFT | kind << KIND_SHIFT | user_data
}

/// What names an operation of a port that needs nothing when it completes.
pub(super) fn plain_port_data(spoken: u64) -> u64 {
    port_data(KIND_PLAIN, spoken)
}

impl Ring {
    /// Operations that are started from now on belong to the port with this number; a shard may have several ports.
    #[inline]
    pub fn speak_for(&mut self, port: PortNumber) {
        self.speaker = u64::from(port.get()) << SPEAKER_SHIFT;
    }

    /// `user_data` with the number of the port.
    #[inline]
    pub(super) fn spoken(&self, user_data: u64) -> u64 {
        user_data & OWN_MASK | self.speaker
    }

    /// Accepts one connection. Pass a result that is not negative to [`Ring::take_accepted`].
    pub fn accept(&mut self, listener: BorrowedFd<'_>, user_data: u64) {
        let user_data = self.spoken(user_data);
        const SOCK_CLOEXEC: i32 = 0o2_000_000;
        let listener = types::Fd(listener.as_raw_fd());
        let entry = opcode::Accept::new(listener, std::ptr::null_mut(), std::ptr::null_mut())
            .flags(SOCK_CLOEXEC)
            .build();
        // SAFETY: no memory is named; the peer's address is not asked for.
        unsafe { self.push(entry.user_data(port_data(KIND_ACCEPT, user_data))) }
    }

    /// The connection that an accept returned as `result`.
    pub fn take_accepted(&mut self, result: i32) -> Option<OwnedFd> {
        let index = self
            .accepted
            .iter()
            .position(|fd| fd.as_raw_fd() == result)?;
        Some(self.accepted.swap_remove(index))
    }

    /// Receives into `buffer`: the available bytes, or with `whole` all of `length_bytes` unless the stream ends first.
    /// The socket must stay open until the completion. The entry may be submitted a few turns later, if that saves a
    /// system call.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: Buffer,
        length_bytes: u32,
        whole: bool,
        user_data: u64,
    ) {
        let user_data = self.spoken(user_data);
        let Some(address) = self.arena().address(buffer, u64::from(length_bytes)) else {
            return self.refuse(user_data, EFAULT);
        };
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), address, length_bytes)
            .flags(if whole { MSG_WAITALL } else { 0 })
            .build();
        // SAFETY: the range has been checked to lie in the arena, which the ring keeps.
        unsafe { self.push_patient(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Whether [`Ring::receive_after`] really waits. What it needs came with kernels 5.16 and 5.17, so every kernel
    /// that grants the deferred mode has it.
    #[must_use]
    pub fn can_delay(&self) -> bool {
        self.report.mode == RingMode::Deferred
    }

    /// Like [`Ring::receive`] of the available bytes, but reads the socket only after `delay_us`. Bytes that arrive
    /// earlier wake nobody. There is no delay if [`Ring::can_delay`] is false.
    pub fn receive_after(
        &mut self,
        delay_us: u8,
        socket: BorrowedFd<'_>,
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        if self.can_delay() && self.arena().holds(buffer, u64::from(length_bytes)) {
            let delay = opcode::Timeout::new(&DELAYS[usize::from(delay_us)])
                .flags(TimeoutFlags::ETIME_SUCCESS)
                .build()
                .flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS)
                .user_data(DELAY);
            // SAFETY: the time lies in static memory, and a delay names no other memory. The next entry is its
            // operation; if the queue is submitted between the two, only the delay is lost.
            unsafe { self.enqueue(delay) }
        }
        self.receive(socket, buffer, length_bytes, false, user_data);
    }

    /// How much kernel memory is taken by messages that the other end of a local socket has not read yet. For sockets
    /// of other families, the bytes that the other end's kernel has not confirmed. 0 if unknown.
    #[must_use]
    pub fn unread_bytes(&self, socket: BorrowedFd<'_>) -> u32 {
        // SAFETY: the request stores one `int` in the memory given to it.
        let count =
            unsafe { rustix::ioctl::ioctl(socket, rustix::ioctl::Getter::<TIOCOUTQ, i32>::new()) };
        count.map_or(0, |count| count.unsigned_abs())
    }

    /// Sends as much of the pieces as the socket has room for, and returns how much that was. There is no later
    /// completion.
    ///
    /// # Errors
    ///
    /// The errno: `EAGAIN` if there is no room at all, errors of a broken connection, and those for pieces that the
    /// module's documentation names.
    pub fn send_at_once(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: impl IntoIterator<Item = (Buffer, u32)>,
    ) -> Result<u32, i32> {
        let index = self.gather(pieces)?;
        let (start, count) = self.vectors().pieces::<IoSlice<'_>>(index);
        // SAFETY: an `IoSlice` has the layout of `struct iovec`, as our entries do. The pieces have been checked to lie
        // in the arena, and only the kernel reads them.
        let slices = unsafe { std::slice::from_raw_parts(start, count as usize) };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        let sent = rustix::net::sendmsg(socket, slices, &mut nothing, flags);
        self.vectors().give_back(index);
        match sent {
            Ok(count) => Ok(count as u32),
            Err(errno) => Err(errno.raw_os_error()),
        }
    }

    /// Sends all of `length_bytes`; on kernels before 5.19 the result may be smaller, and the caller has to send the
    /// rest. The memory must not change, and the socket must stay open, until the completion.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        let user_data = self.spoken(user_data);
        let Some(address) = self.arena().address(buffer, u64::from(length_bytes)) else {
            return self.refuse(user_data, EFAULT);
        };
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), address, length_bytes)
            .flags(MSG_WAITALL | MSG_NOSIGNAL)
            .build();
        // SAFETY: as in `receive`.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Like [`Ring::send`], but sends several pieces of memory in one message.
    pub fn send_vectored(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: impl IntoIterator<Item = (Buffer, u32)>,
        user_data: u64,
    ) {
        let user_data = self.spoken(user_data);
        let index = match self.gather(pieces) {
            Ok(index) => index,
            Err(errno) => return self.refuse(user_data, errno),
        };
        let message = self.vectors().message(index, user_data);
        let entry = opcode::SendMsg::new(types::Fd(socket.as_raw_fd()), message)
            .flags((MSG_WAITALL | MSG_NOSIGNAL) as u32)
            .build();
        // SAFETY: the pieces have been checked. The message lies in the ring's vectors, and its slot is returned when
        // the completion is reaped.
        unsafe { self.push(entry.user_data(port_data(KIND_MESSAGE, u64::from(index)))) }
    }

    /// The pieces as a list for the kernel, or an errno.
    fn gather(&mut self, pieces: impl IntoIterator<Item = (Buffer, u32)>) -> Result<u32, i32> {
        let index = self.vectors().take();
        for (buffer, length_bytes) in pieces {
            let refused = match self.arena().address(buffer, u64::from(length_bytes)) {
                None => Some(EFAULT),
                Some(address) => {
                    let fits = self.vectors().push(index, address, length_bytes);
                    (!fits).then_some(EMSGSIZE)
                }
            };
            if let Some(errno) = refused {
                self.vectors().give_back(index);
                return Err(errno);
            }
        }
        Ok(index)
    }

    /// Completes with a positive result each time that something is written to `fd` (an eventfd, a socket), and at once if
    /// it is readable now. It need not be read in between. Ends with a negative result: [`WATCH_ENDED`], `-ECANCELED` after
    /// [`Ring::cancel`], or another errno. Needs kernel 5.13.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, user_data: u64) {
        let user_data = self.spoken(user_data);
        let poll = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), POLLIN);
        let entry = poll.multi(true).build();
        // SAFETY: a poll names no memory.
        unsafe { self.push(entry.user_data(port_data(KIND_WATCH, user_data))) }
    }

    /// Ends both directions of a connection; operations on it then complete. Has no completion of its own.
    pub fn shutdown(&mut self, socket: BorrowedFd<'_>) {
        // It does not matter if the peer has closed already.
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }

    /// Closes a descriptor asynchronously.
    pub fn close(&mut self, fd: OwnedFd, user_data: u64) {
        let user_data = self.spoken(user_data);
        let entry = opcode::Close::new(types::Fd(fd.into_raw_fd())).build();
        // SAFETY: the descriptor is ours to close, and no memory is named.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Asks the kernel to cancel the operation that was started with `user_data`.
    pub fn cancel(&mut self, user_data: u64) {
        let user_data = self.spoken(user_data);
        let message = self.vectors().find_message(user_data);
        self.cancel_entry(port_data(KIND_PLAIN, user_data));
        self.cancel_entry(port_data(KIND_ACCEPT, user_data));
        self.cancel_entry(port_data(KIND_WATCH, user_data));
        if let Some(index) = message {
            self.cancel_entry(port_data(KIND_MESSAGE, u64::from(index)));
        }
    }

    fn refuse(&mut self, user_data: u64, errno: i32) {
        self.early.push_back(Completed {
            class: CLASS_PORT,
            user_data,
            result: -errno,
        });
    }
}
