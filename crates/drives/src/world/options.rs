//! What a world is made of, and why one could not be created.

use super::{Encoder, LogEncoder};
use crate::arena::{Arena, ArenaError};
use crate::completion::CompletionMode;
use crate::mailbox::Mailbox;
use crate::ring::{RingError, RingOptions};
use engine::event::Event;
use std::sync::Arc;

/// What a world is made of. Can be sent to the thread that will create the world.
pub struct WorldOptions<P> {
    /// All payload memory; shared by the shards.
    pub arena: Arc<Arena>,
    /// Sizes of the ring.
    pub ring: RingOptions,
    /// How the thread learns of completions when it has nothing to do.
    pub completion: CompletionMode,
    /// This shard's mailbox, and its way to the other shards.
    pub mailbox: Mailbox,
    /// The clients.
    pub port: P,
    /// Encodes metadata.
    pub encoder: Encoder,
    /// Encodes headers of write-hole logs.
    pub log_encoder: LogEncoder,
    /// Called with each event.
    pub on_event: Box<dyn FnMut(Event) + Send>,
}

/// Why a world could not be created.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// No io_uring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] ArenaError),
}
