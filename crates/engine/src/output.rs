//! What a shard wants done: the other half of [`crate::world::Input`].
//! Where a variant names a method, it is one of [`crate::shard::Engine`].

use crate::control::message::Message;
use crate::event::Event;
use crate::request::Completion;
use crate::token::Token;
use crate::units::{Buffer, MemberId, ShardId, VolumeId};
use crate::world::Io;

/// What the engine wants the world to do.
#[derive(Clone, Debug)]
pub enum Output {
    /// Start a member I/O; its memory is `Engine::memory`.
    Io(Io),
    /// Write a unit of a write-hole log: encode it (`Engine::log_unit`, `Engine::partial_parities`),
    /// then start the I/O.
    Log(Io),
    /// Fill memory with a part of a volume's bitmap (`Engine::bitmap_words`); the writes of it follow.
    Bitmap {
        /// The volume.
        volume: VolumeId,
        /// Its words, from the first number to before the second.
        words: (u32, u32),
    },
    /// Compute: see `Engine::step` and `Engine::memory`, then call `Engine::computed`.
    Compute(Token),
    /// Ask for an early answer to an overdue I/O.
    Cancel(Token),
    /// Answer a request.
    Complete(Completion),
    /// See [`crate::world::World::pin`].
    Pin(Buffer),
    /// See [`crate::world::World::release`].
    Release(Buffer),
    /// Deliver a message.
    Send(ShardId, Message),
    /// Write the controller's record (`Engine::record`) to this member.
    Persist(MemberId),
    /// Tell people.
    Event(Event),
}
