//! From what lies on drives to the engine's record, and from the engine's record back to bytes on drives.
//!
//! [`assemble`] chooses the truth among drives that have been looked at and turns it into the engine's
//! record; [`decide`] says which volumes start, and how; `prepare` is what has to be durable before that, and [`log`] its part about write-hole logs;
//! [`persist`] follows the engine's record while the array runs and encodes it for each member;
//! [`write`] puts a record on drives outside of a running array. What a drive is, a caller says
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
