//! The commands of a ublk device's tags: see [`crate::ublk`].
//!
//! A command completes through `Port::completion`. Its result is 0 for a request, [`ALL_TAGS_ABORTED`] if the queue has
//! ended, or another negative errno if the command was refused.
//!
//! [`ALL_TAGS_ABORTED`]: crate::ublk::ALL_TAGS_ABORTED

use super::Ring;
use super::sockets::plain_port_data;
use crate::ublk::{COMMIT_AND_FETCH, FETCH, Queue, tag_command};
use engine::units::Buffer;
use io_uring::{opcode, types};
use std::os::fd::AsRawFd;

impl Ring {
    /// Waits for the first request of a tag. The data of a write will lie in the `length_bytes` at `buffer`, the longest
    /// request of the device. Until the command completes the kernel may write there.
    ///
    /// # Panics
    /// If the memory does not lie in the arena.
    pub fn fetch(
        &mut self,
        queue: &Queue,
        tag: u16,
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        self.command_tag(FETCH, queue, (tag, 0), buffer, length_bytes, user_data);
    }

    /// Answers a tag's request with `result`: the count of bytes for reads and writes, 0 for others, or a negative errno.
    /// Then waits for its next request, as [`Ring::fetch`] does. If a read is answered, its data is taken from `buffer`.
    ///
    /// # Panics
    /// If the memory does not lie in the arena.
    pub fn commit(
        &mut self,
        queue: &Queue,
        (tag, result): (u16, i32),
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        self.command_tag(
            COMMIT_AND_FETCH,
            queue,
            (tag, result),
            buffer,
            length_bytes,
            user_data,
        );
    }

    #[inline]
    fn command_tag(
        &mut self,
        operation: u32,
        queue: &Queue,
        (tag, result): (u16, i32),
        buffer: Buffer,
        length_bytes: u32,
        user_data: u64,
    ) {
        assert!(
            self.arena().holds(buffer, u64::from(length_bytes)),
            "{buffer:x?} with {length_bytes} bytes is not payload memory"
        );
        let argument = tag_command(queue.number(), tag, result, buffer.0);
        let entry = opcode::UringCmd16::new(types::Fd(queue.device().as_raw_fd()), operation)
            .cmd(argument)
            .build();
        let user_data = plain_port_data(self.spoken(user_data));
        // SAFETY: the memory has been checked to lie in the arena, which the ring keeps. The device's longest request is
        // `length_bytes`, so the kernel uses no more.
        unsafe { self.push(entry.user_data(user_data)) }
    }
}
