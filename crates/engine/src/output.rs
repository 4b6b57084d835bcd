//! What a shard wants done: the other half of [`crate::world::Input`].

use crate::control::message::Message;
use crate::event::Event;
use crate::request::Completion;
use crate::token::Token;
use crate::units::{Buffer, MemberId, ShardId, VolumeId};
use crate::world::Io;

/// What the engine wants the world to do.
#[derive(Clone, Debug)]
pub enum Output {
    /// Start a member I/O; its memory is [`crate::shard::Engine::memory`].
    Io(Io),
    /// Write a unit of a write-hole log: encode it ([`crate::shard::Engine::log_unit`], [`crate::shard::Engine::partial_parities`]),
    /// then start the I/O.
    Log(Io),
    /// Fill memory with a part of a volume's bitmap ([`crate::shard::Engine::bitmap_words`]); the writes of it follow.
    Bitmap {
        /// The volume.
        volume: VolumeId,
        /// The words of it: from the first to before the last.
        words: (u32, u32),
    },
    /// Compute: see [`crate::shard::Engine::step`] and [`crate::shard::Engine::memory`], then call [`crate::shard::Engine::computed`].
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
    /// Write the controller's record ([`crate::shard::Engine::record`]) to this member.
    Persist(MemberId),
    /// Tell people.
    Event(Event),
}
