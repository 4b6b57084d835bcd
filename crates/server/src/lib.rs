//! The serving process: holds the members, runs the shards, offers volumes over NBD and itself over an
//! API. Another program can do the same, beginning with [`Prepared::new`]: what `fullstripe serve` adds is the command line.
//!
//! In the order of its life: sockets are made; drives are opened and the array assembled
//! ([`container`]); the data threads start (`runtime`); the sockets are answered (`exporting`, with the crate [`exports`],
//! [`api`]); somebody ends it: clients first, then the volumes are flushed and, where nothing is in doubt, marked
//! clean. What it has to say on the way, a [`Hearer`] hears.

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod api;
pub mod client;
mod ending;
pub mod events;
mod exporting;
pub mod health;
mod hearer;
mod life;
mod memory;
mod news;
mod options;
mod published;
mod recorder;
mod remembering;
mod runtime;
mod scratch;
pub mod scrub;
mod snapshot;
mod spares;
mod state_folder;
pub mod status;
mod watch;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use ending::{Ended, LeftBehind};
pub use hearer::{Audience, Hearer};
pub use life::{Prepared, Server};
pub use options::ServeOptions;
