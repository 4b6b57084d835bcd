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

mod common;

#[path = "e2e_real_cuts/errors.rs"]
mod errors;
#[path = "e2e_real_cuts/judge.rs"]
mod judge;
#[path = "e2e_real_cuts/lives.rs"]
mod lives;
#[path = "e2e_real_cuts/load.rs"]
mod load;
#[path = "e2e_real_cuts/promise.rs"]
mod promise;
#[path = "e2e_real_cuts/rig.rs"]
mod rig;
#[path = "e2e_real_cuts/rules.rs"]
mod rules;
#[path = "e2e_real_cuts/session.rs"]
mod session;
