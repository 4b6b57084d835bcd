//! The serving process: holds the members, runs the shards, offers volumes over NBD and itself over an
//! API. Another program can do the same with [`server`]: what `fullstripe serve` adds is the command line.
//!
//! In the order of its life: sockets are made; drives are opened and the array assembled
//! ([`container`]); the data threads start ([`runtime`]); the sockets are answered ([`nbd`],
//! [`crate::api`]); somebody ends it: clients first, then the volumes are flushed and, where nothing is in doubt, marked
//! clean. What it has to say on the way, a [`hearer::Hearer`] hears.

mod ending;
pub mod events;
pub mod health;
pub mod hearer;
mod memory;
pub mod nbd;
mod news;
pub mod options;
mod published;
pub mod recorder;
mod remembering;
pub mod runtime;
mod scratch;
pub mod scrub;
pub mod server;
mod snapshot;
mod sockets;
mod spares;
pub mod status;
mod watch;
