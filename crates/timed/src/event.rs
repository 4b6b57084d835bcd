//! What happens in a run, one thing at a time.

use engine::control::message::Message;
use engine::token::Token;
use engine::units::{MemberId, ShardId};

/// See the module's prose.
pub enum Event {
    /// A core of the stack begins a turn.
    Turn(u16),
    /// A drive has carried out a command.
    Done { core: u16, token: Token },
    /// A drive's metadata are durable.
    Persisted(MemberId),
    /// A thread may have something to do.
    Wake(u32),
    /// A thread has made its request.
    Made(u32),
    /// A turn ends, and clients are told what it has answered.
    Told(u16),
    /// A core has been given something to do by another one.
    Woken(u16),
    /// A message between shards arrives.
    Delivered(ShardId, Box<Message>),
    /// The window begins.
    Begins,
    /// It ends, and with it the load.
    Ends,
}

impl Event {
    /// What it is and whom it is about, for a digest.
    #[must_use]
    pub fn name(&self) -> u64 {
        let (kind, whom) = match *self {
            Event::Turn(core) => (1, u64::from(core)),
            Event::Done { token, .. } => (2, token.0),
            Event::Persisted(member) => (3, u64::from(member.0)),
            Event::Wake(thread) => (4, u64::from(thread)),
            Event::Made(thread) => (5, u64::from(thread)),
            Event::Told(core) => (6, u64::from(core)),
            Event::Delivered(to, _) => (7, u64::from(to.0)),
            Event::Begins => (8, 0),
            Event::Ends => (9, 0),
            Event::Woken(core) => (10, u64::from(core)),
        };
        kind << 56 | whom
    }
}
