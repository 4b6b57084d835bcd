//! From member specifications to a container that can be served, and from the engine's record back to
//! bytes on the drives.
//!
//! [`probe`] opens drives and reads what is on them; [`assemble`] chooses the truth among them and turns
//! it into the engine's record; [`persist`] follows the engine's record while the array runs and encodes
//! it for each member.

pub mod assemble;
pub mod busy;
pub mod persist;
pub mod probe;
pub mod write;

#[cfg(test)]
mod tests;
