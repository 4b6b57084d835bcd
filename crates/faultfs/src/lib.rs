//! A file system for tests of what happens below the engine: real members on drives with volatile caches.
//!
//! It offers a handful of files of fixed size, held in memory by the process that mounts it (FUSE), so
//! that a test and its drives are one process and the program under test is another. It
//!
//! - keeps what was written apart from what is durable (`media`): only an fsync, or a write flagged
//!   `O_DSYNC` where the file system is told to heed that, makes anything durable. An fsync covers the
//!   writes that had been answered when it came, and no others;
//! - writes down every read, write, sync, punched hole and zeroed range with the moments at which it came,
//!   was answered and became durable ([`journal`]);
//! - answers any errno on demand ([`Fault`]), may hold answers back for a moment, so that commands overtake
//!   each other, and
//! - cuts the power ([`FaultFs::cut`], [`CutAt`]): everything is answered EIO until [`FaultFs::go_on`],
//!   which keeps a drawn subset of what was not durable.
//!
//! Moments are numbers of one counter, which a test reads too ([`FaultFs::moment`]): what has a smaller
//! number was before.
//!
//! Nothing of this is linked into fullstripe.

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
