//! Containers on this machine's drives, while no array runs on them.
//!
//! [`probe`] opens drives and reads the metadata on them; the [`assembly`] crate decides which record to use, and
//! writes records. [`serving`] finds the processes that serve an array already, [`busy`] waits for drives that such a
//! process has just released. [`machine`] lists the drives of this machine, and [`bay`] says where one
//! is plugged in. [`mod@examine`] prints out what is on them.
//!
//! Every command that changes drives keeps these rules. Drives that somebody else uses ([`open`]) or claims
//! ([`conflicts`]) are left alone. Whatever would be destroyed is searched for first ([`foreign`], [`occupied`]) and
//! named, and the error that says so is a [`refusal`]. Before a byte of existing metadata is changed, the old content
//! is saved to a file ([`backup`]) below the [`state_folder`].
//!
//! [`create`], [`mod@destroy`], [`write_hole`] and [`backup::restore`] change drives by these rules.

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backup;
pub mod bay;
pub mod busy;
pub mod conflicts;
pub mod create;
pub mod destroy;
pub mod examine;
pub mod for_md;
pub mod foreign;
pub mod gather;
pub mod machine;
pub mod mdadm_conf;
pub mod named;
pub mod occupied;
pub mod open;
pub mod probe;
pub mod refusal;
pub mod root_drive;
pub mod serving;
pub mod shape;
pub mod spare_note;
pub mod state_folder;
pub mod whole_file;
pub mod write_hole;
pub mod zero;

pub use assembly::assemble::bitmap;
pub use assembly::{assemble, decide, log, persist, write};

/// A container on this machine's drives, ready to be served.
pub type Container = assemble::Container<probe::Probed>;

#[cfg(test)]
mod tests;
