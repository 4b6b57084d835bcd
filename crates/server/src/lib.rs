//! The serving process: it opens the members, runs the shards, offers volumes over NBD, and offers status and orders
//! over an API. Another program can serve an array too, beginning with [`Prepared::new`]: `fullstripe serve` only adds
//! the command line.
//!
//! The order of its life: sockets are made; drives are opened and the array is assembled ([`container`]); the data
//! threads start (`runtime`); requests on the sockets are answered (`exporting`, with the crate [`exports`], [`api`]).
//! When it is stopped, clients are ended first, then the volumes are flushed and, where nothing is in doubt, marked
//! clean. If the next process follows at once, clients are kept for it instead (`handing_over`). Whatever it reports on the way goes to a [`Hearer`].

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod alerting;
pub mod api;
pub mod client;
pub mod commands;
mod drive_health;
mod ending;
pub mod event_kinds;
pub mod events;
mod exporting;
mod handing_over;
pub mod health;
mod hearer;
mod last_words;
mod life;
mod memory;
mod newcomers;
mod news;
pub mod not_done;
pub mod nvmet;
mod options;
mod published;
mod pulse;
mod recorder;
mod remembering;
mod runtime;
mod scratch;
pub mod scrub;
mod snapshot;
mod spares;
mod state_folder;
pub mod status;
mod swap_watch;
mod watch;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use alerting::{AlertOptions, NotStarted, Ping};
pub use ending::{Ended, LeftBehind};
pub use hearer::{Audience, Hearer};
pub use life::{Prepared, Server};
pub use newcomers::Newcomers;
pub use options::ServeOptions;
pub use pulse::Pulse;
pub use scrub::every::ScrubEvery;
