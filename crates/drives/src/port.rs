//! The interface between the world and the protocols of clients: NBD, a block device, a load generator.
//!
//! A port lives on a shard's thread and shares its ring. It turns what clients send into [`Input::Request`], and
//! replies when the engine has answered. It owns the payload memory of its requests, and keeps memory that is pinned,
//! because a hanging drive may still use it.

use crate::ring::Ring;
use engine::request::Completion;
use engine::units::{Buffer, Nanos, ShardId};
use engine::world::Input;
use std::any::Any;

/// The most ports that a shard may have.
pub const PORTS_MAX: usize = 16;
/// The number of the port lies above these bits of an operation's `user_data`.
pub(crate) const SPEAKER_SHIFT: u32 = 56;
/// The bits of an operation's `user_data` that a port may use.
pub(crate) const OWN_MASK: u64 = (1 << SPEAKER_SHIFT) - 1;

/// The number of a port of a shard, below [`PORTS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortNumber(u8);

impl PortNumber {
    /// The port with this number.
    ///
    /// # Panics
    ///
    /// If no shard can have so many.
    #[inline]
    #[must_use]
    pub fn new(number: usize) -> PortNumber {
        assert!(number < PORTS_MAX, "a shard has at most {PORTS_MAX} ports");
        PortNumber(number as u8)
    }

    /// The number as an integer.
    #[inline]
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Splits the `user_data` of a completed operation into the number of its port and the value that this port gave.
    ///
    /// # Panics
    ///
    /// If no port can have started such an operation.
    #[inline]
    #[must_use]
    pub fn of_operation(user_data: u64) -> (PortNumber, u64) {
        let number = PortNumber::new((user_data >> SPEAKER_SHIFT) as usize);
        (number, user_data & OWN_MASK)
    }
}

/// What a shard's loop calls on a port.
pub trait Port {
    /// Whether [`Port::poll`] needs the time; otherwise the loop does not read the clock.
    const TIMED: bool = true;

    /// Called once per turn: appends requests that are ready, and starts operations on the ring.
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>);

    /// An operation on the ring has completed. `user_data` has the 56 bits that the port gave; `result` is a count or a
    /// negative errno.
    fn completion(&mut self, user_data: u64, result: i32, ring: &mut Ring, inputs: &mut Vec<Input>);

    /// The engine has answered a request. Replies may wait for [`Port::flush`].
    fn complete(&mut self, completion: Completion);

    /// See [`engine::world::World::pin`]. If a request is answered with [`engine::request::Failure::BufferHeld`], the
    /// port repeats it with other memory.
    fn pin(&mut self, buffer: Buffer);

    /// See [`engine::world::World::release`].
    fn release(&mut self, buffer: Buffer);

    /// The turn is over: starts the operations that send the gathered replies.
    fn flush(&mut self, ring: &mut Ring);

    /// When [`Port::poll`] has to be called even if nothing has happened.
    fn next_wake(&self) -> Option<Nanos>;

    /// A message for the port from another thread.
    fn mail(&mut self, message: Box<dyn Any + Send>);

    /// A message from this port to the port of a shard, which may be this one. Called at the end of every turn, until
    /// it returns `None`.
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
        debug_assert!(
            false,
            "a completion for a shard without a port: {completion:?}"
        );
    }

    fn pin(&mut self, _: Buffer) {}

    fn release(&mut self, _: Buffer) {}

    fn flush(&mut self, _: &mut Ring) {}

    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    fn mail(&mut self, _: Box<dyn Any + Send>) {}
}
