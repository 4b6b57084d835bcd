//! The plans of one request: which drives are read and written, in which order, and why.
//!
//! [`array`] says what array the request is for: the one on the given drives, in its present state, or an imaginary
//! one. `cut` gives the request to the engine's own planners in the same pieces as the engine does, so that the plans
//! are those that the engine would carry out. `why` gives the reason for each plan, and [`report`] lists its steps
//! for people and programs. Nothing is written to any drive, and no text is laid out here: that is the caller's.

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod array;
mod cut;
pub mod report;
mod why;

pub use cut::{Asked, Background, State};

#[cfg(test)]
mod tests;
