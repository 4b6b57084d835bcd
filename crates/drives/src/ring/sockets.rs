//! Socket operations for ports. Payload lies in the arena and is named by [`Buffer`].
//!
//! Each operation is answered once through `Port::completion` with the `user_data` given here, of which
//! the low 60 bits come back. Results are the kernel's: a count, zero for the end of the stream, a
//! negative errno. A buffer outside the arena is answered with `-EFAULT`, a message of more than
//! [`engine::limits::STEP_SEGMENTS_MAX`] separate pieces with `-EMSGSIZE`.

use super::{
    CLASS_PORT, CLASS_SHIFT, Completed, EFAULT, KIND_ACCEPT, KIND_MESSAGE, KIND_PLAIN, KIND_SHIFT,
    PORT_MASK, Ring,
};
use engine::units::Buffer;
use io_uring::{opcode, types};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

const MSG_WAITALL: i32 = 0x100;
const MSG_NOSIGNAL: i32 = 0x4000;
const EMSGSIZE: i32 = 90;
const POLLIN: u32 = 1;

fn port_data(kind: u64, user_data: u64) -> u64 {
    CLASS_PORT << CLASS_SHIFT | kind << KIND_SHIFT | user_data & PORT_MASK
}

impl Ring {
    /// Accepts one connection. A result that is not negative is passed to [`Ring::take_accepted`].
    pub fn accept(&mut self, listener: BorrowedFd<'_>, user_data: u64) {
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

    /// Receives into `buffer`: what is there, or with `whole` all of `length_bytes` unless the stream
    /// ends before. The socket must stay open until the answer.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: Buffer,
        length_bytes: u32,
        whole: bool,
        user_data: u64,
    ) {
        let Some(address) = self.arena().address(buffer, u64::from(length_bytes)) else {
            return self.refuse(user_data, EFAULT);
        };
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), address, length_bytes)
            .flags(if whole { MSG_WAITALL } else { 0 })
            .build();
        // SAFETY: the range has been checked to lie in the arena, which the ring keeps.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Sends all of `length_bytes`; on kernels before 5.19 a smaller result asks for the rest to be sent.
    /// The memory must not change, and the socket stay open, until the answer.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        let Some(address) = self.arena().address(buffer, u64::from(length_bytes)) else {
            return self.refuse(user_data, EFAULT);
        };
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), address, length_bytes)
            .flags(MSG_WAITALL | MSG_NOSIGNAL)
            .build();
        // SAFETY: as in `receive`.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// As [`Ring::send`], from several pieces of memory in one message.
    pub fn send_vectored(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: impl IntoIterator<Item = (Buffer, u32)>,
        user_data: u64,
    ) {
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
                return self.refuse(user_data, errno);
            }
        }
        let message = self.vectors().message(index, user_data & PORT_MASK);
        let entry = opcode::SendMsg::new(types::Fd(socket.as_raw_fd()), message)
            .flags((MSG_WAITALL | MSG_NOSIGNAL) as u32)
            .build();
        // SAFETY: the pieces have been checked; the message lies in the ring's vectors, and its slot is
        // given back when the answer is reaped.
        unsafe { self.push(entry.user_data(port_data(KIND_MESSAGE, u64::from(index)))) }
    }

    /// Answers once when `fd` (an eventfd, a socket) is readable or its peer has gone.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), POLLIN).build();
        // SAFETY: a poll names no memory.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Ends both directions of a connection; operations on it are answered. Not answered itself.
    pub fn shutdown(&mut self, socket: BorrowedFd<'_>) {
        // A peer that has gone already is as good.
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }

    /// Closes a descriptor without waiting for it.
    pub fn close(&mut self, fd: OwnedFd, user_data: u64) {
        let entry = opcode::Close::new(types::Fd(fd.into_raw_fd())).build();
        // SAFETY: the descriptor is ours to close, and no memory is named.
        unsafe { self.push(entry.user_data(port_data(KIND_PLAIN, user_data))) }
    }

    /// Asks for an early answer to the operation that was given `user_data`.
    pub fn cancel(&mut self, user_data: u64) {
        let user_data = user_data & PORT_MASK;
        let message = self.vectors().find_message(user_data);
        self.cancel_entry(port_data(KIND_PLAIN, user_data));
        self.cancel_entry(port_data(KIND_ACCEPT, user_data));
        if let Some(index) = message {
            self.cancel_entry(port_data(KIND_MESSAGE, u64::from(index)));
        }
    }

    fn refuse(&mut self, user_data: u64, errno: i32) {
        let user_data = user_data & PORT_MASK;
        self.early.push_back(Completed {
            class: CLASS_PORT,
            user_data,
            result: -errno,
        });
    }
}
