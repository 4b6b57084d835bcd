//! The arrays of this machine: [`probe`] opens drives and reads what is on them; the [`assembly`] crate
//! chooses the truth among them, and writes it. [`serving`] finds the processes that serve one already.

pub mod busy;
pub mod probe;
pub mod serving;

pub use assembly::assemble::bitmap;
pub use assembly::{assemble, decide, log, persist, write};

/// A container of this machine's drives, ready to be served.
pub type Container = assemble::Container<probe::Probed>;

#[cfg(test)]
mod tests;
