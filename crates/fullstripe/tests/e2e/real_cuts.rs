//! The real program on drives that lose what was not synced: `faultfs` below, NBD clients above, and the power
//! cut in between.
//!
//! - `rules`: what a FUA write, a FLUSH and an update of the record must have done before they count, shown by
//!   the file system's journal, each by itself;
//! - `errors`: commands that the file system answers with an errno, which must never count as done;
//! - `lives`: arrays that are used, degraded, rebuilt and cut off again and again; what was acknowledged is
//!   compared after each cut, and the journal is judged by the same rules.
//!
//! `make test-real-cuts` runs more lives than `make test` does. All of it needs /dev/fuse, and fails with a sentence
//! without; lives, and shapes on loop devices, are skipped without root, and say so.

mod errors;
mod judge;
mod lives;
mod load;
mod promise;
mod rig;
mod rules;
mod session;
