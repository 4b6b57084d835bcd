//! IMSM on the drives of a [`crate::machine::Machine`]: making an array, and looking at drives. What is
//! found there goes through the same code that serves real drives, [`assembly`].

pub mod create;
pub mod probe;
