//! Block protocols through which clients use an array.
//!
//! - [`nbd`]: the network block device protocol, for any host over TCP or a local socket.
//!
//! Each is an [`export`] to the process that serves, and a port to a shard's loop; [`ports`] are all of a shard.
//!
//! Codecs here are sans-IO: they turn a client's bytes into commands and replies into bytes, hold no
//! socket and no payload, and are fuzzed on their own.

#![forbid(unsafe_code)]

pub mod export;
pub mod nbd;
pub mod ports;
pub mod unix_socket;

/// Tests of limits look at how often a shard takes memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
