//! The serving process: holds the members, runs the shards, offers volumes over NBD and itself over an
//! API.

pub mod events;
pub mod runtime;
pub mod status;
