//! The events of a run.

use engine::control::message::Message;
use engine::token::Token;
use engine::units::{MemberId, ShardId};

/// See the module's prose.
pub enum Event {
    /// A core of the stack begins a turn.
    Turn(u16),
    /// A drive has carried out a command.
    Done { core: u16, token: Token },
    /// The same of a command whose completion another core handles than the one that submitted it.
    Interrupt {
        core: u16,
        member: MemberId,
        token: Token,
    },
    /// That other core has handled the completion.
    Handed {
        core: u16,
        member: MemberId,
        token: Token,
    },
    /// A drive's metadata are durable.
    Persisted(MemberId),
    /// A thread may have something to do.
    Wake(u32),
    /// A thread has finished preparing its request.
    Made(u32),
    /// A turn ends, and clients get its answers.
    Told(u16),
    /// Another core has given this core something to do.
    Woken(u16),
    /// A message between shards arrives.
    Delivered(ShardId, Box<Message>),
    /// The measured window begins.
    Begins,
    /// The measured window ends, and with it the load.
    Ends,
}

impl Event {
    /// The kind of event and the number that it concerns, for a digest.
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
            Event::Interrupt { token, .. } => (11, token.0),
            Event::Handed { token, .. } => (12, token.0),
        };
        kind << 56 | whom
    }
}
