//! IMSM on the drives of a [`crate::machine::Machine`]: creating an array, and probing drives. What is found
//! there is handled by the code that is used for real drives, [`assembly`].

pub mod create;
pub mod probe;
