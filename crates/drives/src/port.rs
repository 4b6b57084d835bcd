//! The seam between the world and what clients speak: NBD, a block device, a load generator.
//!
//! A port lives on a shard's thread and shares its ring. It turns what clients send into
//! [`Input::Request`] and answers when the engine has. It owns its requests' payload memory, and keeps what
//! is pinned: a drive that hangs may still use it.

use crate::ring::Ring;
use engine::request::Completion;
use engine::units::{Buffer, Nanos, ShardId};
use engine::world::Input;
use std::any::Any;

/// Most ports of a shard.
pub const PORTS_MAX: usize = 16;
/// Above these bits of an operation's `user_data` stands the number of its port.
pub(crate) const SPEAKER_SHIFT: u32 = 56;
/// The bits of an operation's `user_data` that are the port's own.
pub(crate) const OWN_MASK: u64 = (1 << SPEAKER_SHIFT) - 1;

/// Which of a shard's ports; below [`PORTS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortNumber(u8);

impl PortNumber {
    /// The port with this number.
    ///
    /// # Panics
    ///
    /// No shard has so many.
    #[inline]
    #[must_use]
    pub fn new(number: usize) -> PortNumber {
        assert!(number < PORTS_MAX, "a shard has at most {PORTS_MAX} ports");
        PortNumber(number as u8)
    }

    /// As a number.
    #[inline]
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whose operation it was that was answered with this `user_data`, and what that port gave for it.
    ///
    /// # Panics
    ///
    /// No port has started such an operation.
    #[inline]
    #[must_use]
    pub fn of_operation(user_data: u64) -> (PortNumber, u64) {
        let number = PortNumber::new((user_data >> SPEAKER_SHIFT) as usize);
        (number, user_data & OWN_MASK)
    }
}

/// What a shard's loop asks of a port.
pub trait Port {
    /// Whether [`Port::poll`] looks at the clock; without, the loop saves reading it.
    const TIMED: bool = true;

    /// Called once per turn: append requests that are ready, start operations on the ring.
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>);

    /// An operation started on the ring with `user_data`, of which 56 bits come back, was answered; `result` is a count or a
    /// negative errno.
    fn completion(&mut self, user_data: u64, result: i32, ring: &mut Ring, inputs: &mut Vec<Input>);

    /// The engine has answered a request. Replies may wait for [`Port::flush`].
    fn complete(&mut self, completion: Completion);

    /// See [`engine::world::World::pin`]. A request that is answered [`engine::request::Failure::BufferHeld`]
    /// is asked again with other memory.
    fn pin(&mut self, buffer: Buffer);

    /// See [`engine::world::World::release`].
    fn release(&mut self, buffer: Buffer);

    /// The turn is over: start the operations that send what has gathered.
    fn flush(&mut self, ring: &mut Ring);

    /// When [`Port::poll`] wants to be called although nothing has happened.
    fn next_wake(&self) -> Option<Nanos>;

    /// A message for the port from another thread.
    fn mail(&mut self, message: Box<dyn Any + Send>);

    /// A message from this port to that of a shard, which may be this one. Asked for at the end of every turn,
    /// until there is none.
    #[inline]
    fn next_message(&mut self) -> Option<(ShardId, Box<dyn Any + Send>)> {
        None
    }
}

/// No port: a shard that only serves other shards.
impl Port for () {
    const TIMED: bool = false;

    fn poll(&mut self, _: Nanos, _: &mut Ring, _: &mut Vec<Input>) {}

    fn completion(&mut self, _: u64, _: i32, _: &mut Ring, _: &mut Vec<Input>) {}

    fn complete(&mut self, completion: Completion) {
        debug_assert!(false, "nobody asked for {completion:?}");
    }

    fn pin(&mut self, _: Buffer) {}

    fn release(&mut self, _: Buffer) {}

    fn flush(&mut self, _: &mut Ring) {}

    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    fn mail(&mut self, _: Box<dyn Any + Send>) {}
}
