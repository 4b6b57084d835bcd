//! The real program on drives that lose what was not synced: `faultfs` below, NBD clients above, and power cuts
//! in between.
//!
//! - `rules`: what must be durable before a FUA write or a FLUSH is answered and before the next record is written,
//!   shown by the file system's journal, one rule per test;
//! - `errors`: commands that the file system answers with an errno, which must never count as done;
//! - `lives`: arrays that are used, degraded, rebuilt and cut off again and again; what was acknowledged is
//!   compared after each cut, and the journal is judged by the same rules.
//!
//! `make test-real-cuts` runs more lives than `make test` does. All tests need /dev/fuse, and without it fail with a
//! clear message. Without root, lives and shapes on loop devices are skipped, with a printed line.

mod errors;
mod judge;
mod lives;
mod load;
mod promise;
mod rig;
mod rules;
mod session;
