//! Block protocols through which clients use an array.
//!
//! - [`nbd`]: the network block device protocol, for any host over TCP or a local socket.
//!
//! Codecs here are sans-IO: they turn a client's bytes into commands and replies into bytes, hold no
//! socket and no payload, and are fuzzed on their own.

#![forbid(unsafe_code)]

pub mod nbd;

/// Tests of limits look at how often a shard takes memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
