//! Turns what is on drives into the engine's record, and the engine's record back into bytes on drives.
//!
//! [`assemble`] decides which of the records on drives to use and turns it into the engine's
//! record; [`decide`] says which volumes start, and how; `prepare` makes durable what has to be so before that, and
//! [`log`] does so for write-hole logs;
//! [`persist`] follows the engine's record while the array runs and encodes it for each member;
//! [`write`] writes a record to drives outside of a running array. The caller supplies the drives
//! ([`member::Member`]): real ones in the serving process, drives in virtual time in the fault world.

pub mod assemble;
pub mod decide;
mod exercise;
pub mod level;
pub mod log;
pub mod member;
pub mod persist;
mod prepare;
pub mod write;

#[doc(hidden)]
pub use exercise::fuzz_one;
