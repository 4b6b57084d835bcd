//! The arrays of this machine's drives, while no array runs on them and before one does.
//!
//! [`probe`] opens drives and reads what is on them; the [`assembly`] crate chooses the truth among them, and writes it.
//! [`serving`] finds the processes that serve an array already, [`busy`] waits for drives that one has just let go of.
//!
//! The rules that whoever changes drives keeps: drives that somebody else uses ([`open`]) or claims ([`conflicts`]) are left
//! alone; what would be destroyed is looked for first ([`foreign`], [`occupied`]) and named, and [`refusal`] is the error
//! that says so; and before a byte of existing metadata changes, what was there lies in a file ([`backup`]) below the
//! [`state_folder`].

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backup;
pub mod busy;
pub mod conflicts;
pub mod foreign;
pub mod occupied;
pub mod open;
pub mod probe;
pub mod refusal;
pub mod serving;
pub mod state_folder;
pub mod write_hole;

pub use assembly::assemble::bitmap;
pub use assembly::{assemble, decide, log, persist, write};

/// A container of this machine's drives, ready to be served.
pub type Container = assemble::Container<probe::Probed>;

#[cfg(test)]
mod tests;
