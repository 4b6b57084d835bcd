//! A FUSE file system for tests of what lies below the engine: it plays drives with volatile write caches.
//!
//! It offers a few files of fixed size, held in the memory of the process that mounts it. So the test and its drives
//! are one process, and the program under test is another. The file system
//!
//! - keeps written data apart from durable data (`media`). Only an fsync makes data durable, or a write with `O_DSYNC`
//!   if the option says so. An fsync covers exactly the writes that had been answered when it came;
//! - records every read, write, sync, punched hole and zeroed range with the moments at which it came, was answered and
//!   became durable ([`journal`]);
//! - fails operations with any errno on demand ([`Fault`]), and may hold answers back for a moment, so that commands
//!   overtake each other;
//! - cuts the power ([`FaultFs::cut`], [`CutAt`]): every operation is answered with EIO until [`FaultFs::go_on`], which
//!   keeps a randomly drawn subset of the writes that were not durable.
//!
//! Moments are values of one counter, which a test reads too ([`FaultFs::moment`]): the smaller moment was earlier.
//!
//! None of this is linked into fullstripe.

#![warn(missing_docs)]

mod faults;
mod files;
pub mod journal;
mod media;
mod mounted;
mod state;

pub use faults::{CutAt, Fault};
pub use journal::{Entry, Operation};
pub use media::Loss;
pub use mounted::{FaultFs, MountError, Options};
