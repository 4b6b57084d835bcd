//! Block protocols through which clients use an array.
//!
//! - [`nbd`]: the network block device protocol, for any host over TCP or a local socket.
//!
//! Each is an [`export`] to the process that serves, and a port to a shard's loop; [`ports`] are all of a shard.
//!
//! Codecs here are sans-IO: they turn a client's bytes into commands and replies into bytes, hold no
//! socket and no payload, and are fuzzed on their own.

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod export;
pub mod nbd;
pub mod ports;
pub mod unix_socket;

/// Tests of limits look at how often a shard takes memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
